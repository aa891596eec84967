//! Milestones: what happened to jobs, for the history of queues whose policy keeps one. As with
//! spans, the engine notes them only if somebody reads them, and keeps a bounded number.

use crate::ids::{JobId, Millis};
use crate::jobs::{Body, FailureCause};
use crate::policy::{History, Name};

/// The engine keeps at most this many milestones until the caller takes them.
const MILESTONES_MAX: usize = 65_536;
/// Limit of the bytes of the kept milestones: their bodies, names and errors.
const BYTES_MAX: usize = 32 << 20;

/// Something that happened to a job.
#[derive(Clone, Debug)]
pub struct Milestone {
    /// The job.
    pub job: JobId,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub what: MilestoneKind,
}

/// What happened to a job.
#[derive(Clone, Debug)]
pub enum MilestoneKind {
    /// A session took it.
    Taken {
        /// How long the job was ready before.
        waited_ms: u64,
        /// The address of the session's client. Empty: it is unknown.
        worker: Name,
    },
    /// Its lease ended, and the job did not.
    Returned {
        /// How the lease ended.
        how: AttemptEnd,
        /// What the worker said: the beginning of its exception, or the end of its warnings.
        error: Box<[u8]>,
    },
    /// It left its queue.
    Left(Box<Departure>),
}

/// How the lease of a job ended that did not end with the lease.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum AttemptEnd {
    /// The holder did not finish the job.
    Failed(FailureCause),
    /// The holder buried the job.
    Buried,
}

/// A job that has left its queue.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The queue.
    pub queue: Name,
    /// What the policy of the queue keeps of the job.
    pub history: History,
    /// Why the job left.
    pub why: JobEnd,
    /// The queue that the job moved to. `None`: the job ended.
    pub to: Option<Name>,
    /// When the job was put.
    pub created: Millis,
    /// The priority of the job.
    pub priority: u32,
    /// The ttr of the job. 0 for no limit.
    pub ttr_s: u32,
    /// How often the job was taken.
    pub takes: u32,
    /// The length of the body in bytes.
    pub body_len: usize,
    /// The body or its beginning, if the policy keeps any of it, and it is in memory.
    pub body: Option<Body>,
}

/// Why a job left its queue.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum JobEnd {
    /// Its holder finished it.
    Done,
    /// Its worker reported a failure, or it used up its attempts.
    Failed,
    /// It failed too often for the policy `retries`, and ended or moved to the queue of dead letters. Or
    /// an operator set it aside, and it moved there.
    Dead,
    /// A client or an operator ended it, although no worker had finished it.
    Deleted,
    /// Nobody took it in time, and it ended or moved to another queue. Or its time as a dead letter
    /// was over.
    Expired,
    /// A queue had no room for it, and it ended or moved to another queue.
    Dropped,
    /// Its queue was flushed or removed.
    Flushed,
    /// All clients that waited for it left.
    Abandoned,
    /// A newer job of its schedule replaced it.
    Replaced,
    /// An operator moved it to another queue, or brought it back.
    Moved,
    /// The leader ended it: this server follows. No history has it.
    Followed,
}

/// Milestones that the caller has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Milestones {
    is_read: bool,
    kept: Vec<Milestone>,
    bytes: usize,
    dropped: u64,
}

impl Milestones {
    /// Whether somebody takes the milestones.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    pub(crate) fn set_read(&mut self) {
        self.is_read = true;
    }

    /// The memory of the kept milestones. A body also counts here while its job exists, because the
    /// milestone can outlive the job.
    pub(crate) fn bytes(&self) -> u64 {
        (self.bytes + self.kept.capacity() * size_of::<Milestone>()) as u64
    }

    /// Whether there are too many. If so, counts one as dropped.
    pub(crate) fn drops(&mut self) -> bool {
        let is_full = self.kept.len() >= MILESTONES_MAX || self.bytes >= BYTES_MAX;
        self.dropped += u64::from(is_full);
        is_full
    }

    /// Keeps a milestone, or counts it as dropped if there are too many. If only its body is too long, it
    /// is kept without it.
    pub(crate) fn note(&mut self, mut milestone: Milestone) {
        if self.drops() {
            return;
        }
        let room = BYTES_MAX - self.bytes;
        let bytes = match &mut milestone.what {
            MilestoneKind::Taken { worker, .. } => worker.len(),
            MilestoneKind::Returned { error, .. } => error.len(),
            MilestoneKind::Left(left) => {
                let names = left.queue.len() + left.to.as_deref().map_or(0, <[u8]>::len);
                let facts = size_of::<Departure>() + names;
                left.body.take_if(|body| facts + body.len() > room);
                facts + left.body.as_ref().map_or(0, |body| body.len())
            }
        };
        if bytes > room {
            self.dropped += 1;
            return;
        }
        self.bytes += bytes;
        self.kept.push(milestone);
    }

    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.dropped == 0
    }

    /// Takes all kept milestones, and the number of milestones that were dropped before.
    pub(crate) fn take(&mut self) -> (Vec<Milestone>, u64) {
        self.bytes = 0;
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(body_bytes: usize) -> Milestone {
        let left = Departure {
            queue: b"mail"[..].into(),
            history: History::default(),
            why: JobEnd::Done,
            to: Some(vec![b'x'; 8_000].into()),
            created: Millis(1),
            priority: 0,
            ttr_s: 0,
            takes: 1,
            body_len: body_bytes,
            body: Some(vec![b'x'; body_bytes].into()),
        };
        Milestone { job: JobId(1), at: Millis(1), what: MilestoneKind::Left(Box::new(left)) }
    }

    #[test]
    fn a_body_that_has_no_room_is_not_kept() {
        let mut milestones = Milestones::default();
        for _ in 0..3 {
            milestones.note(left(BYTES_MAX / 2));
        }
        let (kept, dropped) = milestones.take();
        let bodies = kept.iter().filter(|milestone| match &milestone.what {
            MilestoneKind::Left(left) => left.body.is_some(),
            MilestoneKind::Taken { .. } | MilestoneKind::Returned { .. } => false,
        });
        assert_eq!((bodies.count(), kept.len(), dropped), (1, 3, 0));
    }

    #[test]
    fn long_names_count() {
        let mut milestones = Milestones::default();
        for _ in 0..BYTES_MAX / 8_000 {
            milestones.note(left(0));
        }
        assert!(milestones.bytes <= BYTES_MAX);
        assert!(milestones.take().1 > 0);
    }

    fn taken(worker: &[u8]) -> Milestone {
        let what = MilestoneKind::Taken { waited_ms: 1, worker: worker.into() };
        Milestone { job: JobId(1), at: Millis(1), what }
    }

    #[test]
    fn too_many_milestones_are_dropped_and_counted() {
        let mut milestones = Milestones::default();
        for _ in 0..MILESTONES_MAX + 3 {
            milestones.note(taken(b""));
        }
        let (kept, dropped) = milestones.take();
        assert_eq!((kept.len(), dropped), (MILESTONES_MAX, 3));
        assert_eq!(milestones.take().1, 0);
        assert_eq!(milestones.bytes(), 0, "the caller has them");
    }

    #[test]
    fn large_milestones_are_dropped_before_they_fill_the_memory() {
        let mut milestones = Milestones::default();
        let worker = vec![b'x'; BYTES_MAX / 3];
        for _ in 0..5 {
            milestones.note(taken(&worker));
        }
        assert!(milestones.bytes() >= 3 * worker.len() as u64);
        let (kept, dropped) = milestones.take();
        assert_eq!((kept.len(), dropped), (3, 2));
    }
}
