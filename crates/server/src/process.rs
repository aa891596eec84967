//! The process: time, signals, messages, and what it tells of itself.
//!
//! - `clock`: the engine's time, and steps of the wall clock.
//! - `signals`, `controls`: how the process is told to stop or to reload, by signals and by clients.
//! - `reload`: reading the configuration again. `systemd`: word for the service manager.
//! - `logging`, `log_limit`: the server's messages.
//! - `facts`: what dialects and metrics tell of the process and the machine.

pub(crate) mod clock;
pub(crate) mod controls;
pub(crate) mod facts;
pub(crate) mod log_limit;
pub(crate) mod logging;
pub(crate) mod reload;
pub(crate) mod signals;
pub(crate) mod systemd;
