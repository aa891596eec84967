//! What takes long, and is done in slices: chores one after the other, and what a timer of its own drives.

mod chores;
mod flush;
mod news;
mod removal;
mod reschedule;
mod walk;

pub use chores::Kick;
pub use flush::Clearing;
