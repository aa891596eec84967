//! Cold jobs: they leave the engine in blocks, and come back when a request needs them.

use std::collections::BTreeMap;

use lineshaft_engine::policy::{Rule, Rules, Setting, WhenFull};
use lineshaft_engine::{
    BlockFacts, BlockSlot, Clearing, Engine, Event, GrabOrder, JobBody, JobFacts, JobId, JobList,
    JobSlot, Kick, Millis, Need, Patience, QueueId, Record, RestoreError, SessionId, State, Tags,
    Take,
};
use proptest::prelude::*;

use crate::world::{World, grab};

mod keys;

/// The engine, and the jobs that its owner would find in the log.
struct Owner {
    world: World,
    blocks: BTreeMap<BlockSlot, Vec<ColdJob>>,
}

/// The facts of a cold job, the length of its body, and its key, if it was submitted.
type ColdJob = (JobFacts, u32, Option<Box<[u8]>>);

impl Owner {
    fn new() -> Self {
        Self { world: World::new(), blocks: BTreeMap::new() }
    }

    fn queue(&self, name: &[u8]) -> QueueId {
        self.world.engine.queue_id(name).expect("the queue exists")
    }

    /// The list of a state of the queue `default`.
    fn list(&self, state: State) -> JobList {
        JobList { queue: self.queue(b"default"), state }
    }

    /// Makes these jobs of one list cold.
    fn cool(&mut self, ids: &[JobId]) -> BlockSlot {
        let engine = &self.world.engine;
        let slots: Vec<JobSlot> =
            ids.iter().map(|id| engine.slot(*id).expect("the job exists")).collect();
        assert!(slots.iter().all(|slot| engine.may_be_cold(*slot)));
        let jobs = slots.iter().map(|slot| {
            let unique = engine.tags(*slot).map(|tags| tags.unique.into());
            (engine.facts(*slot), engine.body(*slot).len() as u32, unique)
        });
        let jobs = jobs.collect();
        let block = self.world.act(|engine, _| engine.cool(&slots)).expect("there are jobs");
        self.blocks.insert(block, jobs);
        block
    }

    /// Makes `count` jobs of a list cold, without the first `from`.
    fn cool_some(&mut self, list: JobList, from: usize, count: usize) {
        let engine = &self.world.engine;
        let ids = (1..engine.next_number()).map(JobId);
        let ids = ids.filter(|id| {
            let slot = engine.slot(*id).ok().filter(|slot| engine.may_be_cold(*slot));
            slot.is_some_and(|slot| {
                let is_soon = list.state == State::Delayed && !engine.are_far_from_head(&[slot], 0);
                engine.list_of(slot) == list && !is_soon
            })
        });
        let ids: Vec<JobId> = ids.skip(from).take(count).collect();
        if !ids.is_empty() {
            self.cool(&ids);
        }
    }

