//! Time, and slices of work.

use std::sync::atomic::Ordering;

use engine::Millis;

use crate::Turn;

/// # Time and work
impl Turn<'_> {
    /// The moment of this turn.
    pub fn now(&self) -> Millis {
        self.core.engine.now()
    }

    /// Reports that the wall clock showed `wall` at `moment`. The owner of the clock calls this
    /// regularly. If somebody set the wall clock, the engine moves all times that refer to the wall
    /// clock, in slices. Delays and deadlines do not change. Returns false if the log had no room
    /// for the change. Then call this function again later.
    pub fn set_wall(&mut self, moment: Millis, wall: Millis) -> bool {
        if self.core.ledger.follows() {
            return true;
        }
        self.core.engine.set_wall_ahead(wall.ahead_of(moment));
        self.core.log_wall_clock()
    }

    /// The wall clock's time at this moment, computed from the last [`Turn::set_wall`].
    pub fn wall_at(&self, moment: Millis) -> Millis {
        self.core.engine.wall_at(moment)
    }

    /// Does due work, up to one slice. Returns true if more work is due. Then serve other sessions,
    /// take a new turn, and call `advance` again.
    pub fn advance(&mut self) -> bool {
        let core = &mut *self.core;
        core.alarm = None;
        if core.ledger.follows() {
            // The leader decides what is due.
            return false;
        }
        core.engine.hold_chores(self.shared.writes_behind());
        if core.engine.has_chores() {
            let lacks_room = core.lacks_room(core.engine.kick_jobs_max(), |_| true);
            core.engine.end_kicks(lacks_room);
        }
        if core.engine.has_crons() {
            core.engine.hold_crons(!self.shared.admits_crons(core));
        }
        let more = core.engine.advance(&mut core.effects);
        core.apply_effects();
        more
    }

    /// The owner of the first mailbox must call this when it has got an alarm: see
    /// `Mailbox::alarm`. The end of this turn then sends the next alarm. The owner need not call
    /// `advance`, because the beginning of the turn has already done a slice of the due work.
    pub fn set_alarm_again(&mut self) {
        self.core.alarm = None;
    }

    /// Does due work, as each turn does at its beginning. So statistics after this call do not
    /// depend on where one turn ends and the next begins.
    pub fn catch_up(&mut self) {
        let now = self.now();
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.advance();
        }
    }

    /// The next moment at which [`Turn::advance`] must be called.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.core.engine.next_deadline()
    }

    /// The factor by which the thread should rest longer after this turn than the turn took: 0 in
    /// almost all cases. It is more in two cases. The turn has put jobs, the records of jobs exceed
    /// their limit of memory, and the upkeep is behind: clients put jobs faster than jobs can become
    /// cold. Or the turn has appended to the log, and reclaim is behind: the log grows faster than
    /// reclaim can free it. The rests slow the clients of the thread down until both are equally
    /// fast. The more threads there are, the longer each of them rests, so that the work in the
    /// background gets the lock.
    pub fn rests(&self) -> u32 {
        let upkeep = self.shared.upkeep_rests.load(Ordering::Relaxed);
        let reclaim = self.shared.reclaim_rests.load(Ordering::Relaxed);
        if upkeep == 0 && reclaim == 0 {
            return 0;
        }
        let has_put = self.core.engine.record_bytes() > self.records_before;
        let for_upkeep = if has_put { upkeep } else { 0 };
        let for_reclaim = if self.core.ledger.appended { reclaim } else { 0 };
        let threads = self.shared.io_mailboxes.load(Ordering::Relaxed).max(1) as u32;
        for_upkeep.max(for_reclaim) * threads
    }

    /// Whether the turn has appended entries to the log.
    pub fn has_appended(&self) -> bool {
        self.core.ledger.appended
    }

    /// Makes slices short, or as long as usual: see [`engine::Engine::use_short_slices`]. This lasts
    /// until the next call, and also applies to turns of other threads.
    pub fn use_short_slices(&mut self, are_short: bool) {
        self.core.engine.use_short_slices(are_short);
    }

    /// Begins a slice of work; see [`Turn::slice_is_spent`].
    pub fn begin_slice(&mut self) {
        self.core.engine.begin_slice();
    }

    /// Whether the slice is used up. If it is, serve other sessions before the next request. A long
    /// request that has begun continues in a later slice.
    pub fn slice_is_spent(&self) -> bool {
        self.core.engine.slice_is_spent()
    }

    /// The number of units in the longest slice of work of all turns so far: see
    /// [`engine::Engine::longest_slice`].
    pub fn longest_slice(&self) -> u64 {
        self.core.engine.longest_slice()
    }

    /// See [`engine::Engine::has_held_chores`].
    pub fn has_held_chores(&self) -> bool {
        self.core.engine.has_held_chores()
    }

    /// See [`engine::Engine::has_chores`].
    pub fn has_chores(&self) -> bool {
        self.core.engine.has_chores()
    }

    /// Counts units of work of this turn that the engine does not count itself.
    pub fn count_work(&mut self, units: usize) {
        self.core.engine.count_work(units);
    }

    /// Whether some news has not yet been sent to all of its watchers. See
    /// [`Turn::send_more_news`].
    pub fn has_pending_news(&self) -> bool {
        self.core.engine.has_pending_news()
    }

    /// Sends a slice of the pending news. Returns true if more news is left. If no caller sends it,
    /// a timer of the engine sends it later.
    pub fn send_more_news(&mut self) -> bool {
        let core = &mut *self.core;
        let is_left = core.engine.send_more_news(&mut core.effects);
        core.apply_effects();
        is_left
    }
}
