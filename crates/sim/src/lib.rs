//! Whole-system simulation: the broker and its log, sessions of all dialects, clients, network, disk
//! and clock in one thread, driven by one seed, beside a model that says what must be seen.
//!
//! A run takes random steps: clients write, bytes arrive in pieces, replies leave, time passes, the
//! log commits, prepares and reclaims; power fails, calls of the disk fail, the disk fills up.
//! Every reply is compared with the model's, and judged by an oracle that knows only what clients
//! sent and saw. After each restart the recovered jobs must be those
//! of some prefix of what happened that contains all that anybody was told. In the end the trouble
//! stops, and everything that is left must be delivered and ended.
//!
//! Some runs go without the model, as it does not follow where a session stops to let others be
//! served, nor how much memory is taken. There the oracle judges alone.
//!
//! The same seed makes the same run, bit for bit. `cargo run -p lineshaft-sim -- SEED --trace`
//! tells its story.

mod disk_faults;
mod finale;
mod link;
mod lives;
mod mailbox;
mod model;
mod network;
mod oracle;
mod plan;
mod policies;
mod process;
mod protocol;
mod rng;
mod runner;
mod sabotage;
mod seen;
mod steps;
mod storage;
mod trace;
mod workload;
mod world;

pub use oracle::Judged;
pub use runner::{Broken, Options, run, run_many};
pub use sabotage::Sabotage;
pub use world::Summary;

/// What a step leads to: a broken promise is told in words.
type Checked = Result<(), String>;
