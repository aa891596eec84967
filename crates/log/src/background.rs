//! Which threads the kernel should let run first: the committers before the threads that serve
//! clients, and those before background threads.
//!
//! Without this, a thread that becomes ready can wait for the next tick of the kernel (4 ms at
//! 250 Hz) while another thread runs. Linux 6.12 and later let a ready thread interrupt a thread that
//! asked for longer slices. Older kernels ignore the request, and so do these functions ignore its
//! failure: it is about speed only.
//!
//! The kernel lets no thread interrupt another while it has used more than its share. A thread that
//! has served clients all the time would wait up to 10 ms for a background thread that has slept.
//! So background threads have a smaller share, too.

/// The longest time, in nanoseconds, that a patient or background thread asks to run at once. Any
/// value above the default of the kernel (0.7 to 3 ms) works; the kernel takes at most 100 ms.
const LONG_SLICE_NS: u64 = 20_000_000;

/// How nice a background thread is at least. Beside a thread that serves clients all the time, it
/// gets a tenth of the processor: enough to go on, because these threads wait for a background
/// thread that is too far behind.
const BACKGROUND_NICE: i32 = 10;

/// The longest time, in nanoseconds, that an urgent thread asks to run at once: the least that the
/// kernel takes.
const SHORT_SLICE_NS: u64 = 100_000;

/// The lowest nice value, so that a thread keeps its own.
const NICE_AS_IT_IS: i32 = -20;

/// Marks the calling thread as patient: it serves people and programs that can wait a little, so an
/// I/O thread may interrupt it. It keeps its share of the processor.
pub fn mark_as_patient() {
    ask_for(LONG_SLICE_NS, NICE_AS_IT_IS);
}

/// Marks the calling thread as background work, so that a thread that serves clients gets the
/// processor from it as soon as it is ready.
pub fn mark_as_background() {
    ask_for(LONG_SLICE_NS, BACKGROUND_NICE);
}

/// Marks the calling thread as urgent: it works for moments only, and clients wait for it.
pub(crate) fn mark_as_urgent() {
    ask_for(SHORT_SLICE_NS, NICE_AS_IT_IS);
}

/// Asks for these slices, and makes the thread at least that nice.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux has slices"))]
fn ask_for(slice_ns: u64, nice_min: i32) {
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
                attr.sched_nice = attr.sched_nice.max(nice_min);
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
    fn only_a_background_thread_becomes_nice() {
        let thread = std::thread::spawn(|| {
            let (nice, policy) = nice_and_policy();
            for mark in [mark_as_urgent, mark_as_patient] {
                mark();
                assert_eq!(nice_and_policy(), (nice, policy));
            }
            mark_as_background();
            assert_eq!(nice_and_policy(), (nice.max(BACKGROUND_NICE), policy));
        });
        thread.join().expect("the thread panicked");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_is_nicer_already_stays_so() {
        let thread = std::thread::spawn(|| {
            const THIS_THREAD: libc::id_t = 0;
            // SAFETY: the call takes only numbers, and changes only the calling thread.
            #[expect(unsafe_code, reason = "the crate has no safe wrapper of setpriority")]
            let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, 19) };
            assert_eq!(failed, 0, "each thread may become nicer");
            mark_as_background();
            assert_eq!(nice_and_policy().0, 19);
        });
        thread.join().expect("the thread panicked");
    }

    /// The nice value and the policy of the calling thread (`man proc_pid_stat`).
    #[cfg(target_os = "linux")]
    fn nice_and_policy() -> (i32, u32) {
        let line = std::fs::read_to_string("/proc/thread-self/stat").expect("proc is there");
        let fields = line.rsplit_once(')').expect("a name").1.to_owned();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        (fields[16].parse().expect("a nice value"), fields[38].parse().expect("a policy"))
    }
}
