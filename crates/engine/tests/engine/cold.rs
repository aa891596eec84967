//! Cold jobs: they leave the engine in blocks, and come back when a request needs them.

use std::collections::BTreeMap;

use lineshaft_engine::policy::{Rule, Rules, Setting, WhenFull};
use lineshaft_engine::{
    BlockSlot, Clearing, Engine, Event, GrabOrder, JobBody, JobFacts, JobId, JobSlot, Need, NewJob,
    Patience, QueueId, Record, SessionId, State, Take,
};
use proptest::prelude::*;

use crate::world::{World, grab};

/// The engine, and the jobs that its owner would find in the log.
struct Owner {
    world: World,
    blocks: BTreeMap<BlockSlot, Vec<(JobFacts, u32)>>,
}

impl Owner {
    fn new() -> Self {
        Self { world: World::new(), blocks: BTreeMap::new() }
    }

    fn queue(&self, name: &[u8]) -> QueueId {
        self.world.engine.queue_id(name).expect("the queue exists")
    }

    /// Makes these ready jobs cold, in the order in which their queue hands them out.
    fn cool(&mut self, ids: &[JobId]) -> BlockSlot {
        let engine = &self.world.engine;
        let slots: Vec<JobSlot> =
            ids.iter().map(|id| engine.slot(*id).expect("the job exists")).collect();
        assert!(slots.iter().all(|slot| engine.may_be_cold(*slot)));
        let jobs = slots.iter().map(|slot| (engine.facts(*slot), engine.body(*slot).len() as u32));
        let jobs = jobs.collect();
        let block = self.world.act(|engine, _| engine.cool(&slots)).expect("there are jobs");
        self.blocks.insert(block, jobs);
        block
    }

    /// Makes `count` jobs of a queue cold, beginning with the job at the place `from`.
    fn cool_some(&mut self, queue: &[u8], from: usize, count: usize) -> Option<BlockSlot> {
        let engine = &self.world.engine;
        let slots = engine.ready_jobs(engine.queue_id(queue)?).skip(from).take(count);
        let slots = slots.filter(|slot| engine.may_be_cold(*slot));
        let ids: Vec<JobId> = slots.map(|slot| engine.id_of(slot)).collect();
        if ids.is_empty() { None } else { Some(self.cool(&ids)) }
    }

    /// Loads the next block of a queue.
    fn load(&mut self, queue: QueueId) {
        let block = self.world.engine.blocks_of(queue).next().expect("the queue has a block");
        let next = self.load_block(block);
        self.world.act(|engine, _| engine.end_wanted(queue, next));
    }

    /// Loads a block, and returns the place of its first job.
    fn load_block(&mut self, block: BlockSlot) -> Option<(u32, u64)> {
        let jobs = self.blocks.remove(&block).expect("the block has jobs");
        let engine = &mut self.world.engine;
        let queue = engine.begin_load(block).expect("the block exists");
        let name = engine.queue_name(queue).to_vec();
        for (facts, len) in &jobs {
            engine.load(&name, facts, None, JobBody::Stored(*len)).expect("it is a cold job");
        }
        self.world.act(|engine, effects| engine.end_load(queue, effects));
        jobs.first().map(|(facts, _)| (facts.priority, facts.order))
    }

    /// Loads the blocks that are wanted, and returns their number.
    fn load_wanted(&mut self) -> usize {
        let mut count = 0;
        loop {
            let wanted = self.world.engine.take_wanted();
            if wanted.is_empty() {
                return count;
            }
            for queue in wanted {
                if self.world.engine.blocks_of(queue).next().is_some() {
                    self.load(queue);
                    count += 1;
                }
            }
        }
    }

    /// Loads blocks until the session misses none.
    fn load_missing(&mut self, session: SessionId, need: Need<'_>) -> usize {
        let mut count = 0;
        while let Some(queue) = self.world.engine.missing(session, need) {
            self.load(queue);
            count += 1;
        }
        count
    }