    /// Advances the time in steps, and loads what is wanted after each.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 500 {
            self.world.pass(500);
            self.load_wanted();
            self.world.pass(0);
        }
    }

    /// Kicks jobs, and returns their number.
    fn kick(&mut self, session: SessionId, max: u64) -> u64 {
        let kick = self.world.act(|engine, effects| engine.kick(session, max, effects));
        let Kick::Waiting = kick else {
            let Kick::Done(kicked) = kick else { unreachable!("the kick is done") };
            return kicked;
        };
        loop {
            self.load_wanted();
            while self.world.act(Engine::advance) {}
            let events = &mut self.world.effects.events;
            let kicked = |event: &(SessionId, Event)| match event.1 {
                Event::Kicked(_, count) => Some(count),
                _ => None,
            };
            if let Some(place) = events.iter().position(|event| kicked(event).is_some()) {
                return kicked(&events.remove(place)).unwrap_or_default();
            }
        }
    }

    /// The number of the first job of a list.
    fn first(&mut self, session: SessionId, state: State) -> Option<JobId> {
        self.load_missing(session, Need::Used(state));
        let slot = self.world.engine.first_used(session, state).ok()?;
        Some(self.world.engine.id_of(slot))
    }

    /// Loads the next block of a list.
    fn load(&mut self, list: JobList) {
        let block = self.world.engine.blocks_of(list).next().expect("the list has a block");
        let next = self.load_block(block).filter(|_| list.state == State::Ready);
        self.world.act(|engine, _| engine.end_wanted(list, next));
    }

    /// Loads a block, and returns the place of its first job among ready jobs.
    fn load_block(&mut self, block: BlockSlot) -> Option<(u64, u64)> {
        let jobs = self.blocks.remove(&block).expect("the block has jobs");
        let engine = &mut self.world.engine;
        let list = engine.begin_load(block).expect("the block exists");
        for (facts, len, unique) in &jobs {
            let tags = unique.as_ref().map(|unique| Tags { unique, reducer: b"" });
            let load = engine.load(list.queue, facts, tags, JobBody::Stored(*len));
            load.expect("it is a cold job");
        }
        self.world.act(|engine, effects| {
            engine.end_load(list.queue, effects, &mut |_| panic!("no other job has its place"));
        });
        jobs.iter().map(|(facts, ..)| BlockFacts::ready_place(facts)).min()
    }

    /// Loads the blocks that are wanted, and returns their number.
    fn load_wanted(&mut self) -> usize {
        let mut count = 0;
        loop {
            let wanted = self.world.engine.take_wanted();
            if wanted.is_empty() {
                return count;
            }
            for list in wanted {
                if self.world.engine.blocks_of(list).next().is_some() {
                    self.load(list);
                    count += 1;
                } else {
                    self.world.act(|engine, _| engine.end_wanted(list, None));
                }
            }
        }
    }

    /// Loads blocks until the session misses none.
    fn load_missing(&mut self, session: SessionId, need: Need<'_>) -> usize {
        let mut count = 0;
        while let Some(list) = self.world.engine.missing(session, need) {
            self.load(list);
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
    let list = owner.list(State::Ready);
    assert_eq!(owner.world.engine.missing(session, Need::Watched), Some(list));
    assert_eq!(owner.world.engine.missing(session, Need::Used(State::Ready)), Some(list));
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
    assert_eq!(owner.world.engine.missing(taker, Need::Watched), Some(owner.list(State::Ready)));
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
    assert_eq!(
        owner.world.engine.missing(worker, Need::Registered),
        Some(owner.list(State::Ready))
    );
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
    let list = owner.list(State::Ready);
    owner.world.act(|engine, _| engine.want_blocks(list));
    assert_eq!(owner.world.engine.take_wanted(), [list]);
    // A request for a job by its number, or reclaim, loads the second block meanwhile.
    owner.load_block(blocks[1]);
    assert!(owner.world.engine.wants_blocks(list), "the wanted load has not ended");
    owner.load_block(blocks[0]);
    owner.world.act(|engine, _| engine.end_wanted(list, None));
    assert!(!owner.world.engine.wants_blocks(list));
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
    owner.load(owner.list(State::Ready));
    let far = owner.world.engine.blocks_of(owner.list(State::Ready)).nth(1).expect("a third block");
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
        let finished = |record: &&_| matches!(record, Record::Finish { .. });
        assert_eq!(records.iter().filter(finished).count(), 40);
    }
}

#[test]
fn a_removal_that_rests_loads_no_more_jobs() {
    let mut owner = Owner::new();
    let (producer, session) = (owner.world.open(), owner.world.open());
    owner.world.act(|engine, effects| engine.use_queue(producer, b"q", effects));
    let ids: Vec<JobId> = (0..40).map(|_| owner.world.put(producer, 5, 0, 60)).collect();
    for block in ids.chunks(10) {
        owner.cool(block);
    }
    let clearing = owner.world.act(|engine, effects| engine.remove_queue(session, b"q", effects));
    assert_eq!(clearing, Clearing::Waiting);
    owner.world.act(|engine, _| engine.hold_chores(true));
    assert_eq!(owner.load_wanted(), 1, "the chore needs only the first block now");
    owner.world.act(|engine, _| engine.hold_chores(false));
    while owner.world.events().is_empty() {
        owner.load_wanted();
        while owner.world.act(Engine::advance) {}
    }
    assert_eq!(owner.world.engine.totals().ready, 0);
}

