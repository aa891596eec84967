//! The rule of delivery in a small scope: two queues, three keys, four jobs, and every order of events
//! up to a depth. The specification here is written from docs/policies.md. It looks at the history of
//! hand-outs, and knows no bucket, no lane and no timer.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{Per, Rate, Rule, Rules, Setting};
use lineshaft_engine::{JobId, NewJob, Patience, SessionId, Take};

use crate::world::World;

const QUEUES: [&str; 2] = ["p", "q"];
const JOBS: usize = 4;
/// The number of events in a row.
const DEPTH: usize = 7;
const STEP_MS: u64 = 500;
const DELAY_S: u32 = 1;

/// The limits of each key.
#[derive(Copy, Clone, Debug, Default)]
struct Limits {
    slots: Option<u32>,
    /// Jobs in a second, and the burst.
    rate: Option<(u32, u32)>,
}

/// The queue, the key and the priority of a job.
type Plan = (usize, u8, u32);

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Event {
    Put,
    /// A client that watches both queues asks for a job.
    Take,
    /// Another client waits for a job of the first queue.
    Wait,
    FinishOldest,
    /// A client gives its job back.
    ReleaseNewest,
    DelayOldest,
    Pass,
}

const EVENTS: [Event; 7] = [
    Event::Put,
    Event::Take,
    Event::Wait,
    Event::FinishOldest,
    Event::ReleaseNewest,
    Event::DelayOldest,
    Event::Pass,
];

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Phase {
    New,
    Ready,
    Delayed(u64),
    Held,
    Gone,
}

#[derive(Clone, Debug)]
struct Spec<'a> {
    limits: Limits,
    plans: &'a [Plan; JOBS],
    now: u64,
    phases: [Phase; JOBS],
    /// The held jobs, oldest lease first.
    held: Vec<usize>,
    is_waiting: bool,
    /// All hand-outs: the job and the moment.
    handed_out: Vec<(usize, u64)>,
}

/// What the clients saw: the job that the take got, and the jobs that came to the one that waits.
type Seen = (Option<usize>, Vec<usize>);

impl<'a> Spec<'a> {
    fn new(limits: Limits, plans: &'a [Plan; JOBS]) -> Self {
        let phases = [Phase::New; JOBS];
        let (held, handed_out) = (Vec::new(), Vec::new());
        Self { limits, plans, now: 0, phases, held, is_waiting: false, handed_out }
    }

    fn group(&self, job: usize) -> (usize, u8) {
        (self.plans[job].0, self.plans[job].1)
    }

    /// Whether the limits of its key let a job be handed out.
    fn is_let(&self, job: usize) -> bool {
        let group = self.group(job);
        let leased = self.held.iter().filter(|other| self.group(**other) == group).count();
        let has_slot = self.limits.slots.is_none_or(|slots| leased < slots as usize);
        let has_token = self.limits.rate.is_none_or(|(rate, burst)| {
            let moments = self.handed_out.iter().filter(|(other, _)| self.group(*other) == group);
            let moments: Vec<u64> = moments.map(|(_, moment)| *moment).collect();
            let fits = |count: usize, burst: u32, from: u64| {
                count as u64 * 1000 <= u64::from(burst) * 1000 + u64::from(rate) * (self.now - from)
            };
            // All buckets are empty at first. Each window has at most the burst and the rate.
            fits(moments.len() + 1, 0, 0)
                && moments
                    .iter()
                    .enumerate()
                    .all(|(at, from)| fits(moments.len() - at + 1, burst, *from))
        });
        has_slot && has_token
    }

    /// The job that a client of these queues gets.
    fn next(&self, queues: &[usize]) -> Option<usize> {
        let ready = (0..JOBS).filter(|job| self.phases[*job] == Phase::Ready);
        let let_out = ready.filter(|job| queues.contains(&self.plans[*job].0) && self.is_let(*job));
        let_out.min_by_key(|job| (self.plans[*job].2, *job))
    }

