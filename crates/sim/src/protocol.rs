//! The protocols that simulated clients speak.

/// The protocol of a connection.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Protocol {
    Beanstalk,
    Gearman,
    Kestrel(Kestrel),
}

/// The dialects of Kestrel.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kestrel {
    Memcache,
    Text,
    Thrift,
}
