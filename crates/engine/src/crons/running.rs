//! The entries in force, what the log has of them, and when each of them is due.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::{COUNTED_MS_MAX, CronCounts, CronEntry, CronState, CronTable, CronView, Fired};
use crate::ids::{JobId, Millis};
use crate::policy::Name;

/// The entries: see the module.
#[derive(Debug, Default)]
pub(crate) struct Crons {
    table: CronTable,
    /// One for each entry of the table.
    running: Vec<Running>,
    /// What the log has of each entry, by name. At a follower, an entry can have no state yet.
    states: BTreeMap<Name, CronState>,
    /// The last firing of each entry, by the jobs of the log.
    seen: BTreeMap<u64, (Millis, JobId)>,
    /// The next instant of each entry, in the order in which their jobs come.
    due: BTreeSet<(Millis, usize)>,
    /// The firings that made the present jobs of the entries.
    of_jobs: BTreeMap<JobId, Fired>,
    /// The firings of the present slice of work. The log does not have their jobs yet.
    fresh: Vec<(JobId, Fired)>,
    /// When the engine looks at the entries. Only [`crate::timers::Timers`] changes this moment.
    pub(crate) timer: Option<Millis>,
    /// No entry fires now, because the server takes no jobs.
    pub(crate) is_held: bool,
}

/// An entry at work.
#[derive(Copy, Clone, Debug, Default)]
struct Running {
    /// The next instant, and when its job comes.
    next: Option<(Millis, Millis)>,
    counts: CronCounts,
}

/// A hash of a name that is the same in each process.
fn hash(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

impl CronEntry {
    /// How much later than its instant a job comes.
    fn jitter(&self, instant: Millis) -> u64 {
        match self.jitter_ms {
            0 => 0,
            most => hash(&[&self.name[..], &instant.0.to_le_bytes()].concat()) % (most + 1),
        }
    }

    /// The first instant after this one, and when its job comes.
    pub(crate) fn next(&self, instant: Millis) -> Option<(Millis, Millis)> {
        let next = self.cron.next_after(instant, &self.zone)?;
        Some((next, Millis(next.0.saturating_add(self.jitter(next)))))
    }

    pub(crate) fn fired(&self, at: Millis) -> Fired {
        Fired { entry: hash(&self.name), at }
    }
}

impl Crons {
    pub(crate) fn table(&self) -> &CronTable {
        &self.table
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.0.is_empty()
    }

    pub(crate) fn entry(&self, index: usize) -> &CronEntry {
        &self.table.0[index]
    }

    pub(crate) fn counts(&mut self, index: usize) -> &mut CronCounts {
        &mut self.running[index].counts
    }

    /// What the log has of the entry of this name.
    pub(crate) fn state(&self, name: &[u8]) -> Option<CronState> {
        self.states.get(name).copied()
    }

    /// Replaces the table. No entry is due before [`Crons::begin`]. An entry of the same name keeps its
    /// counts.
    pub(crate) fn replace(&mut self, table: CronTable) {
        let before: BTreeMap<Name, CronCounts> = self
            .table
            .0
            .iter()
            .zip(&self.running)
            .map(|(entry, running)| (entry.name.clone(), running.counts))
            .collect();
        let counts = |entry: &CronEntry| before.get(&entry.name).copied().unwrap_or_default();
        self.running =
            table.0.iter().map(|entry| Running { next: None, counts: counts(entry) }).collect();
        self.due.clear();
        self.table = table;
    }

    pub(crate) fn set_state(&mut self, name: &[u8], state: Option<CronState>) {
        let before = match state {
            Some(state) => self.states.insert(name.into(), state),
            None => self.states.remove(name),
        };
        if let Some(job) = before.and_then(|before| before.job) {
            self.of_jobs.remove(&job);
        }
        if let Some(CronState { fired: Some(at), job: Some(job), .. }) = state {
            self.of_jobs.insert(job, Fired { entry: hash(name), at });
        }
    }

    /// Notes that the log has a job of this firing.
    pub(crate) fn note_job(&mut self, id: JobId, fired: Fired) {
        let seen = self.seen.entry(fired.entry).or_insert((fired.at, id));
        if fired.at >= seen.0 {
            self.of_jobs.remove(&seen.1);
            *seen = (fired.at, id);
            self.of_jobs.insert(id, fired);
        }
    }

    /// The firing that made this job, if it is the last one of its entry.
    #[inline]
    pub(crate) fn firing_of(&self, id: JobId) -> Option<Fired> {
        let is_empty = self.of_jobs.is_empty() && self.fresh.is_empty();
        if is_empty { None } else { self.present_firing_of(id) }
    }

    fn present_firing_of(&self, id: JobId) -> Option<Fired> {
        let fresh = self.fresh.iter().find(|(fresh, _)| *fresh == id).map(|(_, fired)| *fired);
        fresh.or_else(|| self.of_jobs.get(&id).copied())
    }

    /// The log has the records of the slices of work before this one.
    #[inline]
    pub(crate) fn begin_slice(&mut self) {
        self.fresh.clear();
    }

    /// Notes that an entry has put this job in the present slice.
    pub(crate) fn note_fresh(&mut self, id: JobId, fired: Fired) {
        self.fresh.push((id, fired));
    }

    /// The state of an entry at the start of a leader. The log can have a job whose firing is newer
    /// than the state: then the state lacks only this firing. If the first queue took no job, this job
    /// is in another queue, and counts for the entry all the same.
    pub(crate) fn merged(&self, name: &[u8]) -> Option<CronState> {
        // The log has a state before the first firing. So an entry without a state is new, or it was
        // removed, and its old firings do not count.
        let state = self.state(name)?;
        match self.seen.get(&hash(name)) {
            Some(&(at, job)) if at > state.last => {
                Some(CronState { last: at, fired: Some(at), job: Some(job) })
            }
            _ => Some(state),
        }
    }

    /// The names that have a state, but no entry.
    pub(crate) fn forgotten(&self) -> Vec<Name> {
        let entries: BTreeSet<&Name> = self.table.0.iter().map(|entry| &entry.name).collect();
        self.states.keys().filter(|name| !entries.contains(name)).cloned().collect()
    }

    /// Computes the next instant of an entry. `wall`: the present time of the wall clock.
    pub(crate) fn begin(&mut self, index: usize, wall: Millis) {
        if let Some((_, due)) = self.running[index].next.take() {
            self.due.remove(&(due, index));
        }
        let entry = &self.table.0[index];
        let last = self.state(&entry.name).unwrap_or_default().last;
        let next = entry.next(last.max(Millis(wall.0.saturating_sub(COUNTED_MS_MAX))));
        self.running[index].next = next;
        self.due.extend(next.map(|(_, due)| (due, index)));
    }

    /// The entry whose job comes first: when its job comes, and its number.
    pub(crate) fn first_due(&self) -> Option<(Millis, usize)> {
        self.due.first().copied()
    }

    /// The next instant of an entry.
    pub(crate) fn next_instant(&self, index: usize) -> Option<Millis> {
        self.running[index].next.map(|(instant, _)| instant)
    }

    /// All entries, with what they do.
    pub(crate) fn views(&self) -> impl ExactSizeIterator<Item = CronView<'_>> {
        self.table.0.iter().zip(&self.running).map(|(entry, running)| CronView {
            entry,
            state: self.state(&entry.name).unwrap_or_default(),
            next: running.next.map(|(_, due)| due),
            counts: running.counts,
        })
    }
}
