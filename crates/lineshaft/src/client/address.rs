//! Where a server listens: `HOST:PORT`, `HOST` or `unix:PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of beanstalkd, and of Lineshaft's beanstalkd listener.
const DEFAULT_PORT: u16 = 11300;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A host name or address, and a port.
    Tcp {
        /// Name or address, without the brackets of IPv6.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A UNIX socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: needs the path of a socket".to_owned());
            }
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let (host, port) = match text.rsplit_once(':') {
            // More than one colon without brackets is a bare IPv6 address, which has no port.
            Some((host, _)) if host.contains(':') && !host.starts_with('[') => (text, None),
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("expected HOST:PORT or unix:PATH".to_owned());
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| format!("`{port}` is no port number"))?,
            None => DEFAULT_PORT,
        };
        Ok(Address::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => {
                write!(formatter, "[{host}]:{port}")
            }
            Address::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("127.0.0.1:11300", "127.0.0.1:11300"),
            ("queue.example", "queue.example:11300"),
            ("[::1]:4000", "[::1]:4000"),
            ("[::1]", "[::1]:11300"),
            ("::1", "[::1]:11300"),
            ("unix:/run/lineshaft.sock", "unix:/run/lineshaft.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", ":1", "unix:", "host:port", "host:70000"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
