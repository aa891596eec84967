//! The protocols of `put` and `work`.

use notation::port;

/// The protocols of `put` and `work`. The variants have no descriptions, so that the help stays
/// short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Beanstalk,
    Gearman,
}

impl Protocol {
    /// The default port of the protocol. Lineshaft uses the original's.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Protocol::Beanstalk => port::BEANSTALK,
            Protocol::Gearman => port::GEARMAN,
        }
    }
}
