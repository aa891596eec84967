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
//! its sync, and switches between threads. If clients send many puts at once, this is most of the work.
//! So with one processor, the rule adds: **if entries come too slowly to wait for all clients, and groups
//! are large, let the group fill while the processor has work and entries come.** Meanwhile, the processor
//! reads the puts of other clients. It would read them later if it first wrote the group.

use std::time::Duration;

/// A group fills for at most this part of a sync: `FILL_MAX.0 / FILL_MAX.1`.
const FILL_MAX: (u32, u32) = (3, 4);
/// Parts of a whole, for `FillRule::share`.
const WHOLE: u64 = 16;
/// The largest number of groups that are written at once before the rule tries again.
const PAUSE_MAX: u32 = 64;
/// Groups are large if two of them have this many entries. 50 clients that send one put at a time make
/// smaller groups. For these, a group with twice the entries takes nearly twice the processor time.
const LARGE: u64 = 100;
/// A group fills for at most this many syncs while the processor has work.
const BUSY_FILL_MAX: u32 = 3;
/// Meanwhile, the committer looks this often in the time of a sync. Such a fill ends if the processor was
/// idle for the time between two looks. So while nothing happens, an entry waits for less than a sync.
const LOOKS: u32 = 3;
/// It also ends if no entry came in this many looks, the time of a sync. A shorter time would end fills too
/// early: while the processor sends the replies of the last group, no entry comes.
pub(crate) const QUIET_LOOKS: u32 = LOOKS;

/// How the next group fills.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fill {
    /// The group is full when this many entries wait.
    pub(crate) entries: u64,
    /// The group is written after this time, even if it is not full.
    pub(crate) time: Duration,
    /// If set, the group fills only while the processor has work and entries come. This is the time between
    /// two looks at both.
    pub(crate) look: Option<Duration>,
}

/// What the committer knows when a group has become durable.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Synced {
    /// The number of entries of clients in the group.
    pub(crate) released: u64,
    /// The number of entries of clients that arrived during the sync. They are in the next group.
    pub(crate) waiting: u64,
    /// How long the write and the sync took.
    pub(crate) time: Duration,
}

/// The rule, and what it has learned: see the comment of the module.
#[derive(Debug)]
pub(crate) struct FillRule {
    /// The usual time of a sync.
    sync: Duration,
    /// The time between two entries of clients that are coming back.
    gap: Duration,
    /// The part of the clients that come back at once, in `WHOLE` parts. Other clients pause.
    share: u64,
    /// The pause between two fills that wait for all clients.
    pause: Pause,
    /// The newest group and its fill, if the committer waits for all clients.
    last: Option<(Synced, Fill)>,
    /// Whether the process has only one processor.
    one_processor: bool,
    /// The pause between two fills while the processor has work.
    busy_pause: Pause,
}

/// The pause after a fill that was not worth it. It doubles with each such fill, up to [`PAUSE_MAX`].
#[derive(Debug)]
struct Pause {
    /// The number of groups to write at once before the next try.
    left: u32,
    /// The value of `left` after the next try that fails.
    next: u32,
}

impl Pause {
    fn none() -> Pause {
        Pause { left: 0, next: 1 }
    }

    /// Called for each group. Returns whether it is written at once.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.left > 0;
        self.left = self.left.saturating_sub(1);
        goes_on
    }

    fn begin(&mut self) {
        self.left = self.next;
        self.next = PAUSE_MAX.min(2 * self.next);
    }
}

impl FillRule {
    /// A rule that has learned nothing. `one_processor`: whether the process has only one.
    pub(crate) fn new(one_processor: bool) -> FillRule {
        FillRule {
            sync: Duration::ZERO,
            gap: Duration::ZERO,
            share: WHOLE,
            pause: Pause::none(),
            last: None,
            one_processor,
            busy_pause: Pause::none(),
        }
    }

    /// Called when a group has become durable. Returns how the next group fills. `None`: the
    /// committer writes the next group as soon as it has an entry.
    pub(crate) fn next(&mut self, synced: Synced) -> Option<Fill> {
        self.last = None;
        self.sync =
            if self.sync.is_zero() { synced.time } else { (3 * self.sync + synced.time) / 4 };
        let entries = synced.waiting + (synced.released * self.share).div_ceil(WHOLE);
        // A lone client has nobody to wait for.
        if synced.released == 0 || entries <= 1 {
            return None;
        }
        // One long sync must not make many clients wait.
        let sync = self.sync.min(synced.time);
        if self.pause.goes_on() {
            let is_large = synced.released + synced.waiting >= LARGE;
            return if self.one_processor && is_large { self.while_busy(sync) } else { None };
        }
        let time = sync * FILL_MAX.0 / FILL_MAX.1;
        let fill = Fill { entries, time, look: None };
        self.last = Some((synced, fill));
        Some(fill)
    }

    /// A fill while the processor has work.
    fn while_busy(&mut self, sync: Duration) -> Option<Fill> {
        if self.busy_pause.goes_on() {
            return None;
        }
        let (time, look) = (sync * BUSY_FILL_MAX, Some(sync / LOOKS));
        // The bytes of the group limit its entries: see `Log::must_write`.
        Some(Fill { entries: u64::MAX, time, look })
    }

    /// Called when such a group is taken, if its fill was not cut short. `pays`: whether the processor had
    /// work, and entries came, until the group was full or the time was over.
    pub(crate) fn filled_while_busy(&mut self, pays: bool) {
        if pays {
            self.busy_pause = Pause::none();
        } else {
            self.busy_pause.begin();
        }
    }

    /// Called when another group is taken, if its fill was not cut short: the number of entries that it
    /// has, and how long it filled.
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
        if arrived == 0 || self.gap.saturating_mul(all) > self.sync {
            self.pause.begin();
            // At the next try, what the rule knows is old. So it learns again.
            (self.gap, self.share) = (Duration::ZERO, WHOLE);
        } else {
            self.pause = Pause::none();
        }
    }
}

#[cfg(test)]
mod tests;
