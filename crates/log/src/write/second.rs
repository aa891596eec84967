//! The second committer: while the first one syncs a group, it writes and syncs the next one for a quiet
//! client. docs/group-commit.md says which rules keep the promises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::background::mark_as_urgent;
use crate::disk::DiskFile;
use crate::error::Failure;
use crate::log::Log;
use crate::settings::Sync;
use crate::types::Committed;
use crate::write::commit::{Begun, Commit};
use crate::write::committer::Clock;

impl Log {
    /// Called after an append and [`Log::wake`], if a quiet client waits for the entries, and there are busy
    /// clients, too. If a sync is in progress, the second committer writes and syncs the entries at once. So their
    /// own sync does not begin only when this one has ended.
    pub fn hurry(&self) {
        // Often the first committer has taken the entries already.
        let has_waiting = || {
            let open = self.open_batch();
            open.waiting() > 0 && open.gate().is_none()
        };
        if self.sync == Sync::Always && has_waiting() && self.syncs.hurry() {
            self.second_committer.wake();
        }
    }

    /// What the second committer does after a hurry: writes the waiting entries and syncs them, while a sync
    /// of the first committer is in progress. If there is none, it does nothing, because the first committer can
    /// take the entries. It also does nothing behind a gate, or if the next segment must begin: only the first
    /// committer does that. Only one thread may call this function.
    pub fn commit_beside(&self, now_ms: u64) -> Result<Committed, Failure> {
        let mut commit = self.lock_commit();
        let (done, begun) =
            self.begin_beside(&mut commit, now_ms).map_err(|failure| self.fail(failure))?;
        drop(commit);
        let Some(begun) = begun else { return Ok(done) };
        let released = self.end_sync(begun)?;
        if self.prepare_wanted() {
            self.helper.wake();
        }
        Ok(Committed { synced: true, released, ..done })
    }

    fn begin_beside(
        &self,
        commit: &mut Commit,
        now_ms: u64,
    ) -> Result<(Committed, Option<Begun<'_>>), Failure> {
        self.check()?;
        let nothing = (Committed::default(), None);
        let has_entries = self.open_batch().waiting() > 0;
        if !has_entries || !self.syncs.are_running() || !commit.held.is_empty() {
            return Ok(nothing);
        }
        let Some(file) = self.second_handle(commit) else { return Ok(nothing) };
        let (before, head) = (commit.previous_end, commit.head.number);
        let entries = self.take_batch(commit, now_ms, |open| open.take_within(head));
        while let Some(part) = commit.held.pop_front() {
            self.write(commit, part, now_ms)?;
        }
        if !self.note_written(commit, before, entries) {
            return Ok(nothing);
        }
        let begun = self.begin_sync(commit, file, entries, now_ms);
        Ok((Committed { wrote: true, entries, ..Committed::default() }, Some(begun)))
    }

    /// The second committer's own handle of the head segment. The kernel reports a failed write once for each
    /// handle, so each committer learns of it. `None`: it could not be opened, so there is no second sync.
    pub(crate) fn second_handle(&self, commit: &mut Commit) -> Option<Arc<dyn DiskFile>> {
        if commit.second_handle.is_none() {
            commit.second_handle = self.segments.open(commit.head.number).ok();
        }
        commit.second_handle.clone()
    }
}

/// Waits for hurries until `stop` is true or the log fails.
pub(super) fn second_loop(log: &Log, stop: &AtomicBool, clock: &Clock) {
    mark_as_urgent();
    log.second_committer.register();
    while !stop.load(Ordering::SeqCst) {
        if log.syncs.take_hurry() && log.commit_beside(clock()).is_err() {
            return;
        }
        log.second_committer.sleep(stop, || (!log.syncs.is_hurried()).then_some(Duration::MAX));
    }
}
