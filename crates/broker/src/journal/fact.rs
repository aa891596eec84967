//! The facts of a group as bytes: see "Facts" in `docs/replication-format.md`.
//!
//! A fact names a job by its number, and a queue by its number in the group. So the facts mean the
//! same in every folder.

use engine::Body;
use log::{Meta, SHARED_BYTES_MIN};

/// Bytes of a fact's head: kind, flags, count and length.
const HEAD_BYTES: usize = 8;
const COUNTERS_BYTES: usize = 24;

const NAME: u8 = 1;
const PUT: u8 = 2;
const UPDATE: u8 = 3;
const COUNT: u8 = 4;
const FINISH: u8 = 5;
const FACT: u8 = 6;
const IDS: u8 = 7;

/// One fact.
#[derive(Debug)]
pub(crate) enum Fact<'a> {
    /// Gives the next number of this group to the queue of this name: 0, 1, 2 and so on.
    Name(&'a [u8]),
    /// New jobs that share a body, each with the number of its queue.
    Put(Vec<(u32, Meta<'a>)>, &'a [u8]),
    /// The new meta of a job, and the number of its queue.
    Update(u32, Meta<'a>),
    /// The counters of a job.
    Count(u64, &'a [u8; COUNTERS_BYTES]),
    /// These jobs have ended.
    Finish(Vec<u64>),
    /// The value of a key. An empty value removes the key.
    Value(&'a [u8], &'a [u8]),
    /// Ids below this limit may have been used.
    Ids(u64),
}

/// Why bytes are not a fact. A newer version may have written them.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("fact {number} of the group has an unknown {what}")]
pub struct FactError {
    /// The number of the fact in its group, from 0.
    number: u32,
    what: &'static str,
}

/// Writes facts, one behind the other. Keeps large bodies as they are, as the log does, because the
/// broker's lock is held meanwhile.
#[derive(Debug, Default)]
pub(crate) struct FactWriter {
    /// The facts without the bodies in `shared`.
    bytes: Vec<u8>,
    /// Large bodies. Each comes before this byte of `bytes`.
    shared: Vec<(usize, Body)>,
    /// The bytes of these bodies.
    shared_bytes: usize,
    count: u32,
    names: u32,
}

impl FactWriter {
    /// The number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of facts so far.
    pub(crate) fn written(&self) -> u32 {
        self.count
    }

    /// The bytes of bodies that [`into_bytes`](Self::into_bytes) will copy.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// The facts in one piece. Copies the large bodies, so no lock may be held.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        if self.shared.is_empty() {
            return self.bytes;
        }
        let mut joined = Vec::with_capacity(self.len());
        let mut from = 0;
        for (at, body) in &self.shared {
            joined.extend_from_slice(&self.bytes[from..*at]);
            joined.extend_from_slice(body);
            from = *at;
        }
        joined.extend_from_slice(&self.bytes[from..]);
        joined
    }

    /// Names a queue, and returns its number in the group.
    pub(crate) fn name(&mut self, name: &[u8]) -> u32 {
        self.write(NAME, 0, 0, |bytes| bytes.extend_from_slice(name));
        self.names += 1;
        self.names - 1
    }

    pub(crate) fn put<'a>(
        &mut self,
        jobs: impl ExactSizeIterator<Item = (u32, &'a Meta<'a>)>,
        body: &Body,
    ) {
        let n = u16::try_from(jobs.len()).expect("at most 65,535 jobs share a body");
        let is_large = body.len() >= SHARED_BYTES_MIN;
        let apart = if is_large { body.len() } else { 0 };
        self.write(PUT, n, apart, |bytes| {
            for (queue, meta) in jobs {
                log::write_meta(bytes, queue, meta);
            }
            if !is_large {
                bytes.extend_from_slice(body);
            }
        });
        if is_large {
            self.shared.push((self.bytes.len(), body.clone()));
            self.shared_bytes += apart;
        }
    }

    pub(crate) fn update(&mut self, queue: u32, meta: &Meta<'_>) {
        self.write(UPDATE, 0, 0, |bytes| log::write_meta(bytes, queue, meta));
    }

    pub(crate) fn count(&mut self, id: u64, counters: &[u8]) {
        self.write(COUNT, 0, 0, |bytes| {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(counters);
        });
    }

    pub(crate) fn finish(&mut self, id: u64) {
        self.write(FINISH, 1, 0, |bytes| bytes.extend_from_slice(&id.to_le_bytes()));
    }

    pub(crate) fn fact(&mut self, key: &[u8], value: &[u8]) {
        self.write(FACT, 0, 0, |bytes| {
            bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
        });
    }

    pub(crate) fn ids(&mut self, limit: u64) {
        self.write(IDS, 0, 0, |bytes| bytes.extend_from_slice(&limit.to_le_bytes()));
    }

    /// Writes a fact. `apart`: the bytes at the end of its contents that are not in the buffer.
    fn write(&mut self, kind: u8, n: u16, apart: usize, contents: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[kind, 0]);
        self.bytes.extend_from_slice(&n.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        contents(&mut self.bytes);
        let len = u32::try_from(self.bytes.len() - start - HEAD_BYTES + apart);
        let len = len.expect("an entry of the log is smaller than 4 GiB");
        self.bytes[start + 4..start + HEAD_BYTES].copy_from_slice(&len.to_le_bytes());
        self.count += 1;
    }
}

