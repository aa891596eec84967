//! Makes random requests of all dialects on a broker with a log, and then crashes it. After
//! recovery, all durable jobs must exist again, in order. `cluster` does the same with two nodes.

mod cluster;

use std::sync::Arc;

use lineshaft_broker::policy::{QueueSync, Rule, Rules, Setting, WhenFull};
use lineshaft_broker::{
    Answer, Broker, GrabOrder, Handout, LeaseId, Millis, NewJob, Options, Patience, ReadMode,
    Refusal, SessionId, Submit, Take, Turn, When,
};
use proptest::prelude::*;

/// If a rule says so, the jobs of the last queue are only in memory.
const QUEUES: [&str; 8] = ["default", "p", "p+a", "p+b", "old", "alias", "copy", "m"];
const KEPT_QUEUES: usize = 7;

#[derive(Clone, Debug)]
struct Step {
    act: u8,
    queue: usize,
    number: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..19u8, 0..QUEUES.len(), 0..32u64).prop_map(|(act, queue, number)| Step {
        act,
        queue,
        number,
    });
    prop::collection::vec(step, 1..120)
}

fn rules(number: u64) -> Rules {
    let name = |name: &str| -> Box<[u8]> { name.as_bytes().into() };
    let full = if number.is_multiple_of(2) { WhenFull::DropOldest } else { WhenFull::Refuse };
    let all = [
        Rule::new(
            ["p*", "old", "copy"],
            [Setting::JobsMax(Some(1 + number % 3)), Setting::WhenFull(full)],
        ),
        // No rule lets jobs of "m" expire. A crash loses the jobs of "m" that are only in memory.
        // Another job would then be the head of the queue, and could expire.
        Rule::new(
            ["p", "default"],
            [Setting::AgeMax(Some(number)), Setting::ExpireTo(Some(name("old")))],
        ),
        Rule::new(["p"], [Setting::CopyTo([name("copy"), name("m")].into())]),
        Rule::new(["m"], [Setting::Sync(Some(QueueSync::Memory))]),
        Rule::new(["alias"], [Setting::Alias([name("p"), name("old")].into())]),
    ];
    let picked = all.into_iter().enumerate().filter(|(at, _)| number & (1 << at) != 0);
    Rules(picked.map(|(_, rule)| rule).collect())
}

fn options(disk: &log::FaultDisk) -> Options {
    let disk = Arc::new(disk.clone());
    let settings = log::Settings { segment_bytes: 64 << 10, ..log::Settings::default() };
    Options::without_threads(disk, settings)
}

fn open(disk: &log::FaultDisk, now: Millis) -> Broker {
    Broker::open(options(disk), now).expect("the log is whole").0
}

struct Play {
    broker: Broker,
    now: Millis,
    tube: SessionId,
    worker: SessionId,
    reader: SessionId,
    leases: Vec<LeaseId>,
    bodies: u32,
}

impl Play {
    fn over(broker: Broker, now: Millis) -> Self {
        let mut turn = broker.turn(now);
        let (tube, worker) = (turn.open_session(0), turn.open_worker_session(0));
        let reader = turn.open_reader_session(0);
        drop(turn);
        Self { broker, now, tube, worker, reader, leases: Vec::new(), bodies: 0 }
    }