    fn hand_out(&mut self, job: usize) {
        self.phases[job] = Phase::Held;
        self.held.push(job);
        self.handed_out.push((job, self.now));
    }

    fn serve(&mut self, seen: &mut Seen) {
        if self.is_waiting
            && let Some(job) = self.next(&[0])
        {
            self.hand_out(job);
            self.is_waiting = false;
            seen.1.push(job);
        }
    }

    /// `None`: the event is not possible now.
    fn apply(&mut self, event: Event) -> Option<Seen> {
        let mut seen = Seen::default();
        match event {
            Event::Put => {
                let job = self.phases.iter().position(|phase| *phase == Phase::New)?;
                self.phases[job] = Phase::Ready;
            }
            Event::Take => {
                seen.0 = self.next(&[0, 1]);
                seen.0.into_iter().for_each(|job| self.hand_out(job));
            }
            Event::Wait if self.is_waiting => return None,
            Event::Wait => self.is_waiting = true,
            Event::FinishOldest | Event::DelayOldest if self.held.is_empty() => return None,
            Event::FinishOldest => {
                let job = self.held.remove(0);
                self.phases[job] = Phase::Gone;
            }
            Event::DelayOldest => {
                let job = self.held.remove(0);
                self.phases[job] = Phase::Delayed(self.now + u64::from(DELAY_S) * 1000);
            }
            Event::ReleaseNewest => {
                let job = self.held.pop()?;
                self.phases[job] = Phase::Ready;
            }
            Event::Pass => {
                self.now += STEP_MS;
                // Limits first, then delays.
                self.serve(&mut seen);
                for job in 0..JOBS {
                    if self.phases[job] == Phase::Delayed(self.now) {
                        self.phases[job] = Phase::Ready;
                        self.serve(&mut seen);
                    }
                }
            }
        }
        self.serve(&mut seen);
        Some(seen)
    }
}

/// The engine with the two clients.
struct Tested<'a> {
    world: World,
    limits: Limits,
    plans: &'a [Plan; JOBS],
    producer: SessionId,
    taker: SessionId,
    waiter: SessionId,
    ids: Vec<JobId>,
    held: Vec<(JobId, SessionId)>,
}

impl<'a> Tested<'a> {
    fn new(limits: Limits, plans: &'a [Plan; JOBS]) -> Self {
        let mut world = World::new();
        let key = || Some("prefix:1".parse().expect("it is a key"));
        let milli = limits.rate.and_then(|(rate, _)| NonZeroU32::new(rate * 1000));
        let settings = [
            Setting::Rate(milli.map(|milli| Rate { milli, per: Per::Second })),
            Setting::RateBurst(limits.rate.and_then(|(_, burst)| NonZeroU32::new(burst))),
            Setting::RateKey(key()),
            Setting::Concurrency(limits.slots.and_then(NonZeroU32::new)),
            Setting::ConcurrencyKey(key()),
        ];
        let rules = Rules(vec![Rule::new(["*"], settings)]);
        world.act(|e, fx| e.set_policies(rules, fx));
        let [producer, taker, waiter] = [0, 0, 0].map(|_| world.open());
        for queue in QUEUES {
            // The queue stays, even if it is empty.
            world.act(|e, _| e.watch(taker, queue.as_bytes()));
        }
        world.act(|e, _| e.watch(waiter, QUEUES[0].as_bytes()));
        for session in [taker, waiter] {
            world.act(|e, fx| e.ignore(session, b"default", fx)).expect("it watches another one");
        }
        Self { world, limits, plans, producer, taker, waiter, ids: Vec::new(), held: Vec::new() }
    }

