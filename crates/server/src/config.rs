//! The configuration: its keys, and the sources of their values.
//!
//! - `schema`: the whole configuration as one value, with its defaults.
//! - `settings`: the table of all keys, for reading, showing and reloading.
//! - [`sources`]: merges defaults, file, environment and flags, in this order.
//! - `policies`: the `[[policy]]` tables.
//! - `cluster`: the section of a cluster's node, with its keys.
//! - `data`: values of the section `data`.
//! - [`listener`]: one listener as a value, for the threads that serve its clients.
//! - [`protocol`], `memory_limit`: types of some values. More types of values are in [`notation`].

pub(crate) mod cluster;
mod common;
pub(crate) mod crons;
mod data;
pub(crate) mod disk;
pub mod listener;
pub(crate) mod memory_limit;
pub mod policies;
pub mod protocol;
mod schema;
pub(crate) mod settings;
pub mod sources;
mod values;

pub use cluster::Cluster;
pub use schema::{
    ClientAuth, Config, Control, Data, Durability, Gearman, Http, JOB_BYTES_LIMIT, Kestrel, Limits,
    Listen, MessageFormat, MessageOptions, Metrics, MetricsAccess, SEGMENT_BYTES, Tls, Traces,
};
