//! The gate: an owner that replicates its changes decides which entries the committer may write.
//!
//! The owner cuts the open batch into parts. Each part becomes one group of the log. The committer
//! writes a part only when the gate is open for it, for example after other machines have accepted
//! the same changes. So the folder never has changes that were not accepted. An owner without a
//! gate needs none of these functions.
//!
//! `admits_accepted` is for the other machines, which cannot refuse what was accepted.

use std::sync::atomic::Ordering;

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

    /// Changes the value of a fact that is the last entry of its part. So an owner can cut a part first,
    /// and compute the value later without its lock. `end` is the part's end, a result of
    /// [`Log::cut`]. If several parts wait for their values of a key, the values that they have until then
    /// must differ: the log finds out by its old value whether the newest value is that of this part.
    ///
    /// # Panics
    ///
    /// The gate was open for the part, the last entry of the part is another one, or its value is not as
    /// long as the new one.
    pub fn amend_fact(&self, end: Position, key: &[u8], value: &[u8]) {
        self.open_batch().amend_fact(end, key, value);
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

    /// Whether there is room for a change that the owner cannot refuse, because the leader of its
    /// cluster has accepted it. Its entries have at most `bytes` bytes, and are in one segment. If
    /// there is no room, the owner must ask again later. Until there is room, reclaim also copies
    /// segments with little garbage: nothing that comes after the change can make room before it.
    ///
    /// **Invariant: a follower has room for all that its leader has admitted**, if both have the same
    /// limit of bytes and the same size of segments. This follows from these sizes:
    ///
    /// - S is a segment, and U the reserve for updates, which is also one. L are the bytes of live
    ///   entries, and n is their number. For a number b of bytes,
    ///   F(b) = S + max(S, S/2 + b * n + L / 64).
    /// - The leader admits a put of p bytes only if *limit* - L - *index* - *garbage* >= F(16) + U + p:
    ///   see [`Log::admits_put`]. Its garbage is at least 0, and *index* are its index files.
    /// - A follower that waits for room has at most S/8 of garbage, because reclaim goes on until then.
    ///   Its copies of jobs are 8 bytes longer. So it has *limit* - L - 8 * n - *index* - S/8 bytes,
    ///   less what is left of the limit by whole files. This function needs F(8) - S/2 + p of these.
    /// - The difference is U + S/2 - S/8 + F(16) - F(8) - 8 * n, and F(16) - F(8) >= 8 * n - S/4. So
    ///   at least U + S/8 is left. U is for one file more than at the leader, because of its index
    ///   files. S/8 is for an unused end of the last segment, which is smaller than a group.
    /// - Most updates make garbage only. So the same is true for them, also if the leader has written
    ///   them without asking, as it does when leases end. When puts are refused already, facts, such as
    ///   policies, can make L larger by S/2. Then S/2 less is left.
    ///
    /// There are two exceptions, in which a follower can still have to wait until an operator gives it
    /// room. Garbage is here what reclaim can free: if most bodies need a large part of a segment,
    /// segments have unused ends, which it cannot free. And updates can make jobs longer: a dead letter
    /// also has its error and its worker, at most about 1 KiB. If the leader writes many of these when
    /// its folder is full, L grows by more than is left.
    pub fn admits_accepted(&self, bytes: u64) -> bool {
        let segment = self.segments.segment_bytes;
        let (available, reserve, cost, own, big) = {
            let open = self.open_batch();
            let kept = bytes + KEPT_FOR_STARTS;
            let own = if open.remaining() < kept { open.segment_size_for(kept) } else { 0 };
            // Entries that need a segment of their own size leave the end of the last segment unused.
            let cost = if own > segment { own + open.remaining() } else { open.cost(bytes) };
            let reserve = self.accepted_reserve(&open);
            (self.available(&open), reserve, cost, own, open.claimed_big_bytes)
        };
        // The committer creates large segments when it writes their entries, and may remove files of the
        // reserve for them. So they need room beside the reserve.
        let missing = (reserve + cost + big).saturating_sub(available);
        let admits = if own > segment || big > 0 {
            self.segments.has_room_for(missing)
        } else {
            let missing = missing.next_multiple_of(segment);
            missing == 0 || available >= segment + cost && self.segments.has_room_for(missing)
        };
        self.wants_room.store(!admits, Ordering::Relaxed);
        admits
    }

    /// The owner leads now, so it can refuse changes, and no change waits for room.
    pub fn can_refuse(&self) {
        self.wants_room.store(false, Ordering::Relaxed);
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
