//! Random requests of all dialects, while policies change. The invariants must be true after each
//! request.

use std::num::NonZeroU32;

use lineshaft_engine::policy::{
    Backoff, DeadTarget, OnDuplicate, Order, Per, QueueSync, Rate, Rule, Rules, Setting,
    UniqueWindow, WhenFull,
};
use lineshaft_engine::{
    Event, GrabOrder, Handout, JobId, LeaseId, Millis, NewJob, News, Patience, ReadMode,
    ReturnOrder, SessionId, Status, Submit, Take, When,
};
use proptest::prelude::*;

use crate::world::{World, grab, read};

const QUEUES: [&[u8]; 7] = [b"default", b"p", b"p+a", b"p+b", b"alias", b"old", b"m"];

/// One random request. `act` is the kind of request, `who` is one of three sessions, and `number`
/// is a parameter of the request.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    act: u8,
    who: usize,
    queue: usize,
    number: u64,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..32u8, 0..3usize, 0..QUEUES.len(), 0..40u64)
        .prop_map(|(act, who, queue, number)| Step { act, who, queue, number });
    prop::collection::vec(step, 1..150)
}

/// One of a few sets of rules.
fn rules(number: u64) -> Rules {
    let name = |name: &[u8]| -> Box<[u8]> { name.into() };
    let full = if number.is_multiple_of(2) { WhenFull::Refuse } else { WhenFull::DropOldest };
    let limits = Rule::new(
        ["p*", "m"],
        [
            Setting::JobsMax(Some(2 + number % 3)),
            Setting::BytesMax(Some(9)),
            Setting::WhenFull(full),
            Setting::OpenTimeout(Some(15)),
        ],
    );
    let ages = Rule::new(
        ["*"],
        [
            Setting::AgeMax(Some(10 * number)),
            Setting::ExpireSweep(Some(2)),
            Setting::Idle(Some(20)),
        ],
    );
    let routes = Rule::new(
        ["p"],
        [
            Setting::FanoutOnly(number.is_multiple_of(5)),
            Setting::CopyTo([name(b"m"), name(b"default")].into()),
            Setting::ExpireTo(Some(name(b"old"))),
        ],
    );
    let memory = Rule::new(
        ["m", "p+b"],
        [Setting::Sync(Some(QueueSync::Memory)), Setting::ExpireTo(Some(name(b"p+a")))],
    );
    let alias = Rule::new(["alias"], [Setting::Alias([name(b"p"), name(b"m")].into())]);
    let retries = Rule::new(
        ["*"],
        [
            Setting::Retries(true),
            Setting::RetryLimit(number as u32 % 3),
            Setting::RetryBase(3),
            Setting::RetryBackoff([Backoff::None, Backoff::Exponential][number as usize % 2]),
            Setting::RetryRelease(number.is_multiple_of(3)),
            Setting::DeadQueue(match number % 4 {
                0 => DeadTarget::Bury,
                1 => DeadTarget::Drop,
                2 => DeadTarget::Queue(name(b"p")),
                _ => DeadTarget::Queue(name(b"dead.{name}")),
            }),
            Setting::DeadKeep(number.is_multiple_of(2).then_some(7)),
            Setting::DeadJobsMax(2),
            Setting::DeadExpired(number.is_multiple_of(3)),
            Setting::DeadDropped(number.is_multiple_of(5)),
        ],
    );
    let milli = NonZeroU32::new(100_000 + 1000 * number as u32);
    let group = Some("prefix:1".parse().expect("it is a key"));
    let mut gates = Rule::new(
        ["*"],
        [
            Setting::Rate(milli.map(|milli| Rate { milli, per: Per::Second })),
            Setting::RateBurst(NonZeroU32::new(number as u32 % 4)),
            Setting::Concurrency(NonZeroU32::new(number as u32 % 3)),
            Setting::RateKey(group.clone().filter(|_| number.is_multiple_of(5))),
            Setting::ConcurrencyKey(group.filter(|_| number.is_multiple_of(7))),
        ],
    );
    // A strict order needs a limit, and no key beside its own.
    let has_order =
        !number.is_multiple_of(3) && (number.is_multiple_of(7) || !number.is_multiple_of(5));
    if has_order && number % 4 < 2 {
        let strict = Rule::new([""], [Setting::ConcurrencyOrder(Order::Strict)]);
        gates.settings.extend(strict.settings);
    }
    let key = ["body", "prefix:1", "gm:unique"][number as usize % 3];
    let unique = Rule::new(
        ["*"],
        [
            Setting::UniqueBy(Some(key.parse().expect("it is a key"))),
            Setting::UniqueWindow(if number.is_multiple_of(8) {
                UniqueWindow::UntilStart
            } else if number.is_multiple_of(3) {
                UniqueWindow::For(1 + number * 100)
            } else {
                UniqueWindow::UntilDone
            }),
            Setting::IgnoreBuried(number.is_multiple_of(6)),
            Setting::OnDuplicate(if number.is_multiple_of(10) {
                OnDuplicate::Refuse
            } else if number.is_multiple_of(5) {
                OnDuplicate::Bump
            } else if number.is_multiple_of(7) {
                OnDuplicate::ReplaceBody
            } else {
                OnDuplicate::ReturnExisting
            }),
        ],
    );
    let all = [limits, ages, routes, memory, alias, retries, gates, unique];
    let picked = all.into_iter().enumerate().filter(|(at, _)| {
        number & (1 << at) != 0
            || *at == 5 && number.is_multiple_of(3)
            || *at == 6 && number.is_multiple_of(4)
            || *at == 7 && number.is_multiple_of(2)
    });
    let rules = Rules(picked.map(|(_, rule)| rule).collect());
    rules.check().expect("rules that can be obeyed");
    rules
}

