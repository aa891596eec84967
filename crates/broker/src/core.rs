//! Engine and log side by side, as they lie under the broker's lock.

use std::sync::Arc;

use engine::{
    Effects, Engine, Happening, JobFacts, JobSlot, Millis, QueueFacts, QueueId, Record, SessionId,
};
use log::{Current, Log, Meta, Owner, Position, QueueRef, Target};

use crate::meta::{self, Options};
use crate::places::{Place, Places};
use crate::{Event, Grant};

/// Most jobs of one entry. A put that feeds more queues takes several, which only an unclean end
/// of the process can tear apart.
const PUT_MANY_MAX: usize = 4096;

/// Everything that a [`crate::Turn`] works on.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) effects: Effects,
    pub(crate) ledger: Ledger,
    /// Events of this turn, for the mailbox that each session was opened with.
    pub(crate) outgoing: Vec<(u32, SessionId, Event)>,
    /// What the first mailbox was told last.
    pub(crate) alarm: Option<Millis>,
}

/// Writes the engine's records into the log, and knows which position each reply waits for.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// `None`: everything is in memory only, and nothing waits.
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) places: Places,
    /// By queue: the end of the last entry about it or its jobs.
    queues: Vec<Position>,
    /// The last of those of queues that vanished: a queue that comes again under the same name
    /// must not deny what its predecessor's last entry has not made durable.
    gone: Position,
    /// The end of the last entry that ended a job, for denials of jobs that are not there.
    ended: Position,
    /// The end of the last entry that the request at hand wrote.
    pub(crate) last: Position,
    /// The end of the last entry that any request wrote.
    latest: Position,
    /// The end of the last entry about policies or the status.
    facts: Position,
    /// Whether the log has something for the committer to do at once.
    pub(crate) appended: bool,
}

impl Core {
    pub(crate) fn new(now: Millis) -> Self {
        Self {
            engine: Engine::new(now, 1),
            effects: Effects::default(),
            ledger: Ledger {
                log: None,
                places: Places::default(),
                queues: Vec::new(),
                gone: Position::default(),
                ended: Position::default(),
                last: Position::default(),
                latest: Position::default(),
                facts: Position::default(),
                appended: false,
            },
            outgoing: Vec::new(),
            alarm: None,
        }
    }

    /// Takes over what the last request left: records into the log, happenings into events.
    /// Called after each request, because records name places that the next one may change. The
    /// end of the last entry that was written for it, counts apart.
    pub(crate) fn settle(&mut self) -> Position {
        self.ledger.last = Position::default();
        for record in self.effects.records.drain(..) {
            self.ledger.write(record, &self.engine);
        }
        for (session, happening) in self.effects.happenings.drain(..) {
            let Some(mailbox) = self.engine.mailbox(session) else { continue };
            let event = match happening {
                Happening::Granted { job, id, lease, body } => {
                    Event::Granted(Grant { id, lease, body, after: self.ledger.after_job(job) })
                }
                Happening::TimedOut => {
                    Event::TimedOut(self.ledger.after_queues(self.engine.watched(session)))
                }
                Happening::DeadlineSoon => Event::DeadlineSoon,
                Happening::WorkToDo => Event::WorkToDo,
                Happening::News { id, news } => {
                    // Only the end of a durable job is in the log; its entry was written above. For
                    // those who wait a job that is set aside is at its end too.
                    let after = match self.engine.slot(id) {
                        _ if !news.is_end() => Position::default(),
                        Ok(slot) => self.ledger.after_job(slot),
                        Err(_) => self.ledger.after_ended(),
                    };
                    Event::News { id, news, after }
                }
                Happening::Kicked(queue, count) => {
                    Event::Kicked(count, self.ledger.after_queue(queue))
                }
                Happening::Looked { job, body } => {
                    Event::Looked { body, after: self.ledger.after_job(job) }
                }
                Happening::NoneCame(Some(queue)) => Event::TimedOut(self.ledger.after_queue(queue)),
                Happening::NoneCame(None) => Event::TimedOut(self.ledger.after_removal()),
                Happening::Flushed => Event::Flushed(self.ledger.after_ended()),
            };
            self.outgoing.push((mailbox, session, event));
        }
        let Ledger { last, latest, .. } = &mut self.ledger;
        *latest = (*latest).max(*last);
        *last
    }
}

