//! Judges unpaced passes: passes over the log that do not wait for clients. A pass that frees little
//! is not repeated until there is more garbage.

/// The unpaced pass that runs, and the rest after one that freed little.
#[derive(Debug, Default)]
pub(super) struct Passes {
    current: Option<Pass>,
    /// Set if the last pass freed little. Contains the smallest number of bytes of garbage since
    /// the end of this pass. This garbage is probably unused ends of segments.
    rest_at: Option<u64>,
}

/// The log when a pass began.
#[derive(Copy, Clone, Debug)]
struct Pass {
    /// The last segment.
    end: u32,
    sizes: Sizes,
}

/// What a pass is judged by.
#[derive(Copy, Clone, Debug)]
pub(super) struct Sizes {
    /// The bytes that a pass over all files can free.
    pub(super) garbage: u64,
    /// The bytes in the files, less all that clients have used so far. Copies add to this number,
    /// and each segment that becomes free takes from it.
    pub(super) not_of_clients: i64,
    /// The bytes of live entries. A pass over all files copies them.
    pub(super) live: u64,
}

impl Sizes {
    /// Whether a pass that began with the sizes `before` was worth it: it freed `gain` bytes, and
    /// clients did not make as much garbage meanwhile. Otherwise reclaim would copy all live jobs
    /// again and again beside busy clients. But if the pass freed much more than it copied, what
    /// clients did meanwhile does not matter.
    fn are_better(self, before: Sizes, gain: u64) -> bool {
        let freed = before.not_of_clients - self.not_of_clients;
        self.garbage + gain <= before.garbage || freed >= gain.max(self.live * 2) as i64
    }
}

impl Passes {
    /// Whether an unpaced pass from the segment `first` to the segment `last` probably frees at
    /// least `gain` bytes. True during a pass, and if there was no pass before. After a pass, true
    /// if this pass was worth it, or if the garbage has grown by `gain` bytes since then.
    pub(super) fn would_help(&mut self, first: u32, last: u32, sizes: Sizes, gain: u64) -> bool {
        if let Some(rest_at) = &mut self.rest_at {
            *rest_at = sizes.garbage.min(*rest_at);
            if sizes.garbage < *rest_at + gain {
                return false;
            }
        }
        self.rest_at = None;
        match self.current {
            Some(pass) if first > pass.end => {
                self.current = None;
                if !sizes.are_better(pass.sizes, gain) {
                    self.rest_at = Some(sizes.garbage);
                    return false;
                }
                self.current = Some(Pass { end: last, sizes });
            }
            Some(_) => {}
            None => self.current = Some(Pass { end: last, sizes }),
        }
        true
    }

    /// The log is small enough. A pass that has done its work must not count as one that freed
    /// little, when the log is too big again later.
    pub(super) fn end(&mut self) {
        self.current = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAIN: u64 = 50;

    /// What an unpaced pass over the segments 1 to 3 was worth, if these were the sizes before and
    /// after it.
    fn is_repeated(before: Sizes, after: Sizes) -> bool {
        let mut passes = Passes::default();
        assert!((1..=3).all(|first| passes.would_help(first, 3, before, GAIN)));
        passes.would_help(4, 6, after, GAIN)
    }

    #[test]
    fn a_pass_is_repeated_if_there_is_less_garbage_or_it_freed_much_more_than_it_copied() {
        let before = Sizes { garbage: 500, not_of_clients: 900, live: 100 };
        assert!(is_repeated(before, Sizes { garbage: 450, ..before }));
        assert!(!is_repeated(before, Sizes { garbage: 451, ..before }));
        // Clients made garbage meanwhile.
        assert!(is_repeated(before, Sizes { not_of_clients: 700, ..before }));
        assert!(!is_repeated(before, Sizes { not_of_clients: 701, ..before }));
    }

    #[test]
    fn after_a_pass_that_freed_little_reclaim_waits_for_more_garbage() {
        let sizes = |garbage| Sizes { garbage, not_of_clients: 0, live: 100 };
        let mut passes = Passes::default();
        assert!(passes.would_help(1, 1, sizes(500), GAIN));
        for garbage in [500, 549, 480] {
            assert!(!passes.would_help(2, 2, sizes(garbage), GAIN));
        }
        assert!(passes.would_help(2, 2, sizes(530), GAIN), "50 more than the least");
    }

    #[test]
    fn a_pass_that_ended_the_need_is_not_judged() {
        let sizes = Sizes { garbage: 500, not_of_clients: 0, live: 100 };
        let mut passes = Passes::default();
        assert!(passes.would_help(1, 1, sizes, GAIN));
        passes.end();
        assert!(passes.would_help(2, 2, sizes, GAIN));
    }
}
