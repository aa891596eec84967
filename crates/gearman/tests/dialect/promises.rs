//! Tests random workers and clients. Each client that waits for an outcome must get exactly one
//! outcome. The server must send all necessary wake-ups, and no others (spec gearman 13).

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::packets::{
    CAN_DO, CAN_DO_TIMEOUT, GRAB_JOB, JOB_ASSIGN, JOB_CREATED, NOOP, PRE_SLEEP, SUBMIT_JOB,
    SUBMIT_JOB_BG, WORK_COMPLETE, WORK_EXCEPTION, WORK_FAIL, received, request,
};
use crate::world::World;

const FUNCTIONS: [&str; 2] = ["f", "g"];
const CANT_DO: u32 = 2;
const CLIENTS: usize = 2;
const WORKERS: usize = 3;

#[derive(Clone, Debug)]
enum Action {
    Submit {
        client: usize,
        kind: u32,
        function: &'static str,
        unique: &'static str,
    },
    CanDo {
        worker: usize,
        function: &'static str,
        limit_ms: Option<u32>,
    },
    CantDo {
        worker: usize,
        function: &'static str,
    },
    Grab {
        worker: usize,
    },
    Sleep {
        worker: usize,
    },
    /// The worker reports the end of its oldest job.
    End {
        worker: usize,
        kind: u32,
    },
    LoseWorker {
        worker: usize,
    },
    LoseClient {
        client: usize,
    },
    Cancel {
        id: u64,
    },
    Drop {
        function: &'static str,
    },
    Pass {
        millis: u64,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let function = || select(&FUNCTIONS[..]);
    let worker = || 0..WORKERS;
    let kinds = select(vec![SUBMIT_JOB, SUBMIT_JOB, SUBMIT_JOB_BG, 21, 33, 34]);
    let submit = (0..CLIENTS, kinds, function(), select(vec!["", "", "-", "k"]));
    let ends = select(vec![WORK_COMPLETE, WORK_FAIL, WORK_EXCEPTION]);
    let can_do = (worker(), function(), prop::option::of(Just(1_000)));
    prop_oneof![
        8 => submit.prop_map(|(client, kind, function, unique)| {
            Action::Submit { client, kind, function, unique }
        }),
        4 => can_do.prop_map(|(worker, function, limit_ms)| {
            Action::CanDo { worker, function, limit_ms }
        }),
        1 => (worker(), function()).prop_map(|(worker, function)| {
            Action::CantDo { worker, function }
        }),
        6 => worker().prop_map(|worker| Action::Grab { worker }),
        6 => worker().prop_map(|worker| Action::Sleep { worker }),
        6 => (worker(), ends).prop_map(|(worker, kind)| Action::End { worker, kind }),
        1 => worker().prop_map(|worker| Action::LoseWorker { worker }),
        1 => (0..CLIENTS).prop_map(|client| Action::LoseClient { client }),
        1 => (1..30_u64).prop_map(|id| Action::Cancel { id }),
        1 => function().prop_map(|function| Action::Drop { function }),
        2 => (1..1_500_u64).prop_map(|millis| Action::Pass { millis }),
    ]
}

#[derive(Default)]
struct Worker {
    connection: usize,
    /// Handles of the worker's jobs, in the order in which it took them. The leases of some of
    /// these jobs may already have ended.
    taken: Vec<String>,
    functions: Vec<&'static str>,
    asleep: bool,
}

#[derive(Default)]
struct Client {
    connection: usize,
    /// For each handle, the number of outcomes that the client still expects.
    waits_for: BTreeMap<String, usize>,
}

struct Play {
    world: World,
    monitor: usize,
    workers: Vec<Worker>,
    clients: Vec<Client>,
}

impl Play {
    fn new() -> Self {
        let mut world = World::new();
        let monitor = world.connect();
        let mut worker = || Worker { connection: world.connect(), ..Worker::default() };
        let workers = (0..WORKERS).map(|_| worker()).collect();
        let mut client = || Client { connection: world.connect(), ..Client::default() };
        let clients = (0..CLIENTS).map(|_| client()).collect();
        Self { world, monitor, workers, clients }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Submit { client, kind, function, unique } => {
                self.submit(client, kind, &format!("{function}|{unique}|work"));
            }
            Action::CanDo { worker, function, limit_ms } => {
                self.workers[worker].functions.push(function);
                let packet = match limit_ms {
                    Some(limit_ms) => request(CAN_DO_TIMEOUT, &format!("{function}|{limit_ms}")),
                    None => request(CAN_DO, function),
                };
                self.world.send(self.workers[worker].connection, &packet);
            }
            Action::CantDo { worker, function } => {
                self.workers[worker].functions.retain(|known| *known != function);
                self.world.send(self.workers[worker].connection, &request(CANT_DO, function));
            }
            Action::Grab { worker } => {
                self.grab(worker);
            }
            Action::Sleep { worker } => self.sleep(worker),
            Action::End { worker, kind } => {
                if !self.workers[worker].taken.is_empty() {
                    let handle = self.workers[worker].taken.remove(0);
                    let arguments = if kind == WORK_FAIL { handle } else { format!("{handle}|r") };
                    self.world.send(self.workers[worker].connection, &request(kind, &arguments));
                }
            }
            Action::LoseWorker { worker } => {
                self.world.close(self.workers[worker].connection);
                let connection = self.world.connect();
                self.workers[worker] = Worker { connection, ..Worker::default() };
            }
            Action::LoseClient { client } => {
                self.world.close(self.clients[client].connection);
                let connection = self.world.connect();
                self.clients[client] = Client { connection, ..Client::default() };
            }
            Action::Cancel { id } => {
                self.world.ask(self.monitor, format!("cancel job H:vm:{id}\n").as_bytes());
            }
            Action::Drop { function } => {
                self.world.ask(self.monitor, format!("drop function {function}\n").as_bytes());
            }
            Action::Pass { millis } => self.world.advance(millis),
        }
    }

