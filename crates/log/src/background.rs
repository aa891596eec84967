//! Which threads the kernel should let run first: the committer before the threads that serve
//! clients, and those before background threads. All keep the same share of the processors.
//!
//! Without this, a thread that becomes ready can wait for the next tick of the kernel (4 ms at
//! 250 Hz) while another thread runs. Linux 6.12 and later let a ready thread interrupt a thread that
//! asked for longer slices. Older kernels ignore the request, and so do these functions ignore its
//! failure: it is about speed only.

/// The longest time, in nanoseconds, that a background thread asks to run at once. Any value above
/// the default of the kernel (0.7 to 3 ms) works; the kernel takes at most 100 ms.
const BACKGROUND_SLICE_NS: u64 = 20_000_000;

/// The longest time, in nanoseconds, that an urgent thread asks to run at once: the least that the
/// kernel takes.
const URGENT_SLICE_NS: u64 = 100_000;

/// Marks the calling thread as background work, so that a thread that serves clients gets the
/// processor from it as soon as it is ready.
pub fn mark_as_background() {
    ask_for_slices_of(BACKGROUND_SLICE_NS);
}

/// Marks the calling thread as urgent: it works for moments only, and clients wait for it.
pub(crate) fn mark_as_urgent() {
    ask_for_slices_of(URGENT_SLICE_NS);
}

#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux has slices"))]
fn ask_for_slices_of(slice_ns: u64) {
    #[cfg(target_os = "linux")]
    {
        const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
        const THIS_THREAD: libc::pid_t = 0;
        const NO_FLAGS: libc::c_uint = 0;
        // SAFETY: both calls get a valid pointer to a `sched_attr` of the size that they are told,
        // and the kernel keeps neither pointer. All fields are integers, so zeros are valid. The
        // calls change only how the calling thread is scheduled.
        #[expect(unsafe_code, reason = "no crate has a safe wrapper of sched_setattr")]
        unsafe {
            let mut attr: libc::sched_attr = std::mem::zeroed();
            let found =
                libc::syscall(libc::SYS_sched_getattr, THIS_THREAD, &raw mut attr, SIZE, NO_FLAGS);
            // Another policy, such as a real-time one, was chosen by the operator.
            if found == 0 && attr.sched_policy == libc::SCHED_OTHER as u32 {
                attr.sched_runtime = slice_ns;
                libc::syscall(libc::SYS_sched_setattr, THIS_THREAD, &raw const attr, NO_FLAGS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_thread_keeps_its_priority_and_policy() {
        let thread = std::thread::spawn(|| {
            let stat = || {
                let line =
                    std::fs::read_to_string("/proc/thread-self/stat").expect("proc is there");
                let fields = line.rsplit_once(')').expect("a name").1.to_owned();
                let fields: Vec<String> = fields.split_whitespace().map(str::to_owned).collect();
                // The priority, the nice value, and the policy (`man proc_pid_stat`).
                (fields[15].clone(), fields[16].clone(), fields[38].clone())
            };
            let before = stat();
            mark_as_background();
            assert_eq!(stat(), before);
            mark_as_urgent();
            assert_eq!(stat(), before);
        });
        thread.join().expect("the thread panicked");
    }
}
