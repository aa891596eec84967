//! The delivery rule, tried exhaustively in a small world: two queues, up to three keys, up to four
//! jobs, and every order of requests up to a depth. After each step, the engine must have done what
//! the specification says, which is written without the engine. No wake-up may be lost, also at the
//! moment when a timer is due and has not looked yet.
//!
//! The engine cannot be copied. So each state has the path of requests that leads to it, and a trial
//! makes these requests again. Paths that lead to equal states are one path from there on: see
//! [`Trial::state_text`]. `LINESHAFT_ROUNDS=2` tries two requests more than the tests usually do.

mod specification;
mod trial;

use std::collections::BTreeSet;

use specification::{Aging, Limits, QUEUES, Rate, Share, Slots, State};
use trial::{Node, Step, Tally, Trial};

const DELAY_MS: u64 = 2000;
const PAUSE_MS: u64 = 2000;

/// What is tried.
#[derive(Clone, Debug)]
struct Scenario {
    /// The policies of both queues. A reload goes from one to the next.
    policies: Vec<[Limits; QUEUES]>,
    sessions: usize,
    /// The number of jobs that are there at one time.
    jobs_max: usize,
    keys: usize,
    priorities: u32,
    /// 0: leases do not end by themselves.
    ttr_ms: u64,
    /// Whether jobs are put with a delay, too.
    delays: bool,
    /// Whether clients pause queues.
    pauses: bool,
    /// Whether clients take jobs by their numbers.
    by_number: bool,
    /// Whether the sessions are workers that sleep and are woken, as in Gearman.
    has_workers: bool,
    /// Whether each job wakes one worker. Otherwise it wakes all workers.
    wakes_one: bool,
    /// The number of requests and moments.
    depth: usize,
}

impl Scenario {
    fn new(left: Limits, right: Limits, depth: usize) -> Self {
        Self {
            policies: vec![[left, right]],
            sessions: 2,
            jobs_max: 4,
            keys: 1,
            priorities: 1,
            ttr_ms: 0,
            delays: false,
            pauses: false,
            by_number: false,
            has_workers: false,
            wakes_one: false,
            depth,
        }
    }

    /// Every request that makes sense in this state.
    fn steps(&self, node: &Node) -> Vec<Step> {
        let specification = &node.specification;
        let jobs = &specification.jobs;
        let mut steps = Vec::new();
        if jobs.iter().filter(|job| job.state != State::Ended).count() < self.jobs_max {
            self.puts(node, &mut steps);
        }
        for (number, job) in jobs.iter().enumerate() {
            let priority = job.priority;
            match job.state {
                State::Leased { by: session, .. } => {
                    steps.push(Step::Finish { session, job: number });
                    steps.push(Step::Bury { session, job: number });
                    for delay_ms in [0, DELAY_MS] {
                        steps.push(Step::GiveBack { session, job: number, priority, delay_ms });
                    }
                }
                State::Buried => steps.push(Step::Kick { job: number }),
                State::Ready | State::Delayed { .. } | State::Ended => {}
            }
        }
        self.steps_of_sessions(node, &mut steps);
        for queue in 0..if self.pauses { QUEUES } else { 0 } {
            let is_paused = specification.queues[queue].paused_until > specification.now;
            steps.push(Step::Pause { queue, pause_ms: if is_paused { 0 } else { PAUSE_MS } });
        }
        if self.policies.len() > 1 {
            steps.push(Step::Reload { to: (node.policy + 1) % self.policies.len() });
        }
        if let Some(to) = specification.next_moment() {
            let half = specification.now.midpoint(to);
            // Only halves of whole seconds, or the time would be cut into smaller and smaller parts.
            if !node.is_due && (to - specification.now).is_multiple_of(1000) {
                steps.push(Step::Pass { to: half });
            }
            steps.push(Step::Pass { to });
        }
        steps
    }

