//! Clusters for tests: real servers of NATS on this machine, and a network that can be cut.

mod links;
mod servers;

pub use links::{Flow, Network, Party};
pub use servers::{FLUSH_ALWAYS, NatsServers, find_nats_server};
