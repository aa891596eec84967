//! The plan of a run: the number of clients, the faults of the disk, the frequencies of steps. The
//! seed decides the plan.

use std::time::Duration;

use log::Sync;

use crate::rng::Rng;

/// Units of work in a slice of a run with a model. The number is larger than in the real server, so
/// that one slice is enough to flush or remove a queue. The model also uses one step for this.
pub(crate) const SLICE_UNITS: u32 = 4000;

/// The largest size of segments in a simulation. It is small, so that the log has many segments.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 256 << 10;

/// How the run's broker stores its jobs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum StorageKind {
    Memory,
    Durable(Sync),
    /// Three nodes and a stream. The folder of each node has this setting.
    Replicated(Sync),
}

/// The settings of a run with a cluster.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Replicated {
    /// False: no faults.
    pub(crate) is_faulty: bool,
    /// One in this many appends has an unusual fate. 0: none has.
    pub(crate) odd_appends: u64,
    /// True if a late append can come into the stream whatever its conditions.
    pub(crate) strays: bool,
    /// True if clients speak all protocols, with policies. The oracle then judges less, but the nodes
    /// must agree about all kinds of changes.
    pub(crate) diverse: bool,
    /// True if the wall clocks of the nodes differ.
    pub(crate) skewed: bool,
    /// A trim keeps this many bytes of the stream.
    pub(crate) keep_bytes: u64,
    /// The size that the stream must not exceed.
    pub(crate) max_bytes: u64,
    /// A leader yields if its folder hangs for this long.
    pub(crate) folder_ms: u64,
}

/// No folder hangs for this long.
const FOLDER_MS_NEVER: u64 = 1 << 40;

/// The relative frequencies of steps.
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
    /// Plans a power failure at a later call of the disk. `plan_failure` plans an error of a later
    /// call.
    pub(crate) plan_crash: u64,
    pub(crate) plan_failure: u64,
    pub(crate) fill_disk: u64,
    pub(crate) empty_disk: u64,
    pub(crate) plan_read_failure: u64,
    pub(crate) drain: u64,
    pub(crate) policies: u64,
    /// An operator moves a job to another queue.
    pub(crate) moves: u64,
    /// A fault of the cluster.
    pub(crate) trouble: u64,
    /// A node that has claimed begins to serve, although the old leader lives on.
    pub(crate) switch: u64,
}

/// The settings of the run's Gearman server.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Gearman {
    pub(crate) wake_max: u32,
    pub(crate) attempts_max: u32,
    pub(crate) round_robin: bool,
    pub(crate) exceptions: bool,
}

