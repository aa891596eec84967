//! The bytes of the records in the files: an attempt at a job that is still there, or an entry.
//!
//! Numbers are little-endian. A text begins with its length. Each record begins with its length and
//! its checksum. A record of an unknown kind is skipped, so that a later version can add kinds.

use broker::{AttemptEnd, FailureCause, JobEnd};

use crate::entry::{Attempt, Entry, KeptBytes};

/// The bytes before each record: the length and the checksum of what follows.
pub(crate) const HEAD_BYTES: usize = 8;

const ATTEMPT: u8 = 1;
const ENTRY: u8 = 2;

/// A record.
#[derive(Debug)]
pub(crate) enum Record {
    /// An attempt at this job ended, and the job has not left its queue.
    Attempt(u64, Attempt),
    /// A job left its queue.
    Entry(Box<Entry>),
    /// A later version wrote this.
    Unknown,
}

/// Appends the record of an attempt.
pub(crate) fn put_attempt(bytes: &mut Vec<u8>, job: u64, attempt: &Attempt) {
    put_record(bytes, |bytes| {
        bytes.push(ATTEMPT);
        bytes.extend(job.to_le_bytes());
        put_attempt_facts(bytes, attempt);
    });
}

/// Appends the record of an entry. Returns its place and length.
pub(crate) fn put_entry(bytes: &mut Vec<u8>, entry: &Entry) -> (usize, usize) {
    put_record(bytes, |bytes| {
        bytes.push(ENTRY);
        for number in [entry.job, entry.created_at, entry.left_at, entry.keep_ms, entry.jobs_max] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [entry.priority, entry.ttr_s, entry.takes] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.push(code_of(entry.why));
        put_text(bytes, &entry.queue);
        put_optional(bytes, entry.to.as_deref());
        bytes.extend((entry.attempts.len() as u32).to_le_bytes());
        for attempt in &entry.attempts {
            put_attempt_facts(bytes, attempt);
        }
        bytes.extend(entry.body.len.to_le_bytes());
        put_optional(bytes, entry.body.bytes.as_deref());
    })
}

fn put_record(bytes: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
    let begin = bytes.len();
    bytes.extend([0; HEAD_BYTES]);
    put(bytes);
    let content = begin + HEAD_BYTES;
    let (len, sum) = ((bytes.len() - content) as u32, crc32fast::hash(&bytes[content..]));
    bytes[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
    bytes[begin + 4..content].copy_from_slice(&sum.to_le_bytes());
    (begin, bytes.len() - begin)
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text);
}

fn put_optional(bytes: &mut Vec<u8>, text: Option<&[u8]>) {
    bytes.push(text.is_some().into());
    if let Some(text) = text {
        put_text(bytes, text);
    }
}

fn put_attempt_facts(bytes: &mut Vec<u8>, attempt: &Attempt) {
    for number in [attempt.taken_at, attempt.waited_ms, attempt.took_ms] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.push(match attempt.end {
        None => 0,
        Some(AttemptEnd::Failed(how)) => how.code(),
        Some(AttemptEnd::Buried) => 6,
    });
    put_text(bytes, &attempt.worker);
    put_text(bytes, &attempt.error);
}

/// All reasons, by their codes.
const REASONS: [JobEnd; 11] = [
    JobEnd::Done,
    JobEnd::Failed,
    JobEnd::Dead,
    JobEnd::Deleted,
    JobEnd::Expired,
    JobEnd::Dropped,
    JobEnd::Flushed,
    JobEnd::Abandoned,
    JobEnd::Replaced,
    JobEnd::Moved,
    JobEnd::Followed,
];

fn code_of(why: JobEnd) -> u8 {
    match why {
        JobEnd::Done => 0,
        JobEnd::Failed => 1,
        JobEnd::Dead => 2,
        JobEnd::Deleted => 3,
        JobEnd::Expired => 4,
        JobEnd::Dropped => 5,
        JobEnd::Flushed => 6,
        JobEnd::Abandoned => 7,
        JobEnd::Replaced => 8,
        JobEnd::Moved => 9,
        JobEnd::Followed => 10,
    }
}

