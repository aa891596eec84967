//! Simulation of the whole system: the broker and its log, sessions of all dialects, clients,
//! network, disk and clock in one thread, driven by one seed. A model runs beside it and says what
//! clients must see.
//!
//! A run takes random steps: clients write, bytes arrive in pieces, replies leave, time passes, the
//! log commits, prepares and reclaims, power fails, calls of the disk fail, the disk fills up.
//! Every reply is compared with the model's. An oracle that knows only what clients sent and
//! received judges every reply as well. After each restart the recovered jobs must be those of some
//! prefix of the changes, and that prefix must contain everything that clients learned. At the end
//! all faults stop, and all remaining jobs must be delivered and ended.
//!
//! Some runs have no model, because the model does not track where a session yields to others, or
//! how much memory is used. In these runs only the oracle judges.
//!
//! The same seed makes the same run, bit for bit. `cargo run -p lineshaft-sim -- SEED --trace`
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
mod workload;
mod world;

pub use oracle::Judgements;
pub use runner::{BrokenPromise, Options, run, run_many};
pub use sabotage::Sabotage;
pub use world::Summary;

/// The result of a step. The error describes a broken promise.
type Checked = Result<(), String>;
