//! The plan of a comparison: the rows with their goals, and the measurements that they need.

mod gearman;
pub(crate) mod heavy;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod sizes;
pub(crate) mod work;

pub(crate) use gearman::{MANY_FUNCTIONS, without_missing};