#[test]
fn a_kick_ends_behind_some_jobs_at_a_cold_job_while_memory_is_short() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..6).map(|_| owner.world.put(session, 5, 40, 60)).collect();
    owner.cool(&ids[2..4]);
    owner.cool(&ids[4..]);
    owner.world.act(|engine, _| engine.note_full_memory(true));
    assert_eq!(owner.kick(session, 10), 2);
    assert_eq!(owner.kick(session, 10), 2, "each kick that finds jobs kicks some");
    owner.cool_some(owner.list(State::Delayed), 0, 2);
    owner.world.act(|engine, _| engine.note_full_memory(false));
    assert_eq!(owner.kick(session, 10), 2);
}

#[test]
fn a_load_of_delayed_jobs_reads_only_what_is_due_soon() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    for delay_s in [3, 4, 9, 20] {
        let id = owner.world.put(session, 5, delay_s, 60);
        owner.cool(&[id]);
    }
    let list = owner.list(State::Delayed);
    let count = |owner: &Owner| owner.world.engine.blocks_to_load(list).count();
    assert_eq!(count(&owner), 1, "a kick needs the first block");
    owner.world.pass(2000);
    assert_eq!(count(&owner), 2);
}

#[test]
fn only_jobs_that_a_load_can_restore_become_cold() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let held = owner.world.put(session, 5, 0, 60);
    assert_eq!(owner.world.taken(session), held);
    let (soon, later) = (owner.world.put(session, 5, 1, 60), owner.world.put(session, 5, 9, 60));
    let near = owner.world.put(session, 5, 0, 60);
    let far = owner.world.put(session, 5, 0, 60);
    let engine = &owner.world.engine;
    let slot = |id| engine.slot(id).expect("the job exists");
    assert!(!engine.may_be_cold(slot(held)));
    let is_far = |id| engine.may_be_cold(slot(id)) && engine.are_far_from_head(&[slot(id)], 1);
    assert_eq!([near, far, soon, later].map(is_far), [false, true, false, true]);
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

#[test]
fn delayed_jobs_are_loaded_before_they_are_due() {
    let mut owner = Owner::new();
    let (producer, waiter) = (owner.world.open(), owner.world.open());
    let ids: Vec<JobId> = (0..2).map(|_| owner.world.put(producer, 5, 10, 60)).collect();
    owner.cool(&ids);
    let totals = owner.world.engine.totals();
    assert_eq!((totals.delayed, totals.ready), (2, 0));
    assert!(matches!(owner.world.take(waiter, Patience::Endless), Take::Waiting));
    owner.world.pass(8_999);
    assert_eq!(owner.load_wanted(), 0);
    let next = owner.world.engine.next_deadline().expect("jobs are delayed");
    assert_eq!(next.0 - owner.world.engine.now().0, 1, "a second before they are due");
    owner.world.pass(1);
    assert_eq!((owner.load_wanted(), owner.world.events().len()), (1, 0));
    owner.world.pass(999);
    assert_eq!(owner.world.events(), []);
    owner.world.pass(1);
    assert_eq!(owner.world.events(), [(waiter, format!("granted {}", ids[0]))]);
}

