//! The text dialect. `request` parses lines, `items` collects the lines of a list, `session` reads
//! the bytes, and `commands` executes requests.

mod commands;
mod items;
mod request;
mod session;

pub use session::TextSession;
