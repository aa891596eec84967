//! The allocator of the program, and the one of its settings that can only be made at run time.

use std::ptr;

/// jemalloc has a background thread that returns freed memory to the system, for example after
/// workers have finished a large backlog.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Leaves it to the background thread to return the memory of large bodies. Without this call, the first
/// arena gives back a block of 8 MiB or more in the moment that frees it. For a job of 10 MiB, this costs
/// the I/O thread 0.6 ms, and the page faults of the next large body cost it 1.3 ms more.
///
/// The option `oversize_threshold:0` of `.cargo/config.toml` does the same for all other arenas. The
/// first arena exists before jemalloc reads its options.
#[expect(unsafe_code, reason = "jemalloc's crates have no safe call for this setting")]
pub(crate) fn keep_large_blocks() {
    let name = c"arena.0.oversize_threshold";
    let mut bytes = usize::MAX;
    // SAFETY: `name` ends with a zero byte. The type of the new value is `size_t`, as jemalloc documents
    // for this name, and both live until the call returns. jemalloc writes nothing to the null pointers.
    let result = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw mut bytes).cast(),
            size_of::<usize>(),
        )
    };
    // A jemalloc without this setting would only be slower.
    debug_assert_eq!(result, 0, "jemalloc has the setting {name:?}");
}
