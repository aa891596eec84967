//! HTTP: what a site is, one connection that serves it, and the server's own site of health and metrics.
//!
//! A [`Site`] turns a request into an answer; it looks at the broker and at what the server tells it, and waits for
//! nothing. [`serve`] speaks HTTP/1 on one connection, with bounds on sizes and time. Sockets, threads and the
//! clock belong to the server. Kestrel's admin commands are a site of their own, in `crates/kestrel-admin`.
//!
//! - `answer`: what an answer looks like. `connection`, `stall`: one connection. `unread`: answers on their way.
//! - `overview`: health and metrics; `metrics`, `exposition`: the numbers and the form in which Prometheus reads them.

mod answer;
mod connection;
mod exposition;
mod metrics;
mod overview;
mod stall;
mod unread;

pub use answer::{
    Answer, Asked, HTML, Reply, Site, TEXT, Work, answer, claims, forbidden, method_not_allowed,
    only_looks,
};
pub use connection::serve;
pub use metrics::ProcessFacts;
pub use overview::Overview;
pub use unread::Unread;
