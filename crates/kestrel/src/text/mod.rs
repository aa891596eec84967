//! The text dialect: `request` says what a line asks for, `items` gathers the lines of a list,
//! `session` is a connection, `commands` what each request does.

mod commands;
mod items;
mod request;
mod session;

pub use session::TextSession;
