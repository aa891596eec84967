//! The reference model of a beanstalkd server: plain maps, whole scans, no cleverness.
//!
//! It is told everything that the real thing is told, in the same order, and says what the real
//! thing must answer. Each change that has to outlive a crash is noted in a [`History`], and each
//! reply says how much of that history it rests on.
//!
//! Where several things happen in the same millisecond the protocol leaves their order open; the
//! model follows the engine, which looks at queues by place and then at sessions by place.

mod chores;
mod commands;
mod history;
mod jobs;
mod restart;
mod session;
mod stats;
mod time;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use chores::Chore;
pub(crate) use history::{Counts, History, Image, Shelf};
pub(crate) use restart::Recovered;
pub(crate) use session::{Expected, Observed};

/// The name of a tube.
pub(crate) type Name = Rc<str>;

/// The place of a connection's session, which tells connections apart while they are open.
pub(crate) type Place = u32;

/// A connection of all times; places are used again.
type Serial = u64;

/// How many records must survive for a reply to be true.
pub(crate) type Need = usize;

/// What the process looks like from outside; the model's own copy of the server's settings.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) max_job_size: u32,
    /// Everything in memory: the binlog's numbers are zeros.
    pub(crate) in_memory: bool,
    pub(crate) started: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: u64,
    pub(crate) setting: Setting,
    /// The log may refuse what needs room.
    pub(crate) may_refuse: bool,
    /// Requests that were refused for want of room.
    pub(crate) refusals: u64,
    pub(crate) next_id: u64,
    next_lease: u64,
    next_buried: u64,
    next_ticket: u64,
    next_serial: u64,
    next_age: u64,
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) tubes: BTreeMap<Name, Tube>,
    free_tube_places: Vec<Place>,
    pub(crate) conns: BTreeMap<Place, Conn>,
    counters: BTreeMap<&'static str, u64>,
    puts: u64,
    timeouts: u64,
    chores: VecDeque<Chore>,
    /// Puts are refused.
    pub(crate) is_draining: bool,
    pub(crate) history: History,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) tube: Name,
    pub(crate) pri: u32,
    pub(crate) delay: u32,
    pub(crate) ttr: u32,
    pub(crate) created: u64,
    pub(crate) body: Rc<[u8]>,
    pub(crate) state: State,
    pub(crate) counts: Counts,
    /// The last record of it.
    pub(crate) need: Need,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum State {
    Ready,
    Delayed { due: u64 },
    Reserved { by: Serial, deadline: u64, lease: u64 },
    Buried { order: u64 },
}

#[derive(Debug)]
pub(crate) struct Tube {
    place: Place,
    age: u64,
    pause: Option<Pause>,
    puts: u64,
    deletes: u64,
    pauses: u64,
}

#[derive(Copy, Clone, Debug)]
struct Pause {
    until: u64,
    seconds: u32,
}

#[derive(Debug)]
pub(crate) struct Conn {
    serial: Serial,
    /// Bytes that arrived and are not dealt with.
    pub(crate) buffer: VecDeque<u8>,
    reading: Reading,
    used: Name,
    watched: Vec<Name>,
    pub(crate) waiting: Option<Wait>,
    /// Its long kick is not done yet.
    is_kicking: bool,
    /// The answer to what it waited for, on its way.
    pub(crate) event: Option<Expected>,
    is_producer: bool,
    is_worker: bool,
    input_ended: bool,
}

#[derive(Debug)]
enum Reading {
    Line,
    Body {
        pri: u32,
        delay: u32,
        ttr: u32,
        size: usize,
    },
    /// A body that is too big.
    Skip(u64),
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Wait {
    ticket: u64,
    /// `None`: for ever.
    until: Option<u64>,
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
            tubes: BTreeMap::new(),
            free_tube_places: Vec::new(),
            conns: BTreeMap::new(),
            counters: BTreeMap::new(),
            puts: 0,
            timeouts: 0,
            chores: VecDeque::new(),
            is_draining: false,
            history: History::default(),
        };
        model.create_tube("default");
        model
    }

    fn count(&mut self, counter: &'static str) {
        *self.counters.entry(counter).or_default() += 1;
    }

    /// The tube of this name, made if need be.
    fn create_tube(&mut self, name: &str) -> Name {
        if let Some((name, _)) = self.tubes.get_key_value(name) {
            return name.clone();
        }
        let name: Name = name.into();
        let place = self.free_tube_places.pop().unwrap_or(self.tubes.len() as Place);
        let age = self.next_age;
        self.next_age += 1;
        let tube = Tube { place, age, pause: None, puts: 0, deletes: 0, pauses: 0 };
        self.tubes.insert(name.clone(), tube);
        name
    }

    /// Destroys a tube that nothing keeps (spec beanstalkd 6).
    fn drop_tube_if_unwanted(&mut self, name: &Name) {
        let wanted = &**name == "default"
            || self.conns.values().any(|conn| conn.used == *name || conn.watched.contains(name))
            || self.jobs.values().any(|job| job.tube == *name);
        if !wanted && let Some(tube) = self.tubes.remove(name) {
            self.free_tube_places.push(tube.place);
        }
    }

    fn tubes_by_place(&self) -> Vec<Name> {
        let mut tubes: Vec<_> = self.tubes.iter().collect();
        tubes.sort_by_key(|(_, tube)| tube.place);
        tubes.into_iter().map(|(name, _)| name.clone()).collect()
    }

    fn tubes_by_age(&self) -> Vec<Name> {
        let mut tubes: Vec<_> = self.tubes.iter().collect();
        tubes.sort_by_key(|(_, tube)| tube.age);
        tubes.into_iter().map(|(name, _)| name.clone()).collect()
    }

    fn is_paused(&self, name: &Name) -> bool {
        self.tubes[name].pause.is_some_and(|pause| pause.until > self.now)
    }

    fn conn(&mut self, place: Place) -> &mut Conn {
        self.conns.get_mut(&place).expect("the connection is open")
    }

    /// From now on the log may have no room: it refuses what adds to it, and keeps no counters.
    pub(crate) fn expect_shortage(&mut self) {
        self.may_refuse = true;
        self.history.counts_may_be_missing = true;
    }

    /// The number that a clean stop keeps as the next one.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_id.max(self.next_lease)
    }

    /// Jobs by state: ready, delayed, reserved, buried.
    pub(crate) fn census(&self) -> [u64; 4] {
        let mut census = [0; 4];
        for job in self.jobs.values() {
            census[match job.state {
                State::Ready => 0,
                State::Delayed { .. } => 1,
                State::Reserved { .. } => 2,
                State::Buried { .. } => 3,
            }] += 1;
        }
        census
    }
}