/// The settings of a run without a model. Only the oracle checks such a run, because the model
/// cannot compute how the engine divides its work, or when the memory is full.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Unmodelled {
    /// Units of work in a slice. The number is small, so that a flush or a removal takes several
    /// slices.
    pub(crate) slice_units: u32,
    /// Bytes of memory that the run can use, in addition to the memory of an empty server.
    pub(crate) memory_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) unmodelled: Option<Unmodelled>,
    pub(crate) replicated: Option<Replicated>,
    /// The relative frequency of clients of beanstalkd, Gearman and Kestrel.
    pub(crate) shares: [u64; 3],
    /// The relative frequency of memcache, text and thrift among Kestrel's clients.
    pub(crate) dialects: [u64; 3],
    /// True if some policies refuse puts.
    pub(crate) refusing: bool,
    /// True if policies change although no client speaks Kestrel.
    pub(crate) changes_jobs: bool,
    /// True if clients use another name of a queue, by the policy `same_as`.
    pub(crate) renames: bool,
    /// True if the results of Gearman's jobs are kept during the whole run.
    pub(crate) keeps_results: bool,
    pub(crate) gearman: Gearman,
    /// True if most submitted jobs have a key, so that many submits join a job.
    pub(crate) keyed: bool,
    pub(crate) storage: StorageKind,
    pub(crate) clients_max: u64,
    pub(crate) queues: u64,
    pub(crate) max_job_size: u32,
    /// Most bodies are shorter than this.
    pub(crate) body_bytes: u64,
    /// The number of commands that a client can write in one step.
    pub(crate) pipeline: u64,
    /// True if clients sometimes write invalid requests.
    pub(crate) garbage: bool,
    /// True if there are few jobs. If so, queues are often empty, are dropped and are created
    /// again.
    pub(crate) scarce: bool,
    /// True if there are thousands of jobs, so that some operations take several turns.
    pub(crate) crowd: bool,
    /// The limit of memory for bodies of jobs that are in the log.
    pub(crate) bodies_bytes_max: Option<u64>,
    /// The limit of memory for records of jobs.
    pub(crate) jobs_bytes_max: Option<u64>,
    /// True if cold jobs are loaded in steps of their own, so that other clients act during a load.
    /// Otherwise a load ends within the request that needs it. Only in runs without a model.
    pub(crate) loads_later: bool,
    /// The possible sizes of segments. Each process uses one of them.
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
            replicated: None,
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
            changes_jobs: false,
            renames: false,
            keeps_results: false,
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
            bodies_bytes_max: None,
            jobs_bytes_max: None,
            loads_later: false,
            segment_bytes: &[64 << 10, 64 << 10, 100 << 10, SEGMENT_BYTES_MAX],
            weights: Weights::new(storage, rng),
        };
        let has_items = plan.shares[2] > 0;
        // Runs with items have no operations that take several turns.
        let plan = if rng.one_in(200) && !has_items { plan.crowded() } else { plan };
        // The oracle alone cannot check several protocols together, or the text and thrift
        // protocols.
        let is_alone = plan.shares.iter().filter(|share| **share > 0).count() == 1;
        let is_seen = plan.shares[0] > 0 || plan.shares[2] > 0 && plan.dialects[1..] == [0, 0];
        let is_judged_alone = is_alone && is_seen && !plan.crowd && rng.coin();
        let plan = if is_judged_alone { plan.unmodelled(rng) } else { plan };
        if plan.must_not_be_short() { plan.with_a_good_disk() } else { plan }
    }

    /// The plan of a run with a cluster. Only the oracle checks such a run.
    pub(crate) fn of_cluster(rng: &mut Rng) -> Self {
        let sync = match rng.below(3) {
            0 => Sync::Always,
            1 => Sync::Every(Duration::from_millis(rng.between(1, 200))),
            _ => Sync::Every(Duration::from_millis(20)),
        };
        let storage = StorageKind::Replicated(sync);
        let plan = Self::new(rng);
        let is_faulty = !rng.one_in(8);
        let diverse = rng.coin();
        let weights = Weights::new(storage, rng);
        let mut trouble = |weight: u64| if is_faulty && rng.coin() { weight } else { 0 };
        let weights = Weights {
            kill: trouble(2),
            power: trouble(2),
            clean_stop: trouble(2).max(1),
            trouble: trouble(12),
            switch: 20,
            // The disk of each node always has room.
            plan_crash: 0,
            plan_failure: 0,
            plan_read_failure: 0,
            fill_disk: 0,
            drain: 0,
            policies: if diverse { weights.policies } else { 0 },
            moves: if diverse { *rng.pick(&[0, 8, 25]) } else { 0 },
            ..weights
        };
        let alone = *rng.pick(&[[1, 0, 0], [1, 0, 0], [0, 0, 1]]);
        let shares = if diverse { plan.shares } else { alone };
        let replicated = Replicated {
            is_faulty,
            odd_appends: if is_faulty { *rng.pick(&[0, 5, 20, 100]) } else { 0 },
            strays: is_faulty && rng.coin(),
            diverse,
            // Clients of Kestrel write times of the wall clock, so it must be right.
            skewed: shares[2] == 0,
            keep_bytes: *rng.pick(&[0, 5_000, 50_000]),
            max_bytes: *rng.pick(&[20_000, 200_000, 10_000_000]),
            folder_ms: FOLDER_MS_NEVER,
        };
        let slice_units = *rng.pick(&[4, 20, 100]);
        Self {
            unmodelled: Some(Unmodelled { slice_units, memory_bytes: None }),
            replicated: Some(replicated),
            shares,
            dialects: if diverse { plan.dialects } else { [1, 0, 0] },
            crowd: false,
            storage,
            weights,
            ..plan
        }
    }

    /// In some runs of a cluster, all clients speak Gearman, so that the oracle can judge outcomes and
    /// wake-ups. `rng` is separate, so that the other choices of a seed stay the same.
    pub(crate) fn choose_gearman(&mut self, rng: &mut Rng) {
        let is_diverse = self.replicated.is_none_or(|plan| plan.diverse);
        if !is_diverse && self.shares == [1, 0, 0] && rng.coin() {
            self.shares = [0, 1, 0];
            self.garbage = false;
            self.keyed = rng.coin();
        }
    }

    /// In some runs of a cluster with faults, a leader yields soon if its folder hangs. `rng` is separate,
    /// so that the other choices of a seed stay the same.
    pub(crate) fn choose_yields(&mut self, rng: &mut Rng) {
        if let Some(plan) = &mut self.replicated
            && plan.is_faulty
            && rng.coin()
        {
            plan.folder_ms = rng.between(1000, 4000);
        }
    }

    /// Chooses whether clients use another name of a queue. Earlier plans with the same seed stay the
    /// same. Of the runs with a model, only those with Kestrel have policies.
    pub(crate) fn choose_names(&mut self, rng: &mut Rng) {
        self.renames = self.shares[2] > 0 && self.weights.policies > 0 && rng.one_in(3);
    }

    /// Keeps the results of Gearman's jobs in some runs. `rng` is separate, so that the other choices of a
    /// seed stay the same.
    pub(crate) fn choose_results(&mut self, rng: &mut Rng) {
        let is_modelled = self.unmodelled.is_none() && !self.crowd;
        // Runs with Kestrel have other policies, and the oracle does not judge the rate of a queue whose
        // jobs can be duplicates.
        let has_policies = self.shares[2] > 0;
        if self.shares[1] > 0 && is_modelled && !has_policies && rng.coin() {
            self.keeps_results = true;
            self.keyed = true;
            *self = self.clone().with_a_good_disk();
        }
    }

    /// Limits the memory for bodies and records in some runs. `rng` is separate, so that the other choices of a
    /// seed stay the same. Runs with failing reads have no such limit, because the server closes a
    /// connection after a failed read of a body. The model does not expect this.
    pub(crate) fn choose_bodies(&mut self, rng: &mut Rng) {
        let can_read = self.weights.plan_read_failure == 0;
        if self.storage != StorageKind::Memory && can_read && rng.coin() {
            self.bodies_bytes_max = Some(*rng.pick(&[0, 500, 5_000, 50_000]));
            // A read of a cold item needs a lease, and other reads do not. Thrift shows the numbers of
            // leases, and the model does not compute which items are cold. Nor does it compute when
            // items expire that a policy brings back into memory.
            let shows_leases = self.shares[2] > 0 && self.dialects[2] > 0;
            let has_policies = self.shares[2] > 0 && self.weights.policies > 0;
            let is_computed = !shows_leases && !has_policies || self.unmodelled.is_some();
            if is_computed && rng.coin() {
                self.jobs_bytes_max = Some(*rng.pick(&[0, 1_000, 10_000]));
                self.loads_later = self.unmodelled.is_some() && rng.coin();
            }
        }
    }

    /// Fills the disk in some runs with policies. `rng` is separate, so that the other choices of a
    /// seed stay the same.
    pub(crate) fn choose_full_disks(&mut self, rng: &mut Rng) {
        let can_be_full = self.storage != StorageKind::Memory && !self.must_not_be_short();
        if self.has_policies() && can_be_full && rng.coin() {
            self.weights = Weights { fill_disk: 3, empty_disk: 6, ..self.weights.clone() };
        }
    }

    /// Moves jobs in some runs. `rng` is separate, so that the other choices of a seed stay the same.
    /// The oracle cannot follow an item that an operator moves, so runs that only the oracle checks
    /// do not move items.
    pub(crate) fn choose_moves(&mut self, rng: &mut Rng) {
        let is_followed = self.unmodelled.is_none() || self.shares[2] == 0;
        if is_followed {
            self.weights.moves = *rng.pick(&[0, 0, 8, 25]);
        }
        if self.weights.moves > 0 && self.must_not_be_short() {
            // The broker does not hold an operator back. Small segments can be full after a move,
            // and then the log refuses the puts of clients.
            self.segment_bytes = &[SEGMENT_BYTES_MAX];
        }
    }

    /// Makes the run one of Kestrel's clients, with policies that change often. Only the oracle judges it.
    pub(crate) fn limit_hand_outs(&mut self) {
        self.unmodelled = Some(Unmodelled { slice_units: 100, memory_bytes: None });
        (self.shares, self.dialects, self.crowd) = ([0, 0, 1], [1, 0, 0], false);
        self.weights = Weights { policies: 12, ..self.weights };
        *self = self.clone().with_a_good_disk();
    }

    /// Makes the run one of clients of beanstalkd or of Kestrel, with policies that change, on disks
    /// that can be full. Only the oracle judges it.
    pub(crate) fn judge_policies(&mut self, rng: &mut Rng) {
        self.limit_hand_outs();
        if rng.coin() {
            (self.shares, self.changes_jobs) = ([1, 0, 0], true);
            // A job fails several times only while the policies and the process stay the same.
            self.weights.policies = *rng.pick(&[1, 3, 12]);
            if rng.coin() {
                let weights = self.weights.clone();
                self.weights =
                    Weights { kill: 0, power: 0, plan_crash: 0, clean_stop: 0, ..weights };
            }
        }
        self.choose_full_disks(rng);
    }

    fn unmodelled(self, rng: &mut Rng) -> Self {
        // Queues that stay take up to 20 KB, even without jobs.
        let memory_bytes = if rng.coin() { Some(rng.between(25_000, 110_000)) } else { None };
        let slice_units = *rng.pick(&[4, 20, 100]);
        Self { unmodelled: Some(Unmodelled { slice_units, memory_bytes }), ..self }
    }

    pub(crate) fn slice_units(&self) -> u32 {
        self.unmodelled.map_or(SLICE_UNITS, |unmodelled| unmodelled.slice_units)
    }

    /// The longest packet of Gearman. It has room for a body of the maximum length in the other
    /// protocols.
    pub(crate) fn packet_bytes_max(&self) -> u32 {
        self.max_job_size + 1000
    }

    /// True if queues have policies that refuse puts, move jobs, or set how changes are synced.
    pub(crate) fn has_policies(&self) -> bool {
        self.changes_policies() || self.keeps_results
    }

    /// True if policies change during the run.
    pub(crate) fn changes_policies(&self) -> bool {
        (self.shares[2] > 0 || self.changes_jobs) && self.weights.policies > 0
    }

    /// True if the disk must always have room. With a full disk, the model could not decide whether
    /// a policy or the disk caused a refusal. It also could not decide whether a policy moved a
    /// job, or whether the disk lost a change. The oracle judges only what the server acknowledged.
    pub(crate) fn must_not_be_short(&self) -> bool {
        self.has_policies() && self.unmodelled.is_none()
    }

    /// Plans no faults after which the log lacks room. Power can still fail in any call of the
    /// disk, because the server refuses no request after a power failure.
    fn with_a_good_disk(self) -> Self {
        let weights =
            Weights { plan_failure: 0, plan_read_failure: 0, fill_disk: 0, ..self.weights };
        // When a background submit joins a foreground job, the log gets the job's body. With small
        // segments, these bodies can fill the ready segment before the broker holds clients back.
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
            // The segments are large, because a small command can cause an entry that is many times
            // longer than the command.
            segment_bytes: &[SEGMENT_BYTES_MAX],
            weights: Weights { commit, ..self.weights },
            ..self
        }
    }
}

impl Weights {
    fn new(storage: StorageKind, rng: &mut Rng) -> Self {
        let durable = storage != StorageKind::Memory;
        // Each kind of fault is missing from some runs. So this kind cannot hide errors that other
        // kinds cause.
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
            moves: 0,
            trouble: 0,
            switch: 0,
        }
    }
}
