//! What can be configured, with defaults, and the table of all keys: one row says how a key is read,
//! shown, and whether a running server can take a new value. The sources are in `config_sources`.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::{self, Address};
use crate::units::{format_bytes, format_duration, parse_bytes, parse_duration};

/// The largest job size that may be allowed, as in beanstalkd.
pub const JOB_BYTES_LIMIT: u64 = 1 << 30;
/// More I/O threads than this only contend for the broker.
const IO_THREADS_MAX: usize = 64;

/// The whole configuration of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Where and how jobs are kept.
    pub data: Data,
    /// Where clients connect.
    pub listen: Listen,
    /// Bounds.
    pub limits: Limits,
    /// How many threads serve connections.
    pub io_threads: usize,
    /// What the server says about itself.
    pub log: LogOutput,
}

/// Where and how jobs are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Data {
    /// The folder; not used in memory.
    pub dir: PathBuf,
    /// How durable an acknowledged job is.
    pub sync: Durability,
    /// Size of one file of the log.
    pub segment_bytes: u64,
    /// All files of the log together stay below it; `None`: the disk is the limit.
    pub bytes_max: Option<u64>,
}

/// How durable an acknowledged job is.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Durability {
    /// Nothing is written at all.
    Memory,
    /// On stable storage.
    Always,
    /// In the kernel, and on stable storage at most so much later.
    Every(Duration),
    /// In the kernel.
    Never,
}

/// Where clients connect; an empty list: nowhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listen {
    /// The beanstalkd protocol.
    pub beanstalk: Vec<Address>,
}

/// Bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Open connections; `None`: as many as the descriptors of the process allow.
    pub connections: Option<usize>,
    /// The largest body that the beanstalk listeners accept.
    pub beanstalk_job_bytes: u32,
    /// Replies waiting for one slow reader, beyond one body; a reader that is further behind is cut off.
    pub unsent_bytes: u64,
    /// A reader that takes nothing for so long while replies wait is cut off.
    pub unsent_time: Duration,
}

/// What the server says about itself.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct LogOutput {
    /// The form of a line.
    pub format: LogFormat,
    /// The least important lines to be written.
    pub level: tracing::Level,
}

/// The form of a line of the server's own log.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// For a terminal or a journal.
    Human,
    /// One JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data: Data {
                dir: PathBuf::from("./lineshaft-data"),
                sync: Durability::Always,
                segment_bytes: 64 << 20,
                bytes_max: None,
            },
            listen: Listen {
                beanstalk: vec![Address::Tcp { host: "127.0.0.1".to_owned(), port: 11300 }],
            },
            limits: Limits {
                connections: None,
                beanstalk_job_bytes: 65_535,
                unsent_bytes: 64 << 20,
                unsent_time: Duration::from_mins(5),
            },
            io_threads: default_io_threads(),
            log: LogOutput { format: LogFormat::Human, level: tracing::Level::INFO },
        }
    }
}

/// One thread on small machines, since the log's thread needs a core too.
fn default_io_threads() -> usize {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        0..=2 => 1,
        cores => (cores - 1).min(4),
    }
}

/// One key of the configuration.
pub struct Setting {
    /// Its name, with the section before the dot.
    pub key: &'static str,
    /// Whether it takes a list.
    pub many: bool,
    /// Whether a running server can take a new value.
    pub live: bool,
    /// Reads a value; the error says what is wrong with it.
    pub set: fn(&mut Config, &[&str]) -> Result<(), String>,
    /// Writes the value as the file has it.
    pub show: fn(&Config) -> String,
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.key)
    }
}

