//! The memory account: an estimate of the bytes that the allocator hands out for jobs, queues and
//! sessions.
//!
//! Each of the three tables keeps its own sum and updates it at each change. So reading the account
//! costs almost nothing. The estimate comes from the sizes of the values. A test of the whole
//! program compares the account with the real memory of the process. If one put makes jobs in
//! several queues, these jobs share one body. But the account counts the body once per job, because
//! after a restart each job has a copy of its own.

/// The bytes of an entry of [`crate::collections::Ordered`]: a packed key of 8 to 16 bytes, a place,
/// and a share of the unused memory. Most entries are ready jobs, whose keys have 12 bytes.
pub(crate) const LIST_ENTRY_BYTES: u64 = 20;

/// The bytes that the allocator hands out for a request of this many bytes. Up to 128 bytes, the
/// sizes of the allocator are multiples of 16 bytes. Above 128 bytes, there are four sizes from
/// each power of two to the next.
pub fn allocated_bytes(bytes: usize) -> u64 {
    // The step to the next size is a quarter of the next lower power of two, but at least 16.
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
