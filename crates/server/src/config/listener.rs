//! A listener as a value: what clients speak there, where it is, and what it allows them.

use std::net::IpAddr;

use notation::address::{Address, ListenAddress};
use origin::Reach;

use crate::config::Config;
use crate::config::protocol::Protocol;

/// A listener. The server makes it once, from the configuration and the actual address. All threads
/// that accept connections share it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listener {
    /// The protocol that clients speak.
    pub protocol: Protocol,
    /// The actual address, and whether clients speak TLS. If port 0 was requested, it has the port
    /// that the system chose.
    pub address: ListenAddress,
    /// What clients are allowed before they say who they are.
    pub access: Access,
    /// The server closes a connection if its client is silent for this time. `None` means never.
    pub(crate) silence_max_ms: Option<u64>,
}

/// What the clients of a listener are allowed before they say who they are.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// From where clients can reach the listener. Over HTTP, their role depends on this.
    pub reach: Reach,
    /// Whether clients can stop the server and set its status, if their protocol has such commands.
    pub may_control: bool,
}

impl Listener {
    /// The listener at this address.
    pub fn new(protocol: Protocol, address: ListenAddress, config: &Config) -> Listener {
        let reach = reach_of(&address);
        let access = Access { reach, may_control: config.kestrel.control.is_allowed(reach) };
        Listener { protocol, address, access, silence_max_ms: config.silence_max_ms(protocol) }
    }

    /// Whether clients on other machines can stop the server here.
    pub fn can_be_stopped_from_elsewhere(&self) -> bool {
        let Access { reach, may_control } = self.access;
        self.protocol.can_stop() && may_control && !reach.is_local()
    }
}

/// From where clients can reach a socket at this address. A host name counts as reachable from
/// other machines.
fn reach_of(address: &ListenAddress) -> Reach {
    match &address.address {
        Address::Tcp { host, port: _ } => match host.parse::<IpAddr>() {
            Ok(address) if address.to_canonical().is_loopback() => Reach::Loopback,
            Ok(_) | Err(_) => Reach::Network,
        },
        Address::Unix(_) => Reach::Unix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Control;

    fn tcp(host: &str) -> ListenAddress {
        Address::Tcp { host: host.to_owned(), port: 1 }.into()
    }

    #[test]
    fn only_loopback_and_unix_sockets_are_closed_to_the_network() {
        for (address, reach) in [
            (tcp("127.0.0.2"), Reach::Loopback),
            (tcp("::ffff:127.0.0.1"), Reach::Loopback),
            (tcp("localhost"), Reach::Network),
            (tcp("::"), Reach::Network),
            (Address::Unix("/s".into()).into(), Reach::Unix),
        ] {
            let listener = Listener::new(Protocol::Http, address, &Config::default());
            assert_eq!(listener.access.reach, reach, "{}", listener.address);
        }
    }

    #[test]
    fn control_depends_on_the_setting_the_reach_and_the_protocol() {
        let allowed = |control, protocol, host| {
            let mut config = Config::default();
            config.kestrel.control = control;
            let listener = Listener::new(protocol, tcp(host), &config);
            (listener.access.may_control, listener.can_be_stopped_from_elsewhere())
        };
        let [near, far] = ["127.0.0.1", "0.0.0.0"];
        assert_eq!(allowed(Control::Local, Protocol::Kestrel, near), (true, false));
        assert_eq!(allowed(Control::Local, Protocol::KestrelAdmin, far), (false, false));
        assert_eq!(allowed(Control::All, Protocol::KestrelText, far), (true, true));
        assert_eq!(allowed(Control::All, Protocol::KestrelThrift, far), (true, false));
        assert_eq!(allowed(Control::Off, Protocol::Kestrel, near), (false, false));
    }
}
