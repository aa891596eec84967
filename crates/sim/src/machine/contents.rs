//! What a node must have after each group, computed from the groups alone, by the judge's own code
//! according to `docs/replication-format.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{JobId, State, Turn};
use replica::group::SealedGroup;

use crate::Checked;

// Kinds of facts.
const NAME: u8 = 1;
const PUT: u8 = 2;
const UPDATE: u8 = 3;
const FINISH: u8 = 5;
const FACT: u8 = 6;

/// Bytes of a fact before its contents, and of a meta before its options.
const HEAD_BYTES: usize = 8;
const META_BYTES: usize = 40;
/// The states of a job in a meta.
const DELAYED: u8 = State::Delayed as u8;
const BURIED: u8 = State::Buried as u8;
/// A bit of the options: the job has a time of the wall clock, which can move its due time.
const WALL: u8 = 1 << 6;
/// A bit of the options: there is a second byte of bits.
const MORE: u8 = 1 << 7;
/// A bit of the second byte: an entry with a schedule has put the job. This is the last field.
const FIRED: u8 = 1 << 4;
const FIRED_BYTES: usize = 16;

/// The key of a fact about a note begins with this.
const NOTE: &[u8] = b"note/";

/// All logged jobs, and the notes, after a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    number: u64,
    jobs: BTreeMap<u64, Job>,
    /// The instants of entries with schedules that have a job, each with a hash of the entry's name, and the
    /// number of the job.
    fired: BTreeMap<[u8; FIRED_BYTES], u64>,
    notes: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Job {
    meta: Meta,
    body: Arc<[u8]>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Meta {
    queue: Vec<u8>,
    priority: u32,
    ttr: u32,
    created_ms: u64,
    due_ms: u64,
    state: u8,
    has_wall: bool,
    fired: Option<[u8; FIRED_BYTES]>,
}

impl Contents {
    /// The number of instants that have a job by a schedule.
    pub(crate) fn fired(&self) -> u64 {
        self.fired.len() as u64
    }

    /// The last group.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The jobs that are delayed after this moment.
    pub(crate) fn delayed_after(&self, time_ms: u64) -> impl Iterator<Item = u64> {
        let is_it = move |job: &Job| job.meta.is_delayed_after(time_ms);
        self.jobs.iter().filter(move |(_, job)| is_it(job)).map(|(id, _)| *id)
    }

    /// Adds the next group.
    pub(crate) fn add(&mut self, group: &SealedGroup) -> Checked {
        let wrong = |what| format!("group {}: {what}", group.number);
        if group.number != self.number + 1 {
            return Err(wrong("is not the next one"));
        }
        self.number = group.number;
        let mut names: Vec<&[u8]> = Vec::new();
        let mut rest = group.body.as_slice();
        while !rest.is_empty() {
            let (head, after) = rest.split_at_checked(HEAD_BYTES).ok_or_else(|| wrong("a head"))?;
            let len = u32_at(head, 4) as usize;
            let (contents, after) = after.split_at_checked(len).ok_or_else(|| wrong("a length"))?;
            let n = usize::from(u16::from_le_bytes([head[2], head[3]]));
            self.add_fact(&mut names, (head[0], n), contents).ok_or_else(|| wrong("a fact"))?;
            rest = after;
        }
        if self.jobs.len() as u64 != group.jobs {
            return Err(wrong("has another number of jobs than its facts"));
        }
        Ok(())
    }

    fn add_fact<'a>(
        &mut self,
        names: &mut Vec<&'a [u8]>,
        (kind, n): (u8, usize),
        contents: &'a [u8],
    ) -> Option<()> {
        match kind {
            NAME => names.push(contents),
            PUT => {
                let (mut rest, mut new) = (contents, Vec::new());
                for _ in 0..n {
                    let (id, meta, after) = Meta::read(names, rest)?;
                    new.push((id, meta));
                    rest = after;
                }
                let body: Arc<[u8]> = rest.into();
                for (id, meta) in new {
                    // A job whose body is replaced is put again, with the same number.
                    if let Some(fired) = meta.fired
                        && self.fired.insert(fired, id).is_some_and(|before| before != id)
                    {
                        return None;
                    }
                    let job = Job { meta, body: body.clone() };
                    let before = self.jobs.insert(id, job);
                    if before.is_some() {
                        return None;
                    }
                }
            }
            UPDATE => {
                let (id, meta, _) = Meta::read(names, contents)?;
                let job = self.jobs.get_mut(&id)?;
                job.meta = meta;
            }
            FINISH => {
                for id in contents.chunks(8) {
                    self.jobs.remove(&u64::from_le_bytes(id.try_into().ok()?))?;
                }
            }
            FACT => {
                let (len, rest) = contents.split_at_checked(4)?;
                let (key, value) = rest.split_at_checked(u32_at(len, 0) as usize)?;
                if let Some(name) = key.strip_prefix(NOTE) {
                    self.notes.remove(name);
                    if !value.is_empty() {
                        self.notes.insert(name.to_vec(), value.to_vec());
                    }
                }
            }
            // Counters and limits of ids.
            _ => {}
        }
        Some(())
    }

    /// Compares all jobs and notes of a node that has applied exactly these groups, at this time, and that
    /// does not lead. All jobs must be in memory.
    pub(crate) fn check(&self, turn: &Turn<'_>, time_ms: u64) -> Checked {
        let totals = turn.totals();
        let count = totals.ready + totals.delayed + totals.buried + totals.leased;
        if count != self.jobs.len() as u64 {
            return Err(format!("has {count} jobs, not {}", self.jobs.len()));
        }
        if !turn.notes().eq(self.notes.iter().map(|(name, value)| (&**name, &**value))) {
            return Err(format!("has other notes than {:?}", self.notes));
        }
        for (id, job) in &self.jobs {
            let status = turn.job_status(JobId(*id)).value;
            let status = status.map_err(|_| format!("does not have job {id}"))?;
            let facts = &status.facts;
            let body = turn.body(JobId(*id)).ok_or_else(|| format!("has no body of job {id}"))?;
            if body.as_ref() != &*job.body {
                return Err(format!("has another body of job {id}"));
            }
            let is_delayed = job.meta.is_delayed_after(time_ms);
            if is_delayed && (facts.state, facts.due.0) != (State::Delayed, job.meta.due_ms) {
                return Err(format!(
                    "has job {id} as {:?} at {time_ms}, but it is delayed until {}",
                    facts.state, job.meta.due_ms
                ));
            }
            let found = Meta {
                queue: turn.queue_name(status.queue).to_vec(),
                priority: facts.priority,
                ttr: facts.ttr_s,
                created_ms: facts.created.0,
                state: if facts.state == State::Buried { BURIED } else { 0 },
                ..job.meta.clone()
            };
            let state = if job.meta.state == BURIED { BURIED } else { 0 };
            let expected = Meta { state, ..job.meta.clone() };
            if found != expected {
                return Err(format!("has job {id} as {found:?}, not {expected:?}"));
            }
        }
        Ok(())
    }
}

