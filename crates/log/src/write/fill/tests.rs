//! Tests of the rule, with a simulated server and simulated clients.

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

/// More entries than this do not fit into a group.
const ENTRIES_MAX: u64 = 900;

/// A simulation of clients that wait for each put, and of a server with one processor. The
/// times are in microseconds.
#[derive(Debug)]
struct World {
    now: u64,
    /// The processor's time for a put.
    service: u64,
    /// The processor's time for a group.
    group: u64,
    /// When the processor is free.
    free_at: u64,
    /// Whether the rule learns the processor's time for a group.
    one_processor: bool,
    /// Whether there are no quiet clients.
    prefers_large: bool,
    /// How long the processor has worked for puts.
    worked: u64,
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
        World {
            now: 0,
            service,
            group: 0,
            free_at: 0,
            one_processor: false,
            prefers_large: false,
            worked: 0,
            coming,
            waiting: Vec::new(),
            filled: 0,
            durable: 0,
        }
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
            self.worked += self.service;
            self.waiting.push(pause);
        }
    }

    /// Lets a group fill.
    fn fill(&mut self, fill: Fill) {
        let entries = fill.entries.min(ENTRIES_MAX) as usize;
        let until = self.now + fill.time.as_micros() as u64;
        if !fill.until_idle {
            self.run(until, entries);
            return;
        }
        // Until the processor has no more work.
        while self.waiting.len() < entries {
            let free_at = self.free_at.max(self.now);
            let has_work = self.coming.peek().is_some_and(|Reverse((at, _))| *at <= free_at);
            match self.next_append() {
                Some(at) if has_work && at <= until => self.run(at, entries),
                _ => return,
            }
        }
    }

    /// Commits this many groups, each with this time for its sync. Returns the puts per second.
    fn commit(&mut self, policy: &mut Policy, groups: usize, sync: u64) -> f64 {
        let (begin, durable) = (self.now, self.durable);
        for _ in 0..groups {
            self.run(u64::MAX, 1);
            let group = std::mem::take(&mut self.waiting);
            if self.group > 0 {
                self.free_at = self.free_at.max(self.now) + self.group;
            }
            self.run(self.now + sync.max(self.group), usize::MAX);
            let released = group.len() as u64;
            self.durable += released;
            for pause in group {
                self.coming.push(Reverse((self.now + pause, pause)));
            }
            let synced = Synced {
                released,
                waiting: self.waiting.len() as u64,
                time: Duration::from_micros(sync),
                work: Duration::from_micros(if self.one_processor { self.group } else { 0 }),
                prefers_large: self.prefers_large,
            };
            let fill = match policy {
                Policy::Never => None,
                Policy::Always => {
                    let entries = released + synced.waiting;
                    Some(Fill { entries, time: Duration::from_secs(1), until_idle: false })
                }
                Policy::Rule(rule) => rule.next(synced),
            };
            let Some(fill) = fill else { continue };
            let (since, worked) = (self.now, self.worked);
            self.fill(fill);
            let time = self.now - since;
            self.filled += time;
            let Policy::Rule(rule) = policy else { continue };
            assert!(fill.entries > 1, "a group with one entry is full at once");
            let waited = if fill.until_idle {
                time.saturating_sub(self.worked - worked)
            } else {
                rule.filled(self.waiting.len() as u64, Duration::from_micros(time));
                time
            };
            let waited_max = sync * 3 / 4 + 2 * synced.work.as_micros() as u64;
            assert!(waited <= waited_max, "{waited} us of waiting beside a sync of {sync} us");
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

/// 50 clients need 250 or 300 us to come back, and a sync takes 230 us. For 90 us of these, the processor
/// has work.
#[test]
fn on_one_processor_clients_wait_for_a_group_that_saves_it_another_one() {
    for service in [5, 6] {
        let [several, one] = [false, true].map(|one_processor| {
            let mut world = World::new(service, vec![0; 50]);
            (world.group, world.one_processor) = (90, one_processor);
            let rate = world.commit(&mut rule(), 2000, 230);
            (rate, world.durable as f64 / 2000.0)
        });
        assert!(one.0 > several.0, "{service} us: {:.0}/s instead of {:.0}/s", one.0, several.0);
        assert!(one.1 > 1.5 * several.1, "{service} us: {one:?} instead of {several:?}");
    }
}

/// Pipelines with 1,600 puts in all. A group takes the processor 160 us.
#[test]
fn without_quiet_clients_groups_fill_until_the_processor_has_no_work() {
    for (service, sync) in [(1, 200), (1, 270), (2, 300)] {
        let [mixed, alike] = [false, true].map(|prefers_large| {
            let mut world = World::new(service, vec![0; 1600]);
            (world.group, world.one_processor, world.prefers_large) = (160, true, prefers_large);
            world.commit(&mut rule(), 2000, sync)
        });
        assert!(
            alike > 1.15 * mixed,
            "{service} us, {sync} us: {alike:.0}/s instead of {mixed:.0}/s"
        );
    }
}

#[test]
fn clients_of_an_idle_processor_do_not_wait_long() {
    // In each sync of 5 ms, about 500 puts arrive. They take 10 % of the processor's time.
    let [mixed, alike] = [false, true].map(|prefers_large| {
        let mut world = World::new(1, (0..10_000).map(|client| 50_000 + 10 * client));
        (world.one_processor, world.prefers_large) = (true, prefers_large);
        world.commit(&mut rule(), 5000, 5000);
        world.filled as f64 / world.now as f64
    });
    assert!(alike < mixed + 0.02, "{alike:.3} of the time went into filling, not {mixed:.3}");
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
    for (one_processor, share_max) in [(false, 0.04), (true, 0.06)] {
        let mut world = World::new(8, (0..50).map(|client| 5000 + 331 * client));
        (world.group, world.one_processor) = (90, one_processor);
        world.commit(&mut rule(), 5000, 1000);
        let share = world.filled as f64 / world.now as f64;
        assert!(share < share_max, "{share:.3} of the time went into filling");
    }
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
    // After one long sync, or one that takes much processor time, the next group fills no longer than
    // before.
    let mut rule = FillRule::default();
    let mut next = |time, work| {
        let [time, work] = [time, work].map(Duration::from_micros);
        let synced = Synced { released: 50, waiting: 0, time, work, prefers_large: false };
        let fill = rule.next(synced).expect("the group before filled in time");
        rule.filled(50, Duration::from_micros(40));
        fill.time.as_micros()
    };
    let usual = (0..20).map(|_| next(200, 30)).max();
    next(1_000_000, 1_000_000);
    assert_eq!((usual, next(200, 30)), (Some(210), 210));
}
