//! Access to a data folder that no server uses. Reads all jobs, or imports jobs from the files of
//! another server.
//!
//! An import is a sequence of calls of [`Importer::add`]. Each call writes some jobs and the record
//! of the import, as one group of the log. The record is a value of the caller that says which jobs
//! are imported. After a crash, the log has either the whole group or nothing of it. So the record
//! always agrees with the jobs, and the import can continue.

mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use engine::policy::KeyHash;
use engine::{Counters, EngineSetup, JobFacts, JobId, Millis, RestoreError, State, Tags};
use log::{Disk, Failure, RecoveryReport, Restored, Settings};
use replica::Lineage;
use replica::group::At;

use crate::journal::stream::decode_place;
use crate::ledger::meta;
use crate::replication::{ClusterError, RestoredState};
use crate::{Broker, BrokerError, Options, Turn};

pub use crate::ledger::meta::CLUSTER_KEY;
pub use node::{Audited, audit, leave};

/// A fact of the log stores the record of an import. Its key is this prefix and the import's name.
const RECORD_KEY: &[u8] = b"import/";

/// A job with a higher number gets a new number. If an import kept a higher number, too few numbers
/// would remain for new jobs.
const KEPT_ID_MAX: u64 = 1 << 52;

/// A job needs at most this many bytes of the log, plus its body and twice its queue's name. These
/// bytes are for the entry's head, the meta, all options, and the fact of the queue.
const JOB_OVERHEAD_BYTES: u64 = 1024;

/// A record needs at most this many bytes of the log, plus its key and value.
const RECORD_OVERHEAD_BYTES: u64 = 4096;

/// Everything in a folder except its jobs.
#[derive(Debug, Default)]
pub struct Contents {
    /// How much of the log was read.
    pub report: RecoveryReport,
    /// Why a server would not start with this folder. If this is `Some`, only the intact part of
    /// the log was read.
    pub refusal: Option<log::OpenError>,
    /// How far the wall clock was ahead of the times in the facts of jobs.
    pub wall_ahead_ms: i64,
    /// The names of all queues that are read in order (queues of *items*).
    pub item_queues: BTreeSet<Vec<u8>>,
    /// The names of all queues that the folder remembers even without jobs. This includes the
    /// queues of items.
    pub lasting_queues: BTreeSet<Vec<u8>>,
    /// The records of imports, by their names.
    pub imports: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The place in the history of a cluster, if the folder belongs to one.
    pub place: Option<(Lineage, At)>,
    /// The folder belongs to a cluster, but only a newer version can read the place.
    has_unknown_place: bool,
}

/// A job in a folder.
#[derive(Debug)]
pub struct KeptJob<'a> {
    /// The name of its queue.
    pub queue: &'a [u8],
    /// Its facts.
    pub facts: JobFacts,
    /// Its key and reducer, if a client submitted it.
    pub tags: Option<Tags<'a>>,
    /// Its body.
    pub body: &'a [u8],
}