impl Meta {
    /// Reads the meta of a job. Returns its number and the rest of the bytes, too.
    fn read<'a>(names: &[&[u8]], bytes: &'a [u8]) -> Option<(u64, Self, &'a [u8])> {
        let (fixed, rest) = bytes.split_at_checked(META_BYTES)?;
        let options = usize::from(u16::from_le_bytes([fixed[38], fixed[39]]));
        let (options, rest) = rest.split_at_checked(options)?;
        let meta = Self {
            queue: names.get(u32_at(fixed, 8) as usize)?.to_vec(),
            priority: u32_at(fixed, 12),
            ttr: u32_at(fixed, 16),
            created_ms: u64_at(fixed, 20),
            due_ms: u64_at(fixed, 28),
            state: fixed[36],
            has_wall: options.first().is_some_and(|bits| bits & WALL != 0),
            fired: fired(options),
        };
        Some((u64_at(fixed, 0), meta, rest))
    }

    fn is_delayed_after(&self, time_ms: u64) -> bool {
        self.state == DELAYED && self.due_ms > time_ms && !self.has_wall
    }
}

/// The firing in the options of a job.
fn fired(options: &[u8]) -> Option<[u8; FIRED_BYTES]> {
    let [bits, more, ..] = options else { return None };
    let is_there = bits & MORE != 0 && more & FIRED != 0;
    options.last_chunk().filter(|_| is_there).copied()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(kind: u8, n: u16, contents: &[u8]) -> Vec<u8> {
        let len = contents.len() as u32;
        [&[kind, 0], &n.to_le_bytes()[..], &len.to_le_bytes(), contents].concat()
    }

    fn meta(id: u64, state: u8, due_ms: u64) -> Vec<u8> {
        let mut bytes = vec![0; META_BYTES];
        bytes[..8].copy_from_slice(&id.to_le_bytes());
        bytes[28..36].copy_from_slice(&due_ms.to_le_bytes());
        bytes[36] = state;
        bytes
    }

    fn add(contents: &mut Contents, jobs: u64, facts: &[Vec<u8>]) -> Checked {
        let at = replica::group::At::default();
        let (number, body) = (contents.number + 1, facts.concat());
        contents.add(&SealedGroup {
            number,
            epoch: 1,
            time_ms: 0,
            before: at.chain,
            after: at.chain,
            state: 0,
            jobs,
            id_limit: 0,
            facts: facts.len() as u32,
            body_crc: 0,
            body,
        })
    }

    #[test]
    fn groups_make_jobs() {
        let mut contents = Contents::default();
        let metas = [meta(1, DELAYED, 50), meta(2, 1, 0)].concat();
        let put = fact(PUT, 2, &[metas.as_slice(), b"body"].concat());
        add(&mut contents, 2, &[fact(NAME, 0, b"mails"), put]).expect("two jobs");
        assert_eq!(contents.delayed_after(49).collect::<Vec<_>>(), [1]);
        assert_eq!(contents.delayed_after(50).count(), 0);
        let update = fact(UPDATE, 0, &meta(1, BURIED, 0));
        let finish = fact(FINISH, 1, &2_u64.to_le_bytes());
        add(&mut contents, 1, &[fact(NAME, 0, b"other"), update, finish]).expect("one job");
        let job = &contents.jobs[&1];
        assert_eq!((job.meta.queue.as_slice(), job.meta.state), (&b"other"[..], BURIED));
        assert_eq!(&*job.body, b"body");
    }

    #[test]
    fn an_instant_with_two_jobs_is_noticed() {
        let put = |id, at| {
            let mut job = meta(id, 1, 0);
            job[38] = 2 + FIRED_BYTES as u8;
            job.extend([MORE, FIRED]);
            job.extend([&[7; 8][..], &u64::to_le_bytes(at)].concat());
            fact(PUT, 1, &job)
        };
        let mut contents = Contents::default();
        add(&mut contents, 2, &[fact(NAME, 0, b"a"), put(1, 5), put(2, 6)]).expect("two instants");
        assert_eq!(contents.fired(), 2);
        let finish = fact(FINISH, 1, &1_u64.to_le_bytes());
        let replaced = [fact(NAME, 0, b"a"), finish, put(1, 5)];
        add(&mut contents, 2, &replaced).expect("the job has another body");
        add(&mut contents, 3, &[fact(NAME, 0, b"a"), put(3, 5)]).expect_err("it has a job");
    }

    #[test]
    fn the_newest_value_of_a_note_counts() {
        let note = |name: &[u8], value: &[u8]| {
            let key = [NOTE, name].concat();
            fact(FACT, 0, &[&(key.len() as u32).to_le_bytes(), &*key, value].concat())
        };
        let mut contents = Contents::default();
        let facts = [note(b"a", b"1"), note(b"b", b"2"), note(b"a", b"3"), note(b"b", b"")];
        add(&mut contents, 0, &facts).expect("facts alone");
        assert_eq!(contents.notes, BTreeMap::from([(b"a".to_vec(), b"3".to_vec())]));
    }

    #[test]
    fn impossible_groups_are_noticed() {
        let name = || fact(NAME, 0, b"mails");
        let finish = || fact(FINISH, 1, &1_u64.to_le_bytes());
        let put = || fact(PUT, 1, &meta(1, 1, 0));
        add(&mut Contents::default(), 0, &[finish()]).expect_err("no such job");
        add(&mut Contents::default(), 1, &[put()]).expect_err("no such queue");
        add(&mut Contents::default(), 1, &[name(), put(), put()]).expect_err("the job is there");
        add(&mut Contents::default(), 2, &[name(), put()]).expect_err("one job");
    }
}
