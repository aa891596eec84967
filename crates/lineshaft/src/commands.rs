//! The subcommands, one file each.

pub(crate) mod beanstalkd;
pub(crate) mod config;
pub(crate) mod kick;
pub(crate) mod peek;
pub(crate) mod put;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod watch;
pub(crate) mod work;