/// Reads the record at the beginning of these bytes. Returns its length, with its head. `None`: the
/// bytes are cut or damaged.
pub(crate) fn read_record(bytes: &[u8]) -> Option<(usize, Record)> {
    let mut reader = Reader(bytes);
    let (len, sum) = (reader.small()? as usize, reader.small()?);
    let content = reader.0.get(..len)?;
    if crc32fast::hash(content) != sum {
        return None;
    }
    let mut reader = Reader(content);
    let record = match reader.byte()? {
        ATTEMPT => Record::Attempt(reader.large()?, reader.attempt()?),
        ENTRY => Record::Entry(Box::new(reader.entry()?)),
        _ => Record::Unknown,
    };
    Some((HEAD_BYTES + len, record))
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn small(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn large(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.small()? as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    /// Reads a text that can be missing into `text`.
    fn optional(&mut self, text: &mut Option<Box<[u8]>>) -> Option<()> {
        *text = match self.byte()? {
            0 => None,
            1 => Some(self.text()?.into()),
            _ => return None,
        };
        Some(())
    }

    fn attempt(&mut self) -> Option<Attempt> {
        let (taken_at, waited_ms, took_ms) = (self.large()?, self.large()?, self.large()?);
        let end = match self.byte()? {
            0 => None,
            6 => Some(AttemptEnd::Buried),
            code => Some(AttemptEnd::Failed(FailureCause::of_code(code)?)),
        };
        let (worker, error) = (self.text()?.into(), self.text()?.into());
        Some(Attempt { taken_at, waited_ms, took_ms, end, worker, error })
    }

    fn entry(&mut self) -> Option<Entry> {
        let (job, created_at, left_at) = (self.large()?, self.large()?, self.large()?);
        let (keep_ms, jobs_max) = (self.large()?, self.large()?);
        let (priority, ttr_s, takes) = (self.small()?, self.small()?, self.small()?);
        let why = *REASONS.get(usize::from(self.byte()?))?;
        let queue = self.text()?.into();
        let mut to = None;
        self.optional(&mut to)?;
        // Each attempt has some bytes, so a wrong number ends at the end of the bytes.
        let attempts = (0..self.small()?).map(|_| self.attempt()).collect::<Option<_>>()?;
        let mut body = KeptBytes { len: self.large()?, bytes: None };
        self.optional(&mut body.bytes)?;
        Some(Entry {
            job,
            queue,
            why,
            to,
            created_at,
            left_at,
            priority,
            ttr_s,
            takes,
            attempts,
            body,
            keep_ms,
            jobs_max,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn some_attempt() -> impl Strategy<Value = Attempt> {
        let ends = prop_oneof![
            Just(None),
            Just(Some(AttemptEnd::Buried)),
            Just(Some(AttemptEnd::Failed(FailureCause::TimedOut))),
            Just(Some(AttemptEnd::Failed(FailureCause::Aborted))),
            Just(Some(AttemptEnd::Failed(FailureCause::HolderLeft))),
            Just(Some(AttemptEnd::Failed(FailureCause::Released))),
            Just(Some(AttemptEnd::Failed(FailureCause::Reported))),
        ];
        (any::<[u64; 3]>(), ends, any::<Vec<u8>>(), any::<Vec<u8>>()).prop_map(
            |([taken_at, waited_ms, took_ms], end, worker, error)| Attempt {
                taken_at,
                waited_ms,
                took_ms,
                end,
                worker: worker.into(),
                error: error.into(),
            },
        )
    }

    pub(crate) fn some_entry() -> impl Strategy<Value = Entry> {
        let numbers = (any::<[u64; 6]>(), any::<[u32; 3]>(), 0..REASONS.len());
        let texts = (any::<Vec<u8>>(), any::<Option<Vec<u8>>>(), any::<Option<Vec<u8>>>());
        let attempts = proptest::collection::vec(some_attempt(), 0..3);
        (numbers, texts, attempts).prop_map(|((large, small, why), (queue, to, body), attempts)| {
            Entry {
                job: large[0],
                queue: queue.into(),
                why: REASONS[why],
                to: to.map(Vec::into),
                created_at: large[1],
                left_at: large[2],
                priority: small[0],
                ttr_s: small[1],
                takes: small[2],
                attempts,
                body: KeptBytes { len: large[3], bytes: body.map(Vec::into) },
                keep_ms: large[4],
                jobs_max: large[5],
            }
        })
    }

    #[test]
    fn each_reason_has_its_code() {
        for (code, why) in REASONS.iter().enumerate() {
            assert_eq!(usize::from(code_of(*why)), code);
        }
    }

    proptest! {
        #[test]
        fn an_entry_survives_its_bytes(entry in some_entry(), attempt in some_attempt(), job: u64) {
            let mut bytes = vec![7];
            let (at, len) = put_entry(&mut bytes, &entry);
            put_attempt(&mut bytes, job, &attempt);
            prop_assert_eq!(at, 1);
            let (read, record) = read_record(&bytes[at..]).unwrap();
            prop_assert_eq!(read, len);
            prop_assert!(matches!(record, Record::Entry(found) if *found == entry));
            let (_, record) = read_record(&bytes[at + len..]).unwrap();
            prop_assert!(matches!(record, Record::Attempt(of, found) if of == job && found == attempt));
            prop_assert!(read_record(&bytes[at..at + len - 1]).is_none());
        }

        #[test]
        fn a_changed_byte_is_noticed(entry in some_entry(), place: prop::sample::Index, by in 1..=255_u8) {
            let mut bytes = Vec::new();
            put_entry(&mut bytes, &entry);
            let place = HEAD_BYTES + place.index(bytes.len() - HEAD_BYTES);
            bytes[place] ^= by;
            prop_assert!(read_record(&bytes).is_none());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
            framed.extend(crc32fast::hash(&bytes).to_le_bytes());
            framed.extend(&bytes);
            read_record(&framed);
            read_record(&bytes);
        }
    }
}
