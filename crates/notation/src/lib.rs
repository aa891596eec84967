//! How people write sizes, times and addresses. The configuration, the server's flags, the tools and
//! the load generator share these grammars, which docs/configuration.md states.
//!
//! - [`size`]: bytes, such as `64MiB`.
//! - [`duration`]: times, such as `50ms` or `1h30m`.
//! - [`address`]: where to listen or to connect, such as `127.0.0.1:11300` or `unix:/run/x.sock`.
//! - [`port`]: the default port of each protocol.
//!
//! The modes that stand in for the original daemons read those daemons' grammars, which are not
//! here. Each error names the wrong text, and what to write instead.

pub mod address;
pub mod duration;
pub mod port;
pub mod size;