    fn puts(&self, node: &Node, steps: &mut Vec<Step>) {
        // Keys have no order, so a key that was never used stands for all others like it.
        let known = node.specification.jobs.iter().filter_map(|job| job.key).max();
        let keys = known.map_or(1, |known| known + 2).min(self.keys);
        for queue in 0..QUEUES {
            for key in 0..keys {
                for priority in 0..self.priorities {
                    for delay_ms in [0, DELAY_MS].into_iter().take(1 + usize::from(self.delays)) {
                        steps.push(Step::Put { queue, key, priority, delay_ms });
                    }
                }
            }
        }
    }

    fn steps_of_sessions(&self, node: &Node, steps: &mut Vec<Step>) {
        let specification = &node.specification;
        // Of the sessions that do nothing, one stands for all.
        let mut has_idle = false;
        for session in 0..self.sessions {
            let sleeps = specification.sleeping.contains(&session);
            let waits = sleeps || specification.line.contains(&session);
            let is_woken = specification.woken.contains(&session);
            let holds = specification
                .jobs
                .iter()
                .any(|job| matches!(job.state, State::Leased { by, .. } if by == session));
            if waits || holds || is_woken {
                steps.push(Step::Lose { session });
            } else if std::mem::replace(&mut has_idle, true) {
                continue;
            }
            if waits {
                continue;
            }
            if self.has_workers {
                steps.extend([Step::Grab { session }, Step::Sleep { session }]);
                continue;
            }
            steps.push(Step::Take { session });
            if self.by_number {
                let free = (0..specification.jobs.len()).filter(|job| specification.is_free(*job));
                steps.extend(free.map(|job| Step::TakeByNumber { session, job }));
            }
        }
    }
}

/// How many requests deeper than usual the search goes.
fn more_depth() -> usize {
    #[expect(
        clippy::disallowed_methods,
        reason = "a search that passes also passes if it is shorter"
    )]
    let more = std::env::var("LINESHAFT_ROUNDS").ok();
    more.map_or(0, |more| more.parse().expect("LINESHAFT_ROUNDS is a number"))
}

/// Tries every path up to the depth of the scenario.
fn explore(scenario: &Scenario) -> Tally {
    let depth = scenario.depth + more_depth();
    let mut tally = Tally::default();
    let start = Trial::new(scenario);
    let mut seen = BTreeSet::from([start.state_text()]);
    let mut layer = vec![start.node.clone()];
    for _ in 0..depth {
        let mut next = Vec::new();
        for node in &layer {
            for step in scenario.steps(node) {
                let mut trial = Trial::again(scenario, node);
                if let Step::Pass { to } = step
                    && !node.is_due
                    && to - 1 > node.specification.now
                {
                    // Nothing comes a millisecond too early.
                    trial.step(Step::Pass { to: to - 1 }, &mut tally);
                    trial.step(Step::Timers, &mut tally);
                }
                trial.step(step, &mut tally);
                if seen.insert(trial.state_text()) {
                    next.push(trial.node.clone());
                }
                if trial.node.is_due {
                    trial.step(Step::Timers, &mut tally);
                    if seen.insert(trial.state_text()) {
                        next.push(trial.node.clone());
                    }
                }
            }
        }
        layer = next;
    }
    tally.states = seen.len() as u64;
    println!("{tally:?}");
    tally
}

const FREE: Limits = Limits { rate: None, slots: None, is_paused: false, share: None, aging: None };

fn rate(token_ms: u64, burst: u64) -> Limits {
    Limits { rate: Some(Rate { token_ms, burst, is_per_key: false }), ..FREE }
}

fn rate_per_key(token_ms: u64, burst: u64) -> Limits {
    Limits { rate: Some(Rate { token_ms, burst, is_per_key: true }), ..FREE }
}

fn slots(limit: usize) -> Limits {
    Limits { slots: Some(Slots { limit, is_per_key: false, is_strict: false }), ..FREE }
}

