//! A run of the engine beside the specification: makes the requests of a path again, and judges one
//! more.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{Aging, FairMode, Order, Per, Rate, Rule, Rules, Setting};
use lineshaft_engine::{
    Choice, Effects, Engine, Event, GrabOrder, Handout, JobId, Millis, NewJob, Patience, QueueId,
    ReturnOrder, SessionId, State as JobState, Take,
};

use super::Scenario;
use super::specification::{Limits, Moment, QUEUES, Specification, State};
use crate::world::{START, World, take_job};

const NAMES: [&str; QUEUES] = ["left", "right"];
const KEYS: [&str; 3] = ["a", "b", "c"];

/// A request, or the passing of time. Queues, jobs and sessions have the numbers of the
/// specification.
#[derive(Copy, Clone, Debug)]
pub(super) enum Step {
    Put {
        queue: usize,
        key: usize,
        priority: u32,
        delay_ms: u64,
    },
    /// The session gets the best job of both queues, or waits.
    Take {
        session: usize,
    },
    TakeByNumber {
        session: usize,
        job: usize,
    },
    /// The worker gets the next job of one of both queues, or nothing.
    Grab {
        session: usize,
    },
    /// The worker sleeps, if there is no job for it.
    Sleep {
        session: usize,
    },
    Finish {
        session: usize,
        job: usize,
    },
    GiveBack {
        session: usize,
        job: usize,
        priority: u32,
        delay_ms: u64,
    },
    Bury {
        session: usize,
        job: usize,
    },
    Kick {
        job: usize,
    },
    /// The connection of a session is lost, and its client connects again.
    Lose {
        session: usize,
    },
    /// 0 ends a pause.
    Pause {
        queue: usize,
        pause_ms: u64,
    },
    /// The policies with this number come into force.
    Reload {
        to: usize,
    },
    /// The clock goes on to this moment. The timers have not looked yet.
    Pass {
        to: Moment,
    },
    /// The timers look until none of them is due.
    Timers,
}

/// A state of the engine, and the path that leads to it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: Vec<Step>,
    pub(super) specification: Specification,
    /// The number of the policies in force.
    pub(super) policy: usize,
    /// Whether a timer is due.
    pub(super) is_due: bool,
}

/// What has been tried, and how often a job was handed out.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) states: u64,
    pub(super) steps: u64,
    /// Hand-outs to a session that asked.
    pub(super) at_once: u64,
    /// Hand-outs to a session that waited, by a request.
    pub(super) by_request: u64,
    /// Hand-outs to a session that waited, by a timer.
    pub(super) by_timer: u64,
}

pub(super) struct Trial<'a> {
    scenario: &'a Scenario,
    pub(super) node: Node,
    world: World,
    sessions: Vec<SessionId>,
    producers: [SessionId; QUEUES],
    ids: Vec<JobId>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}\nThe last of these steps fails: {:#?}", self.scenario, self.node);
        }
    }
}

impl<'a> Trial<'a> {
    /// The state before any request.
    pub(super) fn new(scenario: &'a Scenario) -> Self {
        let mut world = World::new();
        let World { engine, effects, .. } = &mut world;
        engine.set_policies(rules(scenario.policies[0]), effects);
        engine.set_wake_max(u32::from(scenario.wakes_one));
        // The producers keep the queues in existence.
        let producers = NAMES.map(|name| {
            let session = engine.open_session(0, ReturnOrder::KeepPlace);
            engine.use_queue(session, name.as_bytes(), effects);
            session
        });
        let sessions = (0..scenario.sessions).map(|_| open(scenario, engine, effects)).collect();
        let mut specification = Specification::new(START.0, scenario.policies[0], scenario.ttr_ms);
        specification.wakes_one = scenario.wakes_one;
        let node = Node { path: Vec::new(), specification, policy: 0, is_due: false };
        let mut trial = Self { scenario, node, world, sessions, producers, ids: Vec::new() };
        trial.request(Step::Timers);
        trial
    }

    /// Makes the requests of a path again.
    pub(super) fn again(scenario: &'a Scenario, node: &Node) -> Self {
        let mut trial = Self::new(scenario);
        for step in &node.path {
            trial.request(*step);
        }
        trial.world.effects = Effects::default();
        trial.node = node.clone();
        trial
    }

    /// What decides about the future, and what the engine says about it. Two paths that lead to the
    /// same text count as the same state.
    pub(super) fn state_text(&self) -> String {
        let engine = &self.world.engine;
        let next = engine.next_deadline().map(|next| next.since(engine.now()));
        let held = [0, 1].map(|queue| engine.held_back(self.queue(queue)));
        let rest = format!("{} {next:?} {held:?}", self.node.policy);
        self.node.specification.state_text() + &rest
    }

