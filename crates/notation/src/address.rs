//! Addresses. A server listens at a [`ListenAddress`], and a tool connects to a [`ServerName`].
//! This module does not resolve the names of hosts.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Length of the longest path that fits into the address of a unix socket, without the NUL at its
/// end.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// The prefix of a unix socket's path.
const UNIX_PREFIX: &str = "unix:";
/// The prefix of an address whose clients speak TLS.
const TLS_PREFIX: &str = "tls:";

/// An address to listen at or to connect to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// A host and a port.
    Tcp {
        /// Name, IPv4 address, or IPv6 address without brackets.
        host: String,
        /// Port number. If a server listens at port 0, the system chooses a free port.
        port: u16,
    },
    /// A unix stream socket.
    Unix(PathBuf),
}

/// An address of a listener: `HOST:PORT` or `unix:PATH`. With the prefix `tls:`, clients speak TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenAddress {
    /// The address without the prefix `tls:`.
    pub address: Address,
    /// Whether clients speak TLS.
    pub is_tls: bool,
}

/// The name of a server in the arguments of a tool: `HOST`, `HOST:PORT` or `unix:PATH`. With the
/// prefix `tls:`, the tool speaks TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerName {
    place: Place,
    /// Whether the tool speaks TLS.
    pub is_tls: bool,
}

/// A [`ServerName`] without the prefix `tls:`.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Place {
    /// A host and perhaps a port. The default port depends on the protocol.
    Tcp {
        /// Name, IPv4 address, or IPv6 address without brackets.
        host: String,
        /// Port number.
        port: Option<u16>,
    },
    /// A unix stream socket.
    Unix(PathBuf),
}

/// Why a text is not an address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressError {
    /// The text is not the address of a listener.
    #[error("`{0}` is not an address; write HOST:PORT, unix:PATH or off")]
    Listener(String),
    /// The text is not the name of a server.
    #[error("`{0}` is not an address; write HOST, HOST:PORT or unix:PATH")]
    Server(String),
    /// The port is not a number from 0 to 65535.
    #[error("`{0}` is not a port; a port is a number from 0 to 65535")]
    Port(String),
    /// An IPv6 address with a port is not in brackets.
    #[error("`{0}`: put an IPv6 address into brackets, like [::1]:11300")]
    Brackets(String),
    /// The path is too long for the system.
    #[error("the socket path `{0}` is longer than {UNIX_PATH_BYTES_MAX} bytes")]
    UnixPathTooLong(String),
    /// The path after `unix:` is missing.
    #[error("`unix:` needs the path of a socket")]
    UnixPathMissing,
    /// A listener has `off` together with an address.
    #[error("`off` cannot be combined with an address")]
    OffAndMore,
    /// The name of a server is a URL.
    #[error("`{0}` is a URL; write HOST:PORT or unix:PATH")]
    Url(String),
}

impl Address {
    /// Reads the path after `unix:`.
    pub fn parse_unix(path: &str) -> Result<Address, AddressError> {
        parse_unix_path(path).map(Address::Unix)
    }

    /// The host, if there is one.
    pub fn host(&self) -> Option<&str> {
        match self {
            Address::Tcp { host, port: _ } => Some(host),
            Address::Unix(_) => None,
        }
    }

    /// The same address for clients that speak TLS.
    #[must_use]
    pub fn with_tls(self) -> ListenAddress {
        ListenAddress { address: self, is_tls: true }
    }
}

impl ListenAddress {
    /// Reads one address. `off` is not an address; see [`parse_listeners`].
    pub fn parse(text: &str) -> Result<ListenAddress, AddressError> {
        let (text, is_tls) =
            text.strip_prefix(TLS_PREFIX).map_or((text, false), |rest| (rest, true));
        let address = match parse_unix_or_host(text, AddressError::Listener)? {
            Place::Unix(path) => Address::Unix(path),
            Place::Tcp { host, port: Some(port) } => Address::Tcp { host, port },
            Place::Tcp { host, port: None } if host == text && host.contains(':') => {
                return Err(AddressError::Brackets(text.to_owned()));
            }
            Place::Tcp { .. } => return Err(AddressError::Listener(text.to_owned())),
        };
        Ok(ListenAddress { address, is_tls })
    }
}