    fn step(&mut self, step: &Step) {
        let broker = self.broker.clone();
        let mut turn = broker.turn(self.now);
        let queue = QUEUES[step.queue].as_bytes();
        let number = step.number;
        self.bodies += 1;
        let body = self.bodies.to_string().into_bytes().into();
        match step.act {
            0..4 => {
                let expires =
                    number.is_multiple_of(3).then(|| When::At(Millis(self.now.0 + number)));
                let _ = turn.caller(self.reader).add(queue, body, expires);
            }
            4 | 5 => {
                let how = match number % 4 {
                    0 => ReadMode::Finish,
                    1 => ReadMode::Open { limit_ms: Some(number) },
                    2 => ReadMode::Peek,
                    _ => ReadMode::Open { limit_ms: None },
                };
                let read = turn.caller(self.reader).read(queue, how, Patience::None);
                if let Ok(Take::Granted(handout)) = read.value {
                    self.leases.push(handout.lease);
                }
            }
            6 | 7 => {
                if let Some(&lease) = self.leases.get(number as usize) {
                    if step.act == 6 {
                        let _ = turn.caller(self.reader).confirm(lease);
                    } else {
                        let _ = turn.caller(self.reader).give_back_item(lease);
                    }
                }
            }
            8 | 9 => {
                let delay_s = u32::from(number.is_multiple_of(5));
                let job = NewJob { priority: number as u32 % 3, delay_s, ttr_s: 1 };
                turn.caller(self.tube).use_queue(queue);
                let _ = turn.caller(self.tube).put(job, body);
            }
            10 => {
                turn.caller(self.tube).watch(queue);
                if let Take::Granted(Handout { id, .. }) =
                    turn.caller(self.tube).take(Patience::None).value
                {
                    let _ = match number % 4 {
                        0 => turn
                            .caller(self.tube)
                            .finish(id)
                            .map(|done| done.map_err(Refusal::from)),
                        1 => turn.caller(self.tube).bury(id, 7),
                        2 => turn.caller(self.tube).give_back(id, 9, 0),
                        _ => Answer::at_once(Ok(())),
                    };
                }
            }
            11 => {
                let foreground = number.is_multiple_of(2);
                let submit = Submit {
                    priority: None,
                    due: None,
                    unique: b"-",
                    reducer: b"r",
                    body,
                    foreground,
                };
                let _ = turn.caller(self.worker).submit(queue, submit);
            }
            12 => {
                turn.caller(self.worker).register(queue, None);
                let _ = turn.caller(self.worker).take_registered(GrabOrder::RoundRobin);
            }
            13 => drop(turn.set_policies(rules(number))),
            14 if number < 8 => drop(turn.caller(self.reader).flush(queue)),
            15 if number < 4 => drop(turn.caller(self.reader).remove_queue(queue)),
            16 => {
                turn.close_session(self.worker);
                self.worker = turn.open_worker_session(0);
            }
            17 => {
                let _ = turn.caller(self.tube).kick(number);
            }
            18 => {
                // A third of them removes a note. The longest ones are the first to lack room.
                let value = vec![b'n'; (number % 3 * number * 500) as usize];
                let _ = turn.set_note(queue, &value);
            }
            _ => {}
        }
        turn.check_invariants();
        drop(turn);
        self.now.0 += number % 3;
        if number.is_multiple_of(7) {
            self.broker.commit_step(self.now).expect("the disk works");
            self.broker.prepare_step().expect("the disk works");
        }
        while self.broker.turn(self.now).advance() {}
    }

    /// Makes room, so that the log gets what it had no room for, and commits.
    fn write_what_waits(&self) {
        self.broker.commit_step(self.now).expect("the disk works");
        self.broker.prepare_step().expect("the disk works");
        let mut turn = self.broker.turn(self.now);
        let session = turn.open_session(0);
        let _ = turn.caller(session).create_queue(b"any request");
        turn.close_session(session);
        drop(turn);
        self.broker.commit_step(self.now).expect("the disk works");
    }

    /// Ends all sessions, so that none holds a job.
    fn leave(&mut self) {
        let mut turn = self.broker.turn(self.now);
        for session in [self.tube, self.worker, self.reader] {
            turn.close_session(session);
        }
        drop(turn);
        while self.broker.turn(self.now).advance() {}
        self.broker.turn(self.now).check_invariants();
    }
}

/// For each queue in the log: its ready jobs, in order, and the numbers of its delayed and buried
/// jobs. At the end, all notes.
fn contents(broker: &Broker, now: Millis) -> Vec<(Vec<Vec<u8>>, u64, u64)> {
    while broker.turn(now).advance() {}
    let mut turn: Turn<'_> = broker.turn(now);
    turn.check_invariants();
    // Remove the aliases, because a queue with the name of an alias cannot be read. This also
    // removes the limits, which do not matter here.
    let _ = turn.set_policies(Rules::default());
    let session = turn.open_reader_session(0);
    let contents = QUEUES[..KEPT_QUEUES].iter().map(|queue| {
        let stats = turn.queue_stats(queue.as_bytes()).unwrap_or_default();
        let mut bodies = Vec::new();
        while let Ok(Take::Finished { body, .. }) =
            turn.caller(session).read(queue.as_bytes(), ReadMode::Finish, Patience::None).value
        {
            bodies.push(body.resident().expect("it is in memory").to_vec());
        }
        (bodies, stats.delayed, stats.buried)
    });
    let mut contents: Vec<_> = contents.collect();
    contents.push((turn.notes().map(|(name, value)| [name, value].concat()).collect(), 0, 0));
    contents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn durable_jobs_come_back(lives in prop::collection::vec(steps(), 1..4), seed in any::<u64>()) {
        let disk = log::FaultDisk::new(seed, 32 << 20);
        let mut now = Millis(1_000_000);
        for steps in lives {
            let mut play = Play::over(open(&disk, now), now);
            for step in steps {
                play.step(&step);
            }
            play.leave();
            now = play.now;
            play.write_what_waits();
            // Do not record this read, because the crash undoes it.
            let before = contents(&play.broker, now);
            drop(play);
            disk.crash();
            let broker = open(&disk, now);
            prop_assert_eq!(contents(&broker, now), before);
            drop(broker);
            disk.crash();
        }
    }
}
