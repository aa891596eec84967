//! The whole configuration, with its defaults. `settings` has the table of all keys. `sources`
//! reads the values.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use api::types::Role;
use api::{BodySettings, JsonPointer};
use axum::http::Uri;
use broker::crons::CronTable;
use broker::policy::Rules;
use broker::{DiskLimit, DiskLimits};
use notation::address::{Address, ListenAddress};
use notation::{duration, port};
use origin::Reach;

use crate::config::cluster::Cluster;
use crate::config::memory_limit::MemoryLimit;
use crate::config::protocol::Protocol;

/// The maximum of the job size setting, as in beanstalkd.
pub const JOB_BYTES_LIMIT: u64 = 1 << 30;
/// The allowed sizes of one file of the log.
pub const SEGMENT_BYTES: RangeInclusive<u64> = 256 << 10..=1 << 30;

/// The usual name of the token file, in the data folder.
const TOKENS_FILE: &str = "tokens.toml";

/// The whole configuration of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Where the server stores jobs, and how durable they are.
    pub data: Data,
    /// Where clients connect.
    pub listen: Listen,
    /// Certificates of TLS listeners and of their clients.
    pub tls: Tls,
    /// Limits of memory, sizes, times and connections.
    pub limits: Limits,
    /// The HTTP API, the console and the metrics.
    pub http: Http,
    /// What the metrics show.
    pub metrics: Metrics,
    /// The export of traces.
    pub traces: Traces,
    /// How the server treats Gearman jobs and workers.
    pub gearman: Gearman,
    /// Settings for Kestrel's clients. Other settings of Kestrel are policies.
    pub kestrel: Kestrel,
    /// The cluster that the server belongs to.
    pub cluster: Cluster,
    /// Number of I/O threads: they serve the connections.
    pub io_threads: usize,
    /// The server's own messages.
    pub messages: MessageOptions,
    /// The policies of queues.
    pub policies: Rules,
    /// The entries that put jobs by schedules.
    pub crons: CronTable,
}

impl Config {
    /// The token file. `None` if jobs are only in memory, and no file is configured.
    pub fn tokens_file(&self) -> Option<PathBuf> {
        let has_folder = self.data.sync != Durability::Memory;
        let usual = has_folder.then(|| self.data.dir.join(TOKENS_FILE));
        self.http.tokens.clone().or(usual)
    }

    /// How long a client of this protocol can be silent before the server closes its connection, in
    /// milliseconds. `None` means for ever.
    pub(crate) fn silence_max_ms(&self, protocol: Protocol) -> Option<u64> {
        match protocol {
            Protocol::Kestrel | Protocol::KestrelText | Protocol::KestrelThrift => {
                self.kestrel.client_timeout.map(|time| time.as_millis() as u64)
            }
            Protocol::Beanstalk
            | Protocol::Gearman
            | Protocol::GearmanHttp
            | Protocol::KestrelAdmin
            | Protocol::Http => None,
        }
    }
}

/// Where the server stores jobs, and how durable they are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Data {
    /// The folder of the log. The server does not use it if jobs are only in memory.
    pub dir: PathBuf,
    /// How durable an acknowledged job is.
    pub sync: Durability,
    /// Size of one file of the log.
    pub segment_bytes: u64,
    /// Limit of all files of the log together. `None` means the size of the disk.
    pub bytes_max: Option<u64>,
    /// Limit of the files of the history of jobs.
    pub history_bytes_max: u64,
}

impl Data {
    /// The folder, if the server uses it.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self.sync {
            Durability::Memory => None,
            Durability::Always | Durability::Every(_) | Durability::Never => Some(&self.dir),
        }
    }
}

/// How durable an acknowledged job is.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Durability {
    /// The server writes nothing to the disk.
    Memory,
    /// The job is on stable storage.
    Always,
    /// The job is in the kernel. After at most this time, it is on stable storage.
    Every(Duration),
    /// The job is in the kernel.
    Never,
}

/// Where clients connect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listen {
    /// The addresses of each protocol, by its number. An empty list means nowhere.
    addresses: [Vec<ListenAddress>; Protocol::ALL.len()],
    /// The file mode of unix sockets. It says which users can connect. `None` means that the umask
    /// decides.
    pub unix_mode: Option<u32>,
}

impl Listen {
    /// The addresses of one protocol.
    pub fn of(&self, protocol: Protocol) -> &[ListenAddress] {
        &self.addresses[protocol as usize]
    }

    /// Sets the addresses of one protocol.
    pub fn set(&mut self, protocol: Protocol, addresses: Vec<ListenAddress>) {
        self.addresses[protocol as usize] = addresses;
    }

    /// Whether clients of one protocol speak TLS at one address or more.
    pub(crate) fn has_tls(&self, protocol: Protocol) -> bool {
        self.of(protocol).iter().any(|address| address.is_tls)
    }

    /// Whether no address is configured at all.
    pub fn is_off(&self) -> bool {
        Protocol::ALL.into_iter().all(|protocol| self.of(protocol).is_empty())
    }
}

