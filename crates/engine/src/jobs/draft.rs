//! A job that is about to be put, for one queue or several.

use super::facts::Body;
use crate::wall::When;

/// The parameters of a put, in terms that all dialects share.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) priority: u32,
    /// The job is ready at once if this is not in the future.
    pub(crate) due: When,
    pub(crate) delay_s: u32,
    pub(crate) ttr_s: u32,
    pub(crate) expires: Option<When>,
    /// If set, the job is submitted for its outcome. The value is a name that only some workers
    /// see.
    pub(crate) reducer: Option<Box<[u8]>>,
    /// The job in the requested queue, unlike its copies, lives as long as its watchers.
    pub(crate) foreground: bool,
    pub(crate) body: Body,
}
