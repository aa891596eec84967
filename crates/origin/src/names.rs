//! The host names with which clients may address the server.

use std::net::{IpAddr, Ipv6Addr};

/// The names that a `Host` header may contain. Every IP address is allowed, because DNS rebinding
/// works only with names. `localhost` is allowed, too.
#[derive(Clone, Debug, Default)]
pub struct Names {
    own: Vec<String>,
    listed: Vec<String>,
    /// See [`Names::required`].
    are_required: bool,
}

impl Names {
    /// `own` are the server's own names. `listed` are the names that the operator configured.
    pub fn new(own: impl IntoIterator<Item = String>, listed: Vec<String>) -> Names {
        Names { own: own.into_iter().collect(), listed, are_required: false }
    }

    /// The same names, and these.
    #[must_use]
    pub fn with(&self, own: impl IntoIterator<Item = String>) -> Names {
        let mut names = self.clone();
        names.own.extend(own);
        names
    }

    /// The same names, and no others for programs, either, as at a loopback listener: see
    /// [`Gate::may_read`]. A client at such a listener of another server needs this, because it does not
    /// count as one of this machine.
    ///
    /// [`Gate::may_read`]: crate::Gate::may_read
    #[must_use]
    pub fn required(self) -> Names {
        Names { are_required: true, ..self }
    }

    /// All names. Addresses are not names.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let names = self.own.iter().chain(&self.listed).map(String::as_str);
        names.filter(|name| name.parse::<IpAddr>().is_err())
    }

    /// The name in the value of a `Host` header, if it is an allowed one. Addresses and `localhost`
    /// are not names.
    pub fn name_in<'a>(&self, host: &'a [u8]) -> Option<&'a str> {
        let host = std::str::from_utf8(host).ok().filter(|_| self.contain(host))?;
        let (name, _) = host.split_at(host.find(':').unwrap_or(host.len()));
        self.own
            .iter()
            .chain(&self.listed)
            .any(|known| known.eq_ignore_ascii_case(name))
            .then_some(name)
    }

    /// Whether programs may use no other names: see [`Names::required`]. The same applies if the operator
    /// configured any names.
    pub(crate) fn are_required(&self) -> bool {
        self.are_required || !self.listed.is_empty()
    }

    /// Whether the value of a `Host` header is an allowed name, with or without a port.
    pub(crate) fn contain(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
        }
        let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
        let is = |known: &String| known.eq_ignore_ascii_case(name);
        is_port(port)
            && (name.parse::<IpAddr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || self.own.iter().chain(&self.listed).any(is))
    }
}

/// Whether `text`, which follows the host, is empty, or a colon and a number.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_known_and_others_are_not() {
        let names = Names::new(["machine".to_owned()], vec!["jobs.example".to_owned()]);
        for host in [
            "127.0.0.1:2223",
            "192.0.2.7",
            "[::1]:2223",
            "[2001:db8::1]",
            "localhost:2223",
            "LOCALHOST",
            "Machine:2223",
            "jobs.example",
        ] {
            assert!(names.contain(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "evil.example:2223",
            "machine.evil.example",
            "127.0.0.1.evil.example",
            "localhost:80@evil.example",
            "localhost:x",
            "[::1]evil.example",
            "[machine]",
            "::1",
            "\u{fffd}",
        ] {
            assert!(!names.contain(host.as_bytes()), "{host}");
        }
        assert!(!names.contain(b"\xff"));
        assert_eq!(names.name_in(b"Machine:2223"), Some("Machine"));
        for host in ["127.0.0.1:2223", "[::1]:2223", "localhost", "evil.example", "machine:x"] {
            assert_eq!(names.name_in(host.as_bytes()), None, "{host}");
        }
        let more = names.with(["other".to_owned(), "192.0.2.7".to_owned()]);
        assert!(more.contain(b"OTHER:2223"));
        assert_eq!(more.all().collect::<Vec<&str>>(), ["machine", "other", "jobs.example"]);
        assert!(!names.contain(b"other"));
    }
}