fn slots_per_key(limit: usize) -> Limits {
    Limits { slots: Some(Slots { limit, is_per_key: true, is_strict: false }), ..FREE }
}

fn strict(limit: usize, is_per_key: bool) -> Limits {
    Limits { slots: Some(Slots { limit, is_per_key, is_strict: true }), ..FREE }
}

/// The keys take turns, or the key with the fewest leases comes first.
fn fair(by_leases: bool, across_priorities: bool, weights: [u32; 3]) -> Limits {
    Limits { share: Some(Share { by_leases, across_priorities, weights }), ..FREE }
}

fn aging(steps: u64, per_ms: u64) -> Limits {
    Limits { aging: Some(Aging { steps, per_ms }), ..FREE }
}

fn both(one: Limits, other: Limits) -> Limits {
    Limits {
        rate: one.rate.or(other.rate),
        slots: one.slots.or(other.slots),
        share: one.share.or(other.share),
        aging: one.aging.or(other.aging),
        ..FREE
    }
}

/// The same with workers that sleep.
fn explore_workers(scenario: &Scenario) {
    for wakes_one in [false, true] {
        let Tally { states, at_once, by_request, by_timer, .. } =
            explore(&Scenario { has_workers: true, wakes_one, ..scenario.clone() });
        assert!(states > 1000 && at_once > 100 && by_request > 100 && by_timer > 10);
    }
}

/// A test that tries nothing proves nothing.
fn assert_busy(tally: Tally) {
    let Tally { states, at_once, by_request, by_timer, .. } = tally;
    assert!(states > 1000 && at_once > 100 && by_request > 100 && by_timer > 20, "{tally:?}");
}

#[test]
fn every_order_of_priorities_delays_and_leases_that_end() {
    let plain = Scenario::new(FREE, FREE, 5);
    assert_busy(explore(&Scenario { priorities: 2, delays: true, ttr_ms: 3000, ..plain }));
}

#[test]
fn every_order_of_pauses() {
    let plain = Scenario::new(FREE, FREE, 7);
    assert_busy(explore(&Scenario { pauses: true, by_number: true, ..plain }));
}

#[test]
fn every_order_with_a_rate() {
    assert_busy(explore(&Scenario::new(rate(1000, 2), FREE, 8)));
    let other = Scenario::new(rate(1000, 1), rate(500, 1), 7);
    assert_busy(explore(&Scenario { priorities: 2, by_number: true, ..other }));
}

#[test]
fn every_order_with_slots() {
    let one = Scenario::new(slots(1), slots(2), 7);
    assert_busy(explore(&Scenario { ttr_ms: 3000, by_number: true, ..one }));
    assert_busy(explore(&Scenario::new(both(slots(1), rate(1000, 2)), FREE, 7)));
}

#[test]
fn every_order_with_a_rate_for_each_key() {
    let one = Scenario::new(rate_per_key(1000, 1), FREE, 7);
    assert_busy(explore(&Scenario { keys: 3, ..one }));
    let two = Scenario::new(rate_per_key(1000, 2), slots(1), 7);
    assert_busy(explore(&Scenario { keys: 2, by_number: true, ..two }));
}

#[test]
fn every_order_with_slots_for_each_key() {
    let one = Scenario::new(slots_per_key(1), FREE, 6);
    assert_busy(explore(&Scenario { keys: 3, ttr_ms: 3000, ..one.clone() }));
    assert_busy(explore(&Scenario { keys: 2, priorities: 2, by_number: true, ..one }));
    let two = Scenario::new(slots_per_key(2), rate_per_key(1000, 1), 6);
    assert_busy(explore(&Scenario { keys: 2, ..two }));
}

