//! The gate: an owner that replicates its changes decides which entries the committer may write.
//!
//! The owner cuts the open batch into parts. Each part becomes one group of the log. The committer
//! writes a part only when the gate is open for it, for example after other machines have accepted
//! the same changes. So the folder never has changes that were not accepted. An owner without a
//! gate needs none of these functions.

use crate::Log;
use crate::settings::ID_LIMIT_MAX;
use crate::types::{Position, Slot};
use crate::write::batch::{ID_LIMIT_BYTES, KEPT_FOR_STARTS, count_bytes};

impl Log {
    /// Lets the committer take only parts that end at this position or before. The position must be
    /// a result of [`Log::cut`]. `None`, the default, lets it take everything. After the gate has
    /// moved, the caller must call [`Log::wake`].
    ///
    /// All entries after the gate wait, also the entries of reclaim. So an owner opens the gate
    /// whenever it has no change of its own that must wait.
    pub fn set_gate(&self, gate: Option<Position>) {
        self.open_batch().set_gate(gate);
    }

    /// Ends the part with the newest entry, so that the entries of this part become one group.
    /// Returns the part's end. If nothing was appended since the last cut, returns the end of the
    /// last part.
    pub fn cut(&self) -> Position {
        self.open_batch().cut()
    }

    /// The segment that gets the next entry.
    pub fn last_segment(&self) -> u32 {
        self.open_batch().segment()
    }

    /// Whether the gate is closed for some entries.
    pub fn is_gated(&self) -> bool {
        self.open_batch().gate().is_some()
    }

    /// The bytes of entries that still fit into the current segment.
    pub fn room_left(&self) -> u64 {
        self.open_batch().remaining().saturating_sub(KEPT_FOR_STARTS)
    }

    /// Appends the counters of a job at once. [`Log::count`] appends them later, at a moment that
    /// the log chooses.
    pub fn count_now(&self, now_ms: u64, slot: Slot, counters: &[u8]) -> Position {
        let mut open = self.appending(now_ms);
        assert!(open.live.is_live(slot), "only a live slot is counted: {slot:?}");
        open.lazy.remove(slot);
        open.room(count_bytes(counters));
        open.append_count(slot, counters)
    }

    /// Raises the limit of ids at least to `limit`. The owner may use ids below it when the entry
    /// is durable: see [`Log::id_limit`].
    pub fn reserve_ids(&self, now_ms: u64, limit: u64) -> Position {
        let mut open = self.appending(now_ms);
        let limit = open.id_limit.max(limit).min(ID_LIMIT_MAX);
        open.room(ID_LIMIT_BYTES);
        self.append_id_limit(&mut open, limit)
    }
}