/// All keys, in the order in which they are shown.
pub static SETTINGS: [Setting; 12] = [
    Setting {
        key: "io_threads",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.io_threads, parse_io_threads(value[0])),
        show: |config| config.io_threads.to_string(),
    },
    Setting {
        key: "data.dir",
        many: false,
        live: false,
        set: |config, value| match value[0] {
            "" => Err("the folder has no name".to_owned()),
            dir => assign(&mut config.data.dir, Ok(PathBuf::from(dir))),
        },
        show: |config| quote(&config.data.dir.display().to_string()),
    },
    Setting {
        key: "data.sync",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.data.sync, Durability::parse(value[0])),
        show: |config| quote(&config.data.sync.to_string()),
    },
    Setting {
        key: "data.segment_size",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.data.segment_bytes, parse_segment_bytes(value[0])),
        show: |config| quote(&format_bytes(config.data.segment_bytes)),
    },
    Setting {
        key: "data.max_bytes",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.data.bytes_max, parse_bytes_max(value[0])),
        show: |config| {
            quote(&config.data.bytes_max.map_or_else(|| "disk".to_owned(), format_bytes))
        },
    },
    Setting {
        key: "listen.beanstalk",
        many: true,
        live: false,
        set: |config, value| assign(&mut config.listen.beanstalk, address::parse_list(value)),
        show: |config| show_addresses(&config.listen.beanstalk),
    },
    Setting {
        key: "limits.connections",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.connections, parse_connections(value[0])),
        show: |config| {
            config.limits.connections.map_or_else(|| quote("auto"), |count| count.to_string())
        },
    },
    Setting {
        key: "limits.beanstalk_job_size",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.limits.beanstalk_job_bytes, parse_job_bytes(value[0]))
        },
        show: |config| quote(&format_bytes(config.limits.beanstalk_job_bytes.into())),
    },
    Setting {
        key: "limits.unsent_size",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unsent_bytes, parse_bytes(value[0])),
        show: |config| quote(&format_bytes(config.limits.unsent_bytes)),
    },
    Setting {
        key: "limits.unsent_time",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unsent_time, parse_duration(value[0])),
        show: |config| quote(&format_duration(config.limits.unsent_time)),
    },
    Setting {
        key: "log.format",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.log.format, parse_log_format(value[0])),
        show: |config| {
            quote(match config.log.format {
                LogFormat::Human => "human",
                LogFormat::Json => "json",
            })
        },
    },
    Setting {
        key: "log.level",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.log.level, parse_level(value[0])),
        show: |config| quote(&config.log.level.to_string().to_lowercase()),
    },
];

fn assign<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn parse_io_threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=IO_THREADS_MAX).contains(count));
    count.ok_or_else(|| format!("`{text}` is not a number from 1 to {IO_THREADS_MAX}"))
}

fn parse_connections(text: &str) -> Result<Option<usize>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(format!("`{text}` is not `auto` and not a number from 1 on")),
    }
}

fn parse_job_bytes(text: &str) -> Result<u32, String> {
    match parse_bytes(text)? {
        bytes if bytes <= JOB_BYTES_LIMIT => Ok(bytes as u32),
        _ => Err(format!("`{text}` is more than {} for one job", format_bytes(JOB_BYTES_LIMIT))),
    }
}

fn parse_segment_bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if (256 << 10..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err(format!("`{text}` is not a size from 256KiB to 1GiB")),
    }
}

fn parse_bytes_max(text: &str) -> Result<Option<u64>, String> {
    if text == "disk" {
        return Ok(None);
    }
    // The log needs a few segments of 256 KiB to turn round.
    match parse_bytes(text)? {
        bytes if bytes >= 4 << 20 => Ok(Some(bytes)),
        _ => Err(format!("`{text}` is not `disk` and not a size from 4MiB on")),
    }
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("`{text}` is neither `human` nor `json`")),
    }
}

fn parse_level(text: &str) -> Result<tracing::Level, String> {
    match text {
        "error" => Ok(tracing::Level::ERROR),
        "warn" => Ok(tracing::Level::WARN),
        "info" => Ok(tracing::Level::INFO),
        "debug" => Ok(tracing::Level::DEBUG),
        "trace" => Ok(tracing::Level::TRACE),
        _ => Err(format!("`{text}` is not `error`, `warn`, `info`, `debug` or `trace`")),
    }
}

fn quote(text: &str) -> String {
    // A TOML string allows the same escapes as JSON.
    serde_json::Value::from(text).to_string()
}

fn show_addresses(addresses: &[Address]) -> String {
    match addresses {
        [] => quote("off"),
        [one] => quote(&one.to_string()),
        many => {
            let list: Vec<String> = many.iter().map(|one| quote(&one.to_string())).collect();
            format!("[{}]", list.join(", "))
        }
    }
}

impl Durability {
    /// Reads `always`, `never`, `memory` or a length of time.
    pub fn parse(text: &str) -> Result<Durability, String> {
        match text {
            "always" => Ok(Durability::Always),
            "never" => Ok(Durability::Never),
            "memory" => Ok(Durability::Memory),
            _ => match parse_duration(text) {
                Ok(Duration::ZERO) => Ok(Durability::Always),
                Ok(duration) => Ok(Durability::Every(duration)),
                Err(_) => Err(format!(
                    "`{text}` is not `always`, `never`, `memory` or a time such as `50ms`"
                )),
            },
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Durability::Memory => formatter.write_str("memory"),
            Durability::Always => formatter.write_str("always"),
            Durability::Every(duration) => formatter.write_str(&format_duration(*duration)),
            Durability::Never => formatter.write_str("never"),
        }
    }
}
