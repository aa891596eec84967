//! Jobs as JSON lines: one object for each job, as `lineshaft export` writes them.
//!
//! A body, a name or a key that is not UTF-8 text is in base64, in a separate field.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::backlog::{
    Backlog, Body, Bytes, Counters, Job, PRIORITY, Place, State, Tags, UniqueHash, check_body,
    check_tags,
};
use crate::input::Fingerprint;

/// Longest line. A body of the greatest length fits, even if each byte becomes `\u0000`.
const LINE_BYTES_MAX: u64 = 8 << 30;

/// The fields of a line, in the order of `lineshaft export`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_base64: Option<String>,
    /// Whether the jobs of the queue are items, as in Kestrel.
    #[serde(skip_serializing_if = "is_default")]
    items: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr_s: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    delay_s: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_ms: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    due_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    by_clock: bool,
    /// The same as [`Job::buried`].
    #[serde(skip_serializing_if = "is_default")]
    buried: u64,
    #[serde(skip_serializing_if = "is_default")]
    takes: u32,
    #[serde(skip_serializing_if = "is_default")]
    timeouts: u32,
    #[serde(skip_serializing_if = "is_default")]
    releases: u32,
    #[serde(skip_serializing_if = "is_default")]
    buries: u32,
    #[serde(skip_serializing_if = "is_default")]
    kicks: u32,
    #[serde(skip_serializing_if = "is_default")]
    failures: u32,
    /// Whether the job was submitted for its outcome, as in Gearman.
    #[serde(skip_serializing_if = "is_default")]
    submitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reducer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reducer_base64: Option<String>,
    /// The hash of the key by the policy `unique`, as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Copy, Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StateName {
    Ready,
    Delayed,
    Buried,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The values of the two fields for these bytes: text if they are UTF-8, otherwise base64.
pub fn split(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The bytes from the two fields of a value: text in `NAME`, or base64 in `NAME_base64`. `None`:
/// both fields are missing.
fn join(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("it has both {name} and {name}_base64")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(text)) => {
            STANDARD.decode(text).map(Some).map_err(|error| format!("{name}_base64: {error}"))
        }
        (None, None) => Ok(None),
    }
}

fn hex(hash: &UniqueHash) -> String {
    format!("{:032x}", u128::from_be_bytes(*hash))
}

fn unhex(text: &str) -> Result<UniqueHash, String> {
    let wrong = || "unique is not 32 hexadecimal digits".to_owned();
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    number.map(u128::to_be_bytes).ok_or_else(wrong)
}

