//! The memcache dialect: `request` says what a line asks for, `session` what the next bytes are,
//! `commands` what each request does, `reply` what it answers.

mod commands;
mod reply;
mod request;
mod session;

pub use session::MemcacheSession;
