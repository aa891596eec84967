//! Asking the processor for memory before it is needed.
//!
//! With thousands of queues in use, what a put touches of a queue is in no cache: each access costs
//! a tenth of a microsecond, and a pipelined put takes but half of one. Asked for at once, they come
//! together.

/// Asks for the cache line at the beginning of `value`. Changes nothing but when memory arrives; on
/// processors other than x86-64 it does nothing.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(value).cast();
        // SAFETY: this is a hint to the processor; it reads nothing and cannot fault, whatever the
        // address is. Nor is there anything that a test under Miri, which has no caches, could see.
        #[expect(unsafe_code, reason = "the safe way, std::hint::prefetch_read, is not stable yet")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
