//! Everything under the broker's lock, mainly the engine and the ledger.

use std::cell::Cell;
use std::sync::Arc;

use engine::{Body, Effects, Engine, EngineSetup, JobBody, JobSlot, Millis, SessionId, Totals};
use log::{BodyRef, Current, Owner, Slot};

use crate::admission::memory::MemoryLimit;
use crate::bodies::Bodies;
use crate::bodies::loads::Loads;
use crate::cold::Cold;
use crate::ledger::locations::Locations;
use crate::ledger::meta::OptionalFields;
use crate::ledger::{Ledger, queue_ref};
use crate::reclaim::{Rescue, Rewrite};
use crate::replication::RestoredState;
use crate::wall::is_news;
use crate::{Answer, Event, Position};

/// In debug builds, `check_invariants` runs once per this many turns.
const CHECK_TURNS: u32 = 64;
/// If there are more jobs, queues and sessions than this, `check_sample` does not call
/// `check_invariants`.
const CHECK_PARTS_MAX: u64 = 1000;

/// Everything that a [`crate::Turn`] works on.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) effects: Effects,
    pub(crate) ledger: Ledger,
    /// The events of this turn, each with the number of the session's mailbox and the session.
    pub(crate) outgoing: Vec<(u32, SessionId, Answer<Event>)>,
    /// How far the wall clock is ahead of the engine's time, according to the log.
    pub(crate) logged_ahead_ms: i64,
    pub(crate) rescue: Rescue,
    pub(crate) rewrite: Rewrite,
    pub(crate) bodies: Bodies,
    pub(crate) cold: Cold,
    /// During a start of a cluster's node: what the log says about its place.
    pub(crate) restored: Option<RestoredState>,
    /// The bodies that the loader must load.
    pub(crate) loads: Arc<Loads>,
    /// The moment of the last alarm that was sent to the first mailbox. `None`: an alarm must be
    /// sent for the next deadline.
    pub(crate) alarm: Option<Millis>,
    /// A group could not be applied completely. So the broker is not used any more.
    pub(crate) is_stopped: bool,
    /// A thread has panicked while it had the lock, so a request may be half done.
    pub(crate) is_broken: bool,
    /// What the limit of memory leaves for the next puts of this turn, in bytes, at least. 0 at the
    /// begin of a turn: see [`crate::admission`].
    pub(crate) memory_left: Cell<u64>,
    /// Turns since the last call of `check_invariants`, counted in debug builds only.
    unchecked_turns: u32,
}

impl Core {
    pub(crate) fn new(setup: EngineSetup, now: Millis) -> Self {
        Self {
            engine: Engine::new(setup, now, 1),
            effects: Effects::default(),
            ledger: Ledger::default(),
            outgoing: Vec::new(),
            logged_ahead_ms: 0,
            rescue: Rescue::default(),
            rewrite: Rewrite::default(),
            bodies: Bodies::default(),
            cold: Cold::default(),
            restored: None,
            loads: Arc::default(),
            alarm: None,
            is_stopped: false,
            is_broken: false,
            memory_left: Cell::new(0),
            unchecked_turns: 0,
        }
    }