impl ServerName {
    /// The server's address. If the name has no port, the address has the default port.
    pub fn address(&self, default_port: u16) -> Address {
        match &self.place {
            Place::Unix(path) => Address::Unix(path.clone()),
            Place::Tcp { host, port } => {
                Address::Tcp { host: host.clone(), port: port.unwrap_or(default_port) }
            }
        }
    }

    /// Whether this is the path of a unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.place, Place::Unix(_))
    }
}

impl FromStr for ServerName {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<ServerName, AddressError> {
        let (text, is_tls) =
            text.strip_prefix(TLS_PREFIX).map_or((text, false), |rest| (rest, true));
        if !text.starts_with(UNIX_PREFIX) && text.contains("://") {
            return Err(AddressError::Url(text.to_owned()));
        }
        // The system would take a number for an IPv4 address, but people mean a port.
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(AddressError::Server(text.to_owned()));
        }
        Ok(ServerName { place: parse_unix_or_host(text, AddressError::Server)?, is_tls })
    }
}

/// Reads `unix:PATH`, `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or `IPV6`. `malformed` creates
/// the error for any other text.
fn parse_unix_or_host(
    text: &str,
    malformed: fn(String) -> AddressError,
) -> Result<Place, AddressError> {
    if let Some(path) = text.strip_prefix(UNIX_PREFIX) {
        return parse_unix_path(path).map(Place::Unix);
    }
    let malformed = || malformed(text.to_owned());
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or_else(malformed)?;
        let port = rest.strip_prefix(':');
        if port.is_none() && !rest.is_empty() {
            return Err(malformed());
        }
        (host, port)
    } else {
        match text.rsplit_once(':') {
            // Several colons without brackets are an IPv6 address without a port.
            Some((host, _)) if host.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err(malformed());
    }
    let parse_port = |port: &str| port.parse().map_err(|_| AddressError::Port(port.to_owned()));
    let port = port.map(parse_port).transpose()?;
    Ok(Place::Tcp { host: host.to_owned(), port })
}

fn parse_unix_path(path: &str) -> Result<PathBuf, AddressError> {
    if path.is_empty() {
        return Err(AddressError::UnixPathMissing);
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(AddressError::UnixPathTooLong(path.to_owned()));
    }
    Ok(PathBuf::from(path))
}

/// Reads the addresses of a listener. Each text is an address. A single text `off` means no
/// address.
pub fn parse_listeners(texts: &[&str]) -> Result<Vec<ListenAddress>, AddressError> {
    match texts {
        ["off"] => Ok(Vec::new()),
        _ if texts.contains(&"off") => Err(AddressError::OffAndMore),
        _ => texts.iter().map(|text| ListenAddress::parse(text)).collect(),
    }
}

