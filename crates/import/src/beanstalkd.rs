//! beanstalkd's log: a folder with files `binlog.N`, in version 7 or 5 (spec beanstalkd 8).
//!
//! A file has no checksums. After an invalid record, the rest of its file is ignored, because a
//! body can contain bytes that look like a record.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::backlog::{
    Backlog, Body, Bytes, Counters, Job, Place, QUEUE_NAME_BYTES_MAX, State, at, check_body,
};
use crate::input::{Fingerprint, Input};

/// Longest name of a tube.
const NAME_BYTES_MAX: u64 = 200;
const _: () = assert!(NAME_BYTES_MAX <= QUEUE_NAME_BYTES_MAX as u64);

/// The end of each body in the file. The length of a body in its record includes these bytes.
const LINE_END: [u8; 2] = *b"\r\n";

/// [`Loss::what`](crate::Loss::what) of a missing file.
const MISSING: &str = "missing: its jobs are lost, and jobs that it deleted come back";

/// The number of bytes of a job's fields, from the id to the state.
const FIELDS_BYTES: usize = 77;
/// The number of bytes without meaning that follow the fields in version 7.
const PADDING_BYTES: usize = 3;

/// The two versions of the format.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Version {
    /// The version of releases before 1.5. Its times are microseconds.
    Five,
    /// The version of all releases since 1.5. Its times are nanoseconds.
    Seven,
}

/// The state of reading a log. The files are read one by one, oldest first.
#[derive(Debug)]
struct Binlog {
    /// The jobs that the records so far have not deleted, by id.
    jobs: BTreeMap<u64, Job>,
    /// The number of records so far, in all files.
    records: u64,
    hash: Fingerprint,
    backlog: Backlog,
}

/// One record.
struct Record {
    id: u64,
    /// 0 to 4, as in the file.
    state: u8,
    fields: Job,
    /// The job's tube, and the place of its body. `None`: the record is short, and has only the
    /// fields.
    full: Option<(Vec<u8>, Place)>,
}

/// The next part of a file.
#[expect(clippy::large_enum_variant, reason = "almost every value is a record")]
enum Next {
    Record(Record),
    /// The file ends, or only zeros follow.
    End,
    /// The bytes are not a record.
    Broken(String),
}