    fn submit(&mut self, client: usize, kind: u32, arguments: &str) {
        self.hear_outcomes();
        let client = &mut self.clients[client];
        self.world.send(client.connection, &request(kind, arguments));
        let replies = received(&mut self.world, client.connection);
        let [(JOB_CREATED, handle)] = &replies[..] else { panic!("no job: {replies:?}") };
        let is_foreground = [SUBMIT_JOB, 21, 33].contains(&kind);
        *client.waits_for.entry(handle.clone()).or_default() += usize::from(is_foreground);
    }

    /// Lets a worker request a job. Returns whether it got a job.
    fn grab(&mut self, worker: usize) -> bool {
        let worker = &mut self.workers[worker];
        worker.asleep = false;
        self.world.take_received(worker.connection);
        self.world.send(worker.connection, &request(GRAB_JOB, ""));
        let replies = received(&mut self.world, worker.connection);
        let is_job = replies[0].0 == JOB_ASSIGN;
        if is_job {
            let handle = replies[0].1.split('|').next().expect("it begins with the handle");
            worker.taken.push(handle.to_owned());
        }
        is_job
    }

    fn sleep(&mut self, worker: usize) {
        let connection = self.workers[worker].connection;
        self.world.take_received(connection);
        self.world.send(connection, &request(PRE_SLEEP, ""));
        let replies = received(&mut self.world, connection);
        self.workers[worker].asleep = replies.is_empty();
        if !replies.is_empty() {
            assert_eq!(replies, [(NOOP, String::new())]);
            assert!(self.grab(worker), "woken for nothing");
        }
    }

    /// All clients read their replies and events, which must be the expected ones.
    fn hear_outcomes(&mut self) {
        for client in &mut self.clients {
            for (kind, arguments) in received(&mut self.world, client.connection) {
                assert!([WORK_COMPLETE, WORK_FAIL].contains(&kind), "{kind} {arguments}");
                let handle = arguments.split('|').next().expect("it begins with the handle");
                let count = client.waits_for.get_mut(handle).expect("it is a job of this client");
                *count = count.checked_sub(1).expect("it hears once for each submit");
            }
        }
    }

    /// Checks that no job is ready for a worker that sleeps and was not woken.
    fn check_sleepers(&mut self) {
        for worker in &mut self.workers {
            let replies = received(&mut self.world, worker.connection);
            let was_woken = replies.iter().any(|(kind, _)| *kind == NOOP);
            assert!(!was_woken || worker.asleep, "only sleepers are woken");
            worker.asleep &= !was_woken;
            let turn = self.world.broker.turn(self.world.now);
            let ready = |function: &&str| {
                turn.queue_stats(function.as_bytes()).is_some_and(|stats| stats.ready > 0)
            };
            let missed = worker.functions.iter().find(|function| ready(function));
            assert!(!worker.asleep || missed.is_none(), "it sleeps through a job of {missed:?}");
        }
    }

    fn check(&mut self) {
        self.check_sleepers();
        self.hear_outcomes();
        self.world.broker.turn(self.world.now).check_invariants();
    }

    /// Completes all remaining jobs. After that, no client waits any more.
    fn finish(mut self) {
        for worker in 0..WORKERS {
            self.act(&Action::LoseWorker { worker });
        }
        for function in FUNCTIONS {
            self.act(&Action::CanDo { worker: 0, function, limit_ms: None });
        }
        while self.grab(0) {
            self.act(&Action::End { worker: 0, kind: WORK_COMPLETE });
        }
        self.hear_outcomes();
        for client in &self.clients {
            assert!(client.waits_for.values().all(|count| *count == 0), "{:?}", client.waits_for);
        }
        let totals = self.world.broker.turn(self.world.now).totals();
        assert_eq!((totals.ready, totals.leased, totals.buried), (0, 0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_client_gets_one_outcome_and_no_sleeper_misses_a_job(
        actions in vec(action(), 0..120),
    ) {
        let mut play = Play::new();
        for action in &actions {
            play.act(action);
            play.check();
        }
        play.finish();
    }
}
