//! The reference model of a server. It uses plain maps and full scans, so that its code is easy to
//! check.
//!
//! The model gets the same input as the real server, in the same order. It computes the replies
//! that the real server must send. A [`History`] has one record for each change that must survive a
//! crash. Each reply depends on the records up to some point of the history.
//!
//! Jobs, queues and connections are the same for all dialects (`jobs`, `queues`, `work`, `outcome`,
//! `items`, `routes`, `policies`). Each dialect has a folder for its requests and replies.
//!
//! The protocol does not define the order of events in the same millisecond. The model uses the
//! engine's order. Queues come first, in the order of their places in the engine's table. Sessions
//! come second, in the order of their places.

mod attempts;
mod beanstalk;
mod chores;
mod dead_letters;
mod expiry;
mod gates;
mod gearman;
mod history;
mod items;
mod jobs;
mod kestrel;
mod lanes;
mod log_contents;
mod moves;
mod outcome;
mod pauses;
mod policies;
mod promises;
mod queues;
mod record;
mod restart;
mod results;
mod rooms;
mod routes;
mod session;
mod submit;
mod tally;
mod time;
mod unique;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use broker::policy::{KeyHash, Policy, Rules};
use broker::{Claim, ClaimKey, Death};
use chores::Chore;
pub(crate) use history::History;
use items::ItemWait;
use kestrel::{Fetch, OpenReads};
pub(crate) use log_contents::{Counts, Facts, LogContents, StoredJob, StoredState, short_text};
use outcome::Notification;
pub(crate) use policies::UP;
pub(crate) use restart::Recovered;
use rooms::{Blocked, RoomWait};
pub(crate) use session::Observed;
use session::{Expected, Reading};
pub use tally::Tally;
use work::Worker;

use crate::protocol::Protocol;

/// The name of a queue.
pub(crate) type Name = Rc<str>;

/// The place of a session or of a queue in the engine's table. A session's place identifies its
/// connection while the connection is open.
pub(crate) type Place = u32;

/// The number of a connection. Unlike a place, a number is used only once in a process.
type Serial = u64;

/// A record of the history, by its number: 1 for the first record, 0 for no record. A reply that
/// depends on this record stays true after a crash if this record and all earlier records survive.
pub(crate) type Need = usize;

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

/// The model's copy of the server's settings that have an effect on replies.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) max_job_size: u32,
    /// True if the log syncs a change before a reply about it is sent. A policy can override this.
    pub(crate) is_strict: bool,
    /// True if all jobs are only in memory. If so, the statistics show 0 for all numbers of the
    /// binlog.
    pub(crate) in_memory: bool,
    pub(crate) started: u64,
    /// The number of sleeping workers that one job wakes; 0 means all.
    pub(crate) wake_max: u32,
    /// A submitted job fails after this many lost attempts; 0 means never.
    pub(crate) attempts_max: u32,
    /// True if a worker gets jobs from its functions in turn.
    pub(crate) round_robin: bool,
    /// True if all Gearman clients get the reason when a job fails.
    pub(crate) exceptions: bool,
    /// The longest Gearman packet.
    pub(crate) packet_bytes_max: u32,
    /// The largest Kestrel item.
    pub(crate) item_bytes_max: u32,
    /// True if jobs can be cold.
    pub(crate) cools: bool,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: u64,
    pub(crate) setting: Setting,
    /// True if the log can lack room now, and refuse requests that need room.
    pub(crate) may_refuse: bool,
    /// The number of requests that were refused for lack of room.
    pub(crate) refusals: u64,
    pub(crate) next_id: u64,
    next_lease: u64,
    next_buried: u64,
    next_ticket: u64,
    next_serial: u64,
    next_age: u64,
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) queues: BTreeMap<Name, Queue>,
    free_queue_places: Vec<Place>,
    pub(crate) conns: BTreeMap<Place, Conn>,
    /// The places of closed connections, in the order in which they were closed.
    free_conn_places: Vec<Place>,
    /// The session that holds the items of all thrift clients.
    thrift_holder: Option<Place>,
    counters: BTreeMap<&'static str, u64>,
    puts: u64,
    timeouts: u64,
    chores: VecDeque<Chore>,
    pub(crate) rules: Rc<Rules>,
    pub(crate) status: u8,
    /// Children with a new fact that the history does not have yet. In this turn, the queue became
    /// a child, or began to stay in existence without jobs.
    unnoted: Vec<Name>,
    /// Set while the removal of a queue ends the queue's leased jobs. Clients can get the news of
    /// these jobs in any order.
    batch: Option<u64>,
    /// Queues that must exist until the current operation is done, even without jobs or clients.
    guards: Vec<Name>,
    /// Jobs of an unfinished put. They count for limits, but no request finds these jobs yet.
    unplaced: Vec<u64>,
    /// Jobs that moved to another queue in this turn.
    rerouted: Vec<u64>,
    /// Jobs that were buried in this turn, because they expired or made room.
    set_aside: Vec<u64>,
    /// True if the server refuses all puts.
    pub(crate) is_draining: bool,
    /// The keys of unique jobs that have ended.
    pub(crate) claims: BTreeMap<ClaimKey, Claim>,
    results: results::Results,
    /// The waits for room.
    rooms: Vec<RoomWait>,
    next_room_ticket: u64,
    /// The connection whose put follows after its wait for room.
    passing: Option<Serial>,
    pub(crate) history: History,
    pub(crate) tally: Tally,
}

