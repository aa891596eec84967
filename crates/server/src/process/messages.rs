//! The server's messages. Each message is one line, for people or as JSON. The server writes the
//! lines to standard error. In a compatible mode, it writes them to the same place as the original
//! server.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt as lines, reload};

use crate::config::{MessageFormat, MessageOptions};

/// The socket of the system log.
const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility "daemon", severity "notice".
const SYSLOG_PRIORITY: u8 = 3 * 8 + 5;

/// The destination of messages.
#[derive(Debug)]
pub enum Output {
    /// Standard error.
    Stderr,
    /// A file. The server can reopen it.
    File(MessageFile),
    /// The system log. Each message has this name of the program.
    Syslog(&'static str),
    /// Nowhere.
    Nothing,
}

/// A handle on the output of messages. It can change the level, and reopen the file.
#[derive(Clone)]
pub struct Messages {
    level: reload::Handle<LevelFilter, Registry>,
    file: Option<Arc<MessageFile>>,
}

impl fmt::Debug for Messages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Messages")
    }
}

impl Messages {
    /// Installs standard error as the output of the whole process. Returns `None` if another output
    /// is already installed.
    pub fn install(output: MessageOptions) -> Option<Messages> {
        Messages::install_to(Output::Stderr, output)
    }

    /// Installs the output of the whole process. Returns `None` if another output is already
    /// installed.
    pub fn install_to(to: Output, output: MessageOptions) -> Option<Messages> {
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
        // By default, the library prints its own errors to standard error, and panics if standard
        // error is closed.
        let layer =
            lines::layer().with_writer(writer).with_target(false).log_internal_errors(false);
        let layer = match output.format {
            MessageFormat::Human => layer.with_ansi(is_terminal).boxed(),
            MessageFormat::Json => {
                layer.json().flatten_event(true).with_current_span(false).boxed()
            }
        };
        tracing_subscriber::registry().with(filter).with(layer).try_init().ok()?;
        Some(Messages { level, file })
    }

    /// Sets the level. The server writes messages of this level and of more urgent levels.
    pub(crate) fn set_level(&self, level: Level) {
        if let Err(error) = self.level.modify(|filter| *filter = LevelFilter::from_level(level)) {
            tracing::error!(%error, "cannot change the level of messages");
        }
    }

    /// Reopens the file, because an operator may have moved it. Does nothing if the output is not a
    /// file.
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

/// Writes an error message on a thread of its own. The messages can go to a disk that hangs, and the
/// caller must go on. The receiver gets something when the message is written.
pub(crate) fn tell_aside(text: String) -> Receiver<()> {
    let (written, told) = sync_channel(1);
    let tell = move || {
        tracing::error!("{text}");
        let _ = written.send(());
    };
    // Without a thread, the receiver notices at once that nobody will write.
    let _ = std::thread::Builder::new().name("messages".to_owned()).spawn(tell);
    told
}

/// A file. Each message is appended to it.
#[derive(Debug)]
pub struct MessageFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl MessageFile {
    /// Opens or creates the file.
    pub fn open(path: &Path) -> io::Result<MessageFile> {
        Ok(MessageFile { path: path.to_owned(), file: Mutex::new(open(path)?) })
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

impl Write for &MessageFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines to the system log. A line is lost if no process reads the socket.
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