/// Reads a folder without changing it, and calls `visit` with each job, in no particular order.
/// Fails if a server uses the folder.
pub fn read(disk: &dyn Disk, visit: &mut dyn FnMut(KeptJob<'_>)) -> Result<Contents, BrokerError> {
    let mut contents = Contents::default();
    let mut broken = None;
    let salvage = log::salvage(disk, &mut |restored| match restored {
        Restored::Job { queue, meta, counters, body, .. } => match meta::facts(&meta, counters) {
            Ok((facts, tags)) => {
                let body = &body.read().expect("a salvage reads the bodies with the jobs");
                visit(KeptJob { queue, facts, tags, body });
            }
            Err(error) => broken = Some(error),
        },
        Restored::Block { .. } => unreachable!("a salvage uses no index files"),
        Restored::Fact { key, value, .. } => contents.note_fact(key, value),
    })?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    Ok(Contents { report: salvage.report, refusal: salvage.refusal, ..contents })
}

/// The place of a folder in the history of a cluster. `None`: the folder belongs to no cluster.
/// Fails if a server uses the folder. Reads the whole folder, and changes nothing.
pub fn place(disk: &dyn Disk) -> Result<Option<(Lineage, At)>, BrokerError> {
    let contents = read(disk, &mut |_| {})?;
    if contents.has_unknown_place {
        return Err(ClusterError::Unknown.into());
    }
    Ok(contents.place)
}

/// Why a folder could not become the origin of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The folder could not be opened. It may belong to a cluster already.
    #[error(transparent)]
    Open(#[from] BrokerError),
    /// The log failed.
    #[error("the log failed: {0}")]
    Failed(#[from] Failure),
}

/// Makes a folder the origin of the cluster with this lineage: its jobs are the state before the
/// first group. Opens the folder, or creates it. Returns its place, when this is durable.
pub fn make_origin(
    disk: Arc<dyn Disk>,
    log: Settings,
    lineage: Lineage,
) -> Result<At, OriginError> {
    let options = Options::without_threads(disk, log);
    let node = RestoredState::founding(lineage);
    let (broker, _) = Broker::open_as(options, Some(node), Millis(0))?;
    let stream = broker.stream().expect("it is the node of a cluster");
    stream.write_origin();
    let now = broker.last_time();
    while broker.commit_step(now)?.wrote {}
    let at = stream.at();
    broker.close(now)?;
    Ok(at)
}

impl Contents {
    fn note_fact(&mut self, key: &[u8], value: &[u8]) {
        if let Some((name, facts)) = meta::read_queue_fact(key, value) {
            if facts.items {
                self.item_queues.insert(name.to_vec());
            }
            self.lasting_queues.insert(name.to_vec());
        } else if key == meta::CLOCK_KEY {
            self.wall_ahead_ms = value.try_into().map_or(0, i64::from_le_bytes);
        } else if key == meta::CLUSTER_KEY {
            self.place = decode_place(value);
            self.has_unknown_place = self.place.is_none();
        } else if let Some(name) = key.strip_prefix(RECORD_KEY) {
            self.imports.insert(name.to_vec(), value.to_vec());
        }
    }
}

/// A job of another server. Its times are times of the wall clock.
#[derive(Copy, Clone, Debug)]
pub struct ForeignJob<'a> {
    /// The name of its queue: 1 to [`QUEUE_NAME_BYTES_MAX`](engine::limits::QUEUE_NAME_BYTES_MAX)
    /// bytes.
    pub queue: &'a [u8],
    /// Whether the queue is read in order: a queue of items.
    pub items: bool,
    /// Its number in the other server.
    pub id: Option<u64>,
    /// Its priority. 0 is the most urgent.
    pub priority: u32,
    /// Ready, delayed or buried.
    pub state: State,
    /// When it was put. `None`: now.
    pub created: Option<Millis>,
    /// When a delayed job becomes ready.
    pub due: Millis,
    /// The place of a buried job among all buried jobs of the import, from 0.
    pub buried: u64,
    /// The ttr of the job. 0 means no limit.
    pub ttr_s: u32,
    /// The last delay that a client gave, in seconds.
    pub delay_s: u32,
    /// The counters of the job's events.
    pub counters: Counters,
    /// When it expires.
    pub expires: Option<Millis>,
    /// Whether `due` and `expires` follow the wall clock if somebody sets it.
    pub by_clock: bool,
    /// Key and reducer, at most 255 bytes each.
    pub tags: Option<Tags<'a>>,
    /// The hash of the key that makes it unique by a policy of its queue.
    pub unique: Option<KeyHash>,
    /// Its body.
    pub body: &'a [u8],
}

/// How an import numbers its jobs, and what equal numbers mean. All calls for one import must use the
/// same value, even after a crash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Numbers {
    /// If a job's number is in this range, the job keeps it. No other job gets a number of this
    /// range.
    pub kept: RangeInclusive<u64>,
    /// Whether jobs of equal priority are taken in the order of their numbers. If false, they are
    /// taken in the order of the import.
    pub by_id: bool,
    /// The place of the import's first buried job.
    pub buried_from: u64,
    /// Whether the source was imported before. Then a job with a number, queue and body that the
    /// folder has is the same job. Otherwise it is a job of another server, because two servers can
    /// give the same number to equal jobs.
    pub again: bool,
}

/// What the import did with a job.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Added {
    /// It was added, and kept its number.
    Kept,
    /// It was added with this new number.
    New(JobId),
    /// It was not added. The queue has this job with the same key, and a submit would have joined
    /// that job.
    Joined(JobId),
    /// It was not added. The source was imported before, and the folder still has a job with this
    /// number, queue and body.
    Present,
}

