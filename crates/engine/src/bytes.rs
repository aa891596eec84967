//! The memory account: the bytes that the allocator hands out for jobs, queues and sessions.
//!
//! Each of the three tables keeps its own part. The table adds and subtracts at each change, so
//! reading the account costs nothing. The sizes of values are the basis of the estimate. A test of
//! the whole program compares the sum with the real memory of the process. If one put leaves copies
//! of a body in several queues, each copy counts in full: after a restart each copy has its own
//! bytes.

/// An entry of [`crate::collections::Ordered`]: a key of 16 bytes, a place, and its share of the
/// unused space.
pub(crate) const LIST_ENTRY_BYTES: u64 = 26;

/// The bytes that the allocator hands out for a request of this many bytes. Up to 128 bytes, the
/// allocator's sizes are 16 bytes apart. Above that, each doubling has four sizes.
pub fn allocated_bytes(bytes: usize) -> u64 {
    // The step between sizes is a quarter of the next lower power of two, but at least 16.
    let doubling = bytes.saturating_sub(1).checked_ilog2().unwrap_or(0);
    let step = 1 << doubling.saturating_sub(2).max(4);
    bytes.next_multiple_of(step) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_allocator() {
        let sizes = [
            (0, 0),
            (1, 16),
            (16, 16),
            (17, 32),
            (108, 112),
            (128, 128),
            (129, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (1025, 1280),
            (4097, 5120),
            (65_537, 81_920),
            (1 << 20, 1 << 20),
        ];
        for (bytes, wanted) in sizes {
            assert_eq!(allocated_bytes(bytes), wanted, "{bytes}");
        }
    }
}
