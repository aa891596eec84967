//! Gearman's cases. Their requests and replies are packets or lines.

pub mod packet;
mod runner;
mod step;

pub use step::{Case, read_cases};
