//! The steps of the log's threads, and the end of a process whose log failed.

use broker::Millis;
use log::ReclaimError;

use super::World;
use crate::Checked;
use crate::machine::cluster::Cluster;
use crate::machine::storage::CrashKind;
use crate::plan::StorageKind;

/// In runs with cold jobs, one of this many rounds of the log's threads begins a segment.
const SEALS_ONE_IN: u64 = 6;

impl World {
    pub(crate) fn is_durable(&self) -> bool {
        self.plan.storage != StorageKind::Memory
    }

    /// Runs one round of the committer.
    pub(crate) fn commit(&mut self) -> Checked {
        if self.cluster.as_ref().is_some_and(Cluster::is_disk_slow) {
            return Ok(());
        }
        let before = self.process.broker.released();
        let done = self.process.broker.commit_step(Millis(self.now));
        self.model.history.end_group(self.now);
        self.trace.note(format_args!("commit {done:?} disk {}", self.storage.disk.calls()));
        if self.is_durable()
            && let Ok(committed) = done
        {
            let released = self.process.broker.released();
            self.storage.committed(self.now, &self.model.history, committed, released)?;
            self.release_moves(released)?;
        }
        let notified = self
            .process
            .mailboxes
            .iter()
            .all(|mailbox| std::mem::take(&mut mailbox.open().released));
        if done.is_ok() && self.process.broker.released() != before && !notified {
            return Err("replies were released and no thread was notified".into());
        }
        self.note_durable()?;
        self.cool()?;
        self.look_for_failure()
    }

    pub(crate) fn prepare(&mut self) -> Checked {
        let done = self.process.broker.prepare_step();
        self.trace.note(format_args!("prepare {done:?} disk {}", self.storage.disk.calls()));
        if done.is_ok() && !self.storage.is_full && !self.storage.was_disturbed() {
            // The log has room again. From now on, the broker must accept requests that need room.
            self.model.may_refuse = false;
        }
        self.look_for_failure()
    }

    /// Copies one slice of the oldest segment, if the log requests it. Returns whether it copied a
    /// slice.
    pub(crate) fn reclaim(&mut self) -> Result<bool, String> {
        // The copy takes its own turn. Before each turn, due work must be done.
        self.ring()?;
        let has_loaded = self.process.broker.load_step(Millis(self.now));
        self.summary.loads += u64::from(has_loaded);
        self.cool()?;
        let done = self.process.broker.reclaim_step(Millis(self.now));
        self.trace.note(format_args!("reclaim {done:?}"));
        if let Some(cluster) = &mut self.cluster {
            cluster.turned();
        }
        let copied = match done {
            Ok(copied) => copied,
            // The log keeps a segment that it cannot read, and the service continues.
            Err(ReclaimError::Read { .. } | ReclaimError::Left { .. })
                if self.storage.was_disturbed() =>
            {
                false
            }
            Err(error) => return Err(format!("reclaim: {error}")),
        };
        self.summary.reclaimed += u64::from(copied);
        self.look_for_failure()?;
        Ok(copied)
    }

    /// Loads the cold jobs and the bodies that sessions and queues wait for.
    pub(crate) fn load(&mut self) -> Checked {
        self.ring()?;
        let has_loaded = self.process.broker.load_step(Millis(self.now));
        self.trace.note(format_args!("load {has_loaded}"));
        self.summary.loads += u64::from(has_loaded);
        self.collect_notifications()
    }

    /// Begins a segment, builds an index file, or makes jobs cold, in runs with a limit for records
    /// of jobs.
    fn cool(&mut self) -> Checked {
        if self.plan.jobs_bytes_max.is_none() {
            return Ok(());
        }
        let has_room = !self.storage.is_full && !self.process.broker.congested();
        if has_room && !self.settles && self.rng.one_in(SEALS_ONE_IN) {
            // Few segments of a simulation become full, and only earlier segments have an index.
            let sealed = self.process.broker.seal_step(Millis(self.now));
            self.trace.note(format_args!("sealed {sealed}"));
            return self.prepare();
        }
        if self.rng.one_in(3) {
            let built = self.process.broker.index_step();
            self.trace.note(format_args!("index {built:?} disk {}", self.storage.disk.calls()));
            let is_built = match built {
                Ok(is_built) => is_built,
                // The log keeps the jobs of the segment in memory.
                Err(_) if self.storage.was_disturbed() || self.storage.is_full => false,
                Err(error) => return Err(format!("an index: {error}")),
            };
            self.summary.indexes += u64::from(is_built);
        } else {
            let before = self.process.broker.cold_jobs();
            while self.process.broker.cool_step(Millis(self.now)) {}
            let after = self.process.broker.cold_jobs();
            self.trace.note(format_args!("{after} cold jobs"));
            self.summary.cooled += after.saturating_sub(before);
        }
        self.look_for_failure()
    }

    /// If the log failed, ends the process. A planned fault must be the reason for the failure.
    fn look_for_failure(&mut self) -> Checked {
        if self.is_durable() && self.storage.disk.has_crashed() {
            return self.crash(CrashKind::PowerLoss);
        }
        let Some(failure) = self.process.broker.failure() else { return Ok(()) };
        if !self.storage.was_disturbed() {
            return Err(format!("the log failed without a fault: {failure}"));
        }
        self.summary.failures += 1;
        // The process can take some more steps before it ends. Only replies that were released
        // before the failure can still be sent.
        let released = self.storage.released(&self.process.broker);
        for _ in 0..self.rng.below(4) {
            self.any_client_step()?;
        }
        self.process.broker.commit_step(Millis(self.now)).expect_err("a failure is final");
        if self.storage.released(&self.process.broker) != released {
            return Err("replies were released after the log had failed".into());
        }
        let kind = match self.rng.below(2) {
            0 => CrashKind::Killed,
            _ => CrashKind::PowerLoss,
        };
        self.crash(kind)
    }
}
