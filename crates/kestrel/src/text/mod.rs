//! The text dialect. `request` parses lines, `items` collects the lines of a list, `session` reads
//! the bytes, `commands` executes requests, and `reply` answers them.

mod commands;
mod items;
mod reply;
mod request;
mod session;

pub use session::TextSession;