impl From<Address> for ListenAddress {
    fn from(address: Address) -> ListenAddress {
        ListenAddress { address, is_tls: false }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => {
                write!(formatter, "[{host}]:{port}")
            }
            Address::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "{UNIX_PREFIX}{}", path.display()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.is_tls { TLS_PREFIX } else { "" };
        write!(formatter, "{prefix}{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    fn refused(text: &str) -> String {
        ListenAddress::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_address_of_a_listener_is_written_as_it_is_read() {
        let plain = ListenAddress::from;
        for (text, address) in [
            ("127.0.0.1:11300", plain(tcp("127.0.0.1", 11300))),
            ("localhost:0", plain(tcp("localhost", 0))),
            ("[::1]:65535", plain(tcp("::1", 65535))),
            ("[::]:1", plain(tcp("::", 1))),
            ("unix:/run/x.sock", plain(Address::Unix("/run/x.sock".into()))),
            ("unix:relative", plain(Address::Unix("relative".into()))),
            ("tls:127.0.0.1:4731", tcp("127.0.0.1", 4731).with_tls()),
            ("tls:[::1]:1", tcp("::1", 1).with_tls()),
            ("tls:unix:/s", Address::Unix("/s".into()).with_tls()),
        ] {
            assert_eq!(ListenAddress::parse(text), Ok(address.clone()));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn an_error_about_a_listener_says_what_to_write() {
        for text in ["", "11300", ":11300", "[::1:5", "[::1]", "[::1]5", "[]:5", "tls:4730", "on"] {
            let shown = text.strip_prefix("tls:").unwrap_or(text);
            let expected =
                format!("`{shown}` is not an address; write HOST:PORT, unix:PATH or off");
            assert_eq!(refused(text), expected);
        }
        for (text, port) in [("a:65536", "65536"), ("a:http", "http"), ("a:", ""), ("a:-1", "-1")] {
            let expected = format!("`{port}` is not a port; a port is a number from 0 to 65535");
            assert_eq!(refused(text), expected);
        }
        for text in ["::1:5", "tls:tls:127.0.0.1:1"] {
            let expected = format!(
                "`{}`: put an IPv6 address into brackets, like [::1]:11300",
                text.strip_prefix("tls:").unwrap_or(text)
            );
            assert_eq!(refused(text), expected);
        }
    }

    #[test]
    fn a_unix_path_must_fit_into_the_systems_address() {
        assert_eq!(refused("unix:"), "`unix:` needs the path of a socket");
        let longest = format!("/{}", "p".repeat(106));
        assert!(ListenAddress::parse(&format!("unix:{longest}")).is_ok());
        let expected = format!("the socket path `{longest}p` is longer than 107 bytes");
        assert_eq!(refused(&format!("unix:{longest}p")), expected);
    }

    #[test]
    fn off_excludes_addresses() {
        assert_eq!(parse_listeners(&["off"]), Ok(Vec::new()));
        assert_eq!(parse_listeners(&["off", "a:1"]), Err(AddressError::OffAndMore));
        let both = vec![tcp("a", 1).into(), tcp("b", 2).into()];
        assert_eq!(parse_listeners(&["a:1", "b:2"]), Ok(both));
    }

    #[test]
    fn a_server_without_a_port_gets_the_default() {
        for (text, shown) in [
            ("127.0.0.1:4000", "127.0.0.1:4000"),
            ("queue.example", "queue.example:7"),
            ("[::1]:4000", "[::1]:4000"),
            ("[::1]", "[::1]:7"),
            ("::1", "[::1]:7"),
            ("fe80::1%eth0", "[fe80::1%eth0]:7"),
            ("unix:/run/lineshaft.sock", "unix:/run/lineshaft.sock"),
        ] {
            let server: ServerName = text.parse().unwrap();
            assert_eq!(server.address(7).to_string(), shown, "{text}");
            assert!(!server.is_tls, "{text}");
            let server: ServerName = format!("tls:{text}").parse().unwrap();
            assert_eq!((server.address(7).to_string().as_str(), server.is_tls), (shown, true));
        }
    }

    #[test]
    fn an_error_about_a_server_says_what_to_write() {
        let refused = |text: &str| text.parse::<ServerName>().unwrap_err().to_string();
        for text in ["", ":1", "[]", "[::1", "[::1]1", "11300"] {
            let expected =
                format!("`{text}` is not an address; write HOST, HOST:PORT or unix:PATH");
            assert_eq!(refused(text), expected);
        }
        for text in ["beanstalk://127.0.0.1:11300", "http://localhost", "tcp://[::1]:1"] {
            let expected = format!("`{text}` is a URL; write HOST:PORT or unix:PATH");
            assert_eq!(refused(text), expected);
        }
        for (text, port) in [("host:port", "port"), ("host:70000", "70000"), ("host:", "")] {
            let expected = format!("`{port}` is not a port; a port is a number from 0 to 65535");
            assert_eq!(refused(text), expected);
        }
        assert_eq!(refused("unix:"), "`unix:` needs the path of a socket");
        assert_eq!(refused("tls:"), "`` is not an address; write HOST, HOST:PORT or unix:PATH");
    }
}