/// Reads the facts of a group. Stops after an error.
#[derive(Debug)]
pub(crate) struct FactReader<'a> {
    rest: &'a [u8],
    next: u32,
    names: u32,
}

impl<'a> FactReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, next: 0, names: 0 }
    }

    fn read(&mut self) -> Result<Fact<'a>, &'static str> {
        let (head, rest) = self.rest.split_first_chunk::<HEAD_BYTES>().ok_or("head")?;
        let [kind, flags, n @ .., _, _, _, _] = *head;
        let n = u16::from_le_bytes(n);
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (contents, rest) = rest.split_at_checked(len).ok_or("length")?;
        self.rest = rest;
        if flags != 0 || n != 0 && !matches!(kind, PUT | FINISH) {
            return Err("flag");
        }
        match kind {
            NAME => {
                self.names += 1;
                Ok(Fact::Name(contents))
            }
            PUT => {
                let mut rest = contents;
                let mut jobs = Vec::with_capacity(usize::from(n).min(contents.len() / 40));
                for _ in 0..n {
                    let (meta, tail) = self.meta(rest)?;
                    jobs.push(meta);
                    rest = tail;
                }
                if jobs.is_empty() { Err("number of jobs") } else { Ok(Fact::Put(jobs, rest)) }
            }
            UPDATE => match self.meta(contents)? {
                ((queue, meta), []) => Ok(Fact::Update(queue, meta)),
                _ => Err("meta"),
            },
            COUNT => {
                let (id, counters) = contents.split_first_chunk().ok_or("counter")?;
                let counters = counters.try_into().map_err(|_| "counter")?;
                Ok(Fact::Count(u64::from_le_bytes(*id), counters))
            }
            FINISH => match contents.as_chunks() {
                (ids, []) if ids.len() == usize::from(n) && n > 0 => {
                    Ok(Fact::Finish(ids.iter().map(|id| u64::from_le_bytes(*id)).collect()))
                }
                _ => Err("number of jobs"),
            },
            FACT => {
                let (len, rest) = contents.split_first_chunk().ok_or("key")?;
                let len = u32::from_le_bytes(*len) as usize;
                let (key, value) = rest.split_at_checked(len).ok_or("key")?;
                Ok(Fact::Value(key, value))
            }
            IDS => {
                let limit = contents.try_into().map_err(|_| "limit of ids")?;
                Ok(Fact::Ids(u64::from_le_bytes(limit)))
            }
            _ => Err("kind"),
        }
    }

    /// Reads a meta whose queue was named before.
    fn meta(&self, bytes: &'a [u8]) -> Result<((u32, Meta<'a>), &'a [u8]), &'static str> {
        let (meta, queue, rest) = log::read_meta(bytes).ok_or("meta")?;
        if queue >= self.names {
            return Err("queue");
        }
        Ok(((queue, meta), rest))
    }
}