#[test]
fn jobs_of_a_block_become_ready_without_a_load_if_all_are_due() {
    let mut owner = Owner::new();
    let (producer, taker) = (owner.world.open(), owner.world.open());
    let put = |owner: &mut Owner, priority, delay| owner.world.put(producer, priority, delay, 60);
    let early: Vec<JobId> = (0..3).map(|number| put(&mut owner, 9 - number, 10)).collect();
    let late = put(&mut owner, 0, 20);
    owner.cool(&early);
    owner.cool(&[late]);
    owner.world.engine.take_wanted();
    // Nothing was loaded in time.
    owner.world.pass(10_000);
    let totals = owner.world.engine.totals();
    assert_eq!((totals.delayed, totals.ready, owner.world.engine.cold_jobs()), (1, 3, 4));
    assert_eq!(owner.load_wanted(), 0);
    for id in early.iter().rev() {
        assert_eq!(owner.take(taker), Some(*id), "the most urgent job is first");
    }
    assert_eq!(owner.take(taker), None);
    assert_eq!(owner.world.engine.cold_jobs(), 1);
}

#[test]
fn a_due_job_of_a_block_that_is_not_loaded_yet_is_taken_first() {
    let mut owner = Owner::new();
    let (producer, taker) = (owner.world.open(), owner.world.open());
    let due = owner.world.put(producer, 3, 10, 60);
    let later = owner.world.put(producer, 3, 30, 60);
    let ready = owner.world.put(producer, 5, 0, 60);
    owner.cool(&[due, later]);
    owner.world.pass(10_000);
    let list = owner.list(State::Delayed);
    assert_eq!(owner.world.engine.missing(taker, Need::Watched), Some(list));
    assert_eq!(owner.world.engine.missing(taker, Need::Used(State::Ready)), Some(list));
    assert!(matches!(owner.world.take(taker, Patience::None), Take::Nothing(_)));
    assert_eq!(owner.take(taker), Some(due));
    assert_eq!(owner.take(taker), Some(ready));
    assert_eq!(owner.world.state(later), Some(State::Delayed));
}

#[test]
fn cold_delayed_and_buried_jobs_can_be_seen_and_kicked() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let buried: Vec<JobId> = (0..4).map(|_| owner.world.put(session, 5, 0, 60)).collect();
    for id in &buried {
        assert_eq!(owner.world.taken(session), *id);
        assert!(owner.world.bury(session, *id));
    }
    let delayed: Vec<JobId> = (0..4).map(|n| owner.world.put(session, 5, 40 - n, 60)).collect();
    owner.cool(&buried[..2]);
    owner.cool(&buried[2..]);
    owner.cool(&delayed);
    let totals = owner.world.engine.totals();
    assert_eq!((totals.buried, totals.delayed, owner.world.engine.cold_jobs()), (4, 4, 8));
    assert_eq!(owner.first(session, State::Buried), Some(buried[0]));
    assert_eq!(owner.kick(session, 3), 3);
    assert_eq!(owner.world.state(buried[2]), Some(State::Ready));
    assert_eq!(owner.world.state(buried[3]), Some(State::Buried));
    assert_eq!(owner.kick(session, 3), 1, "only buried jobs, because there were some");
    assert_eq!(owner.kick(session, 1), 1);
    assert_eq!(owner.first(session, State::Delayed), Some(delayed[2]), "the last one was kicked");
}

#[derive(Clone, Debug)]
enum Act {
    Put { priority: u32, delay_s: u32 },
    Take,
    Finish,
    GiveBack { priority: u32, delay_s: u32 },
    Bury,
    Kick { max: u64 },
    First(State),
    Pass { millis: u64 },
    Wait,
    Cool { state: State, from: usize, count: usize },
    Flush,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..4u32, delay()).prop_map(|(priority, delay_s)| Act::Put { priority, delay_s }),
        4 => Just(Act::Take),
        2 => Just(Act::Finish),
        2 => (0..4u32, delay()).prop_map(|(priority, delay_s)| Act::GiveBack { priority, delay_s }),
        2 => Just(Act::Bury),
        1 => (1..5u64).prop_map(|max| Act::Kick { max }),
        1 => state().prop_map(Act::First),
        2 => (1..8u64).prop_map(|halves| Act::Pass { millis: 500 * halves }),
        1 => Just(Act::Wait),
        4 => (state(), 0..6usize, 1..6usize)
            .prop_map(|(state, from, count)| Act::Cool { state, from, count }),
        1 => Just(Act::Flush),
    ]
}

