//! Clusters for tests: real servers of NATS on this machine.

mod servers;

pub use servers::{FLUSH_ALWAYS, NatsServers, find_nats_server};
