//! The kind of run that a seed makes: the number of clients, the faults of the disk, the frequent
//! steps.

use std::time::Duration;

use log::Sync;

use crate::rng::Rng;

/// Units of work in a slice of a run with the model. More than in the product, because the model
/// flushes and removes a queue in one step.
pub(crate) const SLICE_UNITS: u32 = 4000;

/// The largest segments of a simulation. They are small, so that there are many.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 256 << 10;

/// How the run's broker stores its jobs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum StorageKind {
    Memory,
    Durable(Sync),
}

/// The frequencies of steps; only their proportions matter.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) connect: u64,
    pub(crate) write: u64,
    pub(crate) deliver: u64,
    pub(crate) event: u64,
    pub(crate) send: u64,
    pub(crate) read: u64,
    pub(crate) wait: u64,
    pub(crate) half_close: u64,
    pub(crate) disconnect: u64,
    pub(crate) commit: u64,
    pub(crate) prepare: u64,
    pub(crate) reclaim: u64,
    pub(crate) kill: u64,
    pub(crate) power: u64,
    pub(crate) clean_stop: u64,
    /// Plans a power failure, or a failed call, at a later call of the disk.
    pub(crate) plan_crash: u64,
    pub(crate) plan_failure: u64,
    pub(crate) fill_disk: u64,
    pub(crate) empty_disk: u64,
    pub(crate) plan_read_failure: u64,
    pub(crate) drain: u64,
    pub(crate) policies: u64,
}

/// How the run's Gearman server behaves.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Gearman {
    pub(crate) wake_max: u32,
    pub(crate) attempts_max: u32,
    pub(crate) round_robin: bool,
    pub(crate) exceptions: bool,
}

