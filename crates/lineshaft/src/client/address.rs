//! The address of a server: `HOST:PORT`, `HOST` or `unix:PATH`; and its protocol.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Protocols of `put` and `work`. Without descriptions the help is shorter; the names say enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Beanstalk,
    Gearman,
}

impl Protocol {
    /// The default port of the original and of Lineshaft.
    fn default_port(self) -> u16 {
        match self {
            Protocol::Beanstalk => 11300,
            Protocol::Gearman => 4730,
        }
    }
}

/// A server as the user names it. The default port depends on the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerName {
    /// A host name or address, and optionally a port.
    Tcp {
        /// Name or address, without the brackets of IPv6.
        host: String,
        /// TCP port.
        port: Option<u16>,
    },
    /// A UNIX socket.
    Unix(PathBuf),
}

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

impl ServerName {
    /// Its address for this protocol.
    pub(crate) fn address(&self, protocol: Protocol) -> Address {
        match self {
            ServerName::Unix(path) => Address::Unix(path.clone()),
            ServerName::Tcp { host, port } => {
                let port = port.unwrap_or(protocol.default_port());
                Address::Tcp { host: host.clone(), port }
            }
        }
    }
}

impl FromStr for ServerName {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerName, String> {
        if text.starts_with("tls:") {
            return Err("the tools connect without TLS; name a plain address".to_owned());
        }
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("`unix:` needs the path of a socket".to_owned());
            }
            return Ok(ServerName::Unix(PathBuf::from(path)));
        }
        let (host, port) = match text.rsplit_once(':') {
            // Several colons without brackets are a bare IPv6 address, which has no port.
            Some((host, _)) if host.contains(':') && !host.starts_with('[') => (text, None),
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("expected HOST:PORT or unix:PATH".to_owned());
        }
        let port =
            port.map(|port| port.parse().map_err(|_| format!("`{port}` is not a port number")));
        Ok(ServerName::Tcp { host: host.to_owned(), port: port.transpose()? })
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
            let server: ServerName = text.parse().unwrap();
            assert_eq!(server.address(Protocol::Beanstalk).to_string(), shown, "{text}");
            let gearman = shown.replace(":11300", ":4730");
            let by_name = if text.contains(":11300") { shown } else { gearman.as_str() };
            assert_eq!(server.address(Protocol::Gearman).to_string(), by_name, "{text}");
        }
        for text in ["", ":1", "unix:", "host:port", "host:70000"] {
            assert!(text.parse::<ServerName>().is_err(), "{text}");
        }
        for text in ["tls:127.0.0.1:4731", "tls:unix:/run/lineshaft.sock", "tls:"] {
            let reason = text.parse::<ServerName>().unwrap_err();
            assert_eq!(reason, "the tools connect without TLS; name a plain address");
        }
    }
}
