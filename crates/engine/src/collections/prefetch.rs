//! Prefetch: a hint to the processor to load memory before the program needs it.
//!
//! With thousands of queues in use, the memory that a put needs in its queue is in no cache. Each
//! access then costs a tenth of a microsecond. This is a lot, because a pipelined put takes only
//! half a microsecond. If the program prefetches all this memory together, the accesses overlap.

/// Prefetches the cache line at the beginning of `value`. This changes only the speed of the
/// program, and no result. Does nothing on processors other than x86-64.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(value).cast();
        // SAFETY: this is only a hint to the processor. The hint reads no value and cannot fault,
        // even with an invalid address. A test under Miri would be useless here, because Miri has
        // no caches.
        #[expect(unsafe_code, reason = "the safe way, std::hint::prefetch_read, is not stable yet")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
