//! Settings of a log, and the bounds that are not settings.

use std::time::Duration;

/// When bytes are synced to the disk. It decides when a reply can be sent, never the order of the
/// log.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Sync {
    /// After each group; replies are sent when it is durable.
    Always,
    /// At most this long after it was written; replies are sent when it is written.
    Every(Duration),
    /// When the kernel decides; replies are sent when it is written.
    Never,
}

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size of a segment in bytes; lowered to a sixteenth of the disk, raised to 256 KiB. Default 64 MiB.
    pub segment_bytes: u64,
    /// Limit of all files together; `None` means the size of the disk.
    pub bytes_max: Option<u64>,
    /// Default: `Always`.
    pub sync: Sync,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { segment_bytes: 64 << 20, bytes_max: None, sync: Sync::Always }
    }
}

/// The smallest segment. In smaller ones, headers and chains would take too large a part.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 256 << 10;
/// The smallest segment of simulations. With small ones they rotate and reclaim more often in the
/// same time.
const SEGMENT_BYTES_MIN_SIMULATED: u64 = 64 << 10;
/// Largest setting; an entry too big for it gets a segment of its own.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Ids are reserved in blocks of this many.
pub(crate) const ID_BLOCK: u64 = 1 << 20;
/// The next block is reserved while this many ids are left: if syncs are rare, a reservation takes
/// long, and ids are used meanwhile.
pub(crate) const IDS_AHEAD: u64 = 2 * ID_BLOCK;
/// The highest possible limit of ids. A log with a higher one was not written by this program.
pub(crate) const ID_LIMIT_MAX: u64 = 1 << 62;
/// A mark is written this long after the last sync, when nothing else was.
pub(crate) const MARK_AFTER_MS: u64 = 100;
/// A segment for which there was no room is tried again after this long.
pub(crate) const RETRY_FULL_MS: u64 = 1000;
/// COUNT entries alone wait at most this long for other entries.
pub(crate) const LAZY_MAX_MS: u64 = 1000;
/// More of them than this are written at once: they must not fill the open batch.
pub(crate) const LAZY_BYTES_MAX: usize = 64 << 10;
/// Reclaim reads, and copies under the lock, in slices of about this many bytes.
pub(crate) const SLICE_BYTES: u64 = 256 << 10;
/// Size of the open batch at which clients should be held back: a larger batch only adds latency.
pub(crate) const OPEN_BATCH_BYTES_MAX: u64 = 8 << 20;
/// From this size on, the open batch is a backlog: a disk needs about as long to write it as for a
/// sync of a few bytes.
pub(crate) const BACKLOG_BYTES: u64 = 128 << 10;
/// Bytes that already received requests can still append when [`crate::Log::lags`] holds clients
/// back.
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