impl Ledger {
    fn write(&mut self, record: Record, engine: &Engine) {
        let Some(log) = &self.log else { return };
        let now = engine.now().0;
        // Nobody waits for counts, so they wait for company: a sync of their own would hold up the
        // finish that often follows a take.
        self.appended |= !matches!(record, Record::Count(_) | Record::QueueGone(_));
        match record {
            Record::Put(slot) => {
                let facts = engine.facts(slot);
                let (number, queue) = queue_ref(engine, slot);
                let body = engine.body(slot);
                let options = Options::of(&facts, engine.tags(slot));
                let (target, after) = log.put(now, queue, &options.meta(&facts), body);
                self.places.set(slot, Place { target, after });
                self.note_queue(number, after);
            }
            Record::PutMany(slots) => self.write_many(&slots, engine),
            Record::Moved(slot) | Record::Rerouted(slot, _) if !log.admits_update() => {
                self.write(Record::Count(slot), engine);
            }
            Record::Rerouted(slot, from) => {
                self.write(Record::Update(slot), engine);
                self.note_queue(from, self.last);
            }
            Record::Update(slot) | Record::Moved(slot) => {
                let facts = engine.facts(slot);
                let (number, queue) = queue_ref(engine, slot);
                let place = self.places.get_mut(slot).expect("a logged job has its place");
                place.after = log.update(
                    now,
                    place.target,
                    queue,
                    &Options::of(&facts, engine.tags(slot)).meta(&facts),
                );
                let after = place.after;
                self.note_queue(number, after);
            }
            Record::Count(slot) => {
                let place = self.places.get(slot).expect("a logged job has its place");
                let counters = engine.facts(slot).counters;
                log.count(now, place.target, &meta::counters_bytes(&counters));
            }
            Record::Finish(slot, queue) => {
                let place = self.places.remove(slot).expect("a logged job has its place");
                self.ended = log.finish(now, place.target);
                let after = self.ended;
                self.note_queue(queue, after);
            }
            // That a queue is kept is noted in passing, on a put or a registration, which must not
            // fail for it; limits were asked for, and refused before if there is no room.
            // Policies and the status are in force all the same, until the process ends.
            Record::QueueFacts(_) | Record::Policies | Record::Status if !log.admits_update() => {}
            Record::QueueFacts(queue) => {
                let (key, value) =
                    meta::queue_fact(engine.queue_name(queue), engine.queue_facts(queue));
                let after = log.fact(now, &key, &value);
                self.note_queue(queue, after);
            }
            Record::QueueDropped(queue, name) => {
                let (key, nothing) = meta::queue_fact(&name, QueueFacts::default());
                let after = log.fact(now, &key, &nothing);
                self.note_queue(queue, after);
            }
            Record::QueueGone(queue) => {
                self.gone = self.after_queue(queue);
                log.forget_queue(queue.0);
            }
            Record::Policies => {
                self.facts = log.fact(now, meta::POLICIES_KEY, &engine.policies().encode());
                self.last = self.facts;
            }
            Record::Status => {
                self.facts = log.fact(now, meta::STATUS_KEY, &[engine.status() as u8]);
                self.last = self.facts;
            }
        }
    }

    /// One entry for jobs that share a body.
    fn write_many(&mut self, slots: &[JobSlot], engine: &Engine) {
        let Some(log) = &self.log else { return };
        let mut targets = Vec::with_capacity(slots.len());
        for slots in slots.chunks(PUT_MANY_MAX) {
            let facts: Vec<JobFacts> = slots.iter().map(|slot| engine.facts(*slot)).collect();
            let options: Vec<Options> = facts
                .iter()
                .zip(slots)
                .map(|(facts, slot)| Options::of(facts, engine.tags(*slot)))
                .collect();
            let jobs: Vec<(QueueRef<'_>, Meta<'_>)> = slots
                .iter()
                .zip(facts.iter().zip(&options))
                .map(|(slot, (facts, options))| (queue_ref(engine, *slot).1, options.meta(facts)))
                .collect();
            let body = engine.body(slots[0]);
            targets.clear();
            let after = log.put_many(engine.now().0, &jobs, body, &mut targets);
            for (&slot, &target) in slots.iter().zip(&targets) {
                self.places.set(slot, Place { target, after });
                note(&mut self.queues, engine.queue_of(slot), after);
            }
            self.last = after;
        }
    }