fn delay() -> impl Strategy<Value = u32> {
    prop_oneof![2 => Just(0), 1 => 1..9u32]
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Ready), Just(State::Delayed), Just(State::Buried)]
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
                    Act::Put { priority, delay_s } => {
                        Some(owner.world.put(session, priority, delay_s, 0))
                    }
                    Act::Take => owner.take(session),
                    Act::Finish => {
                        held_now.pop().filter(|id| owner.world.finish(session, *id))
                    }
                    Act::GiveBack { priority, delay_s } => held_now
                        .pop()
                        .filter(|id| owner.world.release(session, *id, priority, delay_s)),
                    Act::Bury => held_now.pop().filter(|id| owner.world.bury(session, *id)),
                    Act::Kick { max } => Some(JobId(owner.kick(session, max))),
                    Act::First(state) => owner.first(session, state),
                    Act::Pass { millis } => {
                        owner.pass(millis);
                        None
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
                    Act::Cool { state, from, count } if cools => {
                        owner.cool_some(owner.list(state), from, count);
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
                Act::Finish | Act::GiveBack { .. } | Act::Bury => { held.pop(); }
                Act::Wait => is_waiting |= answer.is_none(),
                _ => {}
            }
            if let Some((who, event)) = events.first() && *who == waiter {
                is_waiting = false;
                let job = event.strip_prefix("granted ").and_then(|id| id.parse().ok());
                for owner in [&mut plain, &mut cold] {
                    prop_assert!(owner.world.finish(waiter, JobId(job.expect("it got a job"))));
                }
            }
        }
    }
}

#[test]
fn a_start_refuses_more_jobs_than_can_be_counted() {
    let mut engine = World::new().engine;
    let mut restore = |place, bands| {
        let facts = BlockFacts {
            state: State::Ready,
            first: (7, place),
            last: (7, place),
            first_ready: (7, place),
            created: Millis(1),
            bands,
            body_bytes: 0,
            expires: false,
        };
        engine.restore_block(b"q", facts).err()
    };
    assert_eq!(restore(1, [u32::MAX, 1, 0]), Some(RestoreError::TooMany));
    assert_eq!(restore(2, [0, u32::MAX, 0]), None);
    assert_eq!(restore(3, [1, 0, 0]), Some(RestoreError::TooMany));
    assert_eq!(engine.job_count(), u64::from(u32::MAX));
}

#[test]
fn cold_jobs_that_nobody_can_read_leave_room_for_a_put_that_waits() {
    let mut owner = Owner::new();
    let full =
        [Setting::JobsMax(Some(3)), Setting::WhenFull(WhenFull::Block), Setting::BlockFor(1000)];
    owner.world.policies([Rule::new(["default"], full)]);
    let session = owner.world.open();
    let ids: Vec<JobId> = (0..3).map(|_| owner.world.put(session, 7, 0, 60)).collect();
    let block = owner.cool(&ids[1..]);
    let body = b"y"[..].into();
    let must_wait = |owner: &mut Owner| {
        let put = (&body, &b""[..]);
        let waits = owner.world.act(|e, fx| e.wait_for_room(session, None, put, None, fx));
        owner.world.act(Engine::offer_room);
        waits
    };
    assert!(must_wait(&mut owner));
    assert_eq!(owner.world.events(), []);
    let list = owner.world.engine.begin_load(block).expect("the block exists");
    owner.world.act(|engine, fx| engine.end_failed_load(list.queue, fx));
    owner.world.act(Engine::offer_room);
    assert_eq!(owner.world.events(), [(session, "room".to_owned())]);
    assert!(!must_wait(&mut owner));
}
