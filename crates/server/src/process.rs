//! The process: time, signals, messages, and facts about it.
//!
//! - `clock`: the server's clock, and changes of the wall clock.
//! - `signals`, `controls`: stop and reload, by signals and by clients.
//! - `control_socket`: serves the operator's tools.
//! - `startup`: the progress of a long start.
//! - `reload`: reloads the configuration. `systemd`: notifies the service manager.
//! - `messages`, `message_limit`: the server's messages. `captured_messages`: those of a test.
//! - `traces`: exports spans of jobs.
//! - `backup`: the log as a tar stream.
//! - `facts`: facts about the process and the machine, for dialects and metrics.

pub(crate) mod backup;
#[cfg(test)]
pub(crate) mod captured_messages;
pub(crate) mod clock;
pub(crate) mod control_socket;
pub(crate) mod controls;
pub(crate) mod facts;
pub(crate) mod message_limit;
pub(crate) mod messages;
pub(crate) mod reload;
pub(crate) mod signals;
pub(crate) mod startup;
pub(crate) mod systemd;
pub(crate) mod traces;