pub(crate) struct Crowd {
    pub(crate) world: World,
    tubes: Vec<SessionId>,
    workers: Vec<SessionId>,
    readers: Vec<SessionId>,
    leases: Vec<(SessionId, LeaseId)>,
}

impl Crowd {
    pub(crate) fn new() -> Self {
        Self::with(World::new())
    }

    pub(crate) fn with(mut world: World) -> Self {
        let tubes = (0..3).map(|_| world.open()).collect();
        let workers = (0..3)
            .map(|_| world.act(|engine, _| engine.open_session(0, ReturnOrder::ToTail)))
            .collect();
        let readers = (0..3).map(|_| world.reader()).collect();
        Self { world, tubes, workers, readers, leases: Vec::new() }
    }

    /// This moment, or in a third of the cases the time of the wall clock at this moment. Later
    /// requests can set the wall clock, and so change the moment.
    fn when(&self, moment: Millis, number: u64) -> When {
        if number.is_multiple_of(3) {
            When::Wall(self.world.engine.wall_at(moment))
        } else {
            When::At(moment)
        }
    }

    fn is_free(&self, session: SessionId) -> bool {
        !self.world.engine.is_waiting(session)
    }

    fn item_step(&mut self, step: &Step) {
        let queue = QUEUES[step.queue];
        let reader = self.readers[step.who];
        let number = step.number;
        let patience =
            if number.is_multiple_of(3) { Patience::Millis(number) } else { Patience::None };
        match step.act {
            0..3 => {
                let at = Millis(self.world.engine.now().0 + number);
                let expires = (number.is_multiple_of(4)).then(|| self.when(at, number));
                let body = vec![b'x'; number as usize % 5].into();
                let _ = self.world.act(|engine, fx| engine.add(None, queue, body, expires, fx));
            }
            3..6 if self.is_free(reader) => {
                let how = match number % 5 {
                    0 => ReadMode::Finish,
                    1 => ReadMode::Peek,
                    2 => ReadMode::Open { limit_ms: Some(number) },
                    _ => ReadMode::Open { limit_ms: None },
                };
                let read =
                    self.world.act(|engine, fx| read(engine, reader, queue, how, patience, fx));
                if let Take::Granted(Handout { lease, .. }) = read {
                    self.leases.push((reader, lease));
                }
            }
            6..9 => {
                let Some(&(holder, lease)) = self.leases.get(number as usize) else { return };
                let to = self.readers[(step.who + 1) % 3];
                match step.act {
                    6 => {
                        let _ = self.world.act(|engine, fx| engine.confirm(holder, lease, fx));
                    }
                    7 => {
                        let _ =
                            self.world.act(|engine, fx| engine.give_back_item(holder, lease, fx));
                    }
                    _ => {
                        let limit = Some(number);
                        let _ =
                            self.world.act(|engine, _| engine.hand_over(holder, lease, to, limit));
                        self.leases.push((to, lease));
                    }
                }
            }
            9 if self.is_free(reader) => {
                let _ = self.world.act(|engine, fx| engine.flush(reader, queue, fx));
            }
            10 if number < 10 && self.is_free(reader) => {
                let _ = self.world.act(|engine, fx| engine.remove_queue(reader, queue, fx));
            }
            11 => {
                let _ = self.world.act(|engine, fx| engine.flush_expired(queue, fx));
            }
            12 => {
                self.world.act(|engine, fx| engine.close_session(reader, fx));
                self.readers[step.who] = self.world.reader();
            }
            13 => self.world.act(|engine, fx| engine.set_policies(rules(number), fx)),
            14 => {
                let status = [Status::Up, Status::ReadOnly, Status::Quiescent][number as usize % 3];
                self.world.act(|engine, fx| engine.set_status(status, number % 7, fx));
            }
            _ => {}
        }
    }

