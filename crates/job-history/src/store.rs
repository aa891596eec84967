//! The store: it takes milestones, writes what must be kept, and finds it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use broker::{Departure, JobEnd, JobId, Milestone, MilestoneKind, Millis};

use crate::clock::{Moment, signed};
use crate::codec::{Record, put_attempt, put_entry, read_record};
use crate::entry::{Attempt, Entry, KeptBytes};
use crate::files::{FILES_MAX, Files, Place, Source};
use crate::index::{Index, WhichEntry};
use crate::pending::Pending;
use crate::shelf::{Times, WhichJobs};

/// A file has this part of all bytes. So if the bytes are too many, this part of the history goes.
const PARTS: u64 = 16;
/// A file has no more bytes than this, however many all of them may be.
const PART_BYTES_MAX: u64 = 16 << 20;
/// This many appends fill a file. Smaller ones would cost more time, and larger ones more room: a file
/// that has no room for the next append gets no more.
const GROUPS: u64 = 8;
/// A history without files, in memory, has at most this many bytes.
const MEMORY_BYTES_MAX: u64 = 16 << 20;
/// A page of a list looks at no more rows than this. A list of few of many entries has empty pages.
const LOOKS_MAX: usize = 50_000;
/// Each call of [`Store::add`] looks for old entries in this many queues.
const SHELVES_PER_LOOK: usize = 1_000;
/// This many queues have times since the start of their own: those whose jobs left first.
const TIMED_QUEUES_MAX: usize = 100;

/// The bounds of the history.
#[derive(Copy, Clone, Debug)]
pub struct Bounds {
    /// The bytes of all files.
    pub bytes_max: u64,
    /// The entries of all queues.
    pub entries_max: usize,
    /// The memory of the index, in bytes. The names of queues can be long.
    pub index_bytes_max: u64,
}

/// The history of jobs. All methods can block on the disk, except [`Store::try_departure`].
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    /// The times of the jobs that have left since the start. They have a lock of their own, which nobody
    /// holds while a disk hangs.
    since_start: Mutex<SinceStart>,
    bounds: Bounds,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    /// The entries, newest first.
    pub entries: Vec<Entry>,
    /// The `before` of the next page. `None`: this is the last one.
    pub next: Option<u64>,
    /// Entries that could not be read.
    pub unreadable: u64,
    /// The entries of the queue that its policy keeps.
    pub total: u64,
}

/// The size of the history.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Entries of all queues.
    pub entries: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Memory.
    pub memory_bytes: u64,
    /// Things that happened to jobs and that the history lacks, since the start: there were too many at
    /// once, or the disk failed.
    pub lost: u64,
}

/// Whether the history has a job.
#[derive(Debug)]
pub enum Lookup {
    /// It has.
    Found(Box<Entry>),
    /// It has not.
    Unknown,
    /// It has, but the file cannot be read.
    Unreadable,
}

/// How a job left a queue, as far as memory knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LastDeparture {
    /// The queue.
    pub queue: Arc<[u8]>,
    /// Why the job left.
    pub why: JobEnd,
    /// Whether it moved to another queue.
    pub has_moved: bool,
    /// When it left, by the wall clock.
    pub left_at: u64,
}

/// Another thread uses the store now.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Busy;

#[derive(Debug)]
struct Inner {
    files: Files,
    pending: Pending,
    index: Index,
    /// Files that could not be read, or that a later version wrote. The next start may be able to read
    /// them. So they go only if there is too much.
    not_read: BTreeSet<u32>,
    lost: u64,
    is_failing: bool,
}

/// Records that are written together.
#[derive(Debug, Default)]
struct Group {
    bytes: Vec<u8>,
    /// The entries, and their places in `bytes`.
    entries: Vec<NewEntry>,
    /// The jobs with attempts in `bytes`.
    jobs: Vec<u64>,
    /// The milestones that made them.
    milestones: u64,
}

/// An entry that is not in the index yet.
#[derive(Debug)]
struct NewEntry {
    /// The entry, without its body.
    entry: Entry,
    /// When the job left, by the engine's time.
    left: i64,
    /// The offset and the length in the group.
    place: (usize, usize),
}

/// The times of the jobs that have left since the start, by queue. `None`: all other queues.
#[derive(Debug, Default)]
struct SinceStart(BTreeMap<Option<Box<[u8]>>, Times>);

impl SinceStart {
    fn add(&mut self, entry: &Entry) {
        let own = Some(entry.queue.clone());
        let has_own = self.0.contains_key(&own) || self.0.len() < TIMED_QUEUES_MAX;
        let times = self.0.entry(own.filter(|_| has_own)).or_default();
        times.add(entry.waited_ms().zip(entry.ran_ms()), entry.total_ms());
    }
}

