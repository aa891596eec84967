//! The plan of a comparison: its rows with their goals, and the measurements of these rows.

mod gearman;
pub(crate) mod heavy;
pub(crate) mod missing;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod sizes;
pub(crate) mod work;

pub(crate) use gearman::MANY_FUNCTIONS;