/// A run that only the oracle judges. The model does not follow how the engine divides its work,
/// and when it has no memory left.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Unmodelled {
    /// Units of work in a slice. They are few, so that a flush or a removal takes several slices.
    pub(crate) slice_units: u32,
    /// Bytes of memory that the run can use beyond those of an empty server.
    pub(crate) memory_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) unmodelled: Option<Unmodelled>,
    /// The relative frequency of clients of beanstalkd, Gearman and Kestrel.
    pub(crate) shares: [u64; 3],
    /// The relative frequency of memcache, text and thrift among Kestrel's clients.
    pub(crate) dialects: [u64; 3],
    /// Policies refuse puts.
    pub(crate) refusing: bool,
    pub(crate) gearman: Gearman,
    /// Most submitted jobs have a key, so that many jobs join.
    pub(crate) keyed: bool,
    pub(crate) storage: StorageKind,
    pub(crate) clients_max: u64,
    pub(crate) queues: u64,
    pub(crate) max_job_size: u32,
    /// Most bodies are shorter than this.
    pub(crate) body_bytes: u64,
    /// The number of commands that a client can write in one step.
    pub(crate) pipeline: u64,
    /// Clients sometimes write invalid requests.
    pub(crate) garbage: bool,
    /// There are few jobs, so that queues are often empty, vanish and come back.
    pub(crate) scarce: bool,
    /// There are thousands of jobs, so that some operations take several turns.
    pub(crate) crowd: bool,
    /// The sizes of segments. Each process gets one of them.
    pub(crate) segment_bytes: &'static [u64],
    pub(crate) weights: Weights,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let storage = match rng.below(10) {
            0..2 => StorageKind::Memory,
            2..8 => StorageKind::Durable(Sync::Always),
            8 => StorageKind::Durable(Sync::Every(Duration::from_millis(rng.between(1, 200)))),
            _ => StorageKind::Durable(Sync::Never),
        };
        let heavy = rng.one_in(3);
        let max_job_size = *rng.pick(&[100, 65_535, 65_535, 65_535, 400_000]);
        let gearman = Gearman {
            wake_max: *rng.pick(&[0, 0, 0, 1]),
            attempts_max: *rng.pick(&[0, 0, 0, 2]),
            round_robin: rng.one_in(4),
            exceptions: rng.one_in(4),
        };
        let plan = Self {
            unmodelled: None,
            shares: *rng.pick(&[
                [1, 0, 0],
                [3, 2, 0],
                [1, 2, 0],
                [0, 1, 0],
                [0, 0, 1],
                [1, 0, 2],
                [1, 1, 3],
            ]),
            dialects: *rng.pick(&[
                [1, 0, 0],
                [1, 0, 0],
                [1, 0, 0],
                [0, 1, 0],
                [0, 0, 1],
                [1, 1, 1],
            ]),
            refusing: rng.coin(),
            gearman,
            keyed: rng.coin(),
            storage,
            clients_max: rng.between(1, 8),
            queues: *rng.pick(&[1, 1, 2, 4, 6]),
            max_job_size,
            body_bytes: if heavy { 12_000 } else { *rng.pick(&[1, 20, 300, 2000]) },
            pipeline: *rng.pick(&[1, 3, 12]),
            garbage: rng.one_in(3),
            scarce: rng.one_in(3),
            crowd: false,
            segment_bytes: &[64 << 10, 64 << 10, 100 << 10, SEGMENT_BYTES_MAX],
            weights: Weights::new(storage, rng),
        };
        let has_items = plan.shares[2] > 0;
        let plan = if plan.must_not_be_short() { plan.with_a_good_disk() } else { plan };
        // Operations of several turns are simulated without items.
        let plan = if rng.one_in(200) && !has_items { plan.crowded() } else { plan };
        // The oracle knows too little about several protocols together, and about text and thrift.
        let is_alone = plan.shares.iter().filter(|share| **share > 0).count() == 1;
        let is_seen = plan.shares[0] > 0 || plan.shares[2] > 0 && plan.dialects[1..] == [0, 0];
        if is_alone && is_seen && !plan.crowd && rng.coin() { plan.unmodelled(rng) } else { plan }
    }

    fn unmodelled(self, rng: &mut Rng) -> Self {
        let memory_bytes = if rng.coin() { Some(rng.between(12_000, 100_000)) } else { None };
        let slice_units = *rng.pick(&[4, 20, 100]);
        Self { unmodelled: Some(Unmodelled { slice_units, memory_bytes }), ..self }
    }

    pub(crate) fn slice_units(&self) -> u32 {
        self.unmodelled.map_or(SLICE_UNITS, |unmodelled| unmodelled.slice_units)
    }

    /// The longest packet of Gearman, with room for bodies as long as those of the other protocols.
    pub(crate) fn packet_bytes_max(&self) -> u32 {
        self.max_job_size + 1000
    }

    /// Whether the disk must always have room. The model could not tell refusals by policies from
    /// those by a full disk, nor moves by policies from changes that a full disk does not keep.
    pub(crate) fn must_not_be_short(&self) -> bool {
        self.shares[2] > 0 && self.weights.policies > 0
    }

    /// Makes sure that there is always room. Power can still fail in any call, because the server
    /// refuses no request after that.
    fn with_a_good_disk(self) -> Self {
        let weights =
            Weights { plan_failure: 0, plan_read_failure: 0, fill_disk: 0, ..self.weights };
        // The body of a foreground job is written when a submit joins it. With small segments, that
        // can fill the ready segment before the broker holds clients back.
        let joins = self.shares[1] > 0;
        let segment_bytes = if joins { &[SEGMENT_BYTES_MAX] } else { self.segment_bytes };
        Self { segment_bytes, weights, ..self }
    }

    fn crowded(self) -> Self {
        let commit = self.weights.commit * 10;
        Self {
            crowd: true,
            clients_max: 3,
            max_job_size: 65_535,
            body_bytes: 20,
            // A small command can make an entry many times its size.
            segment_bytes: &[SEGMENT_BYTES_MAX],
            weights: Weights { commit, ..self.weights },
            ..self
        }
    }
}

impl Weights {
    fn new(storage: StorageKind, rng: &mut Rng) -> Self {
        let durable = storage != StorageKind::Memory;
        // Each kind of fault is missing from some runs, so that it cannot hide the others.
        let mut trouble = |weight: u64| if durable && rng.coin() { weight } else { 0 };
        let (kill, power, clean_stop) = (trouble(2), trouble(3), trouble(1));
        let (plan_crash, plan_failure) = (trouble(4), trouble(2));
        let (plan_read_failure, fill_disk) = (trouble(2), trouble(3));
        let plan_read_failure = plan_read_failure * u64::from(rng.one_in(3));
        let fill_disk = fill_disk * u64::from(rng.one_in(3));
        let log = u64::from(durable);
        Self {
            connect: 20,
            write: *rng.pick(&[60, 120, 200]),
            deliver: 150,
            event: 60,
            send: 100,
            read: 80,
            wait: *rng.pick(&[20, 60]),
            half_close: *rng.pick(&[0, 4]),
            disconnect: *rng.pick(&[1, 6]),
            commit: log * *rng.pick(&[2, 10, 40, 150]),
            prepare: log * *rng.pick(&[5, 30]),
            reclaim: log * *rng.pick(&[0, 20, 100]),
            kill,
            power,
            clean_stop,
            plan_crash,
            plan_failure,
            fill_disk,
            empty_disk: fill_disk * 2,
            plan_read_failure,
            drain: u64::from(rng.one_in(5)),
            policies: *rng.pick(&[0, 4, 12]),
        }
    }
}
