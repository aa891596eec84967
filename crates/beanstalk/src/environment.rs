//! State that sessions share, and facts about the process and the machine. The server passes in
//! these facts, because this crate does no I/O.

use std::sync::Arc;

use broker::Millis;

use crate::counters::Counters;

/// Facts about the process and the machine, which `stats` shows.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The id of the process.
    pub pid: u32,
    /// Name and version of the server. `stats` shows it in quotes. Clients only print it.
    pub version: String,
    /// Name of the machine.
    pub hostname: String,
    /// Version of the operating system, as `uname` reports it.
    pub os: String,
    /// Kind of the machine, as `uname` reports it.
    pub platform: String,
    /// A random number of this process. `stats` shows it as 16 hexadecimal digits.
    pub id: u64,
    /// The configured size of one file of the log, in bytes. `stats` shows it even without a log.
    pub segment_bytes: u64,
    /// When the process started, on the broker's clock.
    pub started: Millis,
    /// Returns the processor time that the process has used so far.
    pub processor_time: fn() -> ProcessorTime,
}

/// Processor time that the process used.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct ProcessorTime {
    /// Time in the process itself, in microseconds.
    pub user_us: u64,
    /// Time in the kernel on behalf of the process, in microseconds.
    pub system_us: u64,
}

/// State that all beanstalkd sessions of a process share. All listeners of the protocol use one
/// `Server`.
#[derive(Debug)]
pub struct Server {
    pub(crate) info: ServerInfo,
    pub(crate) counters: Counters,
}

impl Server {
    /// A server that has no connections yet.
    pub fn new(info: ServerInfo) -> Arc<Self> {
        Arc::new(Self { info, counters: Counters::default() })
    }
}

/// State that all sessions of one listener share.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The server that the listener belongs to.
    pub server: Arc<Server>,
    /// Largest body of a put in bytes, without CR LF. The default of the original is
    /// [`MAX_JOB_SIZE_DEFAULT`].
    pub max_job_size: u32,
}

/// Default of the largest body, in bytes.
pub const MAX_JOB_SIZE_DEFAULT: u32 = 65_535;
