//! What the log knows of the threads that serve clients. With one processor, a group can fill until they
//! have no more work: see `fill`.
//!
//! A thread without work first counts itself out, then looks for such a fill. The committer first notes the
//! fill, then looks for a thread with work. Both have a fence between their two steps. So the thread sees
//! the fill and ends it, or the committer sees that no thread has work and does not begin the fill. Quiet
//! clients end a fill in the same way.

use super::primitives::{AtomicBool, AtomicU64, Ordering, fence};

/// The threads that serve clients: see the comment of the module.
#[derive(Debug)]
pub(crate) struct Serving {
    /// The number of threads that have work.
    working: AtomicU64,
    /// A group fills until no thread has work.
    fills: AtomicBool,
    /// See [`Serving::note_quiet`].
    has_quiet: AtomicBool,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving {
            working: AtomicU64::new(0),
            fills: AtomicBool::new(false),
            has_quiet: AtomicBool::new(true),
        }
    }
}

impl Serving {
    /// Counts a thread in.
    pub(crate) fn begin_work(&self) {
        self.working.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a thread out. Returns true if the caller must end the fill of a group.
    #[must_use]
    pub(crate) fn end_work(&self) -> bool {
        let is_last = self.working.fetch_sub(1, Ordering::Relaxed) == 1;
        fence(Ordering::SeqCst);
        is_last && self.end_fill()
    }

    /// Notes that a group fills. Returns false if the caller must end the fill, because no thread has work, or
    /// because there are quiet clients.
    #[must_use]
    pub(crate) fn begin_fill(&self) -> bool {
        self.fills.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.working.load(Ordering::Relaxed) > 0 && !self.has_quiet()
    }

    /// Whether a group fills until no thread has work.
    pub(crate) fn fills(&self) -> bool {
        self.fills.load(Ordering::Relaxed)
    }

    /// Notes that the group does not fill any more. Returns whether it did.
    pub(crate) fn end_fill(&self) -> bool {
        self.fills() && self.fills.swap(false, Ordering::AcqRel)
    }

    /// Notes whether quiet clients sent requests a short time ago. Returns true if the caller must end the
    /// fill of a group, because they have just come.
    #[must_use]
    pub(crate) fn note_quiet(&self, has_quiet: bool) -> bool {
        // Most calls change nothing. They do not write, so threads do not take the cache line from each other.
        if self.has_quiet() == has_quiet {
            return false;
        }
        self.has_quiet.store(has_quiet, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        has_quiet && self.end_fill()
    }

    /// Whether quiet clients sent requests a short time ago.
    pub(crate) fn has_quiet(&self) -> bool {
        self.has_quiet.load(Ordering::Relaxed)
    }
}
