//! Long operations, done in slices: chores, which take turns, and operations with timers of their
//! own.

mod chores;
mod flush;
mod news;
mod removal;
mod reschedule;
mod walk;

pub use chores::Kick;
pub use flush::Clearing;