/// The parameters of a job's submit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tags {
    pub(crate) unique: Rc<[u8]>,
    pub(crate) reducer: Rc<[u8]>,
}

/// How long an unfinished job exists.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum JobKind {
    /// The job stays when its clients disconnect, and when the process ends.
    Logged,
    /// The job stays when its clients disconnect, but ends with the process.
    Memory,
    /// The job ends when no client waits for its outcome any more.
    Watched,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) queue: Name,
    pub(crate) pri: u32,
    pub(crate) delay: u32,
    pub(crate) ttr: u32,
    pub(crate) created: u64,
    /// The time when the job became ready, if a delay ended or a request made the job ready.
    /// Otherwise 0.
    pub(crate) since: u64,
    pub(crate) body: Rc<[u8]>,
    pub(crate) state: State,
    pub(crate) counts: Counts,
    /// How often the job has failed, as the policy of its queue counts.
    pub(crate) attempts: u32,
    /// Why the job is a dead letter. `None`: it is not.
    pub(crate) death: Option<Death>,
    /// The job's order number among the jobs of its priority.
    pub(crate) order: u64,
    /// The parameters of the submit, if the job was submitted.
    pub(crate) tags: Option<Tags>,
    pub(crate) kind: JobKind,
    /// The key that makes the job unique.
    pub(crate) key: Option<KeyHash>,
    /// The key whose limits count for the job.
    pub(crate) group: Option<KeyHash>,
    /// The job expires after this moment.
    pub(crate) expires: Option<u64>,
    /// Connections that wait for the job's outcome. A connection is listed once per submit.
    pub(crate) watchers: Vec<Place>,
    progress: (u32, u32),
    /// The warnings of the worker that holds the job.
    warnings: Vec<u8>,
    /// The last record of the job.
    pub(crate) need: Need,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum State {
    Ready,
    Delayed { due: u64 },
    Leased(Lease),
    Buried { order: u64 },
}

/// The lease of a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Lease {
    by: Serial,
    /// The place of the holder's connection. `None`: the holder has no connection of its own.
    place: Option<Place>,
    number: u64,
    deadline: u64,
    /// The latest possible deadline. A touch cannot move `deadline` beyond this moment.
    limit: u64,
    loss: ReturnOrder,
}

/// The place of a job in its queue after its holder has lost the job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum ReturnOrder {
    KeepPlace,
    ToTail,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) place: Place,
    age: u64,
    pause: Option<Pause>,
    puts: u64,
    deletes: u64,
    pauses: u64,
    pub(crate) facts: Facts,
    /// Workers that may be asleep, in the order in which they began to sleep.
    sleepers: BTreeMap<u64, Place>,
    policy: Rc<Policy>,
    gates: gates::Gates,
    phase: Option<pauses::Phase>,
    /// The keys that have jobs, or had jobs before.
    lanes: BTreeMap<KeyHash, lanes::Lane>,
    /// All buckets of keys were empty at this moment.
    lanes_empty_at: u64,
    /// Leases with smaller numbers do not count for their keys.
    first_lease: u64,
    /// The number of the last turn of a key.
    next_turn: u64,
    /// When the queue first had a policy, a parent, a child or a job that expires, or when it became
    /// a queue of items. The queue can be idle from its policy's time after this moment on.
    extra_since: Option<u64>,
    /// Until this moment, the queue's timer ends no more expired jobs.
    sweep_rests_until: u64,
    /// The time of the put of the item that a client read last.
    last_read: Option<u64>,
}

