//! One node of the simulated cluster: its folder, its clock, and the process that runs now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::{Broker, Millis, Position, Since};
use log::FaultDisk;
use replica::claim::Leader;
use replica::group::{At, SealedGroup};
use replica::node::{CLAIM_IDS, End, Node, Setting};
use replica::report::Report;
use replica::{Epoch, Incarnation, NodeId, Seq};

use super::contents::Contents;
use super::storage::{CrashKind, DISK_BYTES};
use super::stream::{Append, LINEAGE};
use crate::plan::Replicated;
use crate::rng::Rng;

/// A leader answers for this long after the begin of its last append.
const LEASE_MS: u64 = 1500;
const JITTER_MS_MAX: u64 = 200;
/// A full disk has fewer free bytes than this.
const LAST_BYTES_MAX: u64 = 300_000;
/// A clock runs at most this much too fast or too slow, in millionths.
const DRIFT_MAX: u64 = 10_000;
/// The wall clocks of two nodes differ by at most twice this.
pub(crate) const SKEW_MS_MAX: u64 = 10_000;

/// A monotonic clock that is a little too fast or too slow.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Clock {
    base_ms: u64,
    /// Millionths of the true speed.
    speed: u64,
}

impl Clock {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let speed = 1_000_000 - DRIFT_MAX + rng.below(2 * DRIFT_MAX);
        Self { base_ms: rng.between(1_000_000, 2_000_000), speed }
    }

    /// What the clock shows at a moment of true time.
    pub(crate) fn at(self, real_ms: u64) -> u64 {
        self.base_ms + real_ms * self.speed / 1_000_000
    }

    /// The first moment of true time at which the clock shows this or more.
    pub(crate) fn when(self, shown_ms: u64) -> u64 {
        shown_ms.saturating_sub(self.base_ms).saturating_mul(1_000_000).div_ceil(self.speed)
    }
}

/// A node. It outlives its processes.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: NodeId,
    pub(crate) disk: FaultDisk,
    pub(crate) clock: Clock,
    /// The error of the wall clock in milliseconds, plus [`SKEW_MS_MAX`].
    skew_ms: u64,
    pub(crate) process: Option<Process>,
    /// The node needs a copy of another folder, which the simulation does not make.
    pub(crate) needs_copy: bool,
    /// The last group that this node has reported as durable.
    durable: u64,
    /// Until when nothing gets from this node to the stream, and from the stream to this node.
    pub(crate) cut_to_stream: u64,
    pub(crate) cut_from_stream: u64,
    /// Until when the node's server of the stream is cut off from the others, and the first and the
    /// last record that this server knows.
    pub(crate) stale: Option<(u64, (Seq, Seq))>,
    /// Until when the node's consumer delivers nothing.
    pub(crate) silent: u64,
    /// Until when the disk is so slow that nothing is written.
    pub(crate) slow: u64,
    /// Until when the disk is full.
    pub(crate) full: u64,
    /// What the node must have after the last group that was compared.
    pub(crate) contents: Contents,
}

