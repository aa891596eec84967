//! Free ports for servers that cannot choose one themselves.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of 127.0.0.1 that was free a moment ago.
///
/// Another process can take the port first. So a caller that starts a server on it must be ready to
/// try another port.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
