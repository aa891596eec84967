//! A follower gets the records of a leader, and then has the same jobs and queues.

use std::collections::BTreeMap;

use lineshaft_engine::limits::Limits;
use lineshaft_engine::policy::{Rule, Rules, Setting};
use lineshaft_engine::{
    Effects, Engine, EngineSetup, JobFacts, JobId, JobSlot, Millis, QueueFacts, Record,
    RestoreError, State,
};
use proptest::prelude::*;

use crate::random::{Crowd, steps};
use crate::world::{START, World};

/// An engine that follows another one.
pub(crate) struct Follower {
    pub(crate) engine: Engine,
    effects: Effects,
}

impl Follower {
    pub(crate) fn new() -> Self {
        let engine = Engine::new(EngineSetup::default(), START, 1);
        Self { engine, effects: Effects::default() }
    }

    /// Applies the records of one request. The log gets the facts as they are after the request.
    pub(crate) fn follow(&mut self, leader: &Engine, records: &[Record]) {
        self.engine.set_time(leader.now());
        self.engine.set_wall_ahead(leader.wall_ahead_ms());
        for record in records {
            self.apply(leader, record).expect("the leader has no impossible facts");
        }
        self.engine.note_children(&mut self.effects);
        self.effects.records.clear();
        assert!(self.effects.events.is_empty(), "nobody waits at a follower");
        self.engine.check_invariants();
    }

    fn apply(&mut self, leader: &Engine, record: &Record) -> Result<(), RestoreError> {
        let is_live = |slot, id| leader.id_at(slot) == Some(id);
        match record {
            Record::Put(slot, id) if is_live(*slot, *id) => self.put(leader, *slot)?,
            Record::PutMany(jobs) => {
                for (slot, id) in jobs {
                    if is_live(*slot, *id) {
                        self.put(leader, *slot)?;
                    }
                }
            }
            Record::Update(slot, id)
            | Record::Moved(slot, id)
            | Record::Taken(slot, id)
            | Record::Rerouted { slot, id, .. }
                if is_live(*slot, *id) =>
            {
                let (facts, tags) = (leader.facts(*slot), leader.tags(*slot));
                let name = leader.queue_name(leader.queue_of(*slot));
                let own = self.engine.slot(*id).expect("it has the job");
                self.engine.apply_update(own, name, &facts, tags, &mut self.effects)?;
            }
            Record::Replaced(slot, id) if is_live(*slot, *id) => {
                let own = self.engine.slot(*id).expect("it has the job");
                self.engine.apply_finish(own, &mut self.effects);
                self.put(leader, *slot)?;
            }
            Record::Count(slot, id) if is_live(*slot, *id) => {
                let own = self.engine.slot(*id).expect("it has the job");
                self.engine.apply_counters(own, leader.facts(*slot).counters);
            }
            Record::Put(..)
            | Record::Update(..)
            | Record::Moved(..)
            | Record::Taken(..)
            | Record::Replaced(..)
            | Record::Rerouted { .. }
            | Record::Count(..)
            | Record::QueueGone(_)
            | Record::Known(..)
            | Record::KnownEnded => {}
            Record::Claim(key) => self.engine.apply_claim(*key, leader.claim(*key)),
            Record::Finish { id, .. } => {
                // A job that was put and has ended in the same request never came here.
                if let Ok(own) = self.engine.slot(*id) {
                    self.engine.apply_finish(own, &mut self.effects);
                }
            }
            Record::QueueFacts(queue) => {
                if leader.has_queue(*queue) {
                    let facts = leader.queue_facts(*queue);
                    self.engine.apply_queue(leader.queue_name(*queue), facts, &mut self.effects)?;
                }
            }
            Record::QueueDropped(_, name) => {
                self.engine.apply_queue(name, QueueFacts::default(), &mut self.effects)?;
            }
            Record::Policies => {
                self.engine.apply_rules(leader.policies().clone(), &mut self.effects);
                while self.engine.apply_more(&mut self.effects) {}
            }
            Record::Crons => self.engine.restore_crons(leader.cron_table().clone()),
            Record::CronState(name) => {
                self.engine.restore_cron_state(name, leader.cron_state(name));
            }
            Record::Note(name) => {
                self.engine.restore_note(name, leader.note_of(name).unwrap_or_default());
            }
            Record::Status => self.engine.restore_status(leader.status()),
        }
        Ok(())
    }

