//! The draft of a job: the parameters of a put, before the engine makes the job in one or several
//! queues.

use super::facts::Body;
use crate::policy::Unsent;
use crate::wall::When;

/// The parameters of a put, in terms that all dialects share.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) priority: u32,
    /// When the job becomes ready. If the moment has passed, the job is ready at once.
    pub(crate) due: When,
    pub(crate) delay_s: u32,
    pub(crate) ttr_s: u32,
    /// The policy of the queue replaces these values.
    pub(crate) unsent: Unsent,
    pub(crate) expires: Option<When>,
    /// The reducer of a job from a submit. `None`: the job is from a put.
    pub(crate) reducer: Option<Box<[u8]>>,
    /// If true, the job in the requested queue is a foreground job: it ends when its last watcher
    /// leaves. The copies in other queues are not foreground jobs.
    pub(crate) foreground: bool,
    pub(crate) body: Body,
}
