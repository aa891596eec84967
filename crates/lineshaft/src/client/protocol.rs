//! The protocols that `put` and `work` speak.

use notation::port;

/// Protocols of `put` and `work`. Without descriptions the help is shorter; the names say enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    Beanstalk,
    Gearman,
}

impl Protocol {
    /// The default port of the original and of Lineshaft.
    pub(crate) fn default_port(self) -> u16 {
        match self {
            Protocol::Beanstalk => port::BEANSTALK,
            Protocol::Gearman => port::GEARMAN,
        }
    }
}