/// Returns the files of a log with their numbers, oldest first.
pub fn files(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("binlog."));
        let digits = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(number) = digits.and_then(|number| number.parse().ok()) {
            files.push((number, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the log in a folder.
pub fn open(folder: &Path) -> io::Result<Backlog> {
    let mut binlog = Binlog::default();
    let mut previous = None;
    for (number, path) in files(folder)? {
        // Two files can have the same number, because zeros can be in front of it.
        if let Some(missing) = previous.map(|previous: u64| previous.saturating_add(1)..number)
            && !missing.is_empty()
        {
            let (first, last) = (missing.start, missing.end - 1);
            let place = if first == last {
                format!("binlog.{first}")
            } else {
                format!("binlog.{first} to binlog.{last}")
            };
            binlog.backlog.lose(place, MISSING);
        }
        previous = Some(number);
        let file = operator_file::open_regular(&path)?;
        binlog.read(&format!("binlog.{number}"), &file)?;
        binlog.backlog.bytes.push(Bytes::File(file));
        binlog.backlog.sources.push(path);
    }
    Ok(binlog.finish())
}

/// Reads a log from memory. Each slice has the contents of one file: `binlog.1` and so on.
pub fn parse(files: &[&[u8]]) -> Backlog {
    let mut binlog = Binlog::default();
    for (bytes, number) in files.iter().zip(1..) {
        binlog.read(&format!("binlog.{number}"), *bytes).expect("memory can be read");
        binlog.backlog.bytes.push(Bytes::Memory(bytes.to_vec()));
    }
    binlog.finish()
}

/// Finds a file with at least one job that was not deleted. A file with an unreadable part also
/// counts, because this part may contain a job.
pub fn file_with_jobs(folder: &Path) -> io::Result<Option<PathBuf>> {
    let backlog = open(folder)?;
    if let Some(Job { body: Body::At(place), .. }) = backlog.jobs.first() {
        return Ok(backlog.sources.get(place.file as usize).cloned());
    }
    let broken = backlog.losses.iter().find(|loss| loss.what != MISSING);
    let name = broken.and_then(|loss| loss.place.split(' ').next());
    Ok(name.map(|name| folder.join(name)))
}

impl Default for Binlog {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            records: 0,
            hash: Fingerprint::new("beanstalkd"),
            backlog: Backlog::default(),
        }
    }
}

impl Binlog {
    /// Reads the next file.
    fn read(&mut self, name: &str, bytes: impl Read) -> io::Result<()> {
        let Self { jobs, records, hash, backlog } = self;
        let file = backlog.files;
        backlog.files += 1;
        let mut input = Input::new(bytes, hash);
        let version = match input.array()?.map(i32::from_le_bytes) {
            // The original created the file, but stopped before it wrote the version.
            None => return Ok(()),
            Some(7) => Version::Seven,
            Some(5) => Version::Five,
            Some(version) => {
                let (bytes, zero) = input.rest()?;
                if version != 0 || !zero {
                    let what = format!(
                        "unknown version {version}: none of the file's {} bytes is imported",
                        bytes + 4
                    );
                    backlog.lose(at(name, 0), what);
                }
                return Ok(());
            }
        };
        let (broken, offset) = loop {
            let offset = input.offset();
            match read_record(&mut input, version, file)? {
                Next::Record(record) => {
                    *records += 1;
                    if let Err(what) = apply(jobs, backlog, *records, record) {
                        backlog.lose(at(name, offset), what);
                    }
                }
                Next::End => break (None, offset),
                Next::Broken(what) => break (Some(what), offset),
            }
        };
        let (bytes, zero) = input.rest()?;
        let skipped = input.offset() - offset;
        match broken {
            Some(what) => backlog.lose(
                at(name, offset),
                format!("{what}; none of the {skipped} bytes from there on is imported"),
            ),
            None if !zero => backlog.lose(
                at(name, offset),
                format!(
                    "the records end here, but {bytes} more bytes follow; they are not imported"
                ),
            ),
            None => {}
        }
        Ok(())
    }

    /// Returns the jobs of all files that were read.
    fn finish(self) -> Backlog {
        let Self { jobs, hash, mut backlog, .. } = self;
        backlog.jobs = jobs.into_values().collect();
        backlog.fingerprint = hash.value();
        backlog
    }
}

/// Applies a record to the jobs. `number` is the record's number among all records of the log.
fn apply(
    jobs: &mut BTreeMap<u64, Job>,
    backlog: &mut Backlog,
    number: u64,
    record: Record,
) -> Result<(), String> {
    let Record { id, state, fields, full } = record;
    if state == 0 {
        jobs.remove(&id);
        return Ok(());
    }
    let known = jobs.get(&id);
    let (queue, body) = match (full, known) {
        (Some((name, place)), _) => {
            let refused = |what| format!("job {id} is not imported: {what}");
            check_body(place.bytes).map_err(refused)?;
            (backlog.queue(&name, false).map_err(refused)?, Body::At(place))
        }
        (None, Some(known)) => (known.queue, known.body.clone()),
        // The job was deleted, or its full record is in a later file. Ignore this record.
        (None, None) => return Ok(()),
    };
    // The original loses the order in which jobs were buried. Here, the numbers of the records
    // restore this order.
    let buried = match known {
        Some(known) if known.state == State::Buried => known.buried,
        _ => number,
    };
    let buried = if fields.state == State::Buried { buried } else { 0 };
    jobs.insert(id, Job { queue, buried, body, ..fields });
    Ok(())
}

fn read_record<R: Read>(input: &mut Input<'_, R>, version: Version, file: u32) -> io::Result<Next> {
    let cut = || Ok(Next::Broken("the record is cut off".to_owned()));
    let (name_bytes, is_whole) = match version {
        Version::Seven => {
            let (bytes, read) = input.padded::<4>()?;
            // A negative length becomes a number above `NAME_BYTES_MAX`.
            (i64::from(i32::from_le_bytes(bytes)).cast_unsigned(), read == 4)
        }
        Version::Five => {
            let (bytes, read) = input.padded::<8>()?;
            (u64::from_le_bytes(bytes), read == 8)
        }
    };
    if !is_whole {
        // The zeros at the end of a file can be shorter than a record.
        return if name_bytes == 0 { Ok(Next::End) } else { cut() };
    }
    if name_bytes > NAME_BYTES_MAX {
        return Ok(Next::Broken("the length of the tube's name is invalid".to_owned()));
    }
    let Some(name) = input.bytes(name_bytes)? else { return cut() };
    let (bytes, read) = input.padded::<FIELDS_BYTES>()?;
    if name.is_empty() && bytes.iter().all(|byte| *byte == 0) {
        return Ok(Next::End);
    }
    let is_short = version == Version::Seven && input.array::<PADDING_BYTES>()?.is_none();
    if read < FIELDS_BYTES || is_short {
        return cut();
    }
    let id = u64::from_le_bytes(field(&bytes, 0));
    if id == 0 {
        return Ok(Next::Broken("a record without a job".to_owned()));
    }
    let state = bytes[FIELDS_BYTES - 1];
    let Some(fields) = fields_of(id, &bytes, version, state) else {
        return Ok(Next::Broken(format!("job {id} has the unknown state {state}")));
    };
    if name.is_empty() {
        return Ok(Next::Record(Record { id, state, fields, full: None }));
    }
    let size = i32::from_le_bytes(field(&bytes, 32));
    let Some(body_bytes) = u64::try_from(size).ok().and_then(|size| size.checked_sub(2)) else {
        return Ok(Next::Broken(format!("the body of job {id} has an invalid length")));
    };
    let place = Place { file, offset: input.offset(), bytes: body_bytes };
    match input.skip(body_bytes + 2)? {
        None => Ok(Next::Broken(format!("the body of job {id} is cut off"))),
        Some(LINE_END) => Ok(Next::Record(Record { id, state, fields, full: Some((name, place)) })),
        Some(_) => Ok(Next::Broken(format!("the body of job {id} has the wrong length"))),
    }
}

/// The fields of a record. `None`: the state is unknown.
fn fields_of(id: u64, bytes: &[u8; FIELDS_BYTES], version: Version, state: u8) -> Option<Job> {
    let u32_at = |offset| u32::from_le_bytes(field(bytes, offset));
    let per_ms = match version {
        Version::Five => 1_000,
        Version::Seven => 1_000_000,
    };
    let ms_at = |offset| {
        let time = u64::from_le_bytes(field(bytes, offset));
        // The times of version 7 are signed. Read a negative time as 0.
        if time > i64::MAX as u64 { 0 } else { time / per_ms }
    };
    let seconds_at = |offset| u32::try_from(ms_at(offset) / 1_000).unwrap_or(u32::MAX);
    let state = match state {
        // 2 is a reserved job, which is ready after a restart. 0 is a deleted job: the caller
        // ignores its state.
        0..=2 => State::Ready,
        3 => State::Buried,
        4 => State::Delayed,
        _ => return None,
    };
    Some(Job {
        id: Some(id),
        state,
        priority: u32_at(8),
        delay_s: seconds_at(16),
        // The original also changes a ttr of 0 to one second.
        ttr_s: seconds_at(24).max(1),
        created_ms: Some(ms_at(40)).filter(|created| *created > 0),
        due_ms: if state == State::Delayed { ms_at(48) } else { 0 },
        counters: Counters {
            takes: u32_at(56),
            timeouts: u32_at(60),
            releases: u32_at(64),
            buries: u32_at(68),
            kicks: u32_at(72),
            failures: 0,
        },
        ..Job::default()
    })
}

fn field<const N: usize>(bytes: &[u8; FIELDS_BYTES], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
}