#[derive(Copy, Clone, Debug)]
struct Pause {
    until: u64,
    seconds: u32,
}

#[derive(Debug)]
pub(crate) struct Conn {
    serial: Serial,
    protocol: Protocol,
    /// Bytes that have arrived but are not handled yet.
    pub(crate) buffer: VecDeque<u8>,
    reading: Reading,
    used: Name,
    /// The name by which the client uses its queue.
    used_as: String,
    watched: Vec<Name>,
    /// The names by which the client watches each queue of `watched`, oldest first.
    watched_as: Vec<(Name, String)>,
    pub(crate) waiting: Option<Wait>,
    /// The request that waits for room in a queue.
    blocked: Option<Blocked>,
    /// True if a long kick of the connection is unfinished.
    is_kicking: bool,
    /// Events for the connection that are not delivered yet.
    notifications: VecDeque<Notification>,
    is_producer: bool,
    is_worker: bool,
    input_ended: bool,
    worker: Worker,
    wants_exceptions: bool,
    /// For each job, how often the client must still receive the job's end. A client receives the
    /// end once per submit.
    outcomes_due: BTreeMap<u64, u64>,
    open: OpenReads,
    fetch: Option<Fetch>,
}

#[derive(Clone, Debug)]
pub(crate) struct Wait {
    ticket: u64,
    /// `None` means no time limit.
    until: Option<u64>,
    /// Set if the connection waits for an item of one queue.
    item: Option<ItemWait>,
}

impl Model {
    pub(crate) fn new(now: u64, setting: Setting) -> Self {
        let mut model = Self {
            now,
            setting,
            may_refuse: false,
            refusals: 0,
            next_id: 1,
            next_lease: 1,
            next_buried: 1,
            next_ticket: 0,
            next_serial: 0,
            next_age: 0,
            jobs: BTreeMap::new(),
            queues: BTreeMap::new(),
            free_queue_places: Vec::new(),
            conns: BTreeMap::new(),
            free_conn_places: Vec::new(),
            thrift_holder: None,
            counters: BTreeMap::new(),
            puts: 0,
            timeouts: 0,
            chores: VecDeque::new(),
            rules: Rc::default(),
            status: policies::UP,
            unnoted: Vec::new(),
            batch: None,
            guards: Vec::new(),
            unplaced: Vec::new(),
            rerouted: Vec::new(),
            set_aside: Vec::new(),
            is_draining: false,
            claims: BTreeMap::new(),
            results: results::Results::default(),
            rooms: Vec::new(),
            next_room_ticket: 0,
            passing: None,
            history: History::default(),
            tally: Tally::default(),
        };
        model.create_queue("default");
        model
    }

    fn count(&mut self, counter: &'static str) {
        *self.counters.entry(counter).or_default() += 1;
    }

    fn conn(&mut self, place: Place) -> &mut Conn {
        self.conns.get_mut(&place).expect("the connection is open")
    }

    fn queue_mut(&mut self, name: &Name) -> &mut Queue {
        self.queues.get_mut(name).expect("the queue was just looked at")
    }

    fn job_mut(&mut self, id: u64) -> &mut Job {
        self.jobs.get_mut(&id).expect("the job was just looked at")
    }

    /// Notes that the log can lack room from now on. A log without room refuses requests that need
    /// room, and does not store counters.
    pub(crate) fn expect_shortage(&mut self) {
        self.may_refuse = true;
        self.history.counts_may_be_missing = true;
    }

    /// The next number for jobs and leases. A clean stop does not change it.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_id.max(self.next_lease)
    }

    /// The number of ready, delayed, reserved and buried jobs.
    pub(crate) fn count_by_state(&self) -> [u64; 4] {
        let mut count_by_state = [0; 4];
        for job in self.jobs.values() {
            count_by_state[match job.state {
                State::Ready => 0,
                State::Delayed { .. } => 1,
                State::Leased(_) => 2,
                State::Buried { .. } => 3,
            }] += 1;
        }
        count_by_state
    }
}
