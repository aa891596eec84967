//! The log's disk in the simulated world, and the number of changes that must survive a crash. A
//! *part of the history* is always its beginning, given as a number of records.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, EngineSetup, Limits, Millis, Position};
use log::{FaultDisk, Settings, Sync};

use crate::model::{History, Need};
use crate::plan::{Plan, StorageKind};
use crate::{Checked, Options, Sabotage};

/// The size of the simulated disk, in bytes. A step can make the disk smaller.
pub(crate) const DISK_BYTES: u64 = 48 << 20;

/// The number of jobs that stay in memory at the head of each queue. The queues of simulations are
/// short.
const HEAD_JOBS: usize = 3;

#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) disk: FaultDisk,
    pub(crate) kind: StorageKind,
    sabotage: Sabotage,
    engine: EngineSetup,
    /// The longest part of the history that a sent reply depends on.
    promised: Need,
    /// Like `promised`, for replies that the server sends only after a sync. This part must survive
    /// a power failure.
    promised_as_synced: Need,
    /// The end of the history at the last commit in which the log began a new segment. If there was
    /// no such commit, 0. The log may have synced the history up to here.
    switched: Need,
    /// The part of the history that is certainly synced.
    durable: Need,
    /// Parts of the history that were written but not synced, each with the moment of the write.
    written: VecDeque<(u64, Need)>,
    /// The segment that was written last. The log syncs a whole segment before it begins the next
    /// segment.
    segment: u32,
    /// The size of new segments in the current process.
    pub(crate) segment_bytes: u64,
    /// The largest `segment_bytes` of all processes so far. Existing files keep their sizes.
    pub(crate) segment_bytes_max: u64,
    /// The limit of memory for bodies of jobs that are in the log.
    pub(crate) bodies_bytes_max: Option<u64>,
    /// The limit of memory for records of jobs that are in the log.
    pub(crate) jobs_bytes_max: Option<u64>,
    pub(crate) is_full: bool,
    /// True if a fault was planned for a call of the disk.
    pub(crate) is_disturbed: bool,
}

/// A crash: the process ends without a request to stop.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum CrashKind {
    /// Only the process dies. The kernel still has all written data.
    Killed,
    /// Power fails. Only synced data is certain to survive.
    PowerLoss,
}

impl Storage {
    pub(crate) fn new(seed: u64, plan: &Plan, options: &Options) -> Self {
        Self {
            disk: FaultDisk::new(seed, DISK_BYTES),
            kind: plan.storage,
            sabotage: options.sabotage,
            engine: EngineSetup {
                hash_seed: options.hash_seed,
                limits: Limits { slice_units: plan.slice_units() },
            },
            promised: 0,
            promised_as_synced: 0,
            switched: 0,
            durable: 0,
            written: VecDeque::new(),
            segment: 0,
            segment_bytes: plan.segment_bytes[0],
            segment_bytes_max: plan.segment_bytes[0],
            bodies_bytes_max: plan.bodies_bytes_max,
            jobs_bytes_max: plan.jobs_bytes_max,
            is_full: false,
            is_disturbed: false,
        }
    }

    /// The options of a node's broker, except its disk.
    pub(crate) fn options_of_node(&self) -> broker::Options {
        match self.kind {
            StorageKind::Durable(sync) | StorageKind::Replicated(sync) => self.options(sync),
            StorageKind::Memory => self.options(Sync::Never),
        }
    }

    pub(crate) fn first_broker(&mut self, now: u64) -> Result<Broker, String> {
        match self.kind {
            StorageKind::Memory => Ok(Broker::memory(self.engine, Millis(now))),
            StorageKind::Replicated(_) => Err("a cluster has no first broker".into()),
            StorageKind::Durable(sync) => {
                let options = self.options(sync);
                let (broker, _) = Broker::open(options, Millis(now))
                    .map_err(|error| format!("an empty disk was refused: {error}"))?;
                Ok(broker)
            }
        }
    }

