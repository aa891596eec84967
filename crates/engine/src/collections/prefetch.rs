//! Prefetch: asks the processor for memory before the program needs it.
//!
//! With thousands of queues in use, the memory that a put touches in its queue is in no cache. Each
//! access costs a tenth of a microsecond, but a pipelined put takes only half a microsecond. If the
//! program prefetches them together, the accesses overlap.

/// Prefetches the cache line at the beginning of `value`. This changes only the time at which
/// memory arrives. It does nothing on processors other than x86-64.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(value).cast();
        // SAFETY: this is a hint to the processor. It reads nothing and cannot fault, whatever the
        // address is. Miri has no caches, so a test under Miri could observe nothing here.
        #[expect(unsafe_code, reason = "the safe way, std::hint::prefetch_read, is not stable yet")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