    fn apply(&mut self, event: Event) -> Seen {
        let mut seen = Seen::default();
        match event {
            Event::Put => {
                let (queue, key, priority) = self.plans[self.ids.len()];
                let producer = self.producer;
                self.world.act(|e, fx| e.use_queue(producer, QUEUES[queue].as_bytes(), fx));
                let job = NewJob { priority, ..NewJob::default() };
                let body = [key][..].into();
                let id = self.world.act(|e, fx| e.put(producer, job, body, fx));
                self.ids.push(id.expect("no limit is set"));
            }
            Event::Take => {
                let taken = self.world.take(self.taker, Patience::None).granted();
                seen.0 = taken.map(|handout| self.number(handout.id));
                self.held.extend(seen.0.map(|job| (self.ids[job], self.taker)));
            }
            Event::Wait => match self.world.take(self.waiter, Patience::Endless) {
                Take::Granted(handout) => {
                    seen.1.push(self.number(handout.id));
                    self.held.push((handout.id, self.waiter));
                }
                Take::Waiting => {}
                other => panic!("{other:?}"),
            },
            Event::FinishOldest => {
                let (id, session) = self.held.remove(0);
                assert!(self.world.finish(session, id));
            }
            Event::ReleaseNewest | Event::DelayOldest => {
                let delay_s = if event == Event::DelayOldest { DELAY_S } else { 0 };
                let at = if delay_s == 0 { self.held.len() - 1 } else { 0 };
                let (id, session) = self.held.remove(at);
                let priority = self.plans[self.number(id)].2;
                assert!(self.world.release(session, id, priority, delay_s));
            }
            Event::Pass => self.world.pass(STEP_MS),
        }
        self.world.pass(0);
        for (_, what) in self.world.events() {
            let id = what.strip_prefix("granted ").and_then(|id| id.parse().ok()).map(JobId);
            let id = id.unwrap_or_else(|| panic!("{what}"));
            seen.1.push(self.number(id));
            self.held.push((id, self.waiter));
        }
        seen
    }

    fn number(&self, id: JobId) -> usize {
        self.ids.iter().position(|known| *known == id).expect("a job of the test")
    }
}

/// Compares the engine with the specification, for all events that can follow.
fn explore(spec: &Spec<'_>, path: &mut Vec<(Event, Seen)>, runs: &mut usize) {
    if path.len() == DEPTH {
        *runs += 1;
        let mut tested = Tested::new(spec.limits, spec.plans);
        for (at, (event, wanted)) in path.iter().enumerate() {
            let seen = tested.apply(*event);
            assert_eq!(&seen, wanted, "{:?} {:?}: {:?}", tested.limits, spec.plans, &path[..=at]);
        }
        return;
    }
    for event in EVENTS {
        let mut next = spec.clone();
        // What nobody can see needs no look.
        if event == Event::Pass && path.len() + 1 == DEPTH && !spec.is_waiting {
            continue;
        }
        let Some(seen) = next.apply(event) else { continue };
        path.push((event, seen));
        explore(&next, path, runs);
        path.pop();
    }
}

fn explore_all(limits: Limits) {
    let plans: [[Plan; JOBS]; 4] = [
        [(0, b'a', 5), (0, b'a', 5), (0, b'b', 5), (1, b'a', 5)],
        [(0, b'a', 5), (0, b'a', 1), (0, b'b', 3), (0, b'c', 0)],
        [(0, b'a', 5), (1, b'b', 5), (0, b'b', 4), (1, b'b', 4)],
        [(0, b'a', 5), (0, b'b', 5), (0, b'a', 5), (0, b'b', 0)],
    ];
    let mut runs = 0;
    for plans in &plans {
        explore(&Spec::new(limits, plans), &mut Vec::new(), &mut runs);
    }
    assert!(runs > 20_000, "{runs} runs");
}

#[test]
fn one_job_of_each_key_at_one_time() {
    explore_all(Limits { slots: Some(1), ..Limits::default() });
}

#[test]
fn two_jobs_of_each_key_at_one_time() {
    explore_all(Limits { slots: Some(2), ..Limits::default() });
}

#[test]
fn a_rate_for_each_key() {
    explore_all(Limits { rate: Some((2, 1)), ..Limits::default() });
}

#[test]
fn a_rate_with_a_burst_and_slots_for_each_key() {
    explore_all(Limits { rate: Some((1, 2)), slots: Some(1) });
}
