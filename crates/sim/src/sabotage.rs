//! Ways to break a promise on purpose, so that a test can check that the oracle notices it.

use std::io;
use std::sync::Arc;

use broker::{Event, JobId, Turn};
use log::{Disk, DiskFile, FaultDisk, Space};

use crate::model::{Place, State};
use crate::world::World;

/// The promise to break.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Replies leave before their changes are durable. Only a crash shows it.
    EarlyReplies,
    /// The same. A check when the replies leave detects it.
    HastyReplies,
    /// The disk reports data as synced that it did not sync.
    LyingSync,
    /// A crash takes the end of each segment, synced or not.
    LostTail,
    /// The server does not wake sleeping workers.
    LostWakeUps,
    /// Clients do not learn how their jobs ended.
    LostEnds,
    /// Clients get each end twice.
    DoubledEnds,
    /// News of a job overtake each other.
    DisorderedNews,
    /// The server's clock is fast, so scheduled jobs run early.
    FastClock,
    /// A client that leaves ends the jobs that it waits for, even those that must outlive it.
    TakesAlong,
    /// The server's clock is slow, so the server hands out expired jobs.
    SlowClock,
    /// Changed policies do not come into force.
    StalePolicies,
    /// Children do not get what their parent gets.
    LostCopies,
    /// Leases end before their deadlines.
    ShortLeases,
    /// Some jobs fall behind others.
    WrongOrder,
    /// Buried and delayed jobs become ready without a request.
    RestlessJobs,
    /// Some jobs vanish.
    LostJobs,
    /// As [`LostCopies`](Self::LostCopies), for the oracle.
    MissedCopies,
    /// As [`SlowClock`](Self::SlowClock), for the oracle.
    LateExpiries,
    /// Queues take more than their policies allow.
    IgnoredLimits,
}

impl Sabotage {
    /// The model would see these in the state of the engine. They are for the oracle, which must
    /// see them in the replies.
    pub(crate) fn is_for_oracle(self) -> bool {
        matches!(
            self,
            Self::ShortLeases
                | Self::WrongOrder
                | Self::RestlessJobs
                | Self::LostJobs
                | Self::MissedCopies
                | Self::LateExpiries
                | Self::IgnoredLimits
        )
    }
}

/// The error of a wrong clock, in milliseconds.
const WRONG_BY_MS: u64 = 700;

impl World {
    /// Loses, doubles or swaps events on their way.
    pub(crate) fn sabotage_events(&mut self) {
        let is_end = |event: &Event| matches!(event, Event::News { news, .. } if news.is_end());
        for events in &mut self.process.events {
            match self.options.sabotage {
                Sabotage::LostWakeUps => {
                    events.retain(|(_, event)| !matches!(event, Event::WorkToDo));
                }
                Sabotage::LostEnds => events.retain(|(_, event)| !is_end(event)),
                Sabotage::DoubledEnds => {
                    if let Some(last) = events.back().filter(|(_, event)| is_end(event)) {
                        events.push_back(last.clone());
                    }
                }
                Sabotage::DisorderedNews => {
                    let newest = events.make_contiguous().last_chunk_mut();
                    if let Some([(one, Event::News { .. }), (other, Event::News { .. })]) = newest
                        && one == other
                    {
                        let last = events.len() - 1;
                        events.swap(last - 1, last);
                    }
                }
                _ => {}
            }
        }
    }

    /// The time that the server uses.
    pub(crate) fn sabotaged_now(&self) -> u64 {
        match self.options.sabotage {
            Sabotage::FastClock => self.now + WRONG_BY_MS,
            Sabotage::SlowClock | Sabotage::LateExpiries => self.now.saturating_sub(WRONG_BY_MS),
            _ => self.now,
        }
    }

    /// When the server's timer fires. The timer of a slow server is slow, too.
    pub(crate) fn sabotaged_alarm(&self) -> Option<u64> {
        let is_slow = self.options.sabotage == Sabotage::LateExpiries;
        self.process.alarm.map(|alarm| if is_slow { alarm + WRONG_BY_MS } else { alarm })
    }

    /// Removes the jobs that a put created in children.
    pub(crate) fn sabotage_copies(&self, turn: &mut Turn<'_>) {
        if !matches!(self.options.sabotage, Sabotage::LostCopies | Sabotage::MissedCopies) {
            return;
        }
        let new = || self.model.jobs.iter().filter(|(_, job)| job.created == self.now);
        let is_in_parent = |(name, body): (&str, &[u8])| {
            let parent = name.split('+').next();
            new().any(|(_, job)| parent == Some(&*job.queue) && *job.body == *body)
        };
        let copies = new()
            .filter(|(_, job)| job.queue.contains('+') && is_in_parent((&job.queue, &job.body)));
        for (id, _) in copies {
            // The job can be gone already.
            turn.cancel(JobId(*id)).ok();
        }
    }

    /// Changes jobs without a client's request.
    pub(crate) fn sabotage_jobs(&self, turn: &mut Turn<'_>) {
        if !self.options.sabotage.is_for_oracle() {
            return;
        }
        for (id, job) in self.model.jobs.iter().filter(|(id, _)| **id % 3 == 0) {
            let id = JobId(*id);
            // Many jobs are in a state that does not allow it.
            match self.options.sabotage {
                Sabotage::ShortLeases => {
                    for link in self.links.iter().filter(|link| link.is_open) {
                        turn.give_back(link.id, id, 0, 0).ok();
                    }
                }
                Sabotage::WrongOrder => {
                    let thief = turn.open_session(0);
                    if job.state == State::Ready && turn.take_job(thief, id).is_ok() {
                        turn.give_back(thief, id, u32::MAX, 0).ok();
                    }
                    turn.close_session(thief);
                }
                Sabotage::RestlessJobs => drop(turn.kick_job(id).ok()),
                Sabotage::LostJobs => drop(turn.cancel(id).ok()),
                _ => {}
            }
        }
    }

    /// A connection is about to close.
    pub(crate) fn sabotage_leaving(&self, place: Place, turn: &mut Turn<'_>) {
        if self.options.sabotage == Sabotage::TakesAlong {
            let watched = self.model.jobs.iter().filter(|(_, job)| job.watchers.contains(&place));
            for (id, _) in watched {
                turn.cancel(JobId(*id)).expect("it is there");
            }
        }
    }
}

/// A disk whose files are never synced.
#[derive(Debug)]
pub(crate) struct LyingDisk(pub(crate) FaultDisk);

#[derive(Debug)]
struct LyingFile(Arc<dyn DiskFile>);

impl Disk for LyingDisk {
    fn folder(&self) -> String {
        self.0.folder()
    }

    fn lock(&self) -> io::Result<bool> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.0.sync_folder()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    fn copies_on_write(&self) -> bool {
        self.0.copies_on_write()
    }

    fn random(&self) -> io::Result<u64> {
        self.0.random()
    }
}

impl DiskFile for LyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn links(&self) -> io::Result<u64> {
        self.0.links()
    }
}
