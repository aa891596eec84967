//! The beanstalkd dialect: bytes to requests and outcomes to bytes, without I/O.
//!
//! A [`Session`] is one connection. The owner of the socket passes it the received bytes and a turn
//! of the broker. Replies go to the connection's outbox.
//!
//! - `wire`: where a line ends. `command`, `number`, `name`: what a line says.
//! - `session`: what the next bytes are, waiting, and the end of a connection.
//! - `commands`: what each command does. `reply`, `stats_text`, `yaml`: what it answers.
//! - `environment`, `counters`: what all sessions share.
//!
//! It knows no clock, socket, file or thread, and no other dialect.

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
