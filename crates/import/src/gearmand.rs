//! gearmand's queue: the table of its sqlite store, or a table of another database as CSV (spec
//! gearman 9).

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::backlog::{Backlog, at};
use crate::input::Fingerprint;
use crate::sqlite::{self, Value};
use crate::table::Row;

/// The default name of the table.
pub const TABLE: &str = "gearman_queue";

/// The first bytes of a journal that sqlite must roll back.
const HOT_JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Why a file could not be read at all.
#[derive(Debug)]
pub enum Refused {
    /// The file could not be read.
    Io(io::Error),
    /// This module cannot read the contents of the file. The text says why.
    Content(String),
}

/// Reads a regular file: an sqlite database, or CSV with a header row. All of it is in memory for a
/// time.
pub fn open(file: &Path, table: &str) -> Result<Backlog, Refused> {
    let mut bytes = Vec::new();
    let read = operator_file::open_regular(file).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(Refused::Io)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut backlog = if sqlite::is_database(&bytes) {
        refuse_unfinished(file).map_err(Refused::Content)?;
        parse_sqlite(&bytes, &name, table).map_err(Refused::Content)?
    } else {
        parse_csv(&bytes, &name).map_err(Refused::Content)?
    };
    backlog.sources.push(file.to_owned());
    Ok(backlog)
}

/// Refuses a database if a write of sqlite was interrupted. Such a write leaves a file beside the
/// database.
fn refuse_unfinished(file: &Path) -> Result<(), String> {
    let beside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let journal = beside("-journal");
    let is_hot = fs::read(&journal).is_ok_and(|bytes| bytes.starts_with(&HOT_JOURNAL));
    let wal = beside("-wal");
    let has_wal = fs::metadata(&wal).is_ok_and(|found| found.len() > 0);
    let unfinished = match (is_hot, has_wal) {
        (true, _) => journal,
        (false, true) => wal,
        (false, false) => return Ok(()),
    };
    Err(format!(
        "{} shows that a write was interrupted. Let sqlite finish it: stop gearmand, then run \
         sqlite3 {} 'PRAGMA journal_mode = DELETE; SELECT count(*) FROM sqlite_master'",
        unfinished.display(),
        file.display()
    ))
}

/// Reads an sqlite database. `name` is for messages.
pub fn parse_sqlite(bytes: &[u8], name: &str, table: &str) -> Result<Backlog, String> {
    let mut hash = Fingerprint::new("gearmand");
    hash.add(table.as_bytes());
    hash.add(bytes);
    let mut backlog = Backlog { fingerprint: hash.value(), ..Backlog::default() };
    let read = sqlite::read(bytes, table, |offset, what| backlog.lose(at(name, offset), what))?;
    let column = |name: &str| read.columns.iter().position(|column| column == name);
    let (Some(unique), Some(function), Some(priority), Some(data)) =
        (column("unique_key"), column("function_name"), column("priority"), column("data"))
    else {
        return Err(format!(
            "the table {table} is not a table of gearmand: its columns are {}",
            read.columns.join(", ")
        ));
    };
    let when_to_run = column("when_to_run");
    for (row_id, values) in read.rows {
        let mut values: Vec<Option<Value>> = values.into_iter().map(Some).collect();
        let mut take =
            |column: usize| values.get_mut(column).and_then(Option::take).unwrap_or(Value::Null);
        let row = Row {
            unique: bytes_of(take(unique)),
            function: bytes_of(take(function)),
            priority: number_of(&take(priority)),
            data: bytes_of(take(data)),
            when_to_run: when_to_run.and_then(|column| number_of(&take(column))).unwrap_or(0),
        };
        if let Err(what) = row.add_to(&mut backlog) {
            backlog.lose(format!("{name} in row {row_id}"), format!("not imported: {what}"));
        }
    }
    Ok(backlog)
}

fn bytes_of(value: Value) -> Vec<u8> {
    match value {
        Value::Null => Vec::new(),
        Value::Number(number) => number.to_string().into_bytes(),
        Value::Bytes(bytes) => bytes,
    }
}

fn number_of(value: &Value) -> Option<i64> {
    match value {
        Value::Null => None,
        Value::Number(number) => Some(*number),
        Value::Bytes(bytes) => number_in(bytes),
    }
}