impl Store {
    /// Opens the history in a folder. `None`: it is in memory. What cannot be read is reported and
    /// ignored, because a history is not worth a failed start.
    pub fn open(folder: Option<&Path>, mut bounds: Bounds, at: Moment) -> Store {
        let part_bytes_max = |bounds: Bounds| (bounds.bytes_max / PARTS).min(PART_BYTES_MAX);
        let mut files = Files::open(folder, part_bytes_max(bounds)).unwrap_or_else(|error| {
            let folder = folder.unwrap_or(Path::new("")).display();
            tracing::warn!(%error, %folder, "cannot open the history of jobs; it is in memory only");
            Files::in_memory(0)
        });
        if files.are_in_memory() {
            bounds.bytes_max = bounds.bytes_max.min(MEMORY_BYTES_MAX);
            files = Files::in_memory(part_bytes_max(bounds));
        }
        let inner = Mutex::new(Inner::new(files));
        let store = Store { inner, since_start: Mutex::default(), bounds };
        let mut inner = store.lock();
        inner.load(folder, bounds, at);
        inner.delete_unused();
        drop(inner);
        store
    }

    /// Adds what happened to jobs. `dropped` is the number of milestones that the engine has dropped.
    pub fn add(&self, milestones: Vec<Milestone>, dropped: u64, at: Moment) {
        let mut inner = self.lock();
        inner.lost = inner.lost.saturating_add(dropped);
        inner.index.remove_old(at.now, SHELVES_PER_LOOK);
        inner.add(milestones, at, self);
        inner.delete_unused();
    }

    /// Jobs with attempts that have not left, at most this many. Each call returns the next ones. The
    /// caller must check whether the history can still hear of them: see [`Store::forget`].
    pub fn next_pending(&self, max: usize) -> Vec<JobId> {
        self.lock().pending.next_jobs(max).into_iter().map(JobId).collect()
    }

    /// Forgets the attempts at jobs that have gone without an entry, or whose policy keeps no history any
    /// more. Otherwise the attempts would stay, and their files.
    pub fn forget(&self, jobs: &[JobId]) {
        let mut inner = self.lock();
        for job in jobs {
            inner.pending.forget(job.0);
        }
        inner.delete_unused();
    }

