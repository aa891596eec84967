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
    /// Size of a segment in bytes. The log lowers it to a sixteenth of the disk, but not below 256
    /// KiB. Default 64 MiB.
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
/// The smallest segment of simulations. With small segments, a simulation rotates and reclaims more
/// often in the same time.
const SEGMENT_BYTES_MIN_SIMULATED: u64 = 64 << 10;
/// The largest setting. An entry that is too big for a segment gets a segment of its own.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Ids are reserved in blocks of this many.
pub(crate) const ID_BLOCK: u64 = 1 << 20;
/// The log reserves the next block while this many ids are left. If syncs are rare, a reservation
/// takes long, and clients use ids in the meantime.
pub(crate) const IDS_AHEAD: u64 = 2 * ID_BLOCK;
/// The highest possible limit of ids. A log with a higher one was not written by this program.
pub(crate) const ID_LIMIT_MAX: u64 = 1 << 62;
/// The log writes a mark this long after the last sync, if it has written nothing else.
pub(crate) const MARK_AFTER_MS: u64 = 100;
/// If there was no room for a segment, the log tries again after this time.
pub(crate) const RETRY_FULL_MS: u64 = 1000;
/// COUNT entries alone wait at most this long for other entries.
pub(crate) const LAZY_MAX_MS: u64 = 1000;
/// If there are more bytes of them than this, they are written at once, because they must not fill
/// the open batch.
pub(crate) const LAZY_BYTES_MAX: usize = 64 << 10;
/// Reclaim reads, and copies under the lock, in slices of about this many bytes.
pub(crate) const SLICE_BYTES: u64 = 256 << 10;
/// Size of the open batch at which clients should be held back: a larger batch only adds latency.
pub(crate) const OPEN_BATCH_BYTES_MAX: u64 = 8 << 20;
/// From this size on, the open batch is a backlog. A disk writes this many bytes in about the time
/// of a sync of a few bytes.
pub(crate) const BACKLOG_BYTES: u64 = 128 << 10;
/// When [`crate::Log::lags`] holds clients back, the requests that were already received can still
/// append this many bytes.
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
