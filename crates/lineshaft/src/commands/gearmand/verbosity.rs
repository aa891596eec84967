//! The original's log levels.

use tracing::Level;

/// A log level. The least verbose level is first.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Verbosity {
    Fatal,
    Alert,
    Critical,
    #[default]
    Error,
    Warning,
    Notice,
    Info,
    Debug,
}

impl Verbosity {
    const ALL: [Verbosity; 8] = [
        Verbosity::Fatal,
        Verbosity::Alert,
        Verbosity::Critical,
        Verbosity::Error,
        Verbosity::Warning,
        Verbosity::Notice,
        Verbosity::Info,
        Verbosity::Debug,
    ];

    /// Parses the name of a level in capital letters.
    pub(super) fn parse(text: &str) -> Option<Verbosity> {
        Verbosity::ALL.into_iter().find(|level| level.name() == text)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Verbosity::Fatal => "FATAL",
            Verbosity::Alert => "ALERT",
            Verbosity::Critical => "CRITICAL",
            Verbosity::Error => "ERROR",
            Verbosity::Warning => "WARNING",
            Verbosity::Notice => "NOTICE",
            Verbosity::Info => "INFO",
            Verbosity::Debug => "DEBUG",
        }
    }

    /// The closest level of Lineshaft's messages.
    pub(super) fn level(self) -> Level {
        match self {
            Verbosity::Fatal | Verbosity::Alert | Verbosity::Critical | Verbosity::Error => {
                Level::ERROR
            }
            Verbosity::Warning => Level::WARN,
            Verbosity::Notice | Verbosity::Info => Level::INFO,
            Verbosity::Debug => Level::DEBUG,
        }
    }
}
