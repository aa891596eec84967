//! Long operations, done in slices. Chores take turns. The other operations have timers of their
//! own.

mod chores;
mod flush;
mod news;
mod removal;
mod reschedule;
mod walk;

pub use chores::Kick;
pub use flush::Clearing;
