//! The settings of a log, and bounds that an operator cannot set.

use std::time::Duration;

use crate::index::Classify;

/// When the log syncs. This setting decides when a reply can be sent, but does not change the order
/// of entries.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Sync {
    /// After each group. A reply is sent when its entry is durable.
    Always,
    /// At most this long after the write. A reply is sent when its entry is written.
    Every(Duration),
    /// Never, except on request: the kernel decides when to write to the disk. A reply is sent when
    /// its entry is written.
    Never,
}

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The size of a segment in bytes. Default: 64 MiB. The log uses at most a sixteenth of the
    /// disk or of `bytes_max`, and at least 256 KiB.
    pub segment_bytes: u64,
    /// The maximum number of bytes of all files together. `None`: the size of the disk.
    pub bytes_max: Option<u64>,
    /// When the log syncs. Default: `Always`.
    pub sync: Sync,
    /// How the blocks of index files are made. `None`, the default: the log writes and reads no
    /// index files.
    pub classify: Option<Classify>,
    /// How many segments of the reserve only updates can use, besides those for finishes and
    /// reclaim. An owner that must write updates even if [`crate::Log::admits_update`] is false
    /// needs one. The files may take these segments besides their bound of twice the live bytes and
    /// four segments. Default: 0.
    pub update_segments: u64,
    /// Whether the process has only one processor. Then each group of entries takes it from the threads
    /// that serve clients, so a group waits longer for clients. Default: false.
    pub one_processor: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            segment_bytes: 64 << 20,
            bytes_max: None,
            sync: Sync::Always,
            classify: None,
            update_segments: 0,
            one_processor: false,
        }
    }
}

/// The minimum size of a segment. In smaller segments, headers would take too large a part.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// The minimum size of a segment in simulations. With small segments, a simulation begins and
/// reclaims more segments in the same time.
const SEGMENT_BYTES_MIN_SIMULATED: u64 = 64 << 10;
/// The maximum value of `segment_bytes`. A segment for one big entry can be larger.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The log reserves this many ids at a time.
pub(crate) const ID_BLOCK: u64 = 1 << 20;
/// When fewer reserved ids than this are left, the log reserves the next block. A new block can be
/// used only after a sync. This number is large, because clients use many ids during the sync.
pub(crate) const IDS_AHEAD: u64 = 2 * ID_BLOCK;
/// The log stores a limit of ids: all ids below the limit may have been used. This is the highest
/// limit that the program ever writes into a log.
pub(crate) const ID_LIMIT_MAX: u64 = 1 << 62;
/// The latest time of a group, in milliseconds: the year 287396. No clock shows a later time, and
/// no sum of a time and a period overflows. JSON has exact numbers up to this one.
pub const TIME_MS_MAX: u64 = (1 << 53) - 1;
/// The time between the last sync and a mark, if the log writes nothing else.
pub(crate) const MARK_AFTER_MS: u64 = 100;
/// If there is no room for a segment, the log retries after this time.
pub(crate) const RETRY_FULL_MS: u64 = 1000;
/// Lazy counters wait this long. Most jobs are finished in this time, and then their counters are
/// never written.
pub(crate) const LAZY_MAX_MS: u64 = 1000;
/// When there are this many bytes of lazy counters, or an eighth of a segment, they are written at
/// once, because they stay in memory. There is room for the counters of 10,000 jobs.
pub(crate) const LAZY_BYTES_MAX: usize = 256 << 10;
/// Reclaim reads slices of about this many bytes. It copies a slice in smaller parts.
pub(crate) const SLICE_BYTES: u64 = 256 << 10;
/// While the open batch is larger than this, the owner should hold clients back. A larger batch
/// only adds latency.
pub(crate) const OPEN_BATCH_BYTES_MAX: u64 = 8 << 20;
/// The open batch keeps a shared body of at least this size as it is, until the committer writes it. To
/// copy a smaller one takes at most 20 µs, and the committer then needs one write for its group.
pub const SHARED_BYTES_MIN: usize = 64 << 10;
/// An open batch of at least this size is a backlog. A disk writes this many bytes in about the
/// time of a sync of a few bytes.
pub(crate) const BACKLOG_BYTES: u64 = 128 << 10;
/// Reclaim's copies alone wait in the open batch until they have this many bytes, or a sixteenth of a
/// segment: see `Open::is_due`. A sync of so many bytes takes little longer than that of a few.
pub(crate) const COPIES_BYTES_MAX: u64 = 64 << 10;
/// When [`crate::Log::lags`] becomes true, this many bytes are left for requests that the server
/// has already received.
pub(crate) const LAG_MARGIN_BYTES: u64 = 4 << 20;

impl Settings {
    /// The segment size to use on a disk of this capacity.
    pub(crate) fn segment_bytes_on(&self, capacity: u64) -> u64 {
        let room = self.bytes_max.unwrap_or(u64::MAX).min(capacity) / 16;
        let asked_least = self.segment_bytes.clamp(SEGMENT_BYTES_MIN_SIMULATED, SEGMENT_BYTES_MIN);
        let least = if cfg!(feature = "fault") { asked_least } else { SEGMENT_BYTES_MIN };
        let size = self.segment_bytes.min(room).clamp(least, SEGMENT_BYTES_MAX);
        size / 4096 * 4096
    }
}
