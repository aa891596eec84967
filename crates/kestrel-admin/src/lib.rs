//! Kestrel's admin commands over HTTP, as its monitoring knows them (spec kestrel 7.3).
//!
//! - `admin`: the commands, and who may give which. `command`: what a request asks for.
//! - `snapshot`: all numbers at one moment. `name_list`: many names in little memory.
//! - `history`: numbers of earlier moments. `changes`: what changed since. `series`: a value a minute.
//! - `report`: JSON, and text for people. `date`: a moment in words.

mod admin;
mod changes;
mod command;
mod date;
mod history;
mod name_list;
mod report;
mod series;
mod snapshot;

pub use admin::{About, Controls, KestrelAdmin, Permissions};
pub use snapshot::Served;