    fn note_queue(&mut self, queue: QueueId, after: Position) {
        self.last = after;
        note(&mut self.queues, queue, after);
    }

    /// What a reply about this job waits for.
    pub(crate) fn after_job(&self, slot: JobSlot) -> Position {
        self.places.get(slot).map_or(Position::default(), |place| place.after)
    }

    /// What a denial of a job that is not there waits for.
    pub(crate) fn after_ended(&self) -> Position {
        self.ended
    }

    /// What a denial of a queue that is not there waits for.
    pub(crate) fn after_gone(&self) -> Position {
        self.gone
    }

    /// What an answer waits for that says that a queue was removed with all in it.
    pub(crate) fn after_removal(&self) -> Position {
        self.gone.max(self.ended)
    }

    /// What an answer waits for that may rest on anything.
    pub(crate) fn after_all(&self) -> Position {
        self.latest
    }

    /// What an answer about the policies or the status waits for.
    pub(crate) fn after_facts(&self) -> Position {
        self.facts
    }

    /// What a denial about this queue waits for.
    pub(crate) fn after_queue(&self, queue: QueueId) -> Position {
        let last = self.queues.get(queue.0 as usize).copied().unwrap_or_default();
        // A queue that came again need not have its old number, so every denial waits for those
        // that vanished. It costs at most the wait for the group that is being written.
        last.max(self.gone)
    }

    /// What a denial about all of these queues waits for.
    pub(crate) fn after_queues(&self, queues: &[QueueId]) -> Position {
        queues.iter().map(|queue| self.after_queue(*queue)).max().unwrap_or_default()
    }
}

/// Notes the end of the last entry about a queue.
fn note(queues: &mut Vec<Position>, queue: QueueId, after: Position) {
    let index = queue.0 as usize;
    if index >= queues.len() {
        queues.resize(index + 1, Position::default());
    }
    queues[index] = after;
}

fn queue_ref(engine: &Engine, slot: JobSlot) -> (QueueId, QueueRef<'_>) {
    let queue = engine.queue_of(slot);
    (queue, QueueRef { number: queue.0, name: engine.queue_name(queue) })
}

/// The broker's side when reclaim copies jobs: what they are at this moment, and where they go.
pub(crate) struct Mover<'a> {
    engine: &'a Engine,
    places: &'a mut Places,
    options: Options,
}

impl<'a> Mover<'a> {
    pub(crate) fn new(core: &'a mut Core) -> Self {
        let Core { engine, ledger, .. } = core;
        Self { engine, places: &mut ledger.places, options: Options::none() }
    }

    fn slot(&self, target: Target, id: u64) -> Option<JobSlot> {
        let slot = self.engine.slot(engine::JobId(id)).ok()?;
        self.places.get(slot).is_some_and(|place| place.target == target).then_some(slot)
    }
}

impl Owner for Mover<'_> {
    fn current(&mut self, target: Target, id: u64) -> Option<Current<'_>> {
        let slot = self.slot(target, id)?;
        let facts = self.engine.facts(slot);
        self.options = Options::of(&facts, self.engine.tags(slot));
        let (_, queue) = queue_ref(self.engine, slot);
        Some(Current { queue, meta: self.options.meta(&facts) })
    }

    fn moved(&mut self, old: Target, new: Target, id: u64, _position: Position) {
        let slot = self.slot(old, id).expect("the log moves what was just asked for");
        let place = self.places.get_mut(slot).expect("its place was just found");
        // What replies wait for stays the same: the copy comes after it.
        place.target = new;
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
        let options = Options { disk, log: log::Settings::default(), clock: None };
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
        let (id, _) = turn.put(session, NewJob::default(), b"x"[..].into()).expect("there is room");
        assert!(appended(&turn));
        drop(turn);
        let mut turn = broker.turn(NOW);
        let taken = turn.take(session, Patience::None);
        assert!(matches!(taken, Take::Granted(_)) && !appended(&turn));
        turn.finish(session, id).expect("it is held");
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
            let log = turn.core.ledger.log.as_ref().expect("it is durable");
            assert!(next < log.id_limit(), "after a crash {next} would be dealt again");
        }
    }
}
