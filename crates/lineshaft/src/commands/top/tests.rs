//! Tests the screens on a terminal in memory, and the requests on a server that answers from a table.

mod fake;
mod fixture;
mod requests;
mod screens;
