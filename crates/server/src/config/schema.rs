//! The whole configuration, with its defaults. The table of all keys is in `settings`; where values come
//! from is in `sources`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use broker::policy::Rules;
use origin::Reach;

use crate::config::address::Address;
use crate::config::memory_limit::MemoryLimit;
use crate::config::protocol::Protocol;
use crate::config::units::{format_duration, parse_duration};

/// The largest job size that may be allowed, as in beanstalkd.
pub const JOB_BYTES_LIMIT: u64 = 1 << 30;
/// How small and how large a file of the log may be.
pub const SEGMENT_BYTES: RangeInclusive<u64> = 256 << 10..=1 << 30;

/// The whole configuration of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Where and how jobs are kept.
    pub data: Data,
    /// Where clients connect.
    pub listen: Listen,
    /// What the listeners with TLS show, and what they ask for.
    pub tls: Tls,
    /// Bounds.
    pub limits: Limits,
    /// How the server is called over HTTP.
    pub http: Http,
    /// What the metrics show.
    pub metrics: Metrics,
    /// How Gearman jobs and workers are treated.
    pub gearman: Gearman,
    /// What Kestrel's clients see, beside the policies of their queues.
    pub kestrel: Kestrel,
    /// How many threads serve connections.
    pub io_threads: usize,
    /// What the server says about itself.
    pub log: LogOutput,
    /// What is asked of queues.
    pub policies: Rules,
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
    /// The Gearman protocol.
    pub gearman: Vec<Address>,
    /// Gearman's jobs over HTTP.
    pub gearman_http: Vec<Address>,
    /// Kestrel's memcache protocol.
    pub kestrel: Vec<Address>,
    /// Kestrel's text protocol.
    pub kestrel_text: Vec<Address>,
    /// Kestrel's thrift protocol.
    pub kestrel_thrift: Vec<Address>,
    /// Kestrel's admin commands.
    pub kestrel_admin: Vec<Address>,
    /// Health and metrics over HTTP.
    pub http: Vec<Address>,
    /// Who may connect to unix sockets, as the mode of their files; `None`: as the umask says.
    pub unix_mode: Option<u32>,
}

impl Listen {
    /// The addresses of one protocol.
    pub fn of(&self, protocol: Protocol) -> &[Address] {
        match protocol {
            Protocol::Beanstalk => &self.beanstalk,
            Protocol::Gearman => &self.gearman,
            Protocol::GearmanHttp => &self.gearman_http,
            Protocol::Kestrel => &self.kestrel,
            Protocol::KestrelText => &self.kestrel_text,
            Protocol::KestrelThrift => &self.kestrel_thrift,
            Protocol::KestrelAdmin => &self.kestrel_admin,
            Protocol::Http => &self.http,
        }
    }

    /// Whether no address is configured at all.
    pub fn is_off(&self) -> bool {
        Protocol::ALL.into_iter().all(|protocol| self.of(protocol).is_empty())
    }
}

/// What the listeners with TLS show, and what they ask for. All files hold PEM.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tls {
    /// The server's certificate, and those between it and a root, in this order.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// Whose certificates clients must have; `None`: clients are not asked.
    pub client_ca: Option<PathBuf>,
    /// What is asked of clients.
    pub client_auth: ClientAuth,
}

/// What clients of a listener with TLS have to show.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum ClientAuth {
    /// A certificate, if there is an authority to verify it with.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// A certificate, if they have one; a wrong one is refused.
    Optional,
    /// A certificate.
    Required,
}

/// Bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// What jobs, queues, connections and their buffers may take together.
    pub memory: MemoryLimit,
    /// Open connections; `None`: as many as the descriptors of the process allow.
    pub connections: Option<usize>,
    /// The largest body that the beanstalk listeners accept.
    pub beanstalk_job_bytes: u32,
    /// The largest packet that the Gearman listeners accept, its header included.
    pub gearman_packet_bytes: u32,
    /// The largest item that the Kestrel listeners accept, and the largest thrift frame.
    pub kestrel_item_bytes: u32,
    /// Queues that there may be before clients can make no more; `None`: any number.
    pub queues: Option<usize>,
    /// Replies waiting for one slow reader, beyond one body; a reader that is further behind, and does
    /// not catch up, is cut off.
    pub unsent_bytes: u64,
    /// A reader that takes nothing for so long while replies wait is cut off.
    pub unsent_time: Duration,
    /// Replies waiting for all slow readers, beyond one body; the one for whom most
    /// waits is cut off.
    pub unsent_total_bytes: u64,
    /// Open connections of one address; `None`: any number.
    pub connections_per_address: Option<usize>,
    /// A connection of whose unfinished request nothing comes for so long is closed; `None`: never.
    pub unfinished_time: Option<Duration>,
    /// What all connections may have sent of commands that are not complete, beyond
    /// one body; the one that sent most is cut off.
    pub unfinished_bytes: u64,
}

/// How the server is called over HTTP.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Http {
    /// Names that it has beside its addresses, `localhost` and the machine's own; none: any name will do for those who
    /// only look, where others than this machine can.
    pub hosts: Vec<String>,
}

/// What the metrics show.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Metrics {
    /// So many queues, the oldest ones, have numbers of their own; the others are summed up.
    pub queues_max: usize,
}

