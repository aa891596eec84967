//! Values as text: the parameters of requests, names of queues, moments, places in lists, responses,
//! and bodies of jobs for people.

pub(crate) mod cursor;
pub(crate) mod form;
pub(crate) mod json;
pub(crate) mod json_lines;
pub(crate) mod moment;
pub(crate) mod name;
pub(crate) mod php;
pub(crate) mod query;
