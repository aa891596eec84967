//! Kestrel's admin commands over HTTP, for its monitoring (spec kestrel 7.3).
//!
//! - `admin`: the commands, and which requests can use them. `command`: parses a request.
//! - `snapshot`: all numbers at one moment. `name_list`: many names in little memory.
//! - `history`: recorded numbers of earlier moments. `changes`: changes of numbers over a time.
//!   `series`: one value per minute.
//! - `report`: JSON, and text for people. `date`: dates as text.

mod admin;
mod changes;
mod command;
mod date;
mod history;
mod name_list;
mod report;
mod series;
mod snapshot;

pub use admin::{AdminSetup, Controls, KestrelAdmin, Permissions, Reply, ServerInfo, Work};
pub use snapshot::Served;