    /// Whether [`Store::add`] would do nothing without milestones, because no entry can become too old,
    /// and [`Store::next_pending`] has no jobs.
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.index.len() == 0 && inner.pending.is_empty()
    }

    /// A page of the entries of a queue that its policy keeps at this time, newest first.
    pub fn page(&self, queue: &[u8], which: WhichJobs, max: usize, now: Millis) -> Page {
        let (sources, next, total) = {
            let inner = self.lock();
            let Some(shelf) = inner.index.shelf(queue) else {
                return Page { entries: Vec::new(), next: None, unreadable: 0, total: 0 };
            };
            let (rows, next) = shelf.page(which, (max, LOOKS_MAX), now);
            let sources: Vec<Option<Source>> =
                rows.iter().map(|row| inner.files.source(row.place)).collect();
            (sources, next, shelf.kept(now) as u64)
        };
        let asked = sources.len();
        let entries: Vec<Entry> = sources.into_iter().flatten().filter_map(read_entry).collect();
        let unreadable = (asked - entries.len()) as u64;
        Page { entries, next, unreadable, total }
    }

    /// An entry of a job, if the policy of its queue keeps it at this time.
    pub fn find(&self, job: JobId, which: &WhichEntry, now: Millis) -> Lookup {
        let source = {
            let inner = self.lock();
            let Some((row, _)) = inner.index.find(job, which, now) else { return Lookup::Unknown };
            inner.files.source(row.place)
        };
        let entry = source.and_then(read_entry).filter(|entry| entry.job == job.0);
        entry.map_or(Lookup::Unreadable, |entry| Lookup::Found(Box::new(entry)))
    }

    /// How a job left the last queue that keeps its history at this time. `None`: no entry is known.
    pub fn departure(&self, job: JobId, now: Millis) -> Option<LastDeparture> {
        self.lock().departure(job, now)
    }

    /// The same, without waiting for a thread that writes files.
    pub fn try_departure(&self, job: JobId, now: Millis) -> Result<Option<LastDeparture>, Busy> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner.departure(job, now)),
            Err(TryLockError::Poisoned(inner)) => Ok(inner.into_inner().departure(job, now)),
            Err(TryLockError::WouldBlock) => Err(Busy),
        }
    }

    /// How long the last 100,000 jobs of a queue waited, were leased and existed. `None`: the queue has
    /// no entries.
    pub fn times(&self, queue: &[u8], now: Millis) -> Option<Times> {
        let inner = self.lock();
        inner.index.shelf(queue).filter(|shelf| shelf.kept(now) > 0).map(|shelf| shelf.times(now))
    }

    /// The times of the jobs that have left since the start, by queue. The first 100 queues have times
    /// of their own, and `None` has those of all others.
    pub fn times_since_start(&self) -> Vec<(Option<Box<[u8]>>, Times)> {
        let times = self.since_start.lock().unwrap_or_else(PoisonError::into_inner);
        times.0.iter().map(|(queue, times)| (queue.clone(), times.clone())).collect()
    }

    /// The size of the history.
    pub fn summary(&self) -> Summary {
        let inner = self.lock();
        Summary {
            entries: inner.index.len() as u64,
            file_bytes: inner.files.total_bytes(),
            memory_bytes: inner.memory_bytes(),
            lost: inner.lost,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an entry. `None`: it cannot be read.
fn read_entry(source: Source) -> Option<Entry> {
    match read_record(&source.read().ok()?)? {
        (_, Record::Entry(entry)) => Some(*entry),
        (_, Record::Attempt(..) | Record::Unknown) => None,
    }
}

impl Inner {
    fn new(files: Files) -> Inner {
        let (pending, index) = (Pending::default(), Index::default());
        Inner { files, pending, index, not_read: BTreeSet::new(), lost: 0, is_failing: false }
    }

    fn memory_bytes(&self) -> u64 {
        self.index.bytes() + self.pending.bytes() + self.files.resident_bytes()
    }

    fn departure(&self, job: JobId, now: Millis) -> Option<LastDeparture> {
        let (row, queue) = self.index.find(job, &WhichEntry::default(), now)?;
        let (why, has_moved, left_at) = (row.why, row.has_moved, row.left_at);
        Some(LastDeparture { queue: queue.clone(), why, has_moved, left_at })
    }

    /// Reads the files of earlier processes.
    fn load(&mut self, folder: Option<&Path>, bounds: Bounds, at: Moment) {
        for number in self.files.numbers() {
            let (read, problem) = match self.files.content(number) {
                Ok(bytes) => (self.load_records(number, &bytes, at), None),
                Err(error) => {
                    self.not_read.insert(number);
                    (Ok(()), Some(error.to_string()))
                }
            };
            let problem = problem.or(read.err());
            if problem.is_none() {
                self.files.resume(number);
            }
            if let Some(problem) = problem {
                let folder = folder.unwrap_or(Path::new("")).display();
                tracing::warn!(%problem, %folder, file = number, "cannot read all of the history of jobs");
            }
            // A file can have many entries that were too old long ago.
            self.index.remove_old(at.now, usize::MAX);
            self.keep_bounds(bounds);
        }
    }

    /// Reads the records of a file, up to the first damaged one.
    fn load_records(&mut self, file: u32, bytes: &[u8], at: Moment) -> Result<(), String> {
        let mut offset = 0;
        while offset < bytes.len() {
            let Some((len, record)) = read_record(&bytes[offset..]) else {
                if offset == 0 {
                    self.not_read.insert(file);
                }
                return Err(format!(
                    "{} bytes from offset {offset} on are cut or damaged, and are ignored",
                    bytes.len() - offset
                ));
            };
            let place = Place { file, offset: offset as u32, len: len as u32 };
            match record {
                Record::Attempt(job, attempt) => self.pending.add(job, attempt, Some(file)),
                Record::Entry(entry) => {
                    // The entry has all attempts.
                    self.pending.leave(entry.job, Millis(0));
                    self.index.add(&entry, at.engine_at(entry.left_at), place);
                }
                Record::Unknown => {
                    self.not_read.insert(file);
                }
            }
            offset += len;
        }
        Ok(())
    }

    fn add(&mut self, milestones: Vec<Milestone>, at: Moment, store: &Store) {
        let mut group = Group::default();
        let mut is_failing = false;
        for milestone in milestones {
            self.note(milestone, at, &mut group);
            if group.bytes.len() as u64 >= self.files.part_bytes_max() / GROUPS {
                self.write(std::mem::take(&mut group), &mut is_failing, store);
            }
        }
        self.write(group, &mut is_failing, store);
    }

    /// Adds what a milestone says to a group.
    fn note(&mut self, milestone: Milestone, now: Moment, group: &mut Group) {
        let Milestone { job, at, what } = milestone;
        group.milestones += 1;
        match what {
            MilestoneKind::Taken { waited_ms, worker } => {
                let (taken_at, took_ms, end) = (now.wall_at(at), 0, None);
                let error = Box::default();
                let attempt = Attempt { taken_at, waited_ms, took_ms, end, worker, error };
                self.pending.begin(job.0, at, attempt);
            }
            MilestoneKind::Returned { how, error } => {
                if let Some(attempt) = self.pending.end(job.0, at, how, error) {
                    put_attempt(&mut group.bytes, job.0, &attempt);
                    group.jobs.push(job.0);
                }
            }
            MilestoneKind::Left(departure) => {
                let attempts = self.pending.leave(job.0, at);
                let mut entry = entry_of(job, at, *departure, attempts, now);
                // A longer body would displace all others.
                let bytes_max = self.files.part_bytes_max();
                entry.body.bytes.take_if(|bytes| bytes.len() as u64 > bytes_max);
                let place = put_entry(&mut group.bytes, &entry);
                // Only the file has the body from here on.
                entry.body.bytes = None;
                group.entries.push(NewEntry { entry, left: signed(at), place });
            }
        }
    }

    /// Writes a group. After an error, it is lost. Then `is_failing`, and this is not tried again for
    /// the other groups of the same moment.
    fn write(&mut self, group: Group, is_failing: &mut bool, store: &Store) {
        if group.bytes.is_empty() {
            return;
        }
        if *is_failing {
            self.lost += group.milestones;
            return;
        }
        match self.files.append(&group.bytes) {
            Ok((file, begin)) => {
                self.is_failing = false;
                let mut times = store.since_start.lock().unwrap_or_else(PoisonError::into_inner);
                for NewEntry { entry, left, place: (offset, len) } in group.entries {
                    times.add(&entry);
                    let place = Place { file, offset: begin + offset as u32, len: len as u32 };
                    self.index.add(&entry, left, place);
                }
                drop(times);
                for job in group.jobs {
                    self.pending.note_written(job, file);
                }
                // Only whole files go, and never the one that gets more.
                if self.index.newest_bytes() > store.bounds.index_bytes_max / PARTS {
                    self.files.seal();
                }
                self.keep_bounds(store.bounds);
            }
            Err(error) => {
                *is_failing = true;
                self.lost += group.milestones;
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "cannot write the history of jobs; it lacks what happens now");
                }
            }
        }
    }

    /// Removes the oldest files if there is too much.
    fn keep_bounds(&mut self, bounds: Bounds) {
        while (self.files.total_bytes() > bounds.bytes_max
            || self.index.len() > bounds.entries_max
            || self.index.full_bytes() > bounds.index_bytes_max
            || self.files.len() > FILES_MAX)
            && let Some(oldest) = self.files.oldest_sealed()
        {
            self.index.forget_file(oldest);
            self.delete(oldest);
        }
    }

    /// Removes the files that nothing needs: they could be read, and have no entries, and no attempts
    /// at jobs that have not left.
    fn delete_unused(&mut self) {
        for number in self.files.numbers() {
            let is_used = self.index.is_in(number) || self.pending.are_in(number);
            if !is_used && !self.not_read.contains(&number) {
                self.delete(number);
            }
        }
    }

    fn delete(&mut self, number: u32) {
        self.pending.forget_file(number);
        if let Err(error) = self.files.delete(number) {
            tracing::warn!(%error, file = number, "cannot delete a file of the history of jobs");
        }
    }
}

/// The entry of a job that left its queue.
fn entry_of(
    job: JobId,
    left: Millis,
    departure: Departure,
    attempts: Vec<Attempt>,
    now: Moment,
) -> Entry {
    let kept = departure.history.body.bytes_of(departure.body_len);
    let bytes = departure.body.map(|body| body[..kept.min(body.len())].into());
    Entry {
        job: job.0,
        queue: departure.queue,
        why: departure.why,
        to: departure.to,
        created_at: now.wall_at(departure.created),
        left_at: now.wall_at(left),
        priority: departure.priority,
        ttr_s: departure.ttr_s,
        // A read for good is an attempt, but no take that the job counts.
        takes: departure.takes.max(attempts.len() as u32),
        attempts,
        body: KeptBytes { len: departure.body_len as u64, bytes },
        keep_ms: departure.history.keep_ms,
        jobs_max: departure.history.jobs_max,
    }
}

#[cfg(test)]
mod tests;
