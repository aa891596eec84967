//! Sockets, threads, clock, signals and configuration: what the pure crates must not know.
//!
//! [`run`] starts everything. Each I/O thread (`io_thread`) owns its connections (`connection`) and
//! sleeps at its port (`mailbox`) until a socket is ready, the broker has an event for one of its
//! sessions, or the log has released replies. The first one also serves the broker's timers, and
//! its runtime runs the tasks beside: accepting (`accept`) and signals (`signals`).
//!
//! What must stay true: the broker is never locked during a system call or an `await`; nothing
//! leaves before the log has released it; an idle connection costs no time and no buffer.

mod accept;
pub mod address;
mod clock;
pub mod config;
pub mod config_sources;
mod connection;
mod controls;
mod crowd;
mod error;
mod first_line;
#[cfg(test)]
mod first_line_script;
mod io_thread;
mod limits;
mod listen;
mod listen_file;
mod log_limit;
mod logging;
mod machine_memory;
mod mailbox;
mod pending;
mod policies;
mod primitives;
mod process;
mod protocol;
mod reload;
#[cfg(test)]
mod serving_tests;
mod settings;
mod signals;
mod sites;
mod socket;
mod start;
#[cfg(test)]
mod strangers_tests;
mod systemd;
mod table;
mod tls;
#[cfg(test)]
mod tls_script;
mod tls_stream;
#[cfg(test)]
mod tls_tests;
mod units;
mod wakeup;
mod web;

pub use error::{ServeError, exit};
pub use limits::raise_descriptors;
pub use listen::{
    Bound, Keepalive, SocketOptions, bind, bind_all_addresses, inherited, inherited_as,
};
pub use logging::{LogFile, Logging, Output};
pub use protocol::Protocol;
pub use signals::{Drain, Hangup};
pub use start::{Listening, Setup, Started, bind_configured, run};
pub use tls::TlsError;
pub use units::{format_bytes, format_duration, rounded_bytes};
pub use web::WEB_THREAD;