/// Why jobs could not be added. No job of the call was added.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The disk or the log's limit of bytes leaves no room.
    #[error("the log has no room")]
    Full,
    /// The log failed. Nothing more can be added.
    #[error("the log failed: {0}")]
    Failed(#[from] Failure),
    /// Reclaim failed.
    #[error("cannot free space of the log: {0}")]
    Reclaim(#[from] log::ReclaimError),
    /// A fact of a job is invalid.
    #[error(transparent)]
    Job(#[from] RestoreError),
}

/// An open folder, to which an import adds jobs.
#[derive(Debug)]
pub struct Importer {
    broker: Broker,
    /// The engine's time at the start.
    start: Millis,
}

impl Importer {
    /// Opens a folder, or creates it. `wall` is the time of the wall clock.
    pub fn open(
        disk: Arc<dyn Disk>,
        log: Settings,
        engine: EngineSetup,
        wall: Millis,
    ) -> Result<(Self, RecoveryReport), BrokerError> {
        // A committer thread could write a group in the middle of a call. Without threads, all
        // entries of one call are one group.
        let options = Options { engine, ..Options::without_threads(disk, log) };
        let (broker, report) = Broker::open(options, wall)?;
        let start = broker.last_time();
        broker.turn(start).core.ledger.imports = true;
        Ok((Self { broker, start }, report))
    }

    /// The records of imports, by their names.
    pub fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let turn = self.turn(0);
        let records = turn.core.ledger.log().map(|log| log.facts_with(RECORD_KEY));
        let without_prefix = |(key, value): (Vec<u8>, _)| (key[RECORD_KEY.len()..].to_vec(), value);
        records.into_iter().flatten().map(without_prefix).collect()
    }

    /// Chooses the numbers of a new import. `ids` are the lowest and the highest number in the
    /// source. `ascending` means that each job of the source has a number, and that these numbers
    /// increase. If the source was imported before, the caller sets `again`.
    pub fn numbers(&self, ids: Option<(u64, u64)>, ascending: bool) -> Numbers {
        let turn = self.turn(0);
        let next = turn.core.engine.next_number();
        let (lowest, highest) = ids.unwrap_or((0, 0));
        let last = highest.min(KEPT_ID_MAX).max(next - 1);
        Numbers {
            kept: next..=last,
            by_id: ascending && lowest >= next && highest <= last,
            buried_from: turn.core.engine.next_buried_order(),
            again: false,
        }
    }

    /// Reserves the numbers of an import, so that other jobs do not get them. Returns when the
    /// reservation is durable.
    pub fn reserve(&self, numbers: &Numbers, elapsed_ms: u64) -> Result<(), ImportError> {
        let mut turn = self.turn(elapsed_ms);
        let next = numbers.kept.end().saturating_add(1).min(KEPT_ID_MAX + 1);
        turn.core.engine.raise_numbers(next)?;
        drop(turn);
        self.commit(elapsed_ms)
    }

    /// The number of bytes that one call of [`Importer::add`] should add.
    pub fn chunk_bytes(&self) -> u64 {
        let turn = self.turn(0);
        turn.core.ledger.log().map_or(0, |log| log.open_batch_bytes_max() as u64 / 2)
    }

    /// Adds jobs, and writes the record of the import with them. Returns when the jobs and the
    /// record are durable. `elapsed_ms` is the time since the folder was opened.
    pub fn add(
        &self,
        numbers: &Numbers,
        jobs: &[ForeignJob<'_>],
        (name, record): (&[u8], &[u8]),
        elapsed_ms: u64,
    ) -> Result<Vec<Added>, ImportError> {
        let of_jobs = jobs
            .iter()
            .map(|job| (job.body.len() + 2 * job.queue.len()) as u64 + JOB_OVERHEAD_BYTES);
        let bytes =
            of_jobs.sum::<u64>() + (name.len() + record.len()) as u64 + RECORD_OVERHEAD_BYTES;
        self.make_room(bytes, elapsed_ms)?;
        let mut turn = self.turn(elapsed_ms);
        let log = turn.core.ledger.log().cloned().expect("an importer has a log");
        let now = turn.core.engine.now();
        log.keep_together(now.0, bytes);
        let mut added = Vec::with_capacity(jobs.len());
        for job in jobs {
            added.push(add(&mut turn, numbers, job)?);
        }
        log.fact(now.0, &[RECORD_KEY, name].concat(), record);
        turn.core.ledger.appended = true;
        drop(turn);
        self.commit(elapsed_ms)?;
        Ok(added)
    }

    /// Creates these queues of items, if they do not exist. Returns when they are durable.
    pub fn make_item_queues<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]>,
        elapsed_ms: u64,
    ) -> Result<(), ImportError> {
        for name in names {
            self.make_room(RECORD_OVERHEAD_BYTES, elapsed_ms)?;
            let mut turn = self.turn(elapsed_ms);
            let core = &mut *turn.core;
            core.engine.make_item_queue(name, &mut core.effects);
            core.apply_effects();
        }
        self.commit(elapsed_ms)
    }

    /// Closes the folder cleanly.
    pub fn close(self, elapsed_ms: u64) -> Result<(), Failure> {
        self.broker.close(self.now(elapsed_ms))
    }

    fn now(&self, elapsed_ms: u64) -> Millis {
        Millis(self.start.0.saturating_add(elapsed_ms))
    }

    fn turn(&self, elapsed_ms: u64) -> Turn<'_> {
        self.broker.turn(self.now(elapsed_ms))
    }

    /// Writes and syncs everything.
    fn commit(&self, elapsed_ms: u64) -> Result<(), ImportError> {
        let now = self.now(elapsed_ms);
        while self.broker.commit_step(now)?.wrote {}
        Ok(())
    }

    /// Makes sure that the log has room for this many bytes.
    fn make_room(&self, bytes: u64, elapsed_ms: u64) -> Result<(), ImportError> {
        let bytes = usize::try_from(bytes).map_err(|_| ImportError::Full)?;
        let has_room = || {
            let turn = self.turn(elapsed_ms);
            turn.core.ledger.log().is_none_or(|log| log.admits_put(bytes))
        };
        if has_room() {
            return Ok(());
        }
        loop {
            self.commit(elapsed_ms)?;
            self.broker.prepare_step()?;
            if has_room() {
                return Ok(());
            }
            // Jobs that ended before the import still use space, which reclaim can free.
            if !self.broker.reclaim_step(self.now(elapsed_ms))? {
                return Err(ImportError::Full);
            }
        }
    }
}

