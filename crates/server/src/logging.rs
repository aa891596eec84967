//! What the server says about itself: one line an event on the error output, for people or as JSON.

use std::fmt;
use std::io::IsTerminal as _;

use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt as lines, reload};

use crate::config::{LogFormat, LogOutput};

/// The installed output, to change its level.
pub struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
}

impl fmt::Debug for Logging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Logging")
    }
}

impl Logging {
    /// Installs the output for the whole process. `None` if another one is there already.
    pub fn install(output: LogOutput) -> Option<Logging> {
        let (filter, level) = reload::Layer::new(LevelFilter::from_level(output.level));
        // When the error output is closed, complaining about that there would panic.
        let layer = lines::layer()
            .with_writer(std::io::stderr)
            .with_target(false)
            .log_internal_errors(false);
        let layer = match output.format {
            LogFormat::Human => layer.with_ansi(std::io::stderr().is_terminal()).boxed(),
            LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(layer).try_init().ok()?;
        Some(Logging { level })
    }

    /// Sets the least important level to be written.
    pub(crate) fn set_level(&self, level: Level) {
        if let Err(error) = self.level.modify(|filter| *filter = LevelFilter::from_level(level)) {
            tracing::error!(%error, "cannot change the log level");
        }
    }
}
