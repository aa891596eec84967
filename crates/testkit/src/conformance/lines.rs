//! Cases of protocols whose requests and replies are lines: beanstalkd's protocol, and Kestrel's
//! memcache and text protocols.

pub mod block;
mod runner;
mod step;

pub use step::{Case, read_cases};
