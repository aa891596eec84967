//! Facts about the process and the machine, for sessions. This module does no I/O.

use std::sync::Arc;

use broker::Millis;

use crate::counters::Counters;

/// The process and the machine, as `stats` shows them.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// Number of the process.
    pub pid: u32,
    /// Name and version of the server, shown in quotes; clients only print it.
    pub version: String,
    /// Name of the machine.
    pub hostname: String,
    /// Version of the operating system, as `uname` reports it.
    pub os: String,
    /// Kind of the machine, as `uname` reports it.
    pub platform: String,
    /// Drawn at random when the process starts; shown as 16 hexadecimal digits.
    pub id: u64,
    /// The configured size of a log file in bytes; shown even without a log.
    pub segment_bytes: u64,
    /// When the process started, in the broker's time.
    pub started: Millis,
    /// Asks the system for the processor time used so far.
    pub processor_time: fn() -> ProcessorTime,
}

/// Processor time that the process used.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct ProcessorTime {
    /// In the process itself, in microseconds.
    pub user_us: u64,
    /// In the kernel on behalf of the process, in microseconds.
    pub system_us: u64,
}

/// State that all beanstalkd sessions of a process share, over all listeners.
#[derive(Debug)]
pub struct Server {
    pub(crate) info: ServerInfo,
    pub(crate) counters: Counters,
}

impl Server {
    /// A server without connections so far.
    pub fn new(info: ServerInfo) -> Arc<Self> {
        Arc::new(Self { info, counters: Counters::default() })
    }
}

/// State that all sessions of one listener share.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The server it belongs to.
    pub server: Arc<Server>,
    /// Largest body of a put in bytes, without CR LF. The original's default is
    /// [`MAX_JOB_SIZE_DEFAULT`].
    pub max_job_size: u32,
}

/// Largest body in bytes unless the listener says otherwise.
pub const MAX_JOB_SIZE_DEFAULT: u32 = 65_535;