    fn queue(&self, queue: usize) -> QueueId {
        self.world.engine.queue_id(NAMES[queue].as_bytes()).expect("a producer uses it")
    }

    // --- Requests ---

    /// Makes a request of the engine. Returns the result if it is a take, or a worker that asks whether
    /// it can sleep: [`Take::Waiting`] if so.
    fn request(&mut self, step: Step) -> Option<Take> {
        let World { engine, effects, .. } = &mut self.world;
        let ids = &self.ids;
        let is_done = match step {
            Step::Put { queue, key, priority, delay_ms } => {
                let (delay_s, ttr_s) = (seconds(delay_ms), seconds(self.scenario.ttr_ms));
                let body = format!("{}-{}", KEYS[key], ids.len()).into_bytes();
                let job = NewJob { priority, delay_s, ttr_s };
                let id = engine.put(self.producers[queue], job, body.into(), effects);
                self.ids.push(id.expect("puts have no limits"));
                true
            }
            Step::Take { session } => {
                let session = self.sessions[session];
                return Some(engine.take(session, Choice::Watched, Patience::Endless, effects));
            }
            Step::TakeByNumber { session, job } => {
                let granted = take_job(engine, self.sessions[session], ids[job], effects);
                return Some(granted.map_or(Take::Nothing(None), Take::Granted));
            }
            Step::Grab { session } => {
                let order = GrabOrder::NewestFirst;
                let session = self.sessions[session];
                return Some(engine.take(
                    session,
                    Choice::Registered(order),
                    Patience::None,
                    effects,
                ));
            }
            Step::Sleep { session } => {
                let sleeps = engine.sleep(self.sessions[session]);
                return Some(if sleeps { Take::Waiting } else { Take::Nothing(None) });
            }
            Step::Finish { session, job } => {
                engine.finish(self.sessions[session], ids[job], effects).is_ok()
            }
            Step::GiveBack { session, job, priority, delay_ms } => {
                let (session, delay_s) = (self.sessions[session], seconds(delay_ms));
                engine.give_back(session, ids[job], priority, delay_s, effects).is_ok()
            }
            Step::Bury { session, job } => {
                engine.bury(self.sessions[session], ids[job], 0, effects).is_ok()
            }
            Step::Kick { job } => engine.kick_job(ids[job], effects).is_ok(),
            Step::Lose { session } => {
                engine.close_session(self.sessions[session], effects);
                self.sessions[session] = open(self.scenario, engine, effects);
                true
            }
            Step::Pause { queue, pause_ms } => {
                engine.pause(NAMES[queue].as_bytes(), seconds(pause_ms), effects).is_ok()
            }
            Step::Reload { to } => {
                engine.set_policies(rules(self.scenario.policies[to]), effects);
                true
            }
            Step::Pass { to } => {
                engine.set_time(Millis(to));
                true
            }
            Step::Timers => {
                while engine.advance(effects) {}
                true
            }
        };
        assert!(is_done, "the engine refuses a request that is right");
        None
    }

    /// Makes a request, and compares everything that happens with the specification.
    pub(super) fn step(&mut self, step: Step, tally: &mut Tally) {
        self.node.path.push(step);
        tally.steps += 1;
        let was_due = self.node.is_due;
        let mut before = self.node.specification.clone();
        let take = self.request(step);
        self.world.engine.check_invariants();
        self.note(step);
        let by_timer = matches!(step, Step::Timers);
        for (session, event) in std::mem::take(&mut self.world.effects.events) {
            let session = self.sessions.iter().position(|known| *known == session);
            self.judge_event(session.expect("only open sessions wait"), event, &mut before);
            *(if by_timer { &mut tally.by_timer } else { &mut tally.by_request }) += 1;
        }
        match (step, take) {
            (Step::Take { session }, Some(take)) => self.judge_take(session, take, was_due, tally),
            (Step::TakeByNumber { session, job }, Some(take)) => {
                self.judge_named(session, job, take, was_due);
            }
            (Step::Grab { session }, Some(take)) => self.judge_grab(session, take, was_due, tally),
            (Step::Sleep { session }, Some(take)) => {
                let sleeps = matches!(take, Take::Waiting);
                let next = self.node.specification.next();
                assert!(sleeps == next.is_none() || was_due, "sleeps: {sleeps}, but {next:?}");
                let Specification { sleeping, woken, .. } = &mut self.node.specification;
                woken.retain(|other| *other != session);
                // A worker that may not sleep is told at once that there is a job.
                if sleeps { sleeping.push(session) } else { woken.push(session) }
            }
            _ => {}
        }
        self.observe(step);
        self.check();
    }

