//! What a session is told of the world outside, since it does no I/O itself.

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
    /// Version of the operating system, as `uname` tells it.
    pub os: String,
    /// Kind of the machine, as `uname` tells it.
    pub platform: String,
    /// Drawn at random when the process starts; shown as 16 hexadecimal digits.
    pub id: u64,
    /// The setting for the size of a log file in bytes, which is shown without a log too.
    pub segment_bytes: u64,
    /// When the process started, in the broker's time.
    pub started: Millis,
    /// Asks the system how much processor time was used so far.
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

/// What all beanstalk sessions of a process share, over all listeners.
#[derive(Debug)]
pub struct Server {
    pub(crate) info: ServerInfo,
    pub(crate) counters: Counters,
}

impl Server {
    /// A server that has not seen a connection yet.
    pub fn new(info: ServerInfo) -> Arc<Self> {
        Arc::new(Self { info, counters: Counters::default() })
    }
}

/// What all sessions of one listening socket share.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The process it belongs to.
    pub server: Arc<Server>,
    /// Largest body that a put may bring, in bytes, CR LF not included. The original's default
    /// is [`MAX_JOB_SIZE_DEFAULT`].
    pub max_job_size: u32,
}

/// Largest body in bytes unless the listener says otherwise.
pub const MAX_JOB_SIZE_DEFAULT: u32 = 65_535;
