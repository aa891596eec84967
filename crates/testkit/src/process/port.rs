//! Finds free ports for servers that cannot choose a port themselves.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port of 127.0.0.1 that was free a moment ago.
///
/// Another process can use the port first. So the caller must be able to retry with another port.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