/// How Gearman jobs and workers are treated; the defaults are gearmand's.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Gearman {
    /// A worker's functions take turns, instead of the newest always coming first.
    pub round_robin: bool,
    /// How many attempts a job has; 0: any number.
    pub job_retries: u8,
    /// How many sleeping workers one job wakes; 0: all.
    pub worker_wakeup: u32,
    /// All connections hear why a job failed, as if they had asked for it.
    pub exceptions: bool,
    /// What handles of jobs begin with; `None`: `H:` and the name of the machine.
    pub handle_prefix: Option<String>,
    /// What `verbose` answers; `None`: what comes closest to the log's level.
    pub verbosity: Option<&'static str>,
}

impl Gearman {
    /// What `verbose` answers.
    pub(crate) fn verbosity(&self, level: tracing::Level) -> &'static str {
        self.verbosity.unwrap_or(match level {
            tracing::Level::ERROR => "ERROR",
            tracing::Level::WARN => "WARNING",
            tracing::Level::INFO => "INFO",
            tracing::Level::DEBUG | tracing::Level::TRACE => "DEBUG",
        })
    }
}

/// What Kestrel's clients see, beside the policies of their queues.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kestrel {
    /// What `VERSION` answers.
    pub version: String,
    /// A connection is refused reads for its life if more than so many were open when it came.
    pub refuse_reads_above: Option<u32>,
    /// The same for writes.
    pub refuse_writes_above: Option<u32>,
    /// A stricter status is in force so much later.
    pub status_change_grace: Duration,
    /// A connection from which nothing comes for so long is closed.
    pub client_timeout: Option<Duration>,
    /// Which listeners let clients stop the server and set its status.
    pub control: Control,
    /// Admin commands that change something do so by GET, too.
    pub admin_get: bool,
}

/// Which of Kestrel's listeners let clients stop the server and set its status.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Control {
    /// Those that only this machine can reach.
    #[default]
    Local,
    /// All of them.
    All,
    /// None.
    Off,
}

impl Control {
    /// Whether a listener with this reach does.
    pub fn is_allowed(self, reach: Reach) -> bool {
        match self {
            Control::Local => reach.is_local(),
            Control::All => true,
            Control::Off => false,
        }
    }

    /// Reads `local`, `all` or `off`.
    pub fn parse(text: &str) -> Result<Control, String> {
        let all = [Control::Local, Control::All, Control::Off];
        let named = all.into_iter().find(|one| one.name() == text);
        named.ok_or_else(|| format!("`{text}` is not `local`, `all` or `off`"))
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Control::Local => "local",
            Control::All => "all",
            Control::Off => "off",
        }
    }
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
                beanstalk: vec![local(11300)],
                gearman: vec![local(4730)],
                gearman_http: Vec::new(),
                kestrel: vec![local(22133)],
                kestrel_text: vec![local(2222)],
                kestrel_thrift: vec![local(2229)],
                kestrel_admin: vec![local(2223)],
                http: vec![local(7300)],
                unix_mode: None,
            },
            tls: Tls::default(),
            limits: Limits {
                connections: None,
                beanstalk_job_bytes: beanstalk::MAX_JOB_SIZE_DEFAULT,
                gearman_packet_bytes: gearman::PACKET_BYTES_MAX_DEFAULT,
                kestrel_item_bytes: kestrel::ITEM_BYTES_MAX_DEFAULT,
                unsent_bytes: 64 << 20,
                unsent_time: Duration::from_mins(5),
                memory: MemoryLimit::Percent(70),
                queues: Some(1_000_000),
                unsent_total_bytes: 1 << 30,
                connections_per_address: None,
                unfinished_time: Some(Duration::from_mins(1)),
                unfinished_bytes: 1 << 30,
            },
            http: Http::default(),
            metrics: Metrics { queues_max: 500 },
            gearman: Gearman::default(),
            kestrel: Kestrel {
                version: kestrel::ServerOptions::default().version,
                refuse_reads_above: None,
                refuse_writes_above: None,
                status_change_grace: Duration::ZERO,
                client_timeout: None,
                control: Control::default(),
                admin_get: false,
            },
            io_threads: default_io_threads(),
            log: LogOutput { format: LogFormat::Human, level: tracing::Level::INFO },
            policies: Rules::default(),
        }
    }
}

fn local(port: u16) -> Address {
    Address::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// One thread on small machines, since the log's thread needs a core too. Asked once: what may be used can
/// change while the server runs, and nobody would have asked for another number.
fn default_io_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| match std::thread::available_parallelism().map_or(1, usize::from) {
        0..=2 => 1,
        cores => (cores - 1).min(4),
    })
}

impl ClientAuth {
    /// Reads `auto`, `none`, `optional` or `required`.
    pub fn parse(text: &str) -> Result<ClientAuth, String> {
        let all = [ClientAuth::Auto, ClientAuth::None, ClientAuth::Optional, ClientAuth::Required];
        let named = all.into_iter().find(|one| one.name() == text);
        named.ok_or_else(|| format!("`{text}` is not `auto`, `none`, `optional` or `required`"))
    }

    /// Whether clients are asked even if there is no authority to verify them with, which is a mistake.
    pub(crate) fn needs_authority(self) -> bool {
        match self {
            ClientAuth::Auto | ClientAuth::None => false,
            ClientAuth::Optional | ClientAuth::Required => true,
        }
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            ClientAuth::Auto => "auto",
            ClientAuth::None => "none",
            ClientAuth::Optional => "optional",
            ClientAuth::Required => "required",
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
