//! Parses and formats sizes, times and addresses as people write them. The configuration, the
//! server's flags, the tools and the load generator use these formats. docs/configuration.md
//! describes the formats.
//!
//! - [`size`]: bytes, such as `64MiB`.
//! - [`duration`]: times, such as `50ms` or `1h30m`.
//! - [`address`]: addresses of listeners and servers, such as `127.0.0.1:11300` or
//!   `unix:/run/x.sock`.
//! - [`port`]: the default port of each protocol.
//! - [`plain`]: text and bytes of clients, in a form that can be shown.
//!
//! If the server replaces one of the original daemons, it accepts the flags of that daemon. The
//! formats of those flags are not in this crate. Each error names the wrong text, and says what to
//! write instead.

pub mod address;
pub mod duration;
pub mod plain;
pub mod port;
pub mod size;
