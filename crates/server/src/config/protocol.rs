//! The protocols of clients: their names, and how the server treats them differently.

/// A protocol that clients speak. Each listener speaks one protocol.
#[derive(Copy, Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// beanstalkd's protocol.
    Beanstalk,
    /// gearmand's protocol.
    Gearman,
    /// Gearman's jobs over HTTP. Each request is one job.
    GearmanHttp,
    /// Kestrel's memcache protocol, for clients of memcached.
    Kestrel,
    /// Kestrel's text protocol.
    KestrelText,
    /// Kestrel's thrift protocol.
    KestrelThrift,
    /// Kestrel's admin commands, over HTTP.
    KestrelAdmin,
    /// HTTP about the server itself: its health and its metrics.
    Http,
}

impl Protocol {
    /// All protocols, in display order. This is also the order of the enum's variants. So the
    /// number of a variant is its index in this array.
    pub const ALL: [Protocol; 8] = [
        Protocol::Beanstalk,
        Protocol::Gearman,
        Protocol::GearmanHttp,
        Protocol::Kestrel,
        Protocol::KestrelText,
        Protocol::KestrelThrift,
        Protocol::KestrelAdmin,
        Protocol::Http,
    ];

    /// The name of the protocol, as in flags and keys.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Beanstalk => "beanstalk",
            Protocol::Gearman => "gearman",
            Protocol::GearmanHttp => "gearman_http",
            Protocol::Kestrel => "kestrel",
            Protocol::KestrelText => "kestrel_text",
            Protocol::KestrelThrift => "kestrel_thrift",
            Protocol::KestrelAdmin => "kestrel_admin",
            Protocol::Http => "http",
        }
    }

    /// Whether the protocol uses HTTP. If so, a first line of HTTP is no mistake.
    pub(crate) fn is_http(self) -> bool {
        match self {
            Protocol::GearmanHttp | Protocol::KestrelAdmin | Protocol::Http => true,
            Protocol::Beanstalk
            | Protocol::Gearman
            | Protocol::Kestrel
            | Protocol::KestrelText
            | Protocol::KestrelThrift => false,
        }
    }

    /// Whether clients of the protocol can stop the server, if the configuration allows it.
    pub(crate) fn can_stop(self) -> bool {
        match self {
            Protocol::Kestrel | Protocol::KestrelText | Protocol::KestrelAdmin => true,
            Protocol::Beanstalk
            | Protocol::Gearman
            | Protocol::GearmanHttp
            | Protocol::KestrelThrift
            | Protocol::Http => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_protocol_is_its_place_among_all() {
        for (place, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol as usize, place);
        }
    }
}
