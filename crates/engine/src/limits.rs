//! Every bound of the engine in one place.

/// Bounds that are values, so that a simulation reaches with a few jobs what takes a server thousands.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Units of work that make a slice: see [`crate::Engine::slice_is_spent`]. What goes on after it
    /// begins nothing more, but finishes what cannot be divided.
    pub slice_units: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // About a quarter of a millisecond where each unit is a queue that no cache holds, else less.
        Self { slice_units: 300 }
    }
}

/// Longest name of a queue in bytes: what Gearman's packets can carry. Each dialect checks its own
/// limit, which is shorter.
pub const QUEUE_NAME_BYTES_MAX: usize = 8180;

/// Units of work that what cannot be divided may cost beyond a slice: a put into a queue with all the
/// children that it may have and the waiters these have, a wait that ends in all queues that a session
/// may watch.
pub const INDIVISIBLE_UNITS_MAX: u64 = 30_000;

/// Bytes of a body that count as one unit of work.
pub const UNIT_BODY_BYTES: usize = 4096;

/// Numbers that are compared one after the other, so many for one unit of work.
pub const UNIT_COMPARISONS: usize = 64;

/// Jobs of a queue that end because another one comes: expired ones at its head, and as many again
/// that are dropped to make room. A put does little besides; what expired ends by itself, and a
/// limit that was lowered is reached again in steps.
pub const PUT_ENDS_MAX: usize = 2;

/// Fan-out children that clients can give one parent. A put to the parent takes time and room in
/// proportion to them.
pub const CHILDREN_MAX: usize = 256;

/// Bytes of the names of such children, of one parent. The log writes them with the put.
pub const CHILD_NAMES_BYTES_MAX: usize = 64 * 1024;

/// Names that differ in the case of letters only, of which one look-up without regard to case chooses.
/// There are few, unless somebody makes them on purpose.
pub const ALIKE_MAX: usize = 1000;

/// How often one session can attach to one job, which tells it everything as often.
pub const ATTACHMENTS_MAX: u32 = 1000;

/// How often sessions can attach to one job, all together. Each piece of its result goes to all.
pub const WATCHERS_MAX: usize = 10_000;

/// Watchers of a job that are told of its news at once. If there are more, they are told in slices.
pub const TOLD_AT_ONCE_MAX: usize = 64;

/// Queues that one worker can register for.
pub const REGISTRATIONS_MAX: usize = 10_000;

/// Unfinished jobs with one key, each in a queue of its own, that a look-up of the key without a queue
/// goes through.
pub const SAME_KEY_MAX: usize = 1000;

/// A queue that had more expired jobs than its policy lets one sweep remove is swept again after so
/// many milliseconds.
pub const SWEEP_REST_MS: u64 = 1000;

/// A queue with more jobs for more waiters than one slice may serve goes on after so many milliseconds.
pub const SERVING_REST_MS: u64 = 1;

/// Long operations that are held back are looked at again after so many milliseconds.
pub const HELD_CHORES_REST_MS: u64 = 5;

/// Ids end here: JavaScript reads integers exactly up to this.
pub const JOB_ID_MAX: u64 = (1 << 53) - 1;
