//! The configuration: its keys, and the sources of their values.
//!
//! - `schema`: the whole configuration as one value, with its defaults.
//! - `settings`: the table of all keys, for reading, showing and reloading.
//! - [`sources`]: defaults, file, environment and flags, merged in this order.
//! - `policies`: the `[[policy]]` tables.
//! - [`address`], [`protocol`], `memory_limit`, `units`: the grammar of single values.

pub mod address;
pub(crate) mod memory_limit;
mod policies;
pub mod protocol;
mod schema;
pub(crate) mod settings;
pub mod sources;
mod units;

pub use schema::{
    ClientAuth, Config, Control, Data, Durability, Gearman, Http, JOB_BYTES_LIMIT, Kestrel, Limits,
    Listen, MessageFormat, MessageOptions, Metrics, SEGMENT_BYTES, Tls,
};
pub use units::{format_bytes, format_duration, parse_duration, rounded_bytes};