#[test]
fn every_order_with_a_limit_of_the_queue_and_one_for_each_key() {
    let one = Scenario::new(both(rate(1000, 2), slots_per_key(1)), FREE, 7);
    assert_busy(explore(&Scenario { keys: 3, ..one }));
    let two = Scenario::new(both(rate_per_key(1000, 1), slots(2)), FREE, 7);
    assert_busy(explore(&Scenario { keys: 3, ..two }));
    let three = Scenario::new(both(rate_per_key(1000, 2), slots_per_key(1)), FREE, 7);
    assert_busy(explore(&Scenario { keys: 2, pauses: true, ..three }));
}

#[test]
fn every_order_with_workers_that_sleep() {
    explore_workers(&Scenario::new(slots(1), rate(1000, 1), 7));
    let keys = Scenario::new(both(slots_per_key(1), rate(1000, 2)), FREE, 7);
    explore_workers(&Scenario { keys: 2, ..keys });
    let keys = Scenario::new(rate_per_key(1000, 1), FREE, 7);
    explore_workers(&Scenario { keys: 2, ..keys });
}

#[test]
fn every_order_in_ordered_groups() {
    let groups = Scenario::new(strict(1, true), FREE, 7);
    assert_busy(explore(&Scenario { keys: 2, by_number: true, ..groups.clone() }));
    assert_busy(explore(&Scenario { keys: 2, priorities: 2, depth: 6, ..groups }));
    let whole = Scenario::new(strict(1, false), strict(2, true), 6);
    assert_busy(explore(&Scenario { keys: 2, ttr_ms: 3000, ..whole }));
    let limited = Scenario::new(both(strict(1, true), rate(1000, 2)), FREE, 7);
    assert_busy(explore(&Scenario { keys: 2, ..limited }));
}

#[test]
fn every_order_with_fair_shares() {
    let turns = Scenario::new(fair(false, false, [1, 1, 1]), FREE, 7);
    assert_busy(explore(&Scenario { keys: 3, ..turns }));
    let weighted = Scenario::new(fair(false, false, [2, 1, 1]), FREE, 7);
    assert_busy(explore(&Scenario { keys: 2, ..weighted }));
    let across = Scenario::new(fair(false, true, [1, 1, 1]), FREE, 6);
    assert_busy(explore(&Scenario { keys: 2, priorities: 2, ..across }));
    let by_leases = Scenario::new(fair(true, false, [1, 1, 1]), FREE, 7);
    assert_busy(explore(&Scenario { keys: 2, ..by_leases }));
    let paused = Scenario::new(both(fair(false, false, [1, 1, 1]), slots_per_key(1)), FREE, 6);
    assert_busy(explore(&Scenario { keys: 2, pauses: true, ..paused }));
}

#[test]
fn every_order_with_aging() {
    let plain = Scenario::new(aging(1, 1000), FREE, 6);
    assert_busy(explore(&Scenario { priorities: 2, delays: true, ..plain }));
    let fair = Scenario::new(both(aging(1, 1000), fair(false, true, [1, 1, 1])), FREE, 6);
    assert_busy(explore(&Scenario { keys: 2, priorities: 2, ..fair }));
}

#[test]
fn every_order_with_reloads() {
    let pairs = [
        (FREE, rate(1000, 2)),
        (rate(1000, 1), both(rate(500, 2), slots(1))),
        (slots(1), FREE),
        (slots_per_key(1), FREE),
        (slots_per_key(2), both(rate_per_key(1000, 1), slots_per_key(1))),
        (rate_per_key(1000, 1), slots(1)),
        (FREE, Limits { is_paused: true, ..FREE }),
        (FREE, strict(1, true)),
        (FREE, strict(2, false)),
        (slots_per_key(1), strict(1, false)),
        (slots_per_key(1), fair(false, false, [1, 1, 1])),
        (aging(1, 1000), FREE),
        (both(rate(1000, 1), slots_per_key(1)), both(rate(1000, 1), slots_per_key(2))),
    ];
    for (before, after) in pairs {
        let plain = Scenario::new(before, FREE, 6);
        let policies = vec![[before, FREE], [after, FREE]];
        explore(&Scenario { policies, keys: 2, ..plain });
    }
}
