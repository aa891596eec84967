//! The body of a job: in memory, or only in the log.
//!
//! The engine reads and writes nothing itself. Its owner tells it which bodies left the memory and
//! which came back, and hands the bytes to clients.

use std::sync::{Arc, OnceLock};

use super::facts::Body;

/// The body of a job, for a reader.
#[derive(Clone, Debug)]
pub enum JobBody {
    /// The body is in memory.
    Resident(Body),
    /// The body is only in the log. It has this many bytes. The owner of the engine turns it into
    /// a body that is loading before a client sees it.
    Stored(u32),
    /// The owner reads the body from the log.
    Loading(Arc<Loading>),
}

/// A body that is being read from the log.
#[derive(Debug)]
pub struct Loading {
    len: u32,
    bytes: OnceLock<Option<Body>>,
}

/// The body in the table of jobs. It takes as many bytes as a resident body alone.
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
    /// Its number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Resident(body) => body.len(),
            Self::Stored(len) => *len as usize,
            Self::Loading(loading) => loading.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes, if they are in memory now.
    pub fn resident(&self) -> Option<&Body> {
        match self {
            Self::Resident(body) => Some(body),
            Self::Stored(_) => None,
            Self::Loading(loading) => loading.body(),
        }
    }
}

impl Loading {
    /// A body of this many bytes, which are not there yet.
    pub fn new(len: u32) -> Self {
        Self { len, bytes: OnceLock::new() }
    }

    /// Its number of bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Notes the bytes that were read; `None`: they cannot be read. Only the first call counts.
    pub fn finish(&self, body: Option<Body>) {
        let _ = self.bytes.set(body.filter(|body| body.len() == self.len()));
    }

    /// The bytes, if they were read.
    pub fn body(&self) -> Option<&Body> {
        self.bytes.get()?.as_ref()
    }

    /// Whether the bytes cannot be read.
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
