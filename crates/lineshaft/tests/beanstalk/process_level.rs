//! Tests the program from an operator's side: flags, exit codes, signals, sockets, restarts.
//! `lineshaft beanstalkd` accepts the original's flags, so a service file of the original can start
//! Lineshaft instead.
//!
//! If the original is correct, the same test also runs with it. If the original is wrong, the test
//! runs only with Lineshaft, and checks the correct behaviour.

mod command_line;
mod disk;
mod own_files;
mod restart;
mod signals;
mod sockets;

use anyhow::{Context, Result};
use testkit::process::Program;

use crate::programs;

/// Runs a test with the original, if it is installed, and with Lineshaft as its replacement.
fn for_both(test: impl Fn(&Program) -> Result<()>) -> Result<()> {
    if let Some(original) = programs::reference() {
        test(&original).context("the original")?;
    }
    test(&programs::lineshaft_as_beanstalkd()).context("Lineshaft")
}
