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

use std::time::Duration;

/// A group fills for at most this part of a sync: `FILL_MAX.0 / FILL_MAX.1`.
const FILL_MAX: (u32, u32) = (3, 4);
/// Parts of a whole, for `FillRule::share`.
const WHOLE: u64 = 16;
/// The largest number of groups that are written at once before the rule tries again.
const PAUSE_MAX: u32 = 64;

/// How the next group fills.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fill {
    /// The group is full when this many entries wait.
    pub(crate) entries: u64,
    /// The group is written after this time, even if it is not full.
    pub(crate) time: Duration,
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
    /// The number of groups to write at once before the next try.
    pause: u32,
    /// The value of `pause` after the next try that fails.
    next_pause: u32,
    /// The newest group and its fill.
    last: Option<(Synced, Fill)>,
}

impl Default for FillRule {
    fn default() -> FillRule {
        FillRule {
            sync: Duration::ZERO,
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
        self.sync =
            if self.sync.is_zero() { synced.time } else { (3 * self.sync + synced.time) / 4 };
        let entries = synced.waiting + (synced.released * self.share).div_ceil(WHOLE);
        // A lone client has nobody to wait for.
        if synced.released == 0 || entries <= 1 {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        // One long sync must not make many clients wait.
        let sync = self.sync.min(synced.time);
        let fill = Fill { entries, time: sync * FILL_MAX.0 / FILL_MAX.1 };
        self.last = Some((synced, fill));
        Some(fill)
    }

    /// Called when the group is taken, if the fill was not cut short: the number of entries that it has, and how long
    /// it filled.
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
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    /// When the simulated committer lets a group fill.
    #[derive(Debug)]
    enum Policy {
        /// Never.
        Never,
        /// Until all clients of the last group are back.
        Always,
        Rule(FillRule),
    }

    /// A simulation of clients that wait for each put, and of a server with one processor. The
    /// times are in microseconds.
    #[derive(Debug)]
    struct World {
        now: u64,
        /// The processor's time for a put.
        service: u64,
        /// When the processor is free.
        free_at: u64,
        /// Puts on the way to the server: when they arrive, and how long their client pauses after
        /// each reply.
        coming: BinaryHeap<Reverse<(u64, u64)>>,
        /// The pauses of the clients of the open batch.
        waiting: Vec<u64>,
        /// The total time of fills.
        filled: u64,
        durable: u64,
    }

    impl World {
        /// Each client pauses for its time after each reply.
        fn new(service: u64, pauses: impl IntoIterator<Item = u64>) -> World {
            let coming = pauses.into_iter().map(|pause| Reverse((pause, pause))).collect();
            let waiting = Vec::new();
            World { now: 0, service, free_at: 0, coming, waiting, filled: 0, durable: 0 }
        }

        /// When the next put is in the open batch.
        fn next_append(&self) -> Option<u64> {
            let Reverse((at, _)) = self.coming.peek()?;
            Some(self.free_at.max(*at) + self.service)
        }

        /// Runs until the time, or until this many puts wait.
        fn run(&mut self, until: u64, full_at: usize) {
            while self.waiting.len() < full_at {
                let Some(at) = self.next_append().filter(|at| *at <= until) else {
                    self.now = until;
                    return;
                };
                let Some(Reverse((_, pause))) = self.coming.pop() else { return };
                (self.now, self.free_at) = (self.now.max(at), at);
                self.waiting.push(pause);
            }
        }

        /// Commits this many groups, each with this time for its sync. Returns the puts per second.
        fn commit(&mut self, policy: &mut Policy, groups: usize, sync: u64) -> f64 {
            let (begin, durable) = (self.now, self.durable);
            for _ in 0..groups {
                self.run(u64::MAX, 1);
                let group = std::mem::take(&mut self.waiting);
                self.run(self.now + sync, usize::MAX);
                let released = group.len() as u64;
                self.durable += released;
                for pause in group {
                    self.coming.push(Reverse((self.now + pause, pause)));
                }
                let synced = Synced {
                    released,
                    waiting: self.waiting.len() as u64,
                    time: Duration::from_micros(sync),
                };
                let fill = match policy {
                    Policy::Never => None,
                    Policy::Always => {
                        let entries = released + synced.waiting;
                        Some(Fill { entries, time: Duration::from_secs(1) })
                    }
                    Policy::Rule(rule) => rule.next(synced),
                };
                let Some(fill) = fill else { continue };
                let since = self.now;
                self.run(self.now + fill.time.as_micros() as u64, fill.entries as usize);
                let time = self.now - since;
                self.filled += time;
                if let Policy::Rule(rule) = policy {
                    assert!(fill.entries > 1, "a group with one entry is full at once");
                    rule.filled(self.waiting.len() as u64, Duration::from_micros(time));
                    assert!(
                        time <= sync * 3 / 4,
                        "{time} us of filling beside a sync of {sync} us"
                    );
                }
            }
            (self.durable - durable) as f64 * 1e6 / (self.now - begin) as f64
        }
    }

    fn rule() -> Policy {
        Policy::Rule(FillRule::default())
    }

    /// The rate of clients that never pause.
    fn rate(mut policy: Policy, clients: usize, sync: u64) -> f64 {
        World::new(8, vec![0; clients]).commit(&mut policy, 2000, sync)
    }

    /// If both choices are nearly equal, the limit of a fill and the tries cost a few percent.
    #[test]
    fn the_rate_is_nearly_that_of_the_better_choice_for_any_disk() {
        for clients in [1, 2, 3, 10, 50, 500] {
            for sync in [20, 50, 150, 300, 500, 1000, 5000, 20_000] {
                let (never, always) =
                    (rate(Policy::Never, clients, sync), rate(Policy::Always, clients, sync));
                let ruled = rate(rule(), clients, sync);
                let best = never.max(always);
                assert!(
                    ruled >= 0.85 * best,
                    "{clients} clients, {sync} us: {ruled:.0}/s; never {never:.0}, always {always:.0}"
                );
            }
        }
    }

    #[test]
    fn clients_of_a_slow_disk_wait_for_one_sync_instead_of_two() {
        // 50 clients need 400 us to come back.
        assert!(rate(rule(), 50, 5000) > 1.8 * rate(Policy::Never, 50, 5000));
        assert!(rate(rule(), 50, 1000) > 1.4 * rate(Policy::Never, 50, 1000));
        assert!(rate(rule(), 2, 150) > 1.7 * rate(Policy::Never, 2, 150));
    }

    #[test]
    fn a_lone_client_waits_for_nothing() {
        let mut world = World::new(8, [0]);
        world.commit(&mut rule(), 1000, 1000);
        assert_eq!(world.filled, 0);
    }

    #[test]
    fn clients_that_pause_hold_up_nobody_for_long() {
        // Some clients come back after ten syncs. The others do not wait for them.
        let pauses = || (0..50).map(|client| if client < 10 { 10_000 } else { 0 });
        let [never, ruled] = [Policy::Never, rule()]
            .map(|mut policy| World::new(8, pauses()).commit(&mut policy, 5000, 1000));
        assert!(ruled > 1.3 * never, "{ruled:.0}/s; never {never:.0}/s");
        // All clients pause for longer than a sync.
        let mut world = World::new(8, (0..50).map(|client| 5000 + 331 * client));
        world.commit(&mut rule(), 5000, 1000);
        let share = world.filled as f64 / world.now as f64;
        assert!(share < 0.04, "{share:.3} of the time went into filling");
    }

    #[test]
    fn the_rule_follows_a_disk_that_changes_its_speed() {
        let (mut world, mut policy) = (World::new(8, vec![0; 50]), rule());
        for sync in [150, 2000, 150, 2000] {
            world.commit(&mut policy, 100, sync);
            let changed = world.commit(&mut policy, 500, sync);
            let best = rate(Policy::Never, 50, sync).max(rate(Policy::Always, 50, sync));
            assert!(changed >= 0.9 * best, "{sync} us: {changed:.0}/s of {best:.0}/s");
        }
        // After one long sync, the next group fills no longer than before.
        let mut rule = FillRule::default();
        let mut next = |time| {
            let synced = Synced { released: 50, waiting: 0, time: Duration::from_micros(time) };
            let fill = rule.next(synced).expect("the group before filled in time");
            rule.filled(50, Duration::from_micros(40));
            fill.time.as_micros()
        };
        let usual = (0..20).map(|_| next(200)).max();
        next(1_000_000);
        assert_eq!((usual, next(200)), (Some(150), 150));
    }
}
