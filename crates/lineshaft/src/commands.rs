//! The subcommands, one file each.

use std::ffi::OsString;
use std::path::Path;

pub(crate) mod backup;
pub(crate) mod beanstalkd;
pub(crate) mod cluster;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod gearmand;
pub(crate) mod import;
pub(crate) mod kestrel;
pub(crate) mod kick;
pub(crate) mod log;
pub(crate) mod operator;
pub(crate) mod pause;
pub(crate) mod peek;
pub(crate) mod policy;
pub(crate) mod put;
pub(crate) mod serve;
mod service;
pub(crate) mod stats;
pub(crate) mod token;
pub(crate) mod top;
mod user;
pub(crate) mod work;

/// Returns the arguments if the program was started under the name `original`, or with a subcommand
/// of this name.
pub(crate) fn arguments_if_called(
    original: &str,
    mut arguments: impl Iterator<Item = OsString>,
) -> Option<Vec<OsString>> {
    let program = arguments.next()?;
    if Path::new(&program).file_name().is_some_and(|name| name == original) {
        return Some(arguments.collect());
    }
    (arguments.next()? == original).then(|| arguments.collect())
}
