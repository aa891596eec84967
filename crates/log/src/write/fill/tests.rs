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

    /// Lets a group fill. Returns false if the processor had no work, or no entry came.
    fn fill(&mut self, fill: Fill) -> bool {
        let entries = fill.entries.min(ENTRIES_MAX) as usize;
        let (since, worked) = (self.now, self.worked);
        let until = since + fill.time.as_micros() as u64;
        let look = fill.look.map_or(u64::MAX, |look| look.as_micros() as u64);
        let mut quiet_looks = 0;
        while self.now < until && self.waiting.len() < entries {
            let waiting = self.waiting.len();
            self.run(until.min(self.now.saturating_add(look)), entries);
            let idle = (self.now - since).saturating_sub(self.worked - worked);
            quiet_looks = if self.waiting.len() == waiting { quiet_looks + 1 } else { 0 };
            if fill.look.is_some() && (quiet_looks == QUIET_LOOKS || idle >= look) {
                return false;
            }
        }
        true
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
            };
            let fill = match policy {
                Policy::Never => None,
                Policy::Always => {
                    let entries = released + synced.waiting;
                    Some(Fill { entries, time: Duration::from_secs(1), look: None })
                }
                Policy::Rule(rule) => rule.next(synced),
            };
            let Some(fill) = fill else { continue };
            let (since, worked) = (self.now, self.worked);
            let pays = self.fill(fill);
            let time = self.now - since;
            self.filled += time;
            let Policy::Rule(rule) = policy else { continue };
            assert!(fill.entries > 1, "a group with one entry is full at once");
            let waited = if fill.look.is_some() {
                rule.filled_while_busy(pays);
                time.saturating_sub(self.worked - worked)
            } else {
                rule.filled(self.waiting.len() as u64, Duration::from_micros(time));
                time
            };
            assert!(waited <= sync * 3 / 4, "{waited} us of waiting beside a sync of {sync} us");
        }
        (self.durable - durable) as f64 * 1e6 / (self.now - begin) as f64
    }
}

fn rule() -> Policy {
    Policy::Rule(FillRule::new(false))
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

/// The rate of pipelines with 1,600 puts in all, if a group takes the processor 160 us.
fn rate_of_pipelines(mut policy: Policy, service: u64, sync: u64) -> f64 {
    let mut world = World::new(service, vec![0; 1600]);
    world.group = 160;
    world.commit(&mut policy, 2000, sync)
}

#[test]
fn on_one_processor_groups_of_pipelines_fill_while_it_has_work() {
    for (service, sync) in [(1, 270), (1, 400), (2, 300)] {
        let never = rate_of_pipelines(Policy::Never, service, sync);
        let [several, one] = [false, true].map(|one_processor| {
            let policy = Policy::Rule(FillRule::new(one_processor));
            rate_of_pipelines(policy, service, sync)
        });
        assert!(
            one > 1.25 * never && one > 1.25 * several,
            "{service} us, {sync} us: {one:.0}/s; never {never:.0}/s, with several {several:.0}/s"
        );
    }
}

#[test]
fn on_one_processor_clients_of_an_idle_server_do_not_wait_long() {
    // In each sync of 5 ms, about 500 puts arrive. They take 10 % of the processor's time.
    let [several, one] = [false, true].map(|one_processor| {
        let pauses = (0..10_000).map(|client| 50_000 + 10 * client);
        let mut policy = Policy::Rule(FillRule::new(one_processor));
        let mut world = World::new(1, pauses);
        world.commit(&mut policy, 5000, 5000);
        world.filled as f64 / world.now as f64
    });
    assert!(one < several + 0.02, "{one:.3} of the time went into filling, not {several:.3}");
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
    let mut rule = FillRule::new(false);
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
