//! A job to be, for one queue or several.

use super::facts::Body;
use crate::wall::When;

/// What a put says of its job, in the words of all dialects.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) priority: u32,
    /// Ready at once if this is not in the future.
    pub(crate) due: When,
    pub(crate) delay_s: u32,
    pub(crate) ttr_s: u32,
    pub(crate) expires: Option<When>,
    /// It is submitted for its outcome, with this as the name that only some workers see.
    pub(crate) reducer: Option<Box<[u8]>>,
    /// The job that is asked for, unlike its copies, lives for its watchers.
    pub(crate) foreground: bool,
    pub(crate) body: Body,
}
