//! The text dialect. `session` reads the bytes, `request` parses lines, `items` collects the lines
//! of a list, `commands` executes requests, and `reply` formats replies.

mod commands;
mod items;
mod reply;
mod request;
mod session;

pub use session::TextSession;
