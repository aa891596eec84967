//! The beanstalkd dialect: bytes become requests, and outcomes become bytes, without I/O.
//!
//! A [`Session`] is one connection. The owner of the socket passes it the received bytes and a turn
//! of the broker. The session writes its replies to the connection's outbox.
//!
//! - `wire`: where a line ends. `command`, `number`, `name`: what a line means.
//! - `session`: what the next bytes are, waiting, and the end of a connection.
//! - `commands`: executes each command. `reply`, `stats_text`, `yaml`: the replies.
//! - `environment`, `counters`: what all sessions share.
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
