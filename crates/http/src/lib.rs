//! HTTP: sites, the connections that serve them, and the server's own site with health and metrics.
//!
//! A [`Site`] turns a request into a response. It reads the broker, and facts that the server
//! passes to it. It waits only for a turn of the broker. [`serve`] speaks HTTP/1 on one connection,
//! with limits of sizes and times. The server owns sockets, threads and the clock. Kestrel's admin
//! commands are another site, in `crates/kestrel-admin`.
//!
//! - `answer`: requests and responses. `connection`, `stall`: one connection. `unread`: the limit
//!   of responses that clients have not read yet.
//! - `starting`: health during the start. `overview`: health and metrics. `metrics`, `exposition`:
//!   the numbers, and their text format for Prometheus.

mod answer;
mod connection;
mod exposition;
mod metrics;
mod overview;
mod stall;
mod starting;
mod unread;

pub use answer::{
    Answer, HTML, Reply, Request, Site, TEXT, Work, answer, claims, forbidden, method_not_allowed,
    only_looks,
};
pub use connection::serve;
pub use metrics::ProcessFacts;
pub use overview::Overview;
pub use starting::Starting;
pub use unread::Unread;
