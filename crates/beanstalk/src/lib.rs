//! The beanstalkd dialect: bytes become requests, and outcomes become bytes, without I/O.
//!
//! A [`Session`] is one connection. The owner of the socket passes the received bytes and a turn of
//! the broker to the session. The session writes its replies to the connection's outbox.
//!
//! - `wire`: finds the end of a line. `command`, `number`, `name`: parse a line.
//! - `session`: reads the next bytes, waits, and ends a connection.
//! - `commands`: executes each command. `reply`, `stats_text`, `yaml`: the replies.
//! - `environment`, `counters`: state that all sessions share.
//!
//! This crate uses no clock, socket, file or thread, and no other dialect.

mod command;
mod commands;
mod counters;
mod environment;
mod name;
mod number;
mod reply;
mod session;
mod stats_text;
mod tube_list;
mod wire;
mod yaml;

pub use environment::{Listener, MAX_JOB_SIZE_DEFAULT, ProcessorTime, Server, ServerInfo};
pub use session::Session;
