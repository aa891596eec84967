//! The memory account: how many bytes jobs, queues and sessions take, as the allocator gives them out.
//!
//! Each of the three tables keeps its own part. It is kept by adding and subtracting, so asking costs nothing. What
//! things take is estimated from their sizes; a test of the whole program holds the sum against the memory that the
//! process really has. Copies of a body that a put left in several queues count in full: after a restart each has
//! its own.

/// An entry of [`crate::collections::Ordered`]: a key of 16 bytes, a place, and the share of what is unused.
pub(crate) const LIST_ENTRY_BYTES: u64 = 26;

/// How many bytes the allocator gives out for this many: its sizes are 16 bytes apart up to 128, then four
/// to each doubling.
pub fn allocated_bytes(bytes: usize) -> u64 {
    // The distance of its neighbours from the next power of two below.
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
