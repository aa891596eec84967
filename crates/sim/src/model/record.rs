//! The changes that must survive a crash, as records.

use std::rc::Rc;

use broker::policy::Rules;
use broker::{Claim, ClaimKey};

use super::Name;
use super::log_contents::{Counts, Facts, StoredJob, short_text};

#[derive(Clone, Debug)]
pub(crate) enum Record {
    Put(u64, StoredJob),
    /// Jobs of one put. A crash loses all of them or none.
    PutMany(Vec<(u64, StoredJob)>),
    Update(u64, StoredJob),
    /// A job moved behind the other jobs, in its own queue or in another queue.
    Moved(u64, StoredJob),
    Finish(u64),
    /// The counters of takes, timeouts and lost leases. The log appends them with the next group.
    Count(u64, Counts),
    Queue(Name, Facts),
    Policies(Rc<Rules>),
    Status(u8),
    /// The key of a job that has ended.
    Claim(ClaimKey, Claim),
}

/// The subject of a record.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Subject {
    Job(u64),
    Queue(Name),
    Policies,
    Status,
    Claim(ClaimKey),
}

impl Record {
    pub(super) fn subjects(&self) -> Vec<Subject> {
        match self {
            Self::Put(id, _)
            | Self::Update(id, _)
            | Self::Moved(id, _)
            | Self::Finish(id)
            | Self::Count(id, _) => vec![Subject::Job(*id)],
            Self::PutMany(images) => images.iter().map(|(id, _)| Subject::Job(*id)).collect(),
            Self::Queue(name, _) => vec![Subject::Queue(name.clone())],
            Self::Policies(_) => vec![Subject::Policies],
            Self::Status(_) => vec![Subject::Status],
            Self::Claim(key, _) => vec![Subject::Claim(*key)],
        }
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        let id = |subject| if let Subject::Job(id) = subject { Some(id) } else { None };
        self.subjects().into_iter().filter_map(id).collect()
    }

    pub(super) fn short_text(&self) -> String {
        match self {
            Self::Put(_, image) => format!("put {}", short_text(Some(image))),
            Self::Update(_, image) => format!("update {}", short_text(Some(image))),
            Self::PutMany(images) => format!("put with {} others", images.len().saturating_sub(1)),
            Self::Moved(_, image) => format!("moved {}", short_text(Some(image))),
            Self::Finish(_) => "finish".into(),
            Self::Count(_, counts) => format!("count {counts:?}"),
            Self::Queue(_, facts) => format!("{facts:?}"),
            Self::Policies(rules) => format!("{rules:?}"),
            Self::Status(status) => format!("status {status}"),
            Self::Claim(_, claim) => format!("{claim:?}"),
        }
    }
}