    fn take(&mut self, session: SessionId) -> Option<JobId> {
        self.load_missing(session, Need::Watched);
        match self.world.take(session, Patience::None) {
            Take::Granted(handout) => Some(handout.id),
            Take::Nothing(_) => None,
            other => panic!("wanted a job or nothing, got {other:?}"),
        }
    }
}

#[test]
fn cold_jobs_count_and_take_no_record() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..300).map(|_| owner.world.put(session, 7, 0, 60)).collect();
    let before = owner.world.engine.record_bytes();
    let block = owner.cool(&ids[20..]);
    let engine = &owner.world.engine;
    assert!(engine.record_bytes() < before / 10, "280 of 300 records are gone");
    assert_eq!(
        (engine.cold_jobs(), engine.totals().ready, engine.totals().urgent),
        (280, 300, 300)
    );
    let stats = engine.queue_stats(owner.queue(b"default"));
    assert_eq!((stats.ready, stats.ready_bytes, stats.bands), (300, 1200, [300, 0, 0]));
    assert!(engine.slot(ids[20]).is_err());
    owner.load_block(block);
    assert_eq!(owner.world.engine.cold_jobs(), 0);
    assert_eq!(owner.world.state(ids[20]), Some(State::Ready));
}

#[test]
fn a_take_misses_a_cold_head_and_gets_it_after_the_load() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..4).map(|_| owner.world.put(session, 7, 0, 60)).collect();
    owner.cool(&ids[..2]);
    let queue = owner.queue(b"default");
    assert_eq!(owner.world.engine.missing(session, Need::Watched), Some(queue));
    assert_eq!(owner.world.engine.missing(session, Need::Used), Some(queue));
    assert!(matches!(owner.world.take(session, Patience::None), Take::Nothing(_)));
    // A job with a lower priority number comes before the cold head.
    let urgent = owner.world.put(session, 6, 0, 60);
    assert_eq!(owner.world.engine.missing(session, Need::Watched), None);
    assert_eq!(owner.world.taken(session), urgent);
    assert_eq!(owner.load_missing(session, Need::Watched), 1);
    let taken: Vec<JobId> = (0..4).map(|_| owner.world.taken(session)).collect();
    assert_eq!(taken, ids);
}

#[test]
fn the_best_of_all_watched_queues_decides_what_is_missing() {
    let mut owner = Owner::new();
    let (producer, taker) = (owner.world.open(), owner.world.open());
    owner.world.act(|engine, _| engine.watch(taker, b"other"));
    let cold = owner.world.put(producer, 5, 0, 60);
    owner.cool(&[cold]);
    owner.world.act(|engine, effects| engine.use_queue(producer, b"other", effects));
    let better = owner.world.put(producer, 4, 0, 60);
    let worse = owner.world.put(producer, 6, 0, 60);
    assert_eq!(owner.world.engine.missing(taker, Need::Watched), None);
    assert_eq!(owner.world.taken(taker), better);
    assert_eq!(owner.world.engine.missing(taker, Need::Watched), Some(owner.queue(b"default")));
    assert_eq!(owner.take(taker), Some(cold));
    assert_eq!(owner.take(taker), Some(worse));
}

#[test]
fn a_pause_that_ends_wants_the_cold_head_for_its_waiters() {
    let mut owner = Owner::new();
    let (producer, waiter) = (owner.world.open(), owner.world.open());
    let ids: Vec<JobId> = (0..2).map(|_| owner.world.put(producer, 5, 0, 60)).collect();
    owner.world.act(|engine, effects| engine.pause(b"default", 1, effects)).expect("it exists");
    owner.cool(&ids);
    assert_eq!(owner.world.engine.missing(waiter, Need::Watched), None, "it is paused");
    assert!(matches!(owner.world.take(waiter, Patience::Endless), Take::Waiting));
    assert_eq!(owner.load_wanted(), 0);
    owner.world.pass(1000);
    assert_eq!(owner.world.events(), []);
    assert_eq!(owner.load_wanted(), 1);
    assert_eq!(owner.world.events(), [(waiter, format!("granted {}", ids[0]))]);
}

