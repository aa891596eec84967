//! Parses and formats sizes, times and addresses as people write them. The configuration, the
//! server's flags, the tools and the load generator share these grammars. docs/configuration.md
//! describes them.
//!
//! - [`size`]: bytes, such as `64MiB`.
//! - [`duration`]: times, such as `50ms` or `1h30m`.
//! - [`address`]: where to listen or to connect, such as `127.0.0.1:11300` or `unix:/run/x.sock`.
//! - [`port`]: the default port of each protocol.
//!
//! The server can also replace one of the original daemons, and then accepts that daemon's flags.
//! Their grammars are not in this crate. Each error names the wrong text, and says what to write
//! instead.

pub mod address;
pub mod duration;
pub mod port;
pub mod size;