    /// Memory of jobs, queues and sessions in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let tables_bytes = MemoryLimit::inside(&self.engine, self.ledger.locations.count());
        tables_bytes + self.ledger.journal_bytes()
    }

    /// Logs how far the wall clock is ahead of the engine's time. Does nothing if this difference
    /// has changed by less than a second. Returns false if the log has no room.
    pub(crate) fn log_wall_clock(&mut self) -> bool {
        let ahead_ms = self.engine.wall_ahead_ms();
        if !is_news(ahead_ms, self.logged_ahead_ms) {
            return true;
        }
        let is_logged = self.ledger.write_clock(ahead_ms, &self.engine);
        if is_logged {
            self.logged_ahead_ms = ahead_ms;
        }
        is_logged
    }

    /// Panics if the engine and the ledger disagree. Called at the end of each turn, so it compares
    /// only counts. In debug builds, every [`CHECK_TURNS`] turns, it also does the complete check.
    pub(crate) fn check_sample(&mut self) {
        if self.is_stopped {
            return;
        }
        self.ledger.check_counts(&self.engine);
        if !cfg!(debug_assertions) {
            return;
        }
        self.unchecked_turns += 1;
        if self.unchecked_turns < CHECK_TURNS {
            return;
        }
        self.unchecked_turns = 0;
        let Totals { ready, leased, delayed, buried, queues, sessions, .. } = self.engine.totals();
        if ready + leased + delayed + buried + queues + sessions <= CHECK_PARTS_MAX {
            self.check_invariants();
        }
    }

    /// Checks the whole engine and ledger, and panics if they disagree.
    pub(crate) fn check_invariants(&self) {
        self.engine.check_invariants();
        self.ledger.check_invariants(&self.engine);
        self.check_cold();
    }

    /// Writes the records of the last request to the log, and turns the engine's events into events
    /// for sessions. Must be called after each request, because records name slots, and the next
    /// request may reuse a slot. Returns the position for a reply that depends on all entries of
    /// the request except counters.
    pub(crate) fn apply_effects(&mut self) -> Position {
        if self.engine.has_room_lines() {
            self.engine.offer_room(&mut self.effects);
        }
        self.apply_part_of_effects()
    }

    /// The same, if the request goes on: only at its end, other sessions learn that there is room.
    pub(crate) fn apply_part_of_effects(&mut self) -> Position {
        self.ledger.begin();
        self.engine.note_children(&mut self.effects);
        if self.ledger.follows() {
            // Cold jobs have come or gone. No other change happens at a follower.
            self.forget_gone_queues(|queue, ledger| ledger.note_gone(queue));
        }
        if self.ledger.has_journal() {
            self.write_records();
        } else {
            self.effects.records.clear();
        }
        let mut events = std::mem::take(&mut self.effects.events);
        for (session, event) in events.drain(..) {
            let Some(mailbox) = self.engine.mailbox(session) else { continue };
            let (event, after) = match event {
                engine::Event::Granted(mut handout) => {
                    let (job, queue) =
                        ((handout.job, handout.id), self.engine.queue_of(handout.job));
                    self.fetch(job, Some(queue), session, &mut handout.body);
                    self.note_handout(queue, handout.id);
                    let after = self.ledger.after_job(&self.engine, handout.job);
                    (Event::Granted(handout), after)
                }
                engine::Event::TimedOut => {
                    (Event::TimedOut, self.ledger.after_queues(self.engine.watched(session)))
                }
                engine::Event::DeadlineSoon => (Event::DeadlineSoon, Position::NONE),
                engine::Event::Room => (Event::Room, Position::NONE),
                engine::Event::WorkToDo => (Event::WorkToDo, Position::NONE),
                engine::Event::News { id, news, late } => {
                    // The log stores only two kinds of news: that a job ended, and that it was
                    // buried. Both kinds end the wait of a client. If this request ended or buried
                    // the job, the loop above has written the entry. If the news is late, an
                    // earlier request has written it.
                    let after = match (news.is_end(), late) {
                        (false, _) => Position::NONE,
                        (true, false) => self.ledger.last,
                        (true, true) => self.ledger.after_all(),
                    };
                    (Event::News { id, news }, after)
                }
                engine::Event::Kicked(queue, count) => {
                    (Event::Kicked(count), self.ledger.after_queue(queue))
                }
                engine::Event::Peeked { job, mut body } => match self.engine.id_at(job) {
                    Some(id) => {
                        self.fetch((job, id), None, session, &mut body);
                        (Event::Peeked(body), self.ledger.after_job(&self.engine, job))
                    }
                    // A session that leaves can make several dead letters at once. Then one of them
                    // can be seen, and end at once because its queue has room for fewer.
                    None if matches!(body, JobBody::Stored(_)) => {
                        (Event::TimedOut, self.ledger.after_ended())
                    }
                    None => (Event::Peeked(body), self.ledger.after_ended()),
                },
                engine::Event::NoItem(Some(queue)) => {
                    (Event::TimedOut, self.ledger.after_queue(queue))
                }
                engine::Event::NoItem(None) => (Event::TimedOut, self.ledger.after_removal()),
                // A flush or a removal has ended jobs of any queues, in slices over several turns.
                engine::Event::Cleared => (Event::Cleared, self.ledger.after_all()),
            };
            self.outgoing.push((mailbox, session, Answer::new(event, after)));
        }
        self.effects.events = events;
        self.ledger.end();
        self.ledger.last
    }

    /// Writes some of the records that the log had no room for before. Each turn begins with this.
    pub(crate) fn write_owed(&mut self) {
        if self.ledger.owed() == 0 || self.ledger.follows() {
            return;
        }
        self.ledger.begin();
        let written = self.ledger.write_owed(&self.engine);
        self.ledger.end();
        self.engine.count_work(written);
    }

    fn write_records(&mut self) {
        let mut records = std::mem::take(&mut self.effects.records);
        for record in records.drain(..) {
            self.note_fresh(&record);
            self.ledger.write(record, &self.engine);
        }
        self.effects.records = records;
    }
}