    fn job_step(&mut self, step: &Step) {
        let queue = QUEUES[step.queue];
        let (tube, worker) = (self.tubes[step.who], self.workers[step.who]);
        let number = step.number;
        let engine_act = &mut self.world;
        match step.act {
            15 | 16 => {
                let delay_s = u32::from(number.is_multiple_of(6));
                let job = NewJob { priority: number as u32 % 3, delay_s, ttr_s: 1 };
                engine_act.act(|engine, fx| engine.use_queue(tube, queue, fx));
                let _ = engine_act.act(|engine, fx| engine.put(tube, job, b"tube"[..].into(), fx));
            }
            17 if self.is_free(tube) => {
                self.world.act(|engine, _| engine.watch(tube, queue));
                let patience = Patience::Millis(number);
                if let Take::Granted(handout) = self.world.take(tube, patience)
                    && number.is_multiple_of(2)
                {
                    let _ = self.world.bury(tube, handout.id);
                }
            }
            18 if self.is_free(tube) => {
                self.world.act(|engine, fx| engine.use_queue(tube, queue, fx));
                let _ = self.world.act(|engine, fx| engine.kick(tube, number, fx));
            }
            19 => {
                self.world.close(tube);
                self.tubes[step.who] = self.world.open();
            }
            20 => {
                let submit = Submit {
                    priority: None,
                    due: None,
                    unique: if number.is_multiple_of(2) { b"-" } else { b"" },
                    reducer: b"r",
                    body: b"work"[..].into(),
                    foreground: number.is_multiple_of(3),
                };
                let _ = self.world.act(|engine, fx| engine.submit(worker, queue, submit, fx));
            }
            21 => self.world.act(|engine, fx| engine.register(worker, queue, Some(number), fx)),
            22 => {
                let grabbed = self.world.act(|e, fx| grab(e, worker, GrabOrder::RoundRobin, fx));
                match grabbed {
                    Some(handout) if number.is_multiple_of(2) => {
                        let news = News::Complete(b""[..].into());
                        let id = handout.id;
                        let _ = self.world.act(|engine, fx| engine.complete(worker, id, &news, fx));
                    }
                    Some(_) => {}
                    None => {
                        let _ = self.world.act(|engine, _| engine.sleep(worker));
                    }
                }
            }
            23 => {
                self.world.close(worker);
                let session =
                    self.world.act(|engine, _| engine.open_session(0, ReturnOrder::ToTail));
                self.workers[step.who] = session;
            }
            24 => {
                let _ = self.world.act(|engine, fx| engine.drop_queue(worker, queue, fx));
            }
            25 => {
                let _ = self.world.act(|engine, fx| engine.pause(queue, number as u32 % 2, fx));
            }
            26 => self.world.engine.set_attempts_max(number as u32 % 3),
            27 => {
                let at = self.world.engine.now().0 + number;
                let submit = Submit {
                    priority: Some(number as u32 % 2),
                    due: (number.is_multiple_of(5)).then_some(self.when(Millis(at), number)),
                    unique: [&b"k"[..], b"l", b"-"][number as usize % 3],
                    reducer: b"",
                    body: b"keyed"[..].into(),
                    foreground: number.is_multiple_of(2),
                };
                let _ = self.world.act(|engine, fx| engine.submit(tube, queue, submit, fx));
            }
            28 => {
                let ahead_ms = (number as i64 - 20) * 500;
                self.world.act(|engine, _| engine.set_wall_ahead(ahead_ms));
            }
            29..32 => {
                // One of the youngest jobs.
                let id = JobId(self.world.engine.next_number().saturating_sub(1 + number / 2));
                if step.act == 29 {
                    let _ = self.world.act(|engine, fx| engine.kick_job(id, fx));
                } else if step.act == 30 && number.is_multiple_of(2) {
                    let _ = self.world.act(|engine, fx| engine.set_aside_job(id, fx));
                } else if step.act == 30 {
                    let (priority, delay_s) = (number as u32 / 2 % 3, number as u32 / 2 % 2);
                    let _ = self.world.act(|engine, fx| {
                        if number.is_multiple_of(3) {
                            engine.bury_job(id, priority, fx)
                        } else {
                            engine.reschedule_job(id, priority, delay_s, fx)
                        }
                    });
                } else {
                    let _ = self.world.act(|engine, fx| engine.move_job(id, queue, fx));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn step(&mut self, step: &Step) {
        if step.act < 15 {
            self.item_step(step);
        } else {
            self.job_step(step);
        }
        self.settle(step.number % 4);
    }

    pub(crate) fn settle(&mut self, millis: u64) {
        self.world.pass(millis);
        for (session, event) in std::mem::take(&mut self.world.effects.events) {
            if let Event::Granted(Handout { lease, .. }) = event {
                self.leases.push((session, lease));
            }
        }
        self.world.records();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn any_requests_leave_the_engine_whole(steps in steps()) {
        let mut crowd = Crowd::new();
        for step in steps {
            crowd.step(&step);
        }
        crowd.settle(100_000);
    }
}
