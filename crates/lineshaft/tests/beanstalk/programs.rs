//! The programs under test: Lineshaft from this build, and Debian's beanstalkd.

use std::path::PathBuf;

use testkit::process::{self, Program};
use testkit::tools;

/// The original's binary as Debian installs it.
pub(crate) const REFERENCE: &str = "/usr/bin/beanstalkd";

pub(crate) fn lineshaft_path() -> PathBuf {
    process::lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"))
}

/// `lineshaft serve --memory` with a beanstalk listener and one I/O thread.
pub(crate) fn lineshaft_in_memory() -> Program {
    Program::serve(lineshaft_path(), &["--memory"]).with_io_threads(1)
}

/// `lineshaft serve` with a beanstalk listener and three I/O threads. `folder` is for its data. A
/// relative path is inside the folder that each server gets for itself.
pub(crate) fn lineshaft_durable(folder: &str) -> Program {
    Program::serve(lineshaft_path(), &["--data", folder]).with_io_threads(3)
}

/// `lineshaft beanstalkd`, which takes the original's flags.
pub(crate) fn lineshaft_as_beanstalkd() -> Program {
    Program::like_beanstalkd(lineshaft_path(), &["beanstalkd"])
}

/// The original. `None` if it is not installed, and the test can be skipped.
pub(crate) fn reference() -> Option<Program> {
    let path = tools::find_or_skip(REFERENCE)?;
    Some(Program::like_beanstalkd(path, &[]))
}
