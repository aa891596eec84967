//! Simulates the whole system in one thread: the broker and its log, sessions of all dialects,
//! clients, network, disk and clock. One seed decides everything that happens. A *model* gets the
//! same requests, and computes the replies that clients must get.
//!
//! A run takes random steps. Clients write, bytes arrive in pieces, the server sends replies, and
//! time passes. The log commits, prepares and reclaims. Power fails, calls of the disk fail, and
//! the disk fills up. The run compares every reply with the model's reply. An *oracle* also checks
//! every reply. It uses only the bytes that clients sent and received. After each restart, the
//! recovered jobs must be the result of some prefix of the changes. That prefix must contain every
//! change that a reply reported to a client. At the end, all faults stop, and all remaining jobs
//! must be delivered and ended.
//!
//! The model does not compute when a session yields to others, or how much memory the server uses.
//! So runs that test these things have no model, and only the oracle checks them.
//!
//! A run can also simulate a cluster: three nodes with a disk each, and a model of the stream that they
//! share. To clients, a cluster is one server, and a takeover is a restart. The nodes must agree at
//! every group, and only the oracle checks the replies.
//!
//! The same seed gives the same run, bit for bit. `cargo run -p lineshaft-sim -- SEED --trace`
//! prints each step.

mod machine;
mod model;
mod oracle;
mod plan;
mod protocol;
mod rng;
mod runner;
mod sabotage;
mod seen;
mod trace;
mod windows;
mod workload;
mod world;

pub use machine::cluster::Replication;
pub use model::Tally;
pub use oracle::Judgements;
pub use runner::{BrokenPromise, Options, RunKind, run, run_many};
pub use sabotage::Sabotage;
pub use world::Summary;

/// The result of a step. The error describes the broken promise.
type Checked = Result<(), String>;