#[test]
fn a_job_that_becomes_ready_behind_a_cold_head_waits_for_the_load() {
    let mut owner = Owner::new();
    let (producer, waiter) = (owner.world.open(), owner.world.open());
    owner.world.act(|engine, effects| engine.pause(b"default", 1, effects)).expect("it exists");
    let cold = owner.world.put(producer, 5, 0, 60);
    owner.cool(&[cold]);
    assert!(matches!(owner.world.take(waiter, Patience::Endless), Take::Waiting));
    owner.world.pass(1000);
    owner.world.put(producer, 5, 0, 60);
    assert_eq!(owner.world.events(), []);
    assert_eq!(owner.load_wanted(), 1);
    assert_eq!(owner.world.events(), [(waiter, format!("granted {cold}"))]);
}

#[test]
fn a_worker_that_sleeps_is_woken_by_the_load() {
    let mut owner = Owner::new();
    let (producer, worker) = (owner.world.open(), owner.world.open());
    let cold = owner.world.put(producer, 5, 0, 60);
    owner.cool(&[cold]);
    owner.world.act(|engine, effects| engine.register(worker, b"default", None, effects));
    assert_eq!(owner.world.engine.missing(worker, Need::Registered), Some(owner.queue(b"default")));
    assert!(owner.world.act(|engine, _| engine.sleep(worker)));
    assert_eq!(owner.load_wanted(), 1);
    assert_eq!(owner.world.events(), [(worker, "work to do".into())]);
    let grabbed =
        owner.world.act(|engine, effects| grab(engine, worker, GrabOrder::NewestFirst, effects));
    assert_eq!(grabbed.map(|handout| handout.id), Some(cold));
}

#[test]
fn a_worker_that_leaves_passes_its_wake_on_although_the_head_is_cold() {
    let mut owner = Owner::new();
    owner.world.act(|engine, _| engine.set_wake_max(1));
    let producer = owner.world.open();
    let workers = [owner.world.open(), owner.world.open()];
    for worker in workers {
        owner.world.act(|engine, effects| engine.register(worker, b"default", None, effects));
        assert!(owner.world.act(|engine, _| engine.sleep(worker)));
    }
    let id = owner.world.put(producer, 5, 0, 60);
    assert_eq!(owner.world.events(), [(workers[0], "work to do".into())]);
    owner.cool(&[id]);
    owner.world.act(|engine, effects| engine.unregister(workers[0], b"default", effects));
    assert_eq!(owner.load_wanted(), 1);
    assert_eq!(owner.world.events(), [(workers[1], "work to do".into())]);
}

#[test]
fn the_next_blocks_are_wanted_before_the_last_jobs_are_taken() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..30).map(|_| owner.world.put(session, 5, 0, 60)).collect();
    for block in ids.chunks(10).skip(1) {
        owner.cool(block);
    }
    assert_eq!(owner.load_missing(session, Need::Watched), 0);
    for id in &ids[..10] {
        assert_eq!(owner.world.taken(session), *id);
    }
    assert_eq!(owner.load_wanted(), 0, "no load has said when the next blocks are wanted");
    assert_eq!(owner.load_missing(session, Need::Watched), 1);
    assert_eq!(owner.world.taken(session), ids[10]);
    assert_eq!(owner.load_wanted(), 1, "the first job of the loaded block has left");
    for id in &ids[11..] {
        assert_eq!(owner.world.taken(session), *id);
    }
}

