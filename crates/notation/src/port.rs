//! The default port of each protocol. It is the port of the original server, if there is one.

/// beanstalkd's protocol.
pub const BEANSTALK: u16 = 11300;
/// Gearman's protocol.
pub const GEARMAN: u16 = 4730;
/// Kestrel's memcache protocol.
pub const KESTREL: u16 = 22133;
/// Kestrel's text protocol.
pub const KESTREL_TEXT: u16 = 2222;
/// Kestrel's thrift protocol.
pub const KESTREL_THRIFT: u16 = 2229;
/// Kestrel's admin commands, over HTTP.
pub const KESTREL_ADMIN: u16 = 2223;
/// The links between the nodes of a cluster.
pub const CLUSTER: u16 = 7301;
/// Health and metrics of Lineshaft, over HTTP.
pub const HTTP: u16 = 7300;
