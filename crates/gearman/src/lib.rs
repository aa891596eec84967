//! The Gearman dialect: bytes become requests, and outcomes become bytes, without I/O.
//!
//! A [`Session`] is one connection. The owner of the socket passes the received bytes and a turn of
//! the broker to the session. The session writes its replies to the connection's outbox.
//!
//! - `packet`: kinds of packets, headers, arguments. `handle`, `number`: parse arguments.
//! - `session`: reads the next bytes, handles events, and ends a connection.
//! - `commands`, `workers`, `clients`: execute each packet. `reply`: the replies.
//! - `admin_text`, `listings`: the text commands.
//! - `http`, `http_request`: an [`HttpSession`] is a connection that speaks HTTP instead.
//!   `early_data`: what a worker sends before the result.
//! - `environment`: state that all sessions share.
//!
//! This crate uses no clock, socket, file or thread, and no other dialect.

mod admin_text;
mod clients;
mod commands;
mod early_data;
mod environment;
mod handle;
mod http;
mod http_request;
mod listings;
mod number;
mod packet;
mod reply;
mod session;
mod workers;

pub use environment::{PACKET_BYTES_MAX_DEFAULT, Server, ServerOptions};
pub use http::HttpSession;
pub use session::Session;
