//! All limits of the engine.

/// Limits that the caller can set. A simulation sets small values: then a few jobs reach a limit
/// that takes thousands of jobs in a server.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Units of work in a slice: see [`crate::Engine::slice_is_spent`]. When the slice is spent,
    /// the engine begins no further step, but finishes a step that cannot be divided.
    pub slice_units: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // About a quarter of a millisecond if each unit is a queue that is in no cache, otherwise
        // less.
        Self { slice_units: 300 }
    }
}

/// Maximum length of a queue's name in bytes: the length that Gearman's packets can carry. Each
/// dialect checks its own limit, which is shorter.
pub const QUEUE_NAME_BYTES_MAX: usize = 8180;

/// Maximum units of work that an indivisible step can cost beyond a slice. Such a step is a put
/// into a queue with the maximum number of children and their waiters, or the end of a wait in all
/// queues that a session can watch.
pub const INDIVISIBLE_UNITS_MAX: u64 = 30_000;

/// Bytes of a body that count as one unit of work.
pub const UNIT_BODY_BYTES: usize = 4096;

/// Comparisons of numbers, one after the other, that count as one unit of work.
pub const UNIT_COMPARISONS: usize = 64;

/// Maximum number of expired jobs at the head of a queue that a put ends, and maximum number of
/// jobs that it drops to make room. So a put does little extra work. Timers end the other expired
/// jobs, and a queue reaches a lowered limit in steps.
pub const PUT_ENDS_MAX: usize = 2;

/// Maximum number of fan-out children that clients can give one parent. A put to the parent takes
/// time and room in proportion to them.
pub const CHILDREN_MAX: usize = 256;

/// Maximum bytes of the names of all these children of one parent. The log writes the names with
/// the put.
pub const CHILD_NAMES_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of names, equal apart from the case of letters, that one case-insensitive look-up
/// considers. There are few, unless a client makes them on purpose.
pub const ALIKE_MAX: usize = 1000;

/// Maximum number of attachments of one session to one job. The session gets all news of the job
/// once per attachment.
pub const ATTACHMENTS_MAX: u32 = 1000;

/// Maximum number of attachments of all sessions to one job. Each piece of its result goes to all
/// of them.
pub const WATCHERS_MAX: usize = 10_000;

/// Maximum number of watchers that get a job's news at once. If there are more, they get it in
/// slices.
pub const NOTIFIED_AT_ONCE_MAX: usize = 64;

/// Maximum number of queues that one worker can register for.
pub const REGISTRATIONS_MAX: usize = 10_000;

/// Maximum number of unfinished jobs with one key, each in its own queue, that a look-up by key
/// alone considers.
pub const SAME_KEY_MAX: usize = 1000;

/// Milliseconds until the next sweep of a queue that had more expired jobs than its policy lets one
/// sweep remove.
pub const SWEEP_REST_MS: u64 = 1000;

/// Milliseconds until a queue continues to serve its waiters, if one slice could not serve all.
pub const SERVING_REST_MS: u64 = 1;

/// Milliseconds until the engine looks at held chores again.
pub const HELD_CHORES_REST_MS: u64 = 5;

/// The maximum job id: JavaScript reads integers exactly up to this.
pub const JOB_ID_MAX: u64 = (1 << 53) - 1;
