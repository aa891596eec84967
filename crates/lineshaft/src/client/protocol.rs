//! The protocols of `put`, `work` and `peek`.

use notation::port;

/// The protocols of `put`, `work` and `peek`. The variants have no descriptions, so that the help stays
/// short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Beanstalk,
    Gearman,
    Kestrel,
}

impl Protocol {
    /// The default port of the protocol. Lineshaft uses the original's.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Protocol::Beanstalk => port::BEANSTALK,
            Protocol::Gearman => port::GEARMAN,
            Protocol::Kestrel => port::KESTREL,
        }
    }
}
