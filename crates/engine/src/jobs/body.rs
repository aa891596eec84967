//! The body of a job: in memory, or only in the log.
//!
//! The engine does no I/O. The broker decides which bodies leave the memory, reads them from the
//! log, and sends them to clients.

use std::sync::{Arc, OnceLock};

use super::facts::Body;

/// The body of a job, as the engine returns it.
#[derive(Clone, Debug)]
pub enum JobBody {
    /// The body is in memory.
    Resident(Body),
    /// The body is only in the log, and has this many bytes. Before a client gets the body, the
    /// broker replaces this variant by [`JobBody::Loading`].
    Stored(u32),
    /// The broker reads the body from the log, or has read it.
    Loading(Arc<Loading>),
}

/// A body that the broker reads from the log, and the result of the read.
#[derive(Debug)]
pub struct Loading {
    len: u32,
    bytes: OnceLock<Option<Body>>,
}

/// The body of a job in the table of jobs. The type is as small as [`Body`].
#[derive(Debug)]
pub(super) enum Kept {
    Resident(Body),
    Stored(u64),
}

impl From<Body> for JobBody {
    fn from(body: Body) -> Self {
        Self::Resident(body)
    }
}

impl JobBody {
    /// The number of bytes of the body.
    pub fn len(&self) -> usize {
        match self {
            Self::Resident(body) => body.len(),
            Self::Stored(len) => *len as usize,
            Self::Loading(loading) => loading.len(),
        }
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body, if it is in memory now.
    pub fn resident(&self) -> Option<&Body> {
        match self {
            Self::Resident(body) => Some(body),
            Self::Stored(_) => None,
            Self::Loading(loading) => loading.body(),
        }
    }
}

impl Loading {
    /// Makes a body of this length. [`Loading::finish`] adds its bytes.
    pub fn new(len: u32) -> Self {
        Self { len, bytes: OnceLock::new() }
    }

    /// The number of bytes of the body.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the result of the read. `None`: the broker cannot read the body. A body of another
    /// length also counts as unreadable. Only the first call has an effect.
    pub fn finish(&self, body: Option<Body>) {
        let _ = self.bytes.set(body.filter(|body| body.len() == self.len()));
    }

    /// The body, if the broker has read it.
    pub fn body(&self) -> Option<&Body> {
        self.bytes.get()?.as_ref()
    }

    /// Whether the read has failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.bytes.get(), Some(None))
    }
}

impl Kept {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Resident(body) => body.len(),
            Self::Stored(len) => *len as usize,
        }
    }

    pub(super) fn resident(&self) -> Option<&Body> {
        match self {
            Self::Resident(body) => Some(body),
            Self::Stored(_) => None,
        }
    }

    pub(super) fn to_job_body(&self) -> JobBody {
        match self {
            Self::Resident(body) => JobBody::Resident(body.clone()),
            Self::Stored(len) => JobBody::Stored(*len as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_body_takes_no_more_than_its_pointer() {
        assert_eq!(size_of::<Kept>(), size_of::<Body>());
    }

    #[test]
    fn only_the_first_outcome_of_a_read_counts() {
        let loading = Loading::new(3);
        assert!(loading.body().is_none() && !loading.has_failed());
        loading.finish(Some(b"abc"[..].into()));
        loading.finish(None);
        assert_eq!(loading.body().map(|body| &body[..]), Some(&b"abc"[..]));
        let wrong = Loading::new(3);
        wrong.finish(Some(b"ab"[..].into()));
        assert!(wrong.has_failed(), "a body of another length is not this one");
    }
}