    /// Tells the specification about a request, apart from hand-outs.
    fn note(&mut self, step: Step) {
        let specification = &mut self.node.specification;
        match step {
            Step::Put { queue, key, priority, delay_ms } => {
                specification.put(queue, key, priority, delay_ms);
            }
            Step::Finish { job, .. } => specification.set_aside(job, State::Ended),
            Step::GiveBack { job, priority, delay_ms, .. } => {
                specification.jobs[job].priority = priority;
                specification.return_after(job, delay_ms);
            }
            Step::Bury { job, .. } => {
                specification.jobs[job].priority = 0;
                specification.set_aside(job, State::Buried);
            }
            Step::Kick { job } => specification.return_after(job, 0),
            Step::Lose { session } => specification.lose(session),
            Step::Pause { queue, pause_ms } => {
                specification.queues[queue].paused_until = specification.now + pause_ms;
            }
            Step::Reload { to } => {
                self.node.policy = to;
                specification.reload(self.scenario.policies[to]);
            }
            Step::Pass { to } => specification.now = to,
            Step::Grab { session } => {
                specification.woken.retain(|woken| *woken != session);
            }
            Step::Sleep { .. } | Step::Take { .. } | Step::TakeByNumber { .. } | Step::Timers => {}
        }
    }

    // --- Judgements ---

