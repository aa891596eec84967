//! `lineshaft gearmand`, or the program called by that name: takes the original's flags.

use std::ffi::OsString;
use std::process::ExitCode;

/// Does what the arguments say.
pub(crate) fn run(_arguments: &[OsString]) -> ExitCode {
    eprintln!("gearmand: this mode is not there yet; use `lineshaft serve --gearman ADDRESS`");
    ExitCode::FAILURE
}
