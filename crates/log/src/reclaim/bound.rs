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
    /// The files of all segments, with those that the open batch has begun.
    pub(super) data: u64,
    /// What the open batch can still use of the last of these files.
    pub(super) remaining: u64,
    /// The index files.
    pub(super) index: u64,
    /// The files that must stay ready for finishes, for reclaim and for updates.
    pub(super) reserve: u64,
    /// The part of the reserve that only updates can use.
    pub(super) for_updates: u64,
    /// What lives in the oldest segment. `None`: clients finish these jobs so soon that reclaim
    /// probably need not copy them.
    pub(super) to_copy: Option<u64>,
}

impl Space {
    /// All files together take at most twice the live bytes and four segments, besides the reserve
    /// for updates. One of the four segments is for what is appended until reclaim has freed another.
    pub(super) fn bound(self) -> u64 {
        2 * self.live + 4 * self.segment + self.for_updates
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
    ///
    /// It is more than 0 from three eighths of a segment before the limit on, and highest from one
    /// eighth on. With many live bytes, it begins earlier by another [`Space::margin`]: clients that
    /// rest still append a little, and reclaim copies many segments before it reaches one with garbage.
    ///
    /// Reclaim can begin to hurry later than that. Then this is high at once.
    pub(super) fn lag(self) -> u32 {
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
    /// The place in today's head does not matter: reclaim itself fills heads with live jobs, and
    /// clients must not go on at full speed at each new one.
    fn used_max(self) -> u64 {
        let besides = self.reserve + self.segment + self.index + self.margin();
        let room = self.bound().saturating_sub(besides);
        // Files of the usual size are added to those of today, of which some can have another size.
        let unusual = self.data % self.segment;
        let left_over = (room + self.segment - unusual) % self.segment;
        room.saturating_sub(left_over) + self.segment / 2
    }

    /// The bound changes with the live bytes, by twice as much. An eighth of them was enough for
    /// traffic beside a static backlog, and a fifth let reclaim copy too much.
    fn margin(self) -> u64 {
        self.live / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1 << 20;

    /// So many files of the usual size, and one segment in reserve. Nothing must be copied.
    fn space(files: u64, used_of_head: u64, live: u64) -> Space {
        Space {
            segment: SEGMENT,
            live,
            data: files * SEGMENT,
            remaining: SEGMENT - used_of_head,
            index: 0,
            reserve: SEGMENT,
            for_updates: 0,
            to_copy: Some(0),
        }
    }

    /// The bound is four segments: three files and the reserve. Another file comes when the last of
    /// these is half full.
    #[test]
    fn clients_rest_more_and_more_before_another_file_exceeds_the_bound() {
        let lag = |eighths| space(3, SEGMENT * eighths / 8, 0).lag();
        assert_eq!([0, 1, 2, 3, 4].map(lag), [0, 0, 4, 8, 8]);
        let lags: Vec<_> = (0..=64).map(|at| space(3, SEGMENT * at / 64, 0).lag()).collect();
        assert!(lags.is_sorted(), "{lags:?}");
        assert!((0..=8).all(|step| lags.contains(&step)), "{lags:?}");
    }

    #[test]
    fn a_file_of_another_size_makes_no_room_for_one_more() {
        let usual = space(3, SEGMENT / 4, SEGMENT);
        for more in [4096, SEGMENT / 3, SEGMENT - 4096] {
            // The bound grows by twice as much as the files.
            let unusual = Space { data: usual.data + more, live: usual.live + more, ..usual };
            let end = unusual.used_max() + SEGMENT / 2;
            assert_eq!(end % SEGMENT, unusual.data % SEGMENT, "the files end there");
            let end_max = unusual.bound() - unusual.reserve - unusual.margin();
            assert!((end_max - SEGMENT + 1..=end_max).contains(&end), "{more} bytes more");
        }
    }
}
