//! Runs one kind of request many times, without sockets and threads. `cargo xtask counts` runs this
//! program under callgrind, which counts the instructions of the functions `measured_…`.
//!
//! The counts are those of a server with a log: the dialect reads a request, the broker executes it,
//! and the outbox gets the reply. Commits are between the requests and not counted. Everything is
//! deterministic, so two runs of the same program have the same counts.

mod operations;
mod server;

use std::process::ExitCode;

use operations::Operation;

/// The number of requests that are counted. `xtask/src/counts.rs` divides by this number.
const REQUESTS: usize = 1000;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(operation) = Operation::ALL.into_iter().find(|operation| operation.name() == name)
    else {
        for operation in Operation::ALL {
            println!("{}", operation.name());
        }
        return ExitCode::from(2);
    };
    operation.run(REQUESTS);
    ExitCode::SUCCESS
}