#[test]
fn a_queue_can_want_blocks_again_although_another_load_took_them() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..30).map(|_| owner.world.put(session, 5, 0, 60)).collect();
    let blocks: Vec<BlockSlot> = ids.chunks(10).map(|block| owner.cool(block)).collect();
    let queue = owner.queue(b"default");
    owner.world.act(|engine, _| engine.want_blocks(queue));
    assert_eq!(owner.world.engine.take_wanted(), [queue]);
    // A request for a job by its number, or reclaim, loads the second block meanwhile.
    owner.load_block(blocks[1]);
    assert!(owner.world.engine.wants_blocks(queue), "the wanted load has not ended");
    owner.load_block(blocks[0]);
    owner.world.act(|engine, _| engine.end_wanted(queue, None));
    assert!(!owner.world.engine.wants_blocks(queue));
    for id in &ids {
        assert_eq!(owner.take(session), Some(*id));
    }
}

#[test]
fn a_job_far_behind_the_first_cold_job_loads_nothing() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..40).map(|_| owner.world.put(session, 5, 0, 60)).collect();
    for block in ids[10..].chunks(10) {
        owner.cool(block);
    }
    owner.load(owner.queue(b"default"));
    let far = owner.world.engine.blocks_of(owner.queue(b"default")).nth(1).expect("a third block");
    owner.load_block(far);
    assert!(owner.world.finish(session, ids[35]));
    assert_eq!(owner.load_wanted(), 0);
}

#[test]
fn a_flush_and_a_removal_end_cold_jobs_too() {
    for flushes in [true, false] {
        let mut owner = Owner::new();
        let (producer, session) = (owner.world.open(), owner.world.open());
        owner.world.act(|engine, effects| engine.use_queue(producer, b"q", effects));
        let ids: Vec<JobId> = (0..40).map(|_| owner.world.put(producer, 5, 0, 60)).collect();
        owner.cool(&ids[10..20]);
        owner.cool(&ids[30..]);
        owner.world.records();
        let clearing = owner.world.act(|engine, effects| {
            if flushes {
                engine.flush(session, b"q", effects)
            } else {
                engine.remove_queue(session, b"q", effects)
            }
        });
        assert_eq!(clearing, Clearing::Waiting);
        let rests = owner.world.engine.next_deadline().expect("a chore is left");
        assert!(rests > owner.world.engine.now(), "the chore waits for the load");
        let mut loads = 0;
        while owner.world.events().is_empty() {
            loads += owner.load_wanted();
            while owner.world.act(Engine::advance) {}
        }
        assert_eq!((loads, owner.world.engine.totals().ready), (2, 0));
        let records = owner.world.records();
        let finished = |record: &&_| matches!(record, Record::Finish(..));
        assert_eq!(records.iter().filter(finished).count(), 40);
    }
}

#[test]
fn only_jobs_that_a_load_can_restore_become_cold() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let (delayed, held) = (owner.world.put(session, 5, 9, 60), owner.world.put(session, 5, 0, 60));
    assert_eq!(owner.world.taken(session), held);
    let near = owner.world.put(session, 5, 0, 60);
    let far = owner.world.put(session, 5, 0, 60);
    let engine = &owner.world.engine;
    let slot = |id| engine.slot(id).expect("the job exists");
    assert!(!engine.may_be_cold(slot(delayed)) && !engine.may_be_cold(slot(held)));
    assert!(engine.may_be_cold(slot(near)));
    assert!(!engine.is_far_from_head(slot(near), 1) && engine.is_far_from_head(slot(far), 1));
    // The engine needs the oldest jobs of these queues, or the age of each job.
    let drops = [Setting::JobsMax(Some(9)), Setting::WhenFull(WhenFull::DropOldest)];
    for settings in [drops.to_vec(), vec![Setting::AgeMax(Some(1000))]] {
        let rules = Rules(vec![Rule::new(["default"], settings)]);
        owner.world.act(|engine, effects| engine.set_policies(rules, effects));
        owner.world.pass(0);
        let engine = &owner.world.engine;
        assert!(!engine.may_be_cold(engine.slot(near).expect("the job exists")));
    }
}

