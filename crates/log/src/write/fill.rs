//! Decides whether the next group fills for a moment before the committer writes it.
//!
//! A client that waits for its put sends the next one when the group with its put is durable. If
//! the committer wrote the next group at once, it would miss these clients: each of them would wait
//! for the sync in progress, and then for its own. If the committer lets the group fill until they
//! are back, each client waits for one sync, and for the clients before it.
//!
//! Let there be `n` such clients, let a sync take `s`, and let their entries arrive `g` apart. If
//! each group is written at once, it has `n / 2` entries, and takes `s`. If it first waits for `x`
//! entries, it has `(n + x) / 2` entries, and takes `s + x * g`. The rate grows with `x` if
//! `n * g < s`; otherwise it shrinks. So the rule is: **let the group fill until all clients are
//! back if this takes less time than a sync; otherwise write it at once.** The rule learns `n`, `s`
//! and `g` from the groups before. It has no clock: the committer passes all times.
//!
//! With only one processor, a group also takes processor time from the clients' entries: for its write,
//! its sync, and switches between threads. Let this be `w` for the write and the sync. A group that waits
//! for all clients saves the processor another group. So with one processor, a fill may take longer, by
//! `2 * w`: it is worth it if `n * g < s + 2 * w`.
//!
//! If no client waits for short single puts, but all send many at once, groups can take half of the
//! processor's time. So with one processor and without quiet clients, the rule adds: **if it does not wait
//! for all clients, and groups are large, let the group fill until the threads that serve clients have no
//! more work.** The processor does this work meanwhile. Otherwise, it would do it after the group.

use std::time::Duration;

/// A group fills for at most this part of a sync, and longer with one processor: `FILL_MAX.0 / FILL_MAX.1`.
const FILL_MAX: (u32, u32) = (3, 4);
/// With one processor, a fill may take longer by this many times the processor time of a group. Measured: groups
/// of 50 clients have 33 entries with 1, and 38 with 2, and the rate is higher: see docs/group-commit.md.
const WORK_WORTH: u32 = 2;
/// Parts of a whole, for `FillRule::share`.
const WHOLE: u64 = 16;
/// The largest number of groups that are written at once before the rule tries again.
const PAUSE_MAX: u32 = 64;
/// Groups are large if two of them have this many entries.
const LARGE: u64 = 100;
/// A group fills for at most this many syncs until the threads that serve clients have no more work. With more,
/// all clients of a pipeline would wait for the same group, and the processor for its sync.
const IDLE_FILL_MAX: u32 = 3;

/// How the next group fills.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fill {
    /// The group is full when this many entries wait.
    pub(crate) entries: u64,
    /// The group is written after this time, even if it is not full.
    pub(crate) time: Duration,
    /// The group is also written when the threads that serve clients have no more work.
    pub(crate) until_idle: bool,
}

/// What the committer knows when a group has become durable.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Synced {
    /// The number of entries of clients that became durable.
    pub(crate) released: u64,
    /// The number of entries of clients that arrived during the sync. They are in the next group.
    pub(crate) waiting: u64,
    /// How long the write and the sync took.
    pub(crate) time: Duration,
    /// The processor time of the write and the sync. Zero if the process has several processors.
    pub(crate) work: Duration,
    /// Whether large groups are better than short waits for single requests.
    pub(crate) prefers_large: bool,
}

/// The rule, and what it has learned: see the comment of the module.
#[derive(Debug)]
pub(crate) struct FillRule {
    /// The usual time of a sync.
    sync: Duration,
    /// The usual processor time of a write and a sync. Zero if the process has several processors.
    work: Duration,
    /// The time between two entries of clients that are coming back.
    gap: Duration,
    /// The part of the clients that come back at once, in `WHOLE` parts. Other clients pause.
    share: u64,
    /// The number of groups to write at once before the next try.
    pause: u32,
    /// The value of `pause` after the next try that fails.
    next_pause: u32,
    /// The newest group and its fill, if the committer waits for all clients.
    last: Option<(Synced, Fill)>,
}

impl Default for FillRule {
    fn default() -> FillRule {
        FillRule {
            sync: Duration::ZERO,
            work: Duration::ZERO,
            gap: Duration::ZERO,
            share: WHOLE,
            pause: 0,
            next_pause: 1,
            last: None,
        }
    }
}

impl FillRule {
    /// Called when a group has become durable. Returns how the next group fills. `None`: the
    /// committer writes the next group as soon as it has an entry.
    pub(crate) fn next(&mut self, synced: Synced) -> Option<Fill> {
        self.last = None;
        let usual = |so_far: Duration, new| match so_far {
            Duration::ZERO => new,
            so_far => (3 * so_far + new) / 4,
        };
        self.sync = usual(self.sync, synced.time);
        self.work = usual(self.work, synced.work);
        let entries = synced.waiting + (synced.released * self.share).div_ceil(WHOLE);
        // A lone client has nobody to wait for.
        if synced.released == 0 || entries <= 1 {
            return None;
        }
        // One long sync must not make many clients wait.
        let (sync, work) = (self.sync.min(synced.time), self.work.min(synced.work));
        if self.pause > 0 {
            self.pause -= 1;
            let is_large = synced.released + synced.waiting >= LARGE;
            // The bytes of the group limit its entries: see `Open::is_full`.
            let (entries, time) = (u64::MAX, sync * IDLE_FILL_MAX);
            let fill = Fill { entries, time, until_idle: true };
            return (synced.prefers_large && is_large).then_some(fill);
        }
        let time = sync * FILL_MAX.0 / FILL_MAX.1 + WORK_WORTH * work;
        let fill = Fill { entries, time, until_idle: false };
        self.last = Some((synced, fill));
        Some(fill)
    }

    /// Called when the group is taken, if its fill was not cut short: the number of entries that it has,
    /// and how long it filled.
    pub(crate) fn filled(&mut self, entries: u64, time: Duration) {
        let Some((synced, fill)) = self.last.take() else { return };
        let arrived = entries.saturating_sub(synced.waiting);
        let gap = time / u32::try_from(arrived.max(1)).unwrap_or(u32::MAX);
        self.gap = if self.gap.is_zero() { gap } else { (self.gap + gap) / 2 };
        let arrived_parts = (arrived * WHOLE / synced.released).min(WHOLE);
        if entries >= fill.entries {
            self.share = WHOLE.min(self.share + 1);
        } else {
            self.share = (self.share + arrived_parts).div_ceil(2);
        }
        let all = u32::try_from(synced.waiting + synced.released).unwrap_or(u32::MAX);
        if arrived == 0 || self.gap.saturating_mul(all) > self.sync + WORK_WORTH * self.work {
            self.pause = self.next_pause;
            self.next_pause = PAUSE_MAX.min(2 * self.next_pause);
            // At the next try, what the rule knows is old. So it learns again.
            (self.gap, self.share) = (Duration::ZERO, WHOLE);
        } else {
            self.next_pause = 1;
        }
    }
}

#[cfg(test)]
mod tests;
