//! What the server answers over HTTP: its own health and metrics, and Kestrel's admin commands.
//!
//! A [`Site`] turns a request into an answer; it looks at the broker and at what the server tells it, and waits for
//! nothing. [`serve`] speaks HTTP/1 on one connection, with bounds on sizes and time. Sockets, threads and the
//! clock belong to the server.
//!
//! - `answer`: what an answer looks like. `connection`, `stall`: one connection. `unread`: answers on their way.
//! - `kestrel`: Kestrel's admin commands. `snapshot` (all numbers), `memory` (what is remembered): `changes`
//!   (what changed), `series`; `report`.
//! - `overview`: health and metrics; `metrics`, `exposition`: the numbers and the form in which Prometheus reads them.

mod answer;
mod connection;
mod exposition;
pub mod kestrel;
mod metrics;
mod overview;
mod stall;
mod unread;

pub use answer::{Answer, Asked, Reply, Site, Work};
pub use connection::serve;
pub use metrics::ProcessFacts;
pub use overview::Overview;
pub use unread::Unread;
