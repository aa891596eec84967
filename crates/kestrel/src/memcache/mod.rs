//! The memcache dialect. `request` parses lines, `session` reads the bytes, `commands` executes
//! requests, and `reply` formats replies.

mod commands;
mod reply;
mod request;
mod session;

pub use session::MemcacheSession;