/// Certificates of TLS listeners and of their clients. All files hold PEM.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tls {
    /// The server's certificate, then the intermediate certificates.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// The certificate of the authority that signs client certificates. `None` means that the
    /// server never requests a client certificate.
    pub client_ca: Option<PathBuf>,
    /// Whether clients need a certificate.
    pub client_auth: ClientAuth,
}

/// Whether clients of a TLS listener need a certificate.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum ClientAuth {
    /// Clients need a certificate if `client_ca` is set.
    #[default]
    Auto,
    /// Clients need no certificate.
    None,
    /// A certificate is optional, but an invalid one is rejected.
    Optional,
    /// Clients need a certificate.
    Required,
}

/// Limits of memory, sizes, times and connections.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Limit of the memory of jobs, queues, connections and their buffers.
    pub memory: MemoryLimit,
    /// Limit of the memory for bodies of durable jobs. The log has these bodies, too.
    pub bodies: MemoryLimit,
    /// Limit of the memory for records of durable jobs. The log has these records, too.
    pub jobs: MemoryLimit,
    /// Limits of the free room of the disk.
    pub disk: DiskLimits,
    /// Limit of open connections. `None` means that only the number of file descriptors limits
    /// them.
    pub connections: Option<usize>,
    /// The largest body that the beanstalk listeners accept.
    pub beanstalk_job_bytes: u32,
    /// The largest packet that the Gearman listeners accept, including its header.
    pub gearman_packet_bytes: u32,
    /// The largest item and the largest thrift frame that the Kestrel listeners accept.
    pub kestrel_item_bytes: u32,
    /// Limit of jobs in all queues and states. At the limit, puts are refused. `None` means no limit.
    pub job_count: Option<usize>,
    /// Limit of queues. At the limit, clients can create no more queues. `None` means no limit.
    pub queues: Option<usize>,
    /// Limit of unsent replies for one client. The server adds the size of the largest body to this
    /// limit. It disconnects a client that is above the sum and does not catch up.
    pub unsent_bytes: u64,
    /// The server disconnects a client that has unsent replies and reads nothing for this time.
    pub unsent_time: Duration,
    /// Limit of unsent replies for all clients together. The server adds the size of the largest
    /// body to this limit. Above the sum, it disconnects the clients with the most unsent replies.
    pub unsent_total_bytes: u64,
    /// Limit of open connections from one address, or from one /64 network of IPv6. `None` means no
    /// limit.
    pub connections_per_address: Option<usize>,
    /// If a client has sent part of a request, and sends nothing more for this time, the server
    /// closes the connection. `None` means never.
    pub unfinished_time: Option<Duration>,
    /// Limit of incomplete commands of all connections together. The server adds the size of the
    /// largest body to this limit. Above the sum, it disconnects the clients with the largest
    /// incomplete commands.
    pub unfinished_bytes: u64,
}

/// The names of the server over HTTP, and who can use its API.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Http {
    /// Further names of the server. Its addresses, `localhost` and the machine's name are always
    /// valid. If the list is empty, a listener that other machines can reach also accepts other
    /// names. But it accepts them only for reading, and not from browsers.
    pub hosts: Vec<String>,
    /// The token file. `None` means the file `tokens.toml` in the data folder.
    pub tokens: Option<PathBuf>,
    /// What HTTP clients on this machine are allowed to do without credentials.
    pub anonymous: Role,
    /// Who sees the bodies of jobs, and the values in them that are not shown.
    pub bodies: BodySettings,
    /// The longest body of a request with jobs.
    pub body_bytes: u64,
    /// Whether the server has the console.
    pub console: bool,
    /// Who can read the metrics.
    pub metrics: MetricsAccess,
}

/// Who can read the metrics.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum MetricsAccess {
    /// Everybody who reaches the listener.
    Open,
    /// Clients with the role `viewer`.
    Viewer,
    /// Nobody.
    Off,
}

impl Default for Http {
    fn default() -> Http {
        Http {
            hosts: Vec::new(),
            tokens: None,
            anonymous: Role::Viewer,
            bodies: BodySettings::default(),
            body_bytes: 1 << 20,
            console: true,
            metrics: MetricsAccess::Open,
        }
    }
}

/// What the metrics show.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Metrics {
    /// Number of queues that have metrics of their own. These are the oldest queues. The metrics of
    /// all other queues are summed up.
    pub queues_max: usize,
}

/// The export of traces: the times of jobs whose bodies have a trace context. It is on if both
/// settings have a value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Traces {
    /// Where the body of a job has its `traceparent`.
    pub pointer: Option<JsonPointer>,
    /// The URL of the collector.
    pub endpoint: Option<Uri>,
}

