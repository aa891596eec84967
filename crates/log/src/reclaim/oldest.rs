//! Watches the oldest segment of the log: do clients finish its jobs so fast that a copy of the
//! segment would be a waste?

/// If clients finish the jobs of a queue in order, nearly all jobs that end are in the oldest segment.
/// It has no live job any more before clients have appended much more than a segment. The first
/// eighth of a segment that clients append decides. A new oldest segment begins like the one before.
const LOOK_PART: u64 = 8;

/// What is known about the oldest segment.
#[derive(Debug)]
pub(super) struct Oldest {
    segment: u32,
    /// The live bytes of the segment, and the bytes that clients had used in all files, when the
    /// watch began.
    live_before: u64,
    used_before: u64,
    is_dying: bool,
}

impl Default for Oldest {
    /// At first, the segment counts as dying, because a copy can still begin later.
    fn default() -> Self {
        Self { segment: 0, live_before: 0, used_before: 0, is_dying: true }
    }
}

impl Oldest {
    /// Whether the segment's jobs end at least half as fast as clients append bytes. `live` are the
    /// live bytes of the segment, and `used` the bytes that clients have used in all files so far.
    /// The caller must not ask about a segment that reclaim copies, because a copy ends jobs, too.
    pub(super) fn is_dying(&mut self, segment: u32, (live, used): (u64, u64), size: u64) -> bool {
        if self.segment != segment {
            (self.segment, self.live_before, self.used_before) = (segment, live, used);
        }
        let appended = used - self.used_before;
        if appended >= size / LOOK_PART {
            let ended = self.live_before.saturating_sub(live);
            self.is_dying = ended >= appended / 2;
            (self.live_before, self.used_before) = (live, used);
        }
        self.is_dying
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 8000;

    #[test]
    fn a_segment_dies_if_its_jobs_end_as_fast_as_others_come() {
        let mut oldest = Oldest::default();
        assert!(oldest.is_dying(1, (SIZE, 100), SIZE), "nothing is known yet");
        assert!(oldest.is_dying(1, (SIZE, 1099), SIZE), "too little was appended");
        assert!(!oldest.is_dying(1, (SIZE, 1100), SIZE), "nothing ends there");
        assert!(oldest.is_dying(1, (SIZE - 900, 2100), SIZE));
        assert!(oldest.is_dying(2, (SIZE, 2100), SIZE), "like the segment before it");
        assert!(!oldest.is_dying(2, (SIZE - 499, 3100), SIZE), "too little ends there");
        assert!(oldest.is_dying(2, (SIZE - 999, 4100), SIZE), "each part of a segment is new");
    }
}
