//! The subcommands, one file each.

pub(crate) mod kick;
pub(crate) mod peek;
pub(crate) mod put;
pub(crate) mod stats;
pub(crate) mod watch;
pub(crate) mod work;