/// The broker's part of reclaim. It gives the log the current state of each job to copy, and stores
/// the job's new location.
pub(crate) struct Mover<'a> {
    engine: &'a mut Engine,
    locations: &'a mut Locations,
    bodies: &'a mut Bodies,
    options: OptionalFields,
    /// The body of the last entry that was moved, if the body had to be loaded. Jobs of the same
    /// entry share this body.
    last: Option<(log::Position, Body)>,
}

impl<'a> Mover<'a> {
    pub(crate) fn new(core: &'a mut Core) -> Self {
        let Core { engine, ledger, bodies, .. } = core;
        let (locations, options) = (&mut ledger.locations, OptionalFields::none());
        Self { engine, locations, bodies, options, last: None }
    }

    fn slot(&self, log_slot: Slot, id: u64) -> Option<JobSlot> {
        let slot = self.engine.slot(engine::JobId(id)).ok()?;
        self.locations
            .get(slot)
            .is_some_and(|location| location.log_slot == log_slot)
            .then_some(slot)
    }
}

impl Owner for Mover<'_> {
    fn current(&mut self, log_slot: Slot, id: u64) -> Option<Current<'_>> {
        let slot = self.slot(log_slot, id)?;
        let facts = self.engine.facts(slot);
        self.options = OptionalFields::of(&facts, self.engine.tags(slot));
        let (_, queue) = queue_ref(self.engine, slot);
        Some(Current { queue, meta: self.options.meta(&facts) })
    }

    fn moved(&mut self, old: Slot, new: Slot, id: u64, entry: log::Position, body: BodyRef<'_>) {
        let slot = self.slot(old, id).expect("the log moves what was just asked for");
        let location = self.locations.get_mut(slot).expect("its location was just found");
        // Do not change `after`: replies wait for the job's last change, and a copy changes
        // nothing.
        (location.log_slot, location.entry_at) = (new, entry.offset() as u32);
        if location.is_stored() {
            // The file does not have the copy yet.
            if self.last.as_ref().is_none_or(|(last, _)| *last != entry) {
                self.last = Some((entry, body.share()));
            }
            let shared = self.last.as_ref().map(|(_, shared)| shared.clone());
            self.engine.load_body(slot, shared.expect("it was just stored"));
            self.locations.set_stored(slot, false);
            self.bodies.note_fresh(slot, engine::JobId(id), body.bytes().len());
        }
        self.locations.set_changed(slot, false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Millis, NewJob, Patience};

    use crate::{Broker, Options, Take, Turn};

    const NOW: Millis = Millis(1_000_000);

    fn durable_broker() -> Broker {
        let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
        let options = Options::without_threads(disk, log::Settings::default());
        Broker::open(options, NOW).expect("the disk is empty").0
    }

    fn appended(turn: &Turn<'_>) -> bool {
        turn.core.ledger.appended
    }

    #[test]
    fn a_take_alone_does_not_wake_the_committer() {
        let broker = durable_broker();
        let mut turn = broker.turn(NOW);
        let session = turn.open_session(0);
        let id = turn
            .caller(session)
            .put(NewJob::default(), b"x"[..].into())
            .value
            .expect("there is room");
        assert!(appended(&turn));
        drop(turn);
        let mut turn = broker.turn(NOW);
        let taken = turn.caller(session).take(Patience::None);
        assert!(matches!(taken.value, Take::Granted(_)) && !appended(&turn));
        turn.caller(session).finish(id).value.expect("it is held");
        assert!(appended(&turn));
    }

    #[test]
    fn numbers_without_an_entry_are_reserved_too() {
        let broker = durable_broker();
        for _ in 0..4 {
            let mut turn = broker.turn(NOW);
            for _ in 0..1 << 19 {
                turn.skip_job_id();
            }
            let next = turn.core.engine.next_number();
            drop(turn);
            broker.commit_step(NOW).expect("the disk works");
            let turn = broker.turn(NOW);
            let log = turn.core.ledger.log().expect("it is durable");
            assert!(next < log.id_limit(), "after a crash {next} would be dealt again");
        }
    }

    #[test]
    #[should_panic(expected = "0 locations for 1..=1 jobs")]
    fn a_job_that_the_log_does_not_know_is_noticed_at_the_end_of_the_turn() {
        let broker = durable_broker();
        let mut turn = broker.turn(NOW);
        let session = turn.open_session(0);
        let id = turn
            .caller(session)
            .put(NewJob::default(), b"x"[..].into())
            .value
            .expect("there is room");
        let slot = turn.core.engine.slot(id).expect("it is there");
        turn.core.ledger.locations.remove(slot);
    }
}
