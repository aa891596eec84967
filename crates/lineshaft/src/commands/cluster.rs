//! `lineshaft cluster`: begins, watches and repairs a cluster.
//!
//! These commands use NATS, and data folders of stopped servers. So they work while nodes are down.
//! `place` reads the configuration, and `folders` reads data folders.

mod check;
mod create;
mod folders;
mod forget;
mod keys;
mod leave;
mod place;
mod promote;
mod recover;
mod status;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::import::with_exit_code;
use crate::cli::ClusterCommand;

/// Runs one of the subcommands.
pub(crate) fn run(command: ClusterCommand) -> Result<ExitCode> {
    // All segments of a log are open at the same time.
    server::raise_descriptors();
    with_exit_code(match command {
        ClusterCommand::Create(arguments) => create::run(&arguments),
        ClusterCommand::Keys(arguments) => keys::run(&arguments),
        ClusterCommand::Status(arguments) => status::run(&arguments),
        ClusterCommand::Check(arguments) => check::run(&arguments),
        ClusterCommand::Promote(arguments) => promote::run(&arguments),
        ClusterCommand::Forget(arguments) => forget::run(&arguments),
        ClusterCommand::Leave(arguments) => leave::run(&arguments),
        ClusterCommand::Recover(arguments) => recover::run(&arguments),
    })
}

/// Runs a task that uses NATS.
fn block_on<T>(task: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start a runtime")?.block_on(task)
}