    /// Judges what a session that waits is told. If a timer was due, the engine may do its work before
    /// the request. So the hand-out can be right before the request or after it.
    fn judge_event(&mut self, session: usize, event: Event, before: &mut Specification) {
        let specification = &mut self.node.specification;
        if matches!(event, Event::WorkToDo) {
            let place = specification.sleeping.iter().position(|sleeping| *sleeping == session);
            specification.sleeping.remove(place.expect("it sleeps"));
            return specification.woken.push(session);
        }
        assert!(specification.line.contains(&session), "session {session} does not wait");
        match event {
            Event::Granted(Handout { id, .. }) => {
                let job = number(&self.ids, id);
                assert_eq!(specification.line[0], session, "others have waited longer");
                let was_next = job < before.jobs.len() && before.can_be_next(job);
                if was_next {
                    before.hand_out(job, session);
                }
                let is_next = specification.can_be_next(job);
                assert!(is_next || was_next, "job {job} is not the next one");
                specification.hand_out(job, session);
            }
            Event::DeadlineSoon => {
                assert!(specification.is_warned(session), "no lease ends soon");
                specification.line.retain(|waiting| *waiting != session);
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn judge_take(&mut self, session: usize, take: Take, was_due: bool, tally: &mut Tally) {
        let specification = &mut self.node.specification;
        let next = specification.next();
        let is_certain = !was_due || specification.line.is_empty();
        match take {
            Take::Granted(Handout { id, .. }) => {
                let job = number(&self.ids, id);
                // While a timer is due, a queue can be shut to all but those who wait for it.
                assert!(
                    next == Some(job) || was_due && specification.can_be_next(job),
                    "job {job} is not the next one, but {next:?}"
                );
                let owed = specification.owed();
                specification.hand_out(job, session);
                assert_eq!(specification.owed(), owed, "session {session} has overtaken another");
                tally.at_once += 1;
            }
            Take::DeadlineSoon => {
                assert!(specification.is_warned(session), "no lease ends soon");
                assert!(!is_certain || next.is_none(), "job {next:?} could be handed out");
            }
            Take::Waiting => {
                assert!(!specification.is_warned(session), "a lease ends soon");
                assert!(!is_certain || next.is_none(), "job {next:?} could be handed out");
                specification.line.push(session);
            }
            other => panic!("no take has the result {other:?}"),
        }
    }

    fn judge_grab(&mut self, session: usize, take: Take, was_due: bool, tally: &mut Tally) {
        let specification = &mut self.node.specification;
        let next = specification.next();
        let Some(Handout { id, .. }) = take.granted() else {
            assert!(was_due || next.is_none(), "job {next:?} could be handed out");
            return;
        };
        let job = number(&self.ids, id);
        let is_next = specification.next_of(specification.jobs[job].queue) == Some(job);
        assert!(is_next || was_due && specification.can_be_next(job), "job {job} is not the next");
        specification.hand_out(job, session);
        tally.at_once += 1;
    }

    fn judge_named(&mut self, session: usize, job: usize, take: Take, was_due: bool) {
        let specification = &mut self.node.specification;
        let can_be = specification.is_given_by_number(job);
        let is_granted = take.granted().is_some();
        if is_granted {
            assert!(specification.can_be_named(job), "the limits forbid to hand out job {job}");
            let owed = specification.owed();
            specification.hand_out(job, session);
            // A pause holds back those who wait, but not a client that names the job.
            let has_overtaken = specification.owed() != owed && !self.scenario.pauses;
            assert!(!has_overtaken, "session {session} has overtaken another");
        } else {
            assert!(was_due || !can_be, "job {job} could be handed out");
        }
    }

    /// Learns from the engine which of the changes that are due have happened. Every other job must
    /// have the state that the specification expects.
    fn observe(&mut self, step: Step) {
        let mut due = self.node.specification.due_jobs();
        if matches!(step, Step::Lose { .. }) {
            // The last job that the session got comes back first.
            due.reverse();
        }
        let state = |job: usize| {
            let status = self.world.engine.job_status(self.ids[job]);
            status.ok().map(|status| status.facts.state)
        };
        for job in due {
            if state(job) == Some(JobState::Ready) {
                self.node.specification.becomes_ready(job);
            }
        }
        for (number, job) in self.node.specification.jobs.iter().enumerate() {
            let expected = match job.state {
                State::Ready => Some(JobState::Ready),
                State::Delayed { .. } => Some(JobState::Delayed),
                State::Leased { .. } => Some(JobState::Leased),
                State::Buried => Some(JobState::Buried),
                State::Ended => None,
            };
            assert_eq!(state(number), expected, "the state of job {number}");
        }
    }

    /// Nothing is forgotten: what must happen has happened, or a timer will do it in time.
    fn check(&mut self) {
        let (engine, specification) = (&self.world.engine, &self.node.specification);
        let next = engine.next_deadline().map(|next| next.0);
        self.node.is_due = next.is_some_and(|next| next <= specification.now);
        if let Some(moment) = specification.must_act_at() {
            assert!(
                next.is_some_and(|next| next <= moment),
                "no timer at {moment}, but at {next:?}"
            );
        }
        if self.node.is_due {
            return;
        }
        assert!(!specification.owes_wake(), "a worker sleeps while there is a job for it");
        for queue in 0..QUEUES {
            let held = engine.held_back(self.queue(queue));
            let next = specification.next_of(queue);
            assert_eq!(held.is_none(), next.is_some(), "queue {queue}: {held:?}, but {next:?}");
        }
    }
}

fn open(scenario: &Scenario, engine: &mut Engine, effects: &mut Effects) -> SessionId {
    let session = engine.open_session(0, ReturnOrder::KeepPlace);
    for name in NAMES {
        if scenario.has_workers {
            engine.register(session, name.as_bytes(), None, effects);
        } else {
            engine.watch(session, name.as_bytes());
        }
    }
    engine.ignore(session, b"default", effects);
    session
}

fn number(ids: &[JobId], id: JobId) -> usize {
    ids.iter().position(|known| *known == id).expect("a job that was put")
}

fn seconds(millis: u64) -> u32 {
    assert!(millis.is_multiple_of(1000));
    (millis / 1000) as u32
}

fn rules(limits: [Limits; QUEUES]) -> Rules {
    let rule = |(name, limits): (&str, Limits)| Rule::new([name], settings(limits));
    let rules = Rules(NAMES.into_iter().zip(limits).map(rule).collect());
    rules.check().expect("the rules are good");
    rules
}

fn settings(limits: Limits) -> Vec<Setting> {
    let key = |is_per_key: bool| is_per_key.then(|| "until:-".parse().expect("it is a key"));
    let mut settings = vec![Setting::Pause(limits.is_paused)];
    if let Some(rate) = limits.rate {
        let milli = NonZeroU32::new((1_000_000 / rate.token_ms) as u32).expect("it is not 0");
        settings.push(Setting::Rate(Some(Rate { milli, per: Per::Second })));
        settings.push(Setting::RateBurst(NonZeroU32::new(rate.burst as u32)));
        settings.push(Setting::RateKey(key(rate.is_per_key)));
    }
    if let Some(share) = limits.share {
        settings.push(Setting::FairKey(key(true)));
        let weights = KEYS.into_iter().zip(share.weights);
        let weight = |(key, weight): (&str, u32)| {
            (key.into(), NonZeroU32::new(weight).expect("it is not 0"))
        };
        settings.push(Setting::FairWeights(weights.map(weight).collect()));
        let mode = if share.by_leases { FairMode::InFlight } else { FairMode::RoundRobin };
        settings.push(Setting::FairMode(mode));
        settings.push(Setting::FairAcross(share.across_priorities));
    }
    if let Some(aging) = limits.aging {
        let number = |number: u64| NonZeroU32::new(number as u32).expect("it is not 0");
        let (steps, per_ms) = (number(aging.steps), number(aging.per_ms));
        settings.push(Setting::Aging(Some(Aging { steps, per_ms })));
    }
    if let Some(slots) = limits.slots {
        let order = if slots.is_strict { Order::Strict } else { Order::Loose };
        settings.push(Setting::ConcurrencyOrder(order));
        settings.push(Setting::Concurrency(NonZeroU32::new(slots.limit as u32)));
        settings.push(Setting::ConcurrencyKey(key(slots.is_per_key)));
    }
    settings
}