/// Adds one job to the engine and to the log's open batch.
fn add(
    turn: &mut Turn<'_>,
    numbers: &Numbers,
    job: &ForeignJob<'_>,
) -> Result<Added, RestoreError> {
    let core = &mut *turn.core;
    if let Some(Tags { unique, .. }) = job.tags
        && let Some(id) = core.engine.joined(job.queue, unique, job.body)
    {
        return Ok(Added::Joined(id));
    }
    let wanted = job.id.filter(|id| *id > 0).map(JobId);
    let present = wanted.and_then(|id| core.engine.slot(id).ok());
    if numbers.again
        && let Some(slot) = present
        && core.engine.queue_name(core.engine.queue_of(slot)) == job.queue
        && core.engine.body(slot).resident().is_some_and(|body| **body == *job.body)
    {
        return Ok(Added::Present);
    }
    let kept = wanted.filter(|id| present.is_none() && numbers.kept.contains(&id.0));
    let order = match kept {
        Some(id) if numbers.by_id => id,
        Some(_) | None => core.engine.skip_id(),
    };
    let id = kept.unwrap_or(order);
    let mut facts = facts_of(job, numbers, core.engine.now(), core.engine.wall_ahead_ms());
    facts.id = id;
    facts.order = order.0;
    if job.items {
        core.engine.make_item_queue(job.queue, &mut core.effects);
    }
    let effects = &mut core.effects;
    let body = || engine::Body::from(job.body);
    let added = core.engine.import(job.queue, &facts, job.tags, body(), effects);
    if matches!(added, Err(RestoreError::SamePlace(_))) && job.state == State::Buried {
        // Another job has this place. A server ran between two parts of this import, and its
        // clients buried jobs.
        facts.buried_order = core.engine.next_buried_order();
        core.engine.import(job.queue, &facts, job.tags, body(), effects)?;
    } else {
        added?;
    }
    core.apply_effects();
    Ok(if kept.is_some() { Added::Kept } else { Added::New(id) })
}

/// The facts of a job. The caller sets its number and its order number.
fn facts_of(job: &ForeignJob<'_>, numbers: &Numbers, now: Millis, wall_ahead_ms: i64) -> JobFacts {
    let moment = |wall: Millis| Millis(wall.0.saturating_sub_signed(wall_ahead_ms));
    let is_delayed = job.state == State::Delayed;
    JobFacts {
        id: JobId(0),
        priority: job.priority,
        order: 0,
        state: job.state,
        created: job.created.map_or(now, |created| moment(created).min(now)),
        due: if is_delayed { moment(job.due) } else { Millis(0) },
        buried_order: match job.state {
            State::Buried => numbers.buried_from.saturating_add(job.buried),
            State::Ready | State::Delayed | State::Leased => 0,
        },
        ttr_s: job.ttr_s,
        delay_s: job.delay_s,
        counters: job.counters,
        attempts: 0,
        death: None,
        expires: job.expires.map(moment),
        wall: job.expires.or(is_delayed.then_some(job.due)).filter(|_| job.by_clock),
        key: job.unique,
        group: None,
        fired: None,
    }
}