/// Writes a job as one line. `items`: whether the jobs of its queue are items.
pub fn write(
    out: &mut impl Write,
    queue: &[u8],
    items: bool,
    job: &Job,
    body: &[u8],
) -> io::Result<()> {
    let Counters { takes, timeouts, releases, buries, kicks, failures } = job.counters;
    let (queue, queue_base64) = split(queue);
    let (body, body_base64) = split(body);
    let tags = |tag: fn(&Tags) -> &Vec<u8>| {
        let tag = job.tags.as_deref().map(tag).filter(|tag| !tag.is_empty());
        tag.map_or((None, None), |tag| split(tag))
    };
    let (key, key_base64) = tags(|tags| &tags.unique);
    let (reducer, reducer_base64) = tags(|tags| &tags.reducer);
    let line = Line {
        queue,
        queue_base64,
        items,
        id: job.id,
        state: Some(match job.state {
            State::Ready => StateName::Ready,
            State::Delayed => StateName::Delayed,
            State::Buried => StateName::Buried,
        }),
        priority: Some(job.priority),
        ttr_s: Some(job.ttr_s),
        delay_s: job.delay_s,
        created_ms: job.created_ms,
        due_ms: job.due_ms,
        expires_ms: job.expires_ms,
        by_clock: job.by_clock,
        buried: job.buried,
        takes,
        timeouts,
        releases,
        buries,
        kicks,
        failures,
        submitted: job.tags.is_some(),
        key,
        key_base64,
        reducer,
        reducer_base64,
        unique: job.unique.as_deref().map(hex),
        body,
        body_base64,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

/// Reads a regular file of JSON lines. The bodies stay in it, so it must allow reads at any place.
pub fn open(path: &Path) -> io::Result<Backlog> {
    let file = operator_file::open_regular(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut backlog = read(&file, &name)?;
    backlog.bytes.push(Bytes::File(file));
    backlog.sources.push(path.to_owned());
    Ok(backlog)
}

/// Reads JSON lines from a stream. All of them stay in memory, because a stream can be read only
/// once.
pub fn open_stream(stream: &mut impl Read) -> io::Result<Backlog> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let mut backlog = read(&bytes[..], "standard input")?;
    backlog.bytes.push(Bytes::Memory(bytes));
    Ok(backlog)
}

fn read(bytes: impl Read, name: &str) -> io::Result<Backlog> {
    let mut hash = Fingerprint::new("jsonl");
    let mut backlog = Backlog::default();
    let mut reader = BufReader::with_capacity(256 << 10, bytes);
    let (mut line, mut offset) = (Vec::new(), 0);
    for number in 1_u64.. {
        line.clear();
        let bytes = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? as u64;
        if bytes == 0 {
            break;
        }
        hash.add(&line);
        let place = Place { file: 0, offset, bytes };
        offset += bytes;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Err(what) = add(&mut backlog, &line, place) {
            backlog.lose(format!("{name} in line {number}"), format!("not imported: {what}"));
        }
    }
    backlog.fingerprint = hash.value();
    Ok(backlog)
}

fn add(backlog: &mut Backlog, text: &[u8], place: Place) -> Result<(), String> {
    let line: Line = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let body = join("body", line.body, line.body_base64)?.unwrap_or_default().len() as u64;
    check_body(body)?;
    let unique = join("key", line.key, line.key_base64)?;
    let reducer = join("reducer", line.reducer, line.reducer_base64)?;
    let is_submitted = line.submitted || unique.is_some() || reducer.is_some();
    let tags = is_submitted.then(|| {
        Box::new(Tags { unique: unique.unwrap_or_default(), reducer: reducer.unwrap_or_default() })
    });
    tags.as_deref().map_or(Ok(()), check_tags)?;
    let hash = line.unique.as_deref().map(unhex).transpose()?;
    let name = join("queue", line.queue, line.queue_base64)?.ok_or("it has no queue")?;
    let state = match line.state {
        Some(StateName::Buried) => State::Buried,
        Some(StateName::Delayed) => State::Delayed,
        None if line.due_ms > 0 => State::Delayed,
        None | Some(StateName::Ready) => State::Ready,
    };
    let queue = backlog.queue(&name, line.items)?;
    backlog.jobs.push(Job {
        queue,
        id: line.id,
        state,
        priority: line.priority.unwrap_or(PRIORITY),
        ttr_s: line.ttr_s.unwrap_or(if line.items || is_submitted { 0 } else { 60 }),
        delay_s: line.delay_s,
        created_ms: line.created_ms,
        due_ms: if state == State::Delayed { line.due_ms } else { 0 },
        expires_ms: line.expires_ms,
        by_clock: line.by_clock,
        buried: line.buried,
        counters: Counters {
            takes: line.takes,
            timeouts: line.timeouts,
            releases: line.releases,
            buries: line.buries,
            kicks: line.kicks,
            failures: line.failures,
        },
        tags,
        unique: hash.map(Box::new),
        body: Body::InLine { line: place, bytes: body },
    });
    Ok(())
}

/// The body in a line. Fails if the line is invalid, because then the file has changed since the
/// source was read.
pub(crate) fn body_of(text: &[u8]) -> io::Result<Vec<u8>> {
    let changed = || io::Error::other("the source changed while it was read");
    let line: Line = serde_json::from_slice(text).map_err(|_| changed())?;
    Ok(join("body", line.body, line.body_base64).map_err(|_| changed())?.unwrap_or_default())
}

/// Reads JSON lines from memory, for tests and the fuzzer.
pub fn parse(bytes: &[u8]) -> Backlog {
    open_stream(&mut &bytes[..]).expect("memory can be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = open(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.starts_with("it is not a regular file"), "{error}");
    }

    #[test]
    fn what_is_written_is_read() {
        let full = Job {
            id: Some(7),
            state: State::Buried,
            priority: 3,
            ttr_s: 60,
            delay_s: 5,
            created_ms: Some(1000),
            expires_ms: Some(2000),
            by_clock: true,
            buried: 9,
            counters: Counters {
                takes: 1,
                timeouts: 2,
                releases: 3,
                buries: 4,
                kicks: 5,
                failures: 6,
            },
            tags: Some(Box::new(Tags { unique: vec![0xFF], reducer: b"r".to_vec() })),
            unique: Some(Box::new([0x0A; 16])),
            ..Job::default()
        };
        let due = Job { state: State::Delayed, due_ms: 5, id: Some(8), ..Job::default() };
        let mut text = Vec::new();
        write(&mut text, b"a queue", true, &full, b"caf\xC3\xA9\n").unwrap();
        write(&mut text, b"\xFFq", false, &due, b"\xFE").unwrap();
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 3);
        let backlog = parse(&text);
        assert_eq!(backlog.losses, []);
        let [first, second] = &backlog.jobs[..] else { panic!("two jobs") };
        assert_eq!(backlog.body(first).unwrap(), b"caf\xC3\xA9\n");
        assert_eq!(backlog.body(second).unwrap(), b"\xFE");
        assert_eq!(*first, Job { body: first.body.clone(), ..full });
        assert_eq!(*second, Job { queue: 1, body: second.body.clone(), ..due });
        assert!(backlog.queues[0].items && &*backlog.queues[1].name == b"\xFFq");
    }

    #[test]
    fn a_short_line_is_enough_and_a_wrong_one_is_named() {
        let text =
            b"{\"queue\":\"q\",\"body\":\"b\"}\n\n{\"queue\":\"q\",\"prio\":1}\n{}\nnothing\n\
                     {\"queue\":\"q\",\"body\":\"a\",\"body_base64\":\"YQ==\"}\n{\"queue\":\"q\"}\n\
                     {\"queue\":\"q\",\"unique\":\"+0000000000000000000000000000000\"}";
        let backlog = parse(text);
        let lost: Vec<&str> = backlog.losses.iter().map(|loss| &*loss.place).collect();
        let lines = [3, 4, 5, 6, 8].map(|line| format!("standard input in line {line}"));
        assert_eq!(lost, lines);
        let [first, second] = &backlog.jobs[..] else { panic!("two jobs") };
        assert_eq!((first.priority, first.ttr_s, first.state), (1024, 60, State::Ready));
        assert_eq!((first.body_bytes(), second.body_bytes()), (1, 0));
    }
}
