//! Checks whether the original's log files still have jobs. It reads only the parts of records that
//! show which jobs exist. Unknown data counts as a job, so that no job is lost.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// The version of the log format in every release since 1.5.
const VERSION: i32 = 7;
const NAME_BYTES_MAX: i32 = 200;
const JOB_BYTES: usize = 80;
/// The offset of the body's size in a job's record.
const BODY_SIZE_OFFSET: usize = 32;
const STATE_OFFSET: usize = 76;
const DELETED: u8 = 0;

/// The next record of a log file.
enum Record {
    /// The fields of a job. If `is_full`, the record also has the name and the body.
    Job { id: u64, state: u8, is_full: bool },
    /// The file ends, or only zeros follow.
    End,
    /// The bytes are not a record.
    Unknown,
}

/// Finds a log file with at least one job that was not deleted.
pub(super) fn file_with_jobs(folder: &Path) -> io::Result<Option<PathBuf>> {
    // The records of one job can be in several files. The last record decides whether the job
    // exists. The result is the file with the full record.
    let mut living: HashMap<u64, PathBuf> = HashMap::new();
    for file in files(folder)? {
        let mut reader = BufReader::new(File::open(&file)?);
        let mut version = [0; 4];
        if !fill(&mut reader, &mut version)? {
            continue;
        }
        if i32::from_le_bytes(version) != VERSION {
            return Ok(Some(file));
        }
        loop {
            match read_record(&mut reader)? {
                Record::Job { id, state: DELETED, .. } => drop(living.remove(&id)),
                Record::Job { id, is_full: true, .. } => drop(living.insert(id, file.clone())),
                Record::Job { is_full: false, .. } => {}
                Record::End => break,
                Record::Unknown => return Ok(Some(file)),
            }
        }
    }
    Ok(living.into_values().min())
}

/// Returns the files of the log, oldest first.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("binlog."));
        if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
            files.push((number, entry.path()));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn read_record(reader: &mut BufReader<File>) -> io::Result<Record> {
    let mut name_size = [0; 4];
    if !fill(reader, &mut name_size)? {
        return Ok(Record::End);
    }
    let name_size = i32::from_le_bytes(name_size);
    if !(0..=NAME_BYTES_MAX).contains(&name_size) {
        return Ok(Record::Unknown);
    }
    reader.seek_relative(name_size.into())?;
    let mut job = [0; JOB_BYTES];
    if !fill(reader, &mut job)? {
        return Ok(if name_size == 0 { Record::End } else { Record::Unknown });
    }
    let (id, rest) = job.split_first_chunk().expect("it is longer than a number");
    let id = u64::from_le_bytes(*id);
    if id == 0 {
        return Ok(if rest.iter().all(|byte| *byte == 0) { Record::End } else { Record::Unknown });
    }
    let is_full = name_size > 0;
    if is_full {
        let size = job[BODY_SIZE_OFFSET..].first_chunk().expect("the record is longer");
        let size = i32::from_le_bytes(*size);
        if size < 0 {
            return Ok(Record::Unknown);
        }
        reader.seek_relative(size.into())?;
    }
    Ok(Record::Job { id, state: job[STATE_OFFSET], is_full })
}

/// Fills the buffer and returns true. Returns false if the file ends first.
fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, state: u8, full: bool) -> Vec<u8> {
        let mut job = [0; JOB_BYTES];
        job[..8].copy_from_slice(&id.to_le_bytes());
        job[BODY_SIZE_OFFSET..BODY_SIZE_OFFSET + 4].copy_from_slice(&5_i32.to_le_bytes());
        job[STATE_OFFSET] = state;
        let mut bytes = Vec::new();
        if full {
            bytes.extend(2_i32.to_le_bytes());
            bytes.extend(b"tt");
            bytes.extend(job);
            bytes.extend(b"abc\r\n");
        } else {
            bytes.extend(0_i32.to_le_bytes());
            bytes.extend(job);
        }
        bytes
    }

    fn found(files: &[(&str, Vec<Vec<u8>>)]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, records) in files {
            let mut bytes = VERSION.to_le_bytes().to_vec();
            bytes.extend(records.concat());
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let file = file_with_jobs(folder.path()).unwrap()?;
        Some(file.file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn empty_and_finished_files_hold_no_jobs() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("binlog.1", vec![])]), None);
        assert_eq!(found(&[("binlog.1", vec![vec![0; 4096]])]), None);
        assert_eq!(found(&[("binlog.1", vec![record(1, 1, true), record(1, 0, false)])]), None);
        let over_two = [
            ("binlog.9", vec![record(1, 1, true)]),
            ("binlog.10", vec![record(1, 3, false), record(1, 0, false), vec![0; 100]]),
        ];
        assert_eq!(found(&over_two), None);
    }

    #[test]
    fn a_job_that_was_not_deleted_is_found() {
        let file = vec![record(1, 1, true), record(2, 1, true), record(1, 0, false)];
        assert_eq!(found(&[("binlog.3", file)]), Some("binlog.3".to_owned()));
    }

    #[test]
    fn an_unknown_record_counts_as_a_job() {
        let torn = record(1, 1, true)[..40].to_vec();
        assert_eq!(found(&[("binlog.1", vec![torn])]), Some("binlog.1".to_owned()));
        let garbage = vec![0xFF; 200];
        assert_eq!(found(&[("binlog.1", vec![garbage])]), Some("binlog.1".to_owned()));
    }

    #[test]
    fn an_unreadable_file_does_not_pass_for_empty() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("binlog.1")).unwrap();
        let error = file_with_jobs(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn other_files_are_not_looked_at() {
        assert_eq!(found(&[("binlog.x", vec![record(1, 1, true)]), ("lock", vec![])]), None);
    }
}