    fn put(&mut self, leader: &Engine, slot: JobSlot) -> Result<(), RestoreError> {
        let name = leader.queue_name(leader.queue_of(slot));
        let (facts, tags) = (leader.facts(slot), leader.tags(slot));
        self.engine.restore(name, &facts, tags, leader.body(slot))?;
        Ok(())
    }
}

/// The jobs that the log would have, each with its queue, its facts, and the length of its body. A
/// restart makes leased jobs ready. It also makes delayed jobs ready that are due by the wall clock,
/// even if the engine did not know that yet because of the clock's drift. (The wall time of a job that
/// expires is not when it is due.)
fn jobs(engine: &Engine) -> BTreeMap<JobId, (Vec<u8>, JobFacts, usize)> {
    let wall_now = engine.wall_at(engine.now());
    let facts = |slot| {
        let mut facts = engine.facts(slot);
        if facts.state == State::Leased {
            facts.state = State::Ready;
        } else if facts.state == State::Delayed
            && facts.expires.is_none()
            && facts.wall.is_some_and(|wall| wall <= wall_now)
        {
            (facts.state, facts.wall) = (State::Ready, None);
        }
        let name = engine.queue_name(engine.queue_of(slot)).to_vec();
        (facts.id, (name, facts, engine.body(slot).len()))
    };
    engine.logged_slots().map(facts).collect()
}

/// Makes the facts of a leader and of its follower equal where they may differ.
fn align(leader: &JobFacts, follower: &mut JobFacts, now: Millis) {
    let goes_by_wall = follower.wall.is_some();
    if (leader.state, follower.state) == (State::Ready, State::Delayed)
        && (follower.due <= now || goes_by_wall)
    {
        // The job came due, and the leader's timer made no record of that.
        follower.state = State::Ready;
        if follower.expires.is_none() {
            follower.wall = None;
        }
    }
    if leader.state != State::Delayed || goes_by_wall {
        // The moment at which the job became ready has no record, and the wall clock may have been
        // set.
        follower.due = leader.due;
    }
    if goes_by_wall && leader.expires.is_some() && follower.expires.is_some() {
        follower.expires = leader.expires;
    }
}

/// The queues that stay without jobs, and their facts.
fn queues(engine: &Engine) -> Vec<(Vec<u8>, QueueFacts)> {
    let ids = engine.queue_ids().filter(|id| engine.queue_facts(*id).kept);
    let mut queues: Vec<_> =
        ids.map(|id| (engine.queue_name(id).to_vec(), engine.queue_facts(id))).collect();
    queues.sort_by(|(one, _), (other, _)| one.cmp(other));
    queues
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_follower_has_what_a_restart_of_the_leader_would_have(steps in steps()) {
        let world = World { follower: Some(Follower::new()), ..World::new() };
        let mut crowd = Crowd::with(world);
        for step in &steps {
            crowd.step(step);
            let World { engine, follower, .. } = &crowd.world;
            let follower = &follower.as_ref().expect("it was given one").engine;
            let (mut wanted, mut found) = (jobs(engine), jobs(follower));
            for (id, (_, leader, _)) in &mut wanted {
                if let Some((_, follower, _)) = found.get_mut(id) {
                    align(leader, follower, engine.now());
                }
            }
            prop_assert_eq!(wanted, found);
            prop_assert_eq!(queues(engine), queues(follower));
        }
    }
}

#[test]
fn the_slices_of_new_rules_leave_no_timer() {
    let setup = EngineSetup { limits: Limits { slice_units: 4 }, ..EngineSetup::default() };
    let mut engine = Engine::new(setup, START, 1);
    let mut effects = Effects::default();
    for number in 0..100 {
        let facts = QueueFacts { kept: true, ..QueueFacts::default() };
        engine.apply_queue(&[b'q', number], facts, &mut effects).expect("the facts are possible");
    }
    let rule = Rule::new(["*"], [Setting::JobsMax(Some(3))]);
    engine.apply_rules(Rules(vec![rule]), &mut effects);
    let mut slices = 0;
    while engine.apply_more(&mut effects) {
        engine.check_invariants();
        slices += 1;
    }
    assert!(slices > 1, "one slice is too short for all queues");
    engine.check_invariants();
    assert_eq!(engine.next_deadline(), None);
}