    /// The options of a broker that starts now.
    pub(crate) fn options(&self, sync: Sync) -> broker::Options {
        let disk: Arc<dyn log::Disk> = match self.sabotage {
            Sabotage::LyingSync => Arc::new(crate::sabotage::LyingDisk(self.disk.clone())),
            _ => Arc::new(self.disk.clone()),
        };
        let log = Settings { segment_bytes: self.segment_bytes, sync, ..Settings::default() };
        broker::Options {
            engine: self.engine,
            bodies_bytes_max: self.bodies_bytes_max,
            jobs_bytes_max: self.jobs_bytes_max,
            head_jobs: HEAD_JOBS,
            cluster: None,
            ..broker::Options::without_threads(disk, log)
        }
    }

    /// The position up to which replies can be sent.
    pub(crate) fn released(&self, broker: &Broker) -> Position {
        match self.sabotage {
            Sabotage::EarlyReplies | Sabotage::HastyReplies => Position::ALL,
            _ => broker.released(),
        }
    }

    /// Notes that a reply was sent. The reply depends on this part of the history.
    pub(crate) fn note_reply(&mut self, need: Need, history: &History) {
        self.promised = self.promised.max(need);
        if history.is_strict(need) {
            self.promised_as_synced = self.promised_as_synced.max(need);
        }
    }

    /// True if a reply that depends on this part of the history can be sent. The part must be
    /// written, and also synced if the queue's policy or the log's setting requires that.
    pub(crate) fn may_send(&self, need: Need, history: &History) -> bool {
        let written = self.written.back().map_or(self.durable, |(_, end)| *end);
        let synced = self.durable.max(self.switched);
        let written = if history.is_strict(need) { synced } else { written };
        let is_unchecked =
            self.kind == StorageKind::Memory || self.sabotage == Sabotage::EarlyReplies;
        is_unchecked || history.is_of_start(need) || need <= written.max(self.durable)
    }

    /// The two parts of the history that must survive a crash of this kind: the changes, and those
    /// whose group must survive as a whole. If the kernel continues to run, all written data
    /// survives. After a power failure, only two things are certain: synced data, and changes that
    /// a reply confirmed as synced.
    pub(crate) fn survives(&self, kind: CrashKind) -> (Need, Need) {
        match (kind, self.kind) {
            (CrashKind::PowerLoss, _) => (self.promised_as_synced.max(self.durable), self.durable),
            (CrashKind::Killed, _) => {
                let written = self.written.back().map_or(self.durable, |(_, end)| *end);
                (self.promised.max(written), written)
            }
        }
    }

    /// Begins a new process. All data that the process found counts as durable. The process first
    /// writes to `segment`.
    pub(crate) fn begin(&mut self, segment: u32) {
        self.segment = segment;
        self.promised = 0;
        self.promised_as_synced = 0;
        self.switched = 0;
        self.durable = 0;
        self.written.clear();
    }

    pub(crate) fn committed(
        &mut self,
        now: u64,
        history: &History,
        committed: log::Committed,
        released: Position,
    ) -> Checked {
        if let StorageKind::Replicated(_) = self.kind {
            // No reply waits for the folder.
            return Ok(());
        }
        let (end, newest) = (history.len(), history.newest());
        let segment = released.written_segment();
        let switches = std::mem::replace(&mut self.segment, segment) != segment;
        if switches {
            self.durable = self.written.back().map_or(self.durable, |(_, end)| *end);
            self.written.clear();
        }
        // A write can contain no change of the history: for example a mark, which is not synced.
        // The history can also be longer than the log: on a full disk, the log omits counters. So
        // check both `wrote` and `newest`.
        let before = self.written.back().map_or(self.durable, |(_, end)| *end);
        if committed.wrote && newest > before {
            self.written.push_back((now, end));
        }
        let asks_for_sync = newest > before && history.is_strict_between(before, newest);
        if switches {
            // The log has synced everything before the new segment. The simulation cannot see how
            // much of this commit is before the new segment.
            self.switched = end;
        } else if committed.wrote && !committed.synced && asks_for_sync {
            return Err(format!("what a queue wants to be synced is only written at {now}"));
        }
        if committed.synced {
            self.durable = end;
            self.written.clear();
        }
        let StorageKind::Durable(sync) = self.kind else { return Ok(()) };
        let Some((since, _)) = self.written.front() else { return Ok(()) };
        let late = match sync {
            Sync::Always => true,
            Sync::Every(period) => Duration::from_millis(now - since) >= period,
            Sync::Never => false,
        };
        if late {
            Err(format!("what was written at {since} is not synced at {now}"))
        } else {
            Ok(())
        }
    }
}
