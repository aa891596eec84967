//! The bound of the log's files: whether they will exceed it, so that reclaim must hurry, and how
//! much clients must rest until reclaim has freed a segment.

/// The highest value of [`Space::lag`].
const LAG_MAX: u64 = 8;

/// The sizes that decide, in bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Space {
    /// The usual size of a segment.
    pub(super) segment: u64,
    /// What lives, with its index.
    pub(super) live: u64,
    /// The files of all segments.
    pub(super) data: u64,
    /// What is still free in the last of these files, the head.
    pub(super) remaining: u64,
    /// The index files.
    pub(super) index: u64,
    /// The files that must stay ready for finishes and for reclaim.
    pub(super) reserve: u64,
    /// What lives in the oldest segment. `None`: clients finish these jobs so soon that reclaim will
    /// not copy them.
    pub(super) to_copy: Option<u64>,
}

impl Space {
    /// All files together take at most twice the live bytes and four segments. One of these segments
    /// is for what is appended until reclaim has freed another.
    pub(super) fn bound(self) -> u64 {
        2 * self.live + 4 * self.segment
    }

    /// Whether the files will exceed the bound before reclaim has freed a segment, unless it hurries.
    pub(super) fn is_too_big(self) -> bool {
        // The files when the head is half full: see `ahead_wanted`. Until the oldest segment is free,
        // reclaim itself fills the head with the segment's live jobs. A quarter of a segment is for
        // what clients append before they rest.
        let copied = self.to_copy.map_or(0, |bytes| bytes + self.segment / 4);
        let peak = self.data + self.index + self.reserve + self.segment + copied;
        peak > self.bound() || self.used_soon() + self.segment / 4 > self.used_max()
    }

    /// How much clients must rest while reclaim hurries, from 0 to 8.
    pub(super) fn lag(self) -> u32 {
        // Clients begin to rest three eighths of a segment before the limit, and rest most from one
        // eighth on. They append a little all the same while reclaim copies many segments whose jobs
        // are all live, so the more is live, the earlier they begin.
        let excess = self.used_soon() + self.margin() + self.segment * 3 / 8;
        let excess = excess.saturating_sub(self.used_max());
        (excess * 4 * LAG_MAX / self.segment).min(LAG_MAX) as u32
    }

    /// What the log uses of the segments' files when reclaim has copied the oldest segment.
    fn used_soon(self) -> u64 {
        self.data.saturating_sub(self.remaining) + self.to_copy.unwrap_or(0)
    }

    /// What the log may use of the segments' files. Another file comes when the head is half full, so
    /// this is the middle of the last head that is within the bound.
    ///
    /// It does not depend on the head of today. Reclaim itself fills heads with live jobs, and clients
    /// must not begin to hurry again at each of them.
    fn used_max(self) -> u64 {
        let besides = self.reserve + self.segment + self.index + self.margin();
        let heads = self.bound().saturating_sub(besides) / self.segment;
        heads * self.segment + self.segment / 2
    }

    /// The bound changes with the live bytes, by twice as much.
    fn margin(self) -> u64 {
        self.live / 8
    }
}
