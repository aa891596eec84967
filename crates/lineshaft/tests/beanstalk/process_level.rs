//! The program as its operator sees it: flags, exit codes, signals, sockets, restarts. `lineshaft
//! beanstalkd` takes the original's flags, so that a service file for it can start Lineshaft instead.
//!
//! Where the original is right, it runs the same test. Where it errs, only Lineshaft is tested, for the
//! right behaviour.

mod command_line;
mod disk;
mod own_files;
mod restart;
mod signals;
mod sockets;

use anyhow::{Context, Result};
use testkit::process::Program;

use crate::programs;

/// Runs a test for the original, when it is there, and for Lineshaft in its place.
fn for_both(test: impl Fn(&Program) -> Result<()>) -> Result<()> {
    if let Some(original) = programs::reference() {
        test(&original).context("the original")?;
    }
    test(&programs::lineshaft_as_beanstalkd()).context("Lineshaft")
}
