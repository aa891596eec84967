//! The memcache dialect. `session` reads the bytes, `request` parses lines, `commands` executes
//! requests, and `reply` formats replies.

mod commands;
mod reply;
mod request;
mod session;

pub use session::MemcacheSession;