/// Settings for Gearman. The defaults are gearmand's.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Gearman {
    /// If true, a worker's functions take turns. Otherwise the worker first gets jobs of the
    /// function that it registered last.
    pub round_robin: bool,
    /// After this number of attempts, a job fails. 0 means no limit.
    pub job_retries: u8,
    /// Number of sleeping workers that a job wakes. 0 means all.
    pub worker_wakeup: u32,
    /// If true, all clients get exceptions. Otherwise only clients that have requested exceptions
    /// get them.
    pub exceptions: bool,
    /// Prefix of job handles. `None` means `H:` and the name of the machine.
    pub handle_prefix: Option<String>,
    /// The reply to the command `verbose`. `None` means the name of the level of messages, as
    /// gearmand writes it.
    pub verbosity: Option<&'static str>,
}

impl Gearman {
    /// The reply to `verbose`.
    pub(crate) fn verbosity(&self, level: tracing::Level) -> &'static str {
        self.verbosity.unwrap_or(match level {
            tracing::Level::ERROR => "ERROR",
            tracing::Level::WARN => "WARNING",
            tracing::Level::INFO => "INFO",
            tracing::Level::DEBUG | tracing::Level::TRACE => "DEBUG",
        })
    }
}

/// Settings for Kestrel's clients. Other settings of Kestrel are policies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kestrel {
    /// The reply to `VERSION`.
    pub version: String,
    /// A connection can never read if more connections than this are open when it arrives.
    pub refuse_reads_above: Option<u32>,
    /// A connection can never write if more connections than this are open when it arrives.
    pub refuse_writes_above: Option<u32>,
    /// If a new status refuses more requests than the old status, the server applies the new status
    /// after this delay.
    pub status_change_grace: Duration,
    /// The server closes a connection that sends nothing for this time. `None` means never.
    pub client_timeout: Option<Duration>,
    /// The listeners whose clients can stop the server and set its status.
    pub control: Control,
    /// Whether a GET request can run an admin command that changes something.
    pub admin_get: bool,
}

/// The listeners of Kestrel whose clients can stop the server and set its status.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Control {
    /// Listeners that only this machine can reach.
    #[default]
    Local,
    /// All listeners.
    All,
    /// No listener.
    Off,
}

impl Control {
    /// Whether clients of a listener with this reach can stop the server and set its status.
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

    /// The name of the value in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Control::Local => "local",
            Control::All => "all",
            Control::Off => "off",
        }
    }
}

/// The server's own messages.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct MessageOptions {
    /// The form of each line.
    pub format: MessageFormat,
    /// The server writes messages of this level and of more urgent levels.
    pub level: tracing::Level,
}

/// The form of one line of the server's own messages.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum MessageFormat {
    /// For a terminal or a journal.
    Human,
    /// One JSON object per line.
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
                history_bytes_max: 256 << 20,
            },
            listen: Listen {
                addresses: Protocol::ALL
                    .map(|protocol| usual_port(protocol).map(local).into_iter().collect()),
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
                bodies: MemoryLimit::Percent(25),
                jobs: MemoryLimit::Percent(25),
                // The log has a reserve of its own, so a full disk can be drained without a limit.
                disk: DiskLimits { low: Some(DiskLimit::Percent(10)), critical: None },
                job_count: None,
                queues: Some(1_000_000),
                unsent_total_bytes: 1 << 30,
                connections_per_address: None,
                unfinished_time: Some(Duration::from_mins(1)),
                unfinished_bytes: 1 << 30,
            },
            http: Http::default(),
            metrics: Metrics { queues_max: 500 },
            traces: Traces::default(),
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
            cluster: Cluster::default(),
            io_threads: default_io_threads(),
            messages: MessageOptions { format: MessageFormat::Human, level: tracing::Level::INFO },
            policies: Rules::default(),
            crons: CronTable::default(),
        }
    }
}

/// The port of the listener that a protocol has by default.
fn usual_port(protocol: Protocol) -> Option<u16> {
    match protocol {
        Protocol::Beanstalk => Some(port::BEANSTALK),
        Protocol::Gearman => Some(port::GEARMAN),
        Protocol::GearmanHttp => None,
        Protocol::Kestrel => Some(port::KESTREL),
        Protocol::KestrelText => Some(port::KESTREL_TEXT),
        Protocol::KestrelThrift => Some(port::KESTREL_THRIFT),
        Protocol::KestrelAdmin => Some(port::KESTREL_ADMIN),
        Protocol::Http => Some(port::HTTP),
    }
}

fn local(port: u16) -> ListenAddress {
    Address::Tcp { host: "127.0.0.1".to_owned(), port }.into()
}

/// The default number of I/O threads. Machines with at most two cores get one thread, because the
/// committer also needs a core. The function computes the number only once. The number of available
/// processors can change while the server runs. If a reload computed the default again, an
/// unchanged file could cause a change.
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

    /// Whether the server must verify certificates. If so, a configuration without an authority is
    /// a mistake.
    pub(crate) fn needs_authority(self) -> bool {
        match self {
            ClientAuth::Auto | ClientAuth::None => false,
            ClientAuth::Optional | ClientAuth::Required => true,
        }
    }

    /// The name of the value in a configuration.
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
            _ => match duration::parse(text) {
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
            Durability::Every(duration) => formatter.write_str(&duration::format(*duration)),
            Durability::Never => formatter.write_str("never"),
        }
    }
}
