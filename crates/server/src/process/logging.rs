//! What the server says about itself: one line an event, for people or as JSON, on the error output
//! or where the original of a compatible mode would write it.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt as lines, reload};

use crate::config::{LogFormat, LogOutput};

/// Where the system's log takes lines.
const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility "daemon", severity "notice".
const SYSLOG_PRIORITY: u8 = 3 * 8 + 5;

/// Where lines go.
#[derive(Debug)]
pub enum Output {
    /// The error output.
    Stderr,
    /// A file, which can be opened anew.
    File(LogFile),
    /// The system's log, with the name of the program.
    Syslog(&'static str),
    /// Nowhere.
    Nothing,
}

/// The installed output, to change its level or its file.
#[derive(Clone)]
pub struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    file: Option<Arc<LogFile>>,
}

impl fmt::Debug for Logging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Logging")
    }
}

impl Logging {
    /// Installs the error output for the whole process. `None` if another output is there already.
    pub fn install(output: LogOutput) -> Option<Logging> {
        Logging::install_to(Output::Stderr, output)
    }

    /// Installs an output for the whole process. `None` if another one is there already.
    pub fn install_to(to: Output, output: LogOutput) -> Option<Logging> {
        let (filter, level) = reload::Layer::new(LevelFilter::from_level(output.level));
        let mut file = None;
        let is_terminal = matches!(to, Output::Stderr) && io::stderr().is_terminal();
        let writer = match to {
            Output::Stderr => BoxMakeWriter::new(io::stderr),
            Output::File(log_file) => {
                BoxMakeWriter::new(Arc::clone(file.insert(Arc::new(log_file))))
            }
            Output::Syslog(program) => BoxMakeWriter::new(move || Syslog { program }),
            Output::Nothing => BoxMakeWriter::new(io::sink),
        };
        // When the error output is closed, complaining about that there would panic.
        let layer =
            lines::layer().with_writer(writer).with_target(false).log_internal_errors(false);
        let layer = match output.format {
            LogFormat::Human => layer.with_ansi(is_terminal).boxed(),
            LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
        };
        tracing_subscriber::registry().with(filter).with(layer).try_init().ok()?;
        Some(Logging { level, file })
    }

    /// Sets the least important level to be written.
    pub(crate) fn set_level(&self, level: Level) {
        if let Err(error) = self.level.modify(|filter| *filter = LevelFilter::from_level(level)) {
            tracing::error!(%error, "cannot change the log level");
        }
    }

    /// Opens the file anew, if lines go to one: it may have been moved away.
    pub(crate) fn reopen(&self) {
        let Some(file) = &self.file else { return };
        match file.reopen() {
            Ok(()) => tracing::info!("log file reopened"),
            Err(error) => {
                tracing::error!(%error, "cannot reopen the log file, keeping the old one");
            }
        }
    }
}

/// A file to which lines are appended.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), file: Mutex::new(open(path)?) })
    }

    fn reopen(&self) -> io::Result<()> {
        let file = open(&self.path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One line for the system's log; it is lost when nobody listens there, as with all programs.
struct Syslog {
    program: &'static str,
}

impl Write for Syslog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let (program, pid) = (self.program, std::process::id());
        let message = format!("<{SYSLOG_PRIORITY}>{program}[{pid}]: {}", text.trim_end());
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to(message.as_bytes(), SYSLOG_SOCKET)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
