//! Addresses of listeners: `host:port` or `unix:PATH`, with `tls:` before it for TLS.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use origin::Reach;

/// The longest path that fits into the address of a unix socket, without its final NUL.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address of a listener, as written in the configuration. Names are resolved when it is bound.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// A host (name, IPv4 or IPv6 without brackets) and a port; port 0 asks the system.
    Tcp {
        /// Name or number of the host.
        host: String,
        /// Port number.
        port: u16,
    },
    /// A unix stream socket.
    Unix(PathBuf),
    /// Another address, whose clients speak TLS.
    Tls(Box<Address>),
}

/// Why a text is not an address.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// Neither form.
    #[error("`{0}` is not an address; write HOST:PORT, unix:PATH or off")]
    Form(String),
    /// Not a number of 0 to 65535.
    #[error("`{0}` is not a port; a port is a number from 0 to 65535")]
    Port(String),
    /// Only brackets separate an IPv6 address from its port.
    #[error("`{0}`: put an IPv6 address into brackets, like [::1]:11300")]
    Brackets(String),
    /// The path is too long for the system.
    #[error("the socket path `{0}` is longer than {UNIX_PATH_BYTES_MAX} bytes")]
    UnixPathTooLong(String),
    /// `unix:` alone.
    #[error("`unix:` needs a path")]
    UnixPathMissing,
}

impl Address {
    /// Reads one address. `off` is not an address; see [`parse_list`].
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        match text.strip_prefix("tls:") {
            Some(inner) => Ok(Self::parse_plain(inner)?.with_tls()),
            None => Self::parse_plain(text),
        }
    }

    /// The same address for clients that speak TLS.
    #[must_use]
    pub fn with_tls(self) -> Address {
        if self.is_tls() { self } else { Address::Tls(Box::new(self)) }
    }

    /// Whether clients speak TLS there.
    pub fn is_tls(&self) -> bool {
        match self {
            Address::Tls(_) => true,
            Address::Tcp { .. } | Address::Unix(_) => false,
        }
    }

    /// Whether it is a unix socket, with TLS or without.
    pub(crate) fn is_unix(&self) -> bool {
        match self {
            Address::Tcp { .. } => false,
            Address::Unix(_) => true,
            Address::Tls(inner) => inner.is_unix(),
        }
    }

    /// Where clients can reach a socket bound there from. A host name counts as reachable from the
    /// network.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Address::Tcp { host, port: _ } => match host.parse::<IpAddr>() {
                Ok(address) if address.to_canonical().is_loopback() => Reach::Loopback,
                Ok(_) | Err(_) => Reach::Network,
            },
            Address::Unix(_) => Reach::Unix,
            Address::Tls(inner) => inner.reach(),
        }
    }

    /// The name or number of the host.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Address::Tcp { host, port: _ } => Some(host),
            Address::Unix(_) => None,
            Address::Tls(inner) => inner.host(),
        }
    }

    fn parse_plain(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::parse_unix(path);
        }
        let (host, port) =
            text.rsplit_once(':').ok_or_else(|| AddressError::Form(text.to_owned()))?;
        let port = port.parse().map_err(|_| AddressError::Port(port.to_owned()))?;
        let host = match host.strip_prefix('[') {
            Some(inner) => {
                inner.strip_suffix(']').ok_or_else(|| AddressError::Form(text.to_owned()))?
            }
            None if host.contains(':') => return Err(AddressError::Brackets(text.to_owned())),
            None => host,
        };
        if host.is_empty() {
            return Err(AddressError::Form(text.to_owned()));
        }
        Ok(Address::Tcp { host: host.to_owned(), port })
    }

    /// Reads the path after `unix:`.
    pub fn parse_unix(path: &str) -> Result<Address, AddressError> {
        if path.is_empty() {
            return Err(AddressError::UnixPathMissing);
        }
        if path.len() > UNIX_PATH_BYTES_MAX {
            return Err(AddressError::UnixPathTooLong(path.to_owned()));
        }
        Ok(Address::Unix(PathBuf::from(path)))
    }
}

/// Parses the addresses of a listener: each text is an address, or the only one is `off`.
pub fn parse_list(texts: &[&str]) -> Result<Vec<Address>, String> {
    match texts {
        ["off"] => Ok(Vec::new()),
        _ if texts.contains(&"off") => Err("`off` cannot be combined with an address".to_owned()),
        _ => texts
            .iter()
            .map(|text| Address::parse(text).map_err(|error| error.to_string()))
            .collect(),
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
            Address::Tls(inner) => write!(formatter, "tls:{inner}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn both_forms_are_read_and_printed_alike() {
        for (text, address) in [
            ("127.0.0.1:11300", tcp("127.0.0.1", 11300)),
            ("localhost:0", tcp("localhost", 0)),
            ("[::1]:65535", tcp("::1", 65535)),
            ("[::]:1", tcp("::", 1)),
            ("unix:/run/x.sock", Address::Unix("/run/x.sock".into())),
            ("unix:relative", Address::Unix("relative".into())),
            ("tls:127.0.0.1:4731", tcp("127.0.0.1", 4731).with_tls()),
            ("tls:[::1]:1", tcp("::1", 1).with_tls()),
            ("tls:unix:/s", Address::Unix("/s".into()).with_tls()),
        ] {
            assert_eq!(Address::parse(text), Ok(address.clone()));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused_with_the_reason() {
        assert_eq!(Address::parse("11300"), Err(AddressError::Form("11300".into())));
        assert_eq!(Address::parse(":11300"), Err(AddressError::Form(":11300".into())));
        assert_eq!(Address::parse("[::1:5"), Err(AddressError::Form("[::1:5".into())));
        assert_eq!(Address::parse("a:65536"), Err(AddressError::Port("65536".into())));
        assert_eq!(Address::parse("a:http"), Err(AddressError::Port("http".into())));
        assert_eq!(Address::parse("a:"), Err(AddressError::Port(String::new())));
        assert_eq!(Address::parse("::1:5"), Err(AddressError::Brackets("::1:5".into())));
        assert_eq!(Address::parse("tls:4730"), Err(AddressError::Form("4730".into())));
        assert!(Address::parse("tls:tls:127.0.0.1:1").is_err());
        assert_eq!(Address::parse("unix:"), Err(AddressError::UnixPathMissing));
        let longest = format!("/{}", "p".repeat(106));
        assert!(Address::parse(&format!("unix:{longest}")).is_ok());
        assert_eq!(
            Address::parse(&format!("unix:{longest}p")),
            Err(AddressError::UnixPathTooLong(format!("{longest}p")))
        );
    }

    #[test]
    fn off_stands_alone() {
        assert_eq!(parse_list(&["off"]), Ok(Vec::new()));
        assert!(parse_list(&["off", "a:1"]).is_err());
        assert_eq!(parse_list(&["a:1", "b:2"]), Ok(vec![tcp("a", 1), tcp("b", 2)]));
    }
}