#[derive(Clone, Debug)]
enum Act {
    Put { priority: u32 },
    Take,
    Finish,
    GiveBack { priority: u32 },
    Wait,
    Cool { from: usize, count: usize },
    Flush,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..4u32).prop_map(|priority| Act::Put { priority }),
        4 => Just(Act::Take),
        2 => Just(Act::Finish),
        2 => (0..4u32).prop_map(|priority| Act::GiveBack { priority }),
        1 => Just(Act::Wait),
        4 => (0..6usize, 1..6usize).prop_map(|(from, count)| Act::Cool { from, count }),
        1 => Just(Act::Flush),
    ]
}

proptest! {
    /// Sessions get the same jobs in the same order, whether jobs become cold or not.
    #[test]
    fn cold_jobs_change_no_answer(acts in proptest::collection::vec(act(), 1..120)) {
        let (mut cold, mut plain) = (Owner::new(), Owner::new());
        let sessions = [cold.world.open(), cold.world.open()];
        assert_eq!(sessions, [plain.world.open(), plain.world.open()]);
        let [session, waiter] = sessions;
        let mut held = Vec::new();
        let mut is_waiting = false;
        for act in acts {
            let mut answers = Vec::new();
            for (owner, cools) in [(&mut plain, false), (&mut cold, true)] {
                let mut held_now: Vec<JobId> = held.clone();
                let answer = match act {
                    Act::Put { priority } => {
                        let job = NewJob { priority, delay_s: 0, ttr_s: 0 };
                        Some(owner.world.put(session, job.priority, 0, 0))
                    }
                    Act::Take => owner.take(session),
                    Act::Finish => {
                        held_now.pop().filter(|id| owner.world.finish(session, *id))
                    }
                    Act::GiveBack { priority } => {
                        held_now.pop().filter(|id| owner.world.release(session, *id, priority, 0))
                    }
                    Act::Wait if !is_waiting => {
                        owner.load_missing(waiter, Need::Watched);
                        match owner.world.take(waiter, Patience::Endless) {
                            Take::Granted(handout) => {
                                owner.world.finish(waiter, handout.id);
                                Some(handout.id)
                            }
                            _ => None,
                        }
                    }
                    Act::Flush => {
                        let flush = owner.world.act(|engine, effects| {
                            engine.flush(session, b"default", effects)
                        });
                        while flush == Clearing::Waiting
                            && !owner.world.effects.events.iter().any(|(_, event)| {
                                matches!(event, Event::Cleared)
                            })
                        {
                            owner.load_wanted();
                            while owner.world.act(Engine::advance) {}
                        }
                        // A flush of cold jobs takes longer, and reports its end by an event.
                        owner.world.effects.events.retain(|(_, event)| {
                            !matches!(event, Event::Cleared)
                        });
                        None
                    }
                    Act::Cool { from, count } if cools => {
                        owner.cool_some(b"default", from, count);
                        None
                    }
                    Act::Cool { .. } | Act::Wait => None,
                };
                owner.load_wanted();
                let events = owner.world.events();
                answers.push((answer, events, owner.world.engine.totals()));
            }
            prop_assert_eq!(&answers[0], &answers[1]);
            let (answer, events, _) = answers.remove(0);
            match act {
                Act::Take => held.extend(answer),
                Act::Finish | Act::GiveBack { .. } => { held.pop(); }
                Act::Wait => is_waiting |= answer.is_none(),
                Act::Put { .. } | Act::Cool { .. } | Act::Flush => {}
            }
            if let Some((who, _)) = events.first() && *who == waiter {
                is_waiting = false;
                for owner in [&mut plain, &mut cold] {
                    let job = answer.expect("a put or a give-back gave the waiter its job");
                    let _ = owner.world.finish(waiter, job);
                }
            }
        }
    }
}
