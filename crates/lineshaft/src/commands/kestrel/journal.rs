//! Checks whether a folder has the original's journals with items. It reads only the parts of
//! records that it needs to count items (spec kestrel 4.1, 4.2).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Number of bytes before the data of an item, in old records and in current ones.
const OLD_ITEM_HEAD_BYTES: i32 = 4;
const ITEM_HEAD_BYTES: i32 = 16;

/// The effect of a journal's record on the number of items.
enum Record {
    /// Adds an item.
    Add,
    /// Ends an item.
    End,
    /// Does not change the number: an open read, an aborted read, or a replaced item.
    Neither,
    /// The file has no further complete record.
    None,
}

/// Finds a journal with items that were not removed. An item of an open read counts, because the
/// original gives it back at its next start.
pub(super) fn file_with_items(folder: &Path) -> io::Result<Option<PathBuf>> {
    // The journal of a queue can have several files. One file can add an item that a later one
    // removes. So the files of a queue count together. The queue's name is the part before the
    // first dot.
    let mut queues: BTreeMap<String, (PathBuf, i64)> = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // `~~` marks an unfinished rewrite. The original deletes such a file.
        if !entry.file_type()?.is_file() || name.contains("~~") {
            continue;
        }
        let count = count_items(&entry.path())?;
        let queue = name.split('.').next().unwrap_or_default().to_owned();
        queues.entry(queue).or_insert_with(|| (entry.path(), 0)).1 += count;
    }
    Ok(queues.into_values().find(|(_, count)| *count > 0).map(|(file, _)| file))
}

/// The number of items that the file adds, minus the number that it ends. A file that is not a
/// journal counts as 0, because it has no complete record.
fn count_items(file: &Path) -> io::Result<i64> {
    let length = std::fs::metadata(file)?.len();
    let mut reader = BufReader::new(File::open(file)?);
    let (mut count, mut used) = (0, 0);
    loop {
        match read_record(&mut reader, &mut used)? {
            Record::Add if used <= length => count += 1,
            Record::End => count -= 1,
            Record::Neither => {}
            Record::Add | Record::None => return Ok(count),
        }
    }
}

/// Reads one record, and adds its length to `used`. It skips the data without reading it. If `used`
/// is then larger than the file, the record is incomplete.
fn read_record(reader: &mut BufReader<File>, used: &mut u64) -> io::Result<Record> {
    let Some([operation]) = fill(reader, used)? else { return Ok(Record::None) };
    let number_follows = match operation {
        1 | 3 => false,
        0 | 2 => return read_item(reader, used, operation == 0, Record::Add),
        4..=9 => true,
        _ => return Ok(Record::None),
    };
    if number_follows && fill::<4>(reader, used)?.is_none() {
        return Ok(Record::None);
    }
    match operation {
        1 | 6 => Ok(Record::End),
        7 => read_item(reader, used, false, Record::Add),
        // This record confirms an item and adds another item.
        8 => read_item(reader, used, false, Record::Neither),
        _ => Ok(Record::Neither),
    }
}

fn read_item(
    reader: &mut BufReader<File>,
    used: &mut u64,
    is_old: bool,
    record: Record,
) -> io::Result<Record> {
    let head_bytes = if is_old { OLD_ITEM_HEAD_BYTES } else { ITEM_HEAD_BYTES };
    let Some(size) = fill(reader, used)?.map(i32::from_le_bytes) else { return Ok(Record::None) };
    if size < head_bytes {
        return Ok(Record::None);
    }
    reader.seek_relative(size.into())?;
    *used += u64::from(size.unsigned_abs());
    Ok(record)
}

/// Fills the bytes. Returns `None` if the file ends first.
fn fill<const N: usize>(reader: &mut impl Read, used: &mut u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match reader.read_exact(&mut bytes) {
        Ok(()) => {
            *used += N as u64;
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOVE: [u8; 1] = [1];

    fn add(data: &[u8]) -> Vec<u8> {
        let size = (ITEM_HEAD_BYTES + data.len() as i32).to_le_bytes();
        [&[2], &size[..], &[0; 16], data].concat()
    }

    fn with_number(operation: u8) -> Vec<u8> {
        vec![operation, 1, 0, 0, 0]
    }

    fn found(files: &[(&str, Vec<Vec<u8>>)]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, records) in files {
            std::fs::write(folder.path().join(name), records.concat()).unwrap();
        }
        let file = file_with_items(folder.path()).unwrap()?;
        Some(file.file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_queue_with_items_is_found() {
        // The example from the specification, without its last record, a confirmation.
        let bytes = "02110000000068e5cf8b01000000000000000000007809010000 00".replace(' ', "");
        let example: Vec<u8> = (0..bytes.len() / 2)
            .map(|index| u8::from_str_radix(&bytes[2 * index..2 * index + 2], 16).unwrap())
            .collect();
        assert_eq!(found(&[("open", vec![example.clone()])]), Some("open".to_owned()));
        assert_eq!(found(&[("done", vec![example, with_number(6)])]), None);
        assert_eq!(found(&[("q", vec![add(b"a"), add(b"b"), REMOVE.into()])]), Some("q".into()));
        let old = vec![0, 6, 0, 0, 0, 0, 0, 0, 0, b'h', b'i'];
        assert_eq!(found(&[("old", vec![old])]), Some("old".to_owned()));
        let changed = [with_number(8), add(b"b")[1..].to_vec()].concat();
        let files = [("c", vec![add(b"a"), with_number(9), changed])];
        assert_eq!(found(&files), Some("c".to_owned()));
    }

    #[test]
    fn files_of_one_queue_count_together() {
        let emptied = [("q.1700", vec![add(b"a")]), ("q", vec![REMOVE.into()])];
        assert_eq!(found(&emptied), None);
        let put_back = vec![add(b"a"), with_number(9), with_number(5), REMOVE.into()];
        assert_eq!(found(&[("q", put_back)]), None);
    }

    #[test]
    fn other_files_are_no_journals() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("empty", vec![]), ("q~~17", vec![add(b"a")])]), None);
        assert_eq!(found(&[("0000000001.seg", vec![vec![0; 4096]])]), None);
        assert_eq!(found(&[("README", vec![b"text".to_vec()])]), None);
        assert_eq!(found(&[("torn", vec![add(b"abc")[..22].to_vec()])]), None);
    }
}