impl<'a> Iterator for FactReader<'a> {
    type Item = Result<Fact<'a>, FactError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let read = self.read().map_err(|what| FactError { number, what });
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(id: u64, options: &[u8]) -> Meta<'_> {
        Meta { id, priority: 7, ttr: 60, created_ms: 3, due_ms: 4, state: 1, options }
    }

    fn facts() -> Vec<u8> {
        let mut writer = FactWriter::default();
        let queues = [writer.name(b"mails"), writer.name(b"")];
        let metas = [meta(1, b""), meta(2, b"options")];
        writer.put(queues.into_iter().zip(&metas), &Body::from(&b"body"[..]));
        writer.update(1, &metas[0]);
        writer.count(2, &[9; COUNTERS_BYTES]);
        writer.finish(1);
        writer.fact(b"key", b"value");
        writer.ids(1 << 40);
        assert_eq!(writer.written(), 8);
        writer.into_bytes()
    }

    #[test]
    fn facts_come_back() {
        let bytes = facts();
        let read: Vec<String> =
            FactReader::new(&bytes).map(|fact| format!("{:?}", fact.expect("whole"))).collect();
        assert_eq!(read.len(), 8);
        assert!(read[0].starts_with("Name([109"), "{read:?}");
        assert!(read[2].contains("id: 2") && read[2].ends_with("[98, 111, 100, 121])"), "{read:?}");
        assert_eq!(
            read[5..],
            [
                "Finish([1])",
                "Value([107, 101, 121], [118, 97, 108, 117, 101])",
                "Ids(1099511627776)"
            ]
        );
    }

    #[test]
    fn a_large_body_is_shared_and_the_bytes_are_the_same() {
        let bodies = [SHARED_BYTES_MIN, 3, SHARED_BYTES_MIN + 5, SHARED_BYTES_MIN - 1]
            .map(|bytes| -> Body { (0..bytes).map(|at| (at % 251) as u8).collect() });
        let mut writer = FactWriter::default();
        writer.name(b"mails");
        for (id, body) in (1..).zip(&bodies) {
            writer.put([(0, &meta(id, b"options"))].into_iter(), body);
        }
        assert_eq!(bodies.each_ref().map(Body::strong_count), [2, 1, 2, 1]);
        assert_eq!(writer.shared_bytes(), 2 * SHARED_BYTES_MIN + 5);
        let len = writer.len();
        let bytes = writer.into_bytes();
        assert_eq!(bytes.len(), len);
        assert_eq!(bodies.each_ref().map(Body::strong_count), [1; 4]);
        let read: Vec<Fact<'_>> =
            FactReader::new(&bytes).map(|fact| fact.expect("whole")).collect();
        assert_eq!(read.len(), 1 + bodies.len());
        for (id, (fact, expected)) in (1..).zip(read[1..].iter().zip(&bodies)) {
            let Fact::Put(jobs, body) = fact else { panic!("{id} is a put") };
            assert!(jobs[0].1.id == id && **body == **expected, "job {id}");
        }
    }

    #[test]
    fn any_damage_is_an_error_or_another_fact_and_never_a_panic() {
        let whole = facts();
        for cut in 0..whole.len() {
            for _ in FactReader::new(&whole[..cut]) {}
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                for _ in FactReader::new(&bytes) {}
            }
        }
        let mut unknown = whole;
        unknown[0] = 77;
        let first = FactReader::new(&unknown).next();
        assert_eq!(first.map(|fact| fact.is_err()), Some(true));
    }
}
