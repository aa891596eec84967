//! The allocator of the program, and those of its settings that can only be made at run time.

use std::ffi::CStr;
use std::ptr;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Makes the settings. Call it once, before the program does anything else.
pub(crate) fn set_up() {
    keep_large_blocks();
    start_background_thread();
}

/// Leaves it to the background thread to return the memory of large bodies. Without this call, the first
/// arena gives back a block of 8 MiB or more in the moment that frees it. For a job of 10 MiB, this costs
/// the I/O thread 0.6 ms, and the page faults of the next large body cost it 1.3 ms more.
///
/// The option `oversize_threshold:0` of `.cargo/config.toml` does the same for all other arenas. The
/// first arena exists before jemalloc reads its options.
fn keep_large_blocks() {
    set(c"arena.0.oversize_threshold", usize::MAX);
}

/// Starts jemalloc's background thread. It returns freed memory to the system, for example after workers
/// have finished a large backlog.
///
/// It can work for 5 ms at once, and clients must not wait for that. A thread has the priority of the
/// thread that starts it, so a background thread does this. jemalloc's other threads are started by
/// its first.
fn start_background_thread() {
    let start = || set(c"background_thread", true);
    let starter = std::thread::Builder::new().spawn(move || {
        log::mark_as_background();
        start();
    });
    match starter {
        // It only fails if the thread panicked, and then it has said so.
        Ok(starter) => drop(starter.join()),
        Err(_) => start(),
    }
}

/// Makes one setting. `T` must be its type in jemalloc's documentation.
#[expect(unsafe_code, reason = "jemalloc's crates have no safe call for these settings")]
fn set<T: Copy>(name: &CStr, mut value: T) {
    // SAFETY: `name` ends with a zero byte. `value` has the type that jemalloc documents for the name, and
    // both live until the call returns. jemalloc writes nothing to the null pointers.
    let result = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw mut value).cast(),
            size_of::<T>(),
        )
    };
    // A jemalloc without this setting would only be slower, or keep more memory.
    debug_assert_eq!(result, 0, "jemalloc has the setting {name:?}");
}