/// One process of a node.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) incarnation: Incarnation,
    pub(crate) node: Node,
    pub(crate) broker: Broker,
    /// The process does nothing until this moment of true time.
    pub(crate) paused: u64,
    /// When the next tick is due, in true time.
    pub(crate) tick_at: u64,
    /// The next record that the node follows.
    pub(crate) follows: Option<Seq>,
    pub(crate) is_delivering: bool,
    /// The append that the driver has not answered.
    pub(crate) open_append: Option<u64>,
    /// The append that the driver got last.
    pub(crate) last_append: u64,
    /// The last append of a group or of a sign of life, with its id.
    pub(crate) sent: Option<(u64, Append)>,
    /// Groups to apply.
    pub(crate) groups: VecDeque<SealedGroup>,
    pub(crate) is_applying: bool,
    /// The claim of a node that leads: its epoch and its limit of ids.
    pub(crate) claimed: Option<(Epoch, u64)>,
    /// The node stops cleanly, and answers nothing more.
    pub(crate) resigns: bool,
    /// The node gives its lead away, because its folder hangs.
    pub(crate) yields: bool,
    pub(crate) end: Option<End>,
    /// When the last group came, by the node's clock. `None`: no group came since the start.
    pub(crate) heard: Option<u64>,
    /// When the broker got its time, by the node's clock: at the start, or with the last group.
    pub(crate) timed: u64,
    /// The broker has a group for the stream.
    pub(crate) has_group: Arc<AtomicBool>,
    /// The leader that this follower reports to.
    pub(crate) linked: Option<usize>,
    /// The groups that this leader has gathered and that the stream has not accepted. With each
    /// one, what the broker had released then.
    pub(crate) gathered: BTreeMap<u64, (At, Position)>,
    /// All groups that this leader has gathered.
    pub(crate) written: BTreeMap<u64, At>,
    /// The result of the last check of the stream's servers.
    pub(crate) is_safe: bool,
    /// What can be released, because the stream has accepted it.
    pub(crate) released: Position,
}

impl Member {
    pub(crate) fn new(number: usize, rng: &mut Rng, disk_bytes: u64, skewed: bool) -> Self {
        Self {
            id: number as NodeId + 1,
            disk: FaultDisk::new(rng.next_u64(), disk_bytes),
            clock: Clock::new(rng),
            skew_ms: if skewed { rng.below(2 * SKEW_MS_MAX) } else { SKEW_MS_MAX },
            process: None,
            needs_copy: false,
            durable: 0,
            cut_to_stream: 0,
            cut_from_stream: 0,
            stale: None,
            silent: 0,
            slow: 0,
            full: 0,
            contents: Contents::default(),
        }
    }

    /// Starts a process. Its folder must be a part of the accepted history. Returns false if the
    /// power fails during the start.
    pub(crate) fn start(
        &mut self,
        options: broker::Options,
        plan: &Replicated,
        accepted: Option<&[At]>,
        rng: &mut Rng,
        real_ms: u64,
    ) -> Result<bool, String> {
        let id = self.id;
        // A follower has the time of its leader.
        let (broker, report) = match Broker::open(options, Millis(0)) {
            Ok(opened) if !self.disk.has_crashed() => opened,
            Err(error) if !self.disk.has_crashed() => {
                return Err(format!("the folder of node {id} is refused: {error}"));
            }
            _ => return Ok(false),
        };
        let stream = broker.stream().ok_or("the broker is not that of a node")?;
        let at = stream.at();
        let expected = accepted.map(|accepted| accepted.get(at.number as usize));
        let is_at = |expected: &At| (expected.chain, expected.state) == (at.chain, at.state);
        if expected.is_some_and(|expected| !expected.is_some_and(is_at)) {
            return Err(format!(
                "the folder of node {id} is at {at:?}, which is no part of the history: {expected:?}"
            ));
        }
        if at.number < self.durable {
            return Err(format!(
                "node {id} has group {}, although {} was durable",
                at.number, self.durable
            ));
        }
        let has_group = Arc::new(AtomicBool::new(false));
        let flag = has_group.clone();
        stream.set_on_group(Arc::new(move || flag.store(true, Ordering::Relaxed)));
        let incarnation = rng.next_u64();
        let setting = Setting {
            lineage: LINEAGE,
            node: id,
            incarnation,
            leader: Leader::default(),
            can_lead: true,
            has_place: stream.has_place(),
            lease_ms: LEASE_MS,
            jitter_ms: rng.below(JITTER_MS_MAX),
            folder_ms: plan.folder_ms,
            keep_bytes: plan.keep_bytes,
            max_bytes: plan.max_bytes,
        };
        self.process = Some(Process {
            incarnation,
            node: Node::new(setting, at, report.next_id),
            released: broker.released(),
            broker,
            paused: 0,
            tick_at: u64::MAX,
            follows: None,
            is_delivering: false,
            open_append: None,
            last_append: 0,
            sent: None,
            groups: VecDeque::new(),
            is_applying: false,
            claimed: None,
            resigns: false,
            yields: false,
            end: None,
            heard: None,
            timed: self.clock.at(real_ms),
            has_group,
            linked: None,
            gathered: BTreeMap::new(),
            written: BTreeMap::new(),
            is_safe: false,
        });
        Ok(true)
    }

