//! All limits of the engine.

/// Limits that the caller can set. A simulation sets small limits, so that a few jobs reach them. A
/// server reaches its limits only with thousands of jobs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Units of work in a slice: see [`crate::Engine::slice_is_spent`]. When the slice is spent,
    /// the engine begins no further step. But it finishes the current step if that step is
    /// indivisible.
    pub slice_units: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // A slice takes at most about a quarter of a millisecond. The slowest unit is a queue that
        // is in no cache of the processor.
        Self { slice_units: 300 }
    }
}

/// The units of a slice, divided by this, are those of a short slice: see
/// [`crate::Engine::use_short_slices`].
pub const SHORT_SLICE_DIVISOR: u32 = 3;

/// Maximum length of a queue's name in bytes. Gearman's packets cannot hold a longer name. Each
/// dialect also checks a shorter limit of its own.
pub const QUEUE_NAME_BYTES_MAX: usize = 8180;

/// Maximum units of work that an indivisible step can cost beyond a slice. The largest steps are
/// those of sessions with [`REGISTRATIONS_MAX`] queues. A worker that begins to sleep searches
/// twice among all its queues, and joins all their lists of sleepers. A session that takes a job
/// looks twice at all queues that it watches, and joins all their lines. A little less is a put
/// into a queue with the maximum number of children, each of which wakes [`WOKEN_AT_ONCE_MIN`]
/// workers, if it also ends such a session's wait. Long bodies come on top, and so do long names if
/// the rules have many patterns. Only a block that cannot be read wakes all workers of a queue at
/// once, however many.
pub const INDIVISIBLE_UNITS_MAX: u64 = 31_000;

/// This many bytes of a body count as one unit of work.
pub const UNIT_BODY_BYTES: usize = 4096;

/// This many cheap comparisons in a loop count as one unit of work.
pub const UNIT_COMPARISONS: usize = 64;

/// This many steps in the search for the rules of a name count as one unit of work. A step compares
/// a byte of the name with a byte of a pattern, or with up to 64 of them at once.
pub const UNIT_PATTERN_STEPS: usize = 512;

/// Maximum number of expired jobs that a put ends at the head of a queue. It is also the maximum
/// number of jobs that a put drops to make room. So a put does little extra work. Timers end the
/// other expired jobs. If a policy lowers the limit of a queue, several puts together shrink the
/// queue to the new limit.
pub const PUT_ENDS_MAX: usize = 2;

/// Maximum number of dead letters that the death of a failed job ends because their queue has too
/// many. So the work of a death is bounded. If a policy lowers the limit, a few deaths together shrink
/// the queue to the new limit. The death of a job that expires or makes room ends at most
/// [`PUT_ENDS_MAX`], because a put to many children can cause hundreds of them.
pub const DEATH_ENDS_MAX: usize = 64;
/// A put looks at no more than this many jobs with its key, of each stage. Usually there is at most
/// one. There are more if the policy changes, or if clients kick buried jobs.
pub const SAME_UNIQUE_MAX: usize = 16;
/// The longest error of a dead letter, in bytes. The rest of a longer error is dropped.
pub const DEAD_ERROR_BYTES_MAX: usize = 1024;
/// The server keeps the warnings of this many jobs, for their errors if they become dead letters.
pub const WARNED_JOBS_MAX: usize = 1024;
/// The longest address of a worker, in bytes. The rest of a longer address is dropped.
pub const DEAD_WORKER_BYTES_MAX: usize = 64;

/// Limit of the memory of outcomes that are kept for the policy `result.keep`, if the owner of the
/// engine sets no other one: see [`crate::Engine::set_results_limit`].
pub const RESULTS_BYTES_MAX: usize = 64 << 20;
/// A longer outcome is not kept, so that one of them does not displace many.
pub const RESULT_BYTES_MAX: usize = 4 << 20;
/// At the end of a job, at most this many outcomes make room for its outcome.
pub const RESULT_ENDS_MAX: usize = 16;

/// The owner of the engine can keep at most this many notes: see [`crate::Engine::set_note`].
pub const NOTES_MAX: usize = 16;
/// The names and values of all notes have at most this many bytes. So each note fits into the smallest
/// segment of a log, beside what reclaim leaves free there. A longer one would need a file of its own, and
/// reclaim could not copy it on a full disk.
pub const NOTES_BYTES_MAX: usize = 192 << 10;

/// Maximum number of fan-out children that clients can give one parent. The time and the memory of
/// a put to the parent grow with the number of children.
pub const CHILDREN_MAX: usize = 256;

/// Maximum total bytes of the names of the fan-out children that clients give one parent. The log
/// writes all these names with each put to the parent.
pub const CHILD_NAMES_BYTES_MAX: usize = 64 * 1024;

/// Metrics of a fair queue show the ages of the first jobs of this many keys.
pub const KEY_HEADS_MAX: usize = 20;

/// Maximum number of names that a case-insensitive look-up compares. All these names are equal
/// apart from the case of letters. Usually there are few such names, but a client can make many on
/// purpose. If the names have [`UNIT_COMPARISONS`] bytes or more, the maximum is smaller, so that
/// the look-up compares at most this number times [`UNIT_COMPARISONS`] bytes.
pub const ALIKE_MAX: usize = 1000;

/// Maximum number of attachments of one session to one job. For each attachment, the session gets
/// all news of the job once.
pub const ATTACHMENTS_MAX: u32 = 1000;

/// Maximum number of attachments of all sessions to one job. The engine sends each part of the
/// job's result once per attachment.
pub const WATCHERS_MAX: usize = 10_000;

/// Maximum number of watchers that get a job's news at once. If a job has more watchers, they get
/// the news in slices.
pub const NOTIFIED_AT_ONCE_MAX: usize = 64;

/// Maximum number of queues that one worker can register for. A session of another dialect can
/// watch as many.
pub const REGISTRATIONS_MAX: usize = 10_000;

/// Maximum number of unfinished jobs that a look-up by key alone compares. The jobs have the same
/// key, and each job is in a different queue.
pub const SAME_KEY_MAX: usize = 1000;

/// Milliseconds from a sweep that removed the maximum number of expired jobs to the next sweep of
/// the same queue. The queue's policy sets the maximum.
pub const SWEEP_REST_MS: u64 = 1000;

/// A job that wakes workers wakes up to this many at once, even if the slice is spent. So the usual
/// number of workers does not have to wait for a timer. The queue wakes more workers in slices.
pub const WOKEN_AT_ONCE_MIN: usize = 64;

/// Milliseconds until a queue continues to serve its waiters or to wake its workers, if one slice
/// was not enough for all of them. A waiter takes a few units, so even with short slices a queue
/// serves tens of thousands of waiters per second.
pub const SERVING_REST_MS: u64 = 1;

/// Milliseconds until the engine checks again whether its chores may continue.
pub const HELD_CHORES_REST_MS: u64 = 5;

/// A session that holds so many jobs gets no other one beside cold jobs while memory is full. Leased jobs
/// stay in memory, at about 200 bytes each. So with this limit, they take about as much memory as a
/// busy connection. Clients that take some jobs ahead do not notice it.
pub const FULL_MEMORY_LEASES: usize = 64;

/// The owner of the engine must put no job while there are this many jobs. The engine counts jobs with
/// 32 bits: with more, each queue would need another cache line. A put makes at most a few hundred jobs,
/// so there is room for those of puts that were admitted together.
pub const JOBS_MAX: u64 = 4_000_000_000;

/// The maximum job id. JavaScript represents all integers up to this number exactly.
pub const JOB_ID_MAX: u64 = (1 << 53) - 1;