fn number_in(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The encoding of the workload in a column of CSV.
#[derive(Copy, Clone, Debug)]
enum Encoding {
    /// Plain bytes. But a text that consists of `\x` and hexadecimal digits is hexadecimal, because
    /// `PostgreSQL` writes bytes in this way.
    Plain,
    Hex,
    Base64,
}

/// Reads CSV with a header row. `name` is for messages.
pub fn parse_csv(bytes: &[u8], name: &str) -> Result<Backlog, String> {
    let mut hash = Fingerprint::new("gearmand csv");
    hash.add(bytes);
    let mut backlog = Backlog { fingerprint: hash.value(), ..Backlog::default() };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let header = reader.byte_headers().map_err(|error| format!("{name}: {error}"))?.clone();
    let column = |name: &str| {
        header.iter().position(|column| column.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let encodings =
        [("data", Encoding::Plain), ("data_hex", Encoding::Hex), ("data_base64", Encoding::Base64)];
    let data = encodings
        .into_iter()
        .find_map(|(name, encoding)| column(name).map(|column| (column, encoding)));
    let (Some(unique), Some(function), Some(priority), Some((data, encoding))) =
        (column("unique_key"), column("function_name"), column("priority"), data)
    else {
        return Err(format!(
            "{name} is neither an sqlite database nor CSV whose first row names the columns \
             unique_key, function_name, priority and data (or data_hex, data_base64)"
        ));
    };
    let when_to_run = column("when_to_run");
    let last = unique.max(function).max(priority).max(data);
    let mut record = csv::ByteRecord::new();
    loop {
        let line = reader.position().line();
        let result = match reader.read_byte_record(&mut record) {
            Ok(false) => return Ok(backlog),
            Ok(true) if record.len() <= last => Err("columns are missing".to_owned()),
            Ok(true) => decode(&record[data], encoding).and_then(|data| {
                let row = Row {
                    unique: record[unique].to_vec(),
                    function: record[function].to_vec(),
                    priority: number_in(&record[priority]),
                    data,
                    when_to_run: when_to_run
                        .and_then(|column| record.get(column))
                        .and_then(number_in)
                        .unwrap_or(0),
                };
                row.add_to(&mut backlog)
            }),
            Err(error) => return Err(format!("{name}: {error}")),
        };
        if let Err(what) = result {
            backlog.lose(format!("{name} in line {line}"), format!("not imported: {what}"));
        }
    }
}

fn decode(text: &[u8], encoding: Encoding) -> Result<Vec<u8>, String> {
    use base64::Engine as _;
    match encoding {
        Encoding::Plain => {
            let digits = text.strip_prefix(b"\\x");
            Ok(digits.and_then(from_hex).unwrap_or_else(|| text.to_vec()))
        }
        Encoding::Hex => from_hex(text).ok_or_else(|| "data_hex is not hexadecimal".to_owned()),
        Encoding::Base64 => {
            // MySQL breaks long base64 text into lines.
            let whole: Vec<u8> =
                text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let standard = base64::engine::general_purpose::STANDARD;
            standard.decode(whole).map_err(|error| format!("data_base64: {error}"))
        }
    }
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| (byte as char).to_digit(16);
    text.chunks_exact(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, State};

    fn bodies(backlog: &Backlog) -> Vec<Vec<u8>> {
        backlog.jobs.iter().map(|job| backlog.body(job).unwrap()).collect()
    }

    #[test]
    fn csv_of_other_databases_is_read() {
        let text = b"unique_key,function_name,priority,data,when_to_run\n\
                     k1,wc,0,\\x6869,0\n,\"a,b\",2,plain,4102444800\nk3,,1,x,0\nshort\n";
        let backlog = parse_csv(text, "dump.csv").unwrap();
        assert_eq!(bodies(&backlog), [b"hi".to_vec(), b"plain".to_vec()]);
        let [first, second] = &backlog.jobs[..] else { panic!("two jobs") };
        assert_eq!((first.priority, first.state), (512, State::Ready));
        assert_eq!(first.tags.as_ref().unwrap().unique, b"k1");
        let due = Job { due_ms: 4_102_444_800_000, by_clock: true, ..second.clone() };
        assert_eq!((second.priority, second.state, second), (3 << 30, State::Delayed, &due));
        assert_eq!(&*backlog.queues[1].name, b"a,b");
        let lost: Vec<&str> = backlog.losses.iter().map(|loss| &*loss.place).collect();
        assert_eq!(lost, ["dump.csv in line 4", "dump.csv in line 5"]);
    }

    #[test]
    fn workloads_can_be_encoded() {
        let text = b"function_name,data_hex,unique_key,priority\nf,00fF,u,1\nf,0,u,1\n";
        let backlog = parse_csv(text, "d").unwrap();
        assert_eq!(bodies(&backlog), [[0, 255]]);
        assert_eq!(backlog.losses.len(), 1);
        let text = b"function_name,data_base64,unique_key,priority\nf,\"AP\n8=\",u,1\n";
        assert_eq!(bodies(&parse_csv(text, "d").unwrap()), [[0, 255]]);
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let Err(Refused::Io(error)) = open(Path::new("/dev/zero"), TABLE) else {
            panic!("the file is no source");
        };
        assert!(error.to_string().starts_with("it is not a regular file"), "{error}");
    }

    #[test]
    fn other_files_are_refused() {
        for text in [&b""[..], b"a,b,c\n1,2,3\n", b"\xFF\xFE\0\0"] {
            assert!(parse_csv(text, "d").unwrap_err().contains("unique_key"));
        }
        assert!(parse_sqlite(b"SQLite format 3\0", "d", TABLE).is_err());
    }
}