    /// The time of the broker's threads.
    pub(crate) fn thread_time(&self, real_ms: u64) -> Millis {
        self.process.as_ref().map_or(Millis(0), |process| {
            Millis(process.broker.last_time().0 + self.clock.at(real_ms) - process.timed)
        })
    }

    /// Other programs use nearly all room of the disk, or give it back.
    pub(crate) fn fill(&mut self, until: u64, rng: &mut Rng) {
        self.full = until;
        self.disk.set_capacity(self.disk.used() + rng.below(LAST_BYTES_MAX));
    }

    pub(crate) fn has_room(&mut self) {
        self.full = 0;
        self.disk.set_capacity(DISK_BYTES);
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_wall(&mut self, rng: &mut Rng) {
        self.skew_ms = rng.below(2 * SKEW_MS_MAX);
    }

    /// Ends the process at once.
    pub(crate) fn end(&mut self, kind: CrashKind) {
        self.process = None;
        if kind == CrashKind::PowerLoss || self.disk.has_crashed() {
            self.disk.crash();
        } else {
            self.disk.restart();
        }
    }

    /// Whether this process leads, and may answer now.
    pub(crate) fn may_answer(&self, real_ms: u64) -> bool {
        self.process.as_ref().is_some_and(|process| {
            let is_here = !process.resigns && process.end.is_none() && process.paused <= real_ms;
            let now = || Millis(self.clock.at(real_ms));
            is_here && process.claimed.is_some() && process.broker.may_answer(now)
        })
    }

    /// Makes the broker of a node lead that has claimed. Returns the ids that it may use.
    pub(crate) fn lead(
        &mut self,
        real_ms: u64,
        wall: u64,
        ignores_limit: bool,
    ) -> Result<std::ops::Range<u64>, String> {
        let Some(process) = &mut self.process else { return Err("a leader has a process".into()) };
        let (epoch, id_limit) = process.claimed.ok_or("only a node that has claimed leads")?;
        let since = if let Some(heard) = process.heard {
            Since::Elapsed(self.clock.at(real_ms) - heard)
        } else {
            let last = process.broker.stream().map_or(0, |stream| stream.at().time_ms);
            // Without an error, the wall clock does not go back.
            let least = if self.skew_ms == SKEW_MS_MAX { last } else { 0 };
            let now = Millis((wall + self.skew_ms - SKEW_MS_MAX).max(least));
            Since::Wall { now, record: Millis(process.node.reader().time_ms()) }
        };
        let first = if ignores_limit { 0 } else { id_limit - CLAIM_IDS };
        let led = process.broker.lead(epoch, first..id_limit, since);
        led.map_err(|error| format!("node {}: {error}", self.id))?;
        Ok(first..id_limit)
    }

    /// The last group that is durable in the folder, if this has changed.
    pub(crate) fn note_durable(&mut self) -> Option<u64> {
        let durable = self.process.as_ref()?.broker.stream()?.durable();
        (durable > self.durable).then(|| {
            self.durable = durable;
            durable
        })
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// What a follower tells the leader.
    pub(crate) fn report(&self, real_ms: u64) -> Option<Report> {
        let process = self.process.as_ref()?;
        Some(Report {
            node: self.id,
            incarnation: process.incarnation,
            lineage: LINEAGE,
            epoch: process.node.reader().epoch(),
            applied: process.broker.stream()?.at().number,
            durable: self.durable,
            needs: self.durable,
            format: 1,
            cannot_lead: !process.node.can_lead(self.clock.at(real_ms)),
        })
    }
}
