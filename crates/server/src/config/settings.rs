//! The table of all keys of the configuration. A row says how to read and show the value of a key,
//! and whether a reload can change the value.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::JsonPointer;
use api::types::Role;
use axum::http::Uri;
use notation::address::{ListenAddress, parse_listeners};
use notation::{duration, size};

use crate::config::memory_limit::MemoryLimit;
use crate::config::protocol::Protocol;
use crate::config::{
    ClientAuth, Config, Control, Durability, JOB_BYTES_LIMIT, MessageFormat, MetricsAccess,
};
use crate::config::{cluster, data, disk};

/// All Gearman packets except jobs fit into this size.
const PACKET_BYTES_MIN: u64 = 8 << 10;
/// All thrift frames without items fit into this size.
const ITEM_BYTES_MIN: u64 = 1 << 10;
/// Length of the longest prefix. The length of a handle is limited to 63 bytes, and the job's id
/// also needs room.
const HANDLE_PREFIX_BYTES_MAX: usize = 46;
/// Limit of queues with metrics of their own. The limit exists because each of them has at least
/// eight lines on the page.
const METRICS_QUEUES_LIMIT: usize = 10_000;
/// Limit of I/O threads. More threads would only contend for the broker's lock.
const IO_THREADS_MAX: usize = 64;

/// One key of the configuration.
pub(crate) struct Setting {
    /// The name of the key. The section is the part before the dot.
    pub(crate) key: &'static str,
    /// Whether the value is a list.
    pub(crate) many: bool,
    /// Whether a reload can change the value.
    pub(crate) live: bool,
    /// Sets the value. A returned error describes the mistake.
    pub(crate) set: fn(&mut Config, &[&str]) -> Result<(), String>,
    /// Prints the value in the form of the file.
    pub(crate) show: fn(&Config) -> String,
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.key)
    }
}

/// All keys, in display order.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> + Clone {
    SETTINGS.iter().chain(&disk::SETTINGS).chain(&cluster::SETTINGS)
}

/// All keys except those of the disk and of a cluster.
static SETTINGS: [Setting; 59] = [
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
        set: |config, value| {
            assign(&mut config.data.segment_bytes, data::parse_segment_bytes(value[0]))
        },
        show: |config| quote(&size::format(config.data.segment_bytes)),
    },
    Setting {
        key: "data.max_bytes",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.data.bytes_max, data::parse_bytes_max(value[0])),
        show: |config| {
            quote(&config.data.bytes_max.map_or_else(|| "disk".to_owned(), size::format))
        },
    },
    Setting {
        key: "data.history_size",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.data.history_bytes_max, data::parse_history_bytes(value[0]))
        },
        show: |config| quote(&size::format(config.data.history_bytes_max)),
    },
    addresses::<{ Protocol::Beanstalk as usize }>("listen.beanstalk"),
    addresses::<{ Protocol::Gearman as usize }>("listen.gearman"),
    addresses::<{ Protocol::GearmanHttp as usize }>("listen.gearman_http"),
    addresses::<{ Protocol::Kestrel as usize }>("listen.kestrel"),
    addresses::<{ Protocol::KestrelText as usize }>("listen.kestrel_text"),
    addresses::<{ Protocol::KestrelThrift as usize }>("listen.kestrel_thrift"),
    addresses::<{ Protocol::KestrelAdmin as usize }>("listen.kestrel_admin"),
    addresses::<{ Protocol::Http as usize }>("listen.http"),
    Setting {
        key: "listen.unix_mode",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.listen.unix_mode, parse_mode(value[0])),
        show: |config| {
            let mode = config.listen.unix_mode;
            quote(&mode.map_or_else(|| "umask".to_owned(), |mode| format!("{mode:04o}")))
        },
    },
    Setting {
        key: "tls.certificate",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.tls.certificate, parse_file(value[0])),
        show: |config| show_file(config.tls.certificate.as_deref()),
    },
    Setting {
        key: "tls.key",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.tls.key, parse_file(value[0])),
        show: |config| show_file(config.tls.key.as_deref()),
    },
    Setting {
        key: "tls.client_ca",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.tls.client_ca, parse_file(value[0])),
        show: |config| show_file(config.tls.client_ca.as_deref()),
    },
    Setting {
        key: "tls.client_auth",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.tls.client_auth, ClientAuth::parse(value[0])),
        show: |config| quote(config.tls.client_auth.name()),
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
        key: "limits.connections_per_address",
        many: false,
        live: true,
        set: |config, value| {
            assign(&mut config.limits.connections_per_address, parse_count(value[0]))
        },
        show: |config| show_count(config.limits.connections_per_address),
    },
    Setting {
        key: "limits.beanstalk_job_size",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.limits.beanstalk_job_bytes, parse_job_bytes(value[0]))
        },
        show: |config| quote(&size::format(config.limits.beanstalk_job_bytes.into())),
    },
    Setting {
        key: "limits.gearman_packet_size",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.limits.gearman_packet_bytes, parse_packet_bytes(value[0]))
        },
        show: |config| quote(&size::format(config.limits.gearman_packet_bytes.into())),
    },
    Setting {
        key: "limits.kestrel_item_size",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.limits.kestrel_item_bytes, parse_item_bytes(value[0]))
        },
        show: |config| quote(&size::format(config.limits.kestrel_item_bytes.into())),
    },
    Setting {
        key: "limits.memory",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.memory, MemoryLimit::parse(value[0])),
        show: |config| quote(&config.limits.memory.show()),
    },
    Setting {
        key: "limits.jobs",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.job_count, parse_count(value[0])),
        show: |config| show_count(config.limits.job_count),
    },
    Setting {
        key: "limits.queues",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.queues, parse_count(value[0])),
        show: |config| show_count(config.limits.queues),
    },
    Setting {
        key: "limits.unsent_size",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unsent_bytes, size::parse(value[0])),
        show: |config| quote(&size::format(config.limits.unsent_bytes)),
    },
    Setting {
        key: "limits.unsent_time",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unsent_time, parse_unsent_time(value[0])),
        show: |config| quote(&duration::format(config.limits.unsent_time)),
    },
    Setting {
        key: "limits.unsent_total_size",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unsent_total_bytes, size::parse(value[0])),
        show: |config| quote(&size::format(config.limits.unsent_total_bytes)),
    },
    Setting {
        key: "limits.unfinished_size",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unfinished_bytes, size::parse(value[0])),
        show: |config| quote(&size::format(config.limits.unfinished_bytes)),
    },
    Setting {
        key: "limits.unfinished_time",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.unfinished_time, parse_time_max(value[0])),
        show: |config| {
            quote(
                &config.limits.unfinished_time.map_or_else(|| "none".to_owned(), duration::format),
            )
        },
    },
    Setting {
        key: "memory.bodies",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.bodies, MemoryLimit::parse_part(value[0])),
        show: |config| quote(&config.limits.bodies.show()),
    },
    Setting {
        key: "memory.jobs",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.limits.jobs, MemoryLimit::parse_part(value[0])),
        show: |config| quote(&config.limits.jobs.show()),
    },
    Setting {
        key: "http.hosts",
        many: true,
        live: false,
        set: |config, value| assign(&mut config.http.hosts, parse_hosts(value)),
        show: |config| {
            let hosts: Vec<&str> = config.http.hosts.iter().map(String::as_str).collect();
            show_list(&hosts, "auto")
        },
    },
    Setting {
        key: "http.tokens",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.http.tokens, parse_tokens(value[0])),
        show: |config| {
            let path = config.http.tokens.as_deref();
            quote(&path.map_or_else(|| "auto".to_owned(), |path| path.display().to_string()))
        },
    },
    Setting {
        key: "http.anonymous",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.http.anonymous, parse_role(value[0])),
        show: |config| quote(config.http.anonymous.name()),
    },
    Setting {
        key: "http.bodies",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.http.bodies.shown_to, parse_shown_to(value[0])),
        show: |config| quote(config.http.bodies.shown_to.map_or("off", Role::name)),
    },
    Setting {
        key: "http.mask",
        many: true,
        live: false,
        set: |config, value| assign(&mut config.http.bodies.masks, parse_masks(value)),
        show: |config| {
            let masks: Vec<&str> = config.http.bodies.masks.iter().map(JsonPointer::text).collect();
            show_list(&masks, "off")
        },
    },
    Setting {
        key: "http.body_size",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.http.body_bytes, parse_body_bytes(value[0])),
        show: |config| quote(&size::format(config.http.body_bytes)),
    },
    Setting {
        key: "http.console",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.http.console, parse_bool(value[0])),
        show: |config| config.http.console.to_string(),
    },
    Setting {
        key: "http.metrics",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.http.metrics, parse_metrics_access(value[0])),
        show: |config| {
            quote(match config.http.metrics {
                MetricsAccess::Open => "open",
                MetricsAccess::Viewer => "viewer",
                MetricsAccess::Off => "off",
            })
        },
    },
    Setting {
        key: "metrics.max_queues",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.metrics.queues_max, parse_queues_max(value[0])),
        show: |config| config.metrics.queues_max.to_string(),
    },
    Setting {
        key: "traces.pointer",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.traces.pointer, parse_pointer(value[0])),
        show: |config| quote(config.traces.pointer.as_ref().map_or("off", JsonPointer::text)),
    },
    Setting {
        key: "traces.endpoint",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.traces.endpoint, parse_endpoint(value[0])),
        show: |config| {
            quote(&config.traces.endpoint.as_ref().map_or_else(|| "off".to_owned(), Uri::to_string))
        },
    },
    Setting {
        key: "gearman.round_robin",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.gearman.round_robin, parse_bool(value[0])),
        show: |config| config.gearman.round_robin.to_string(),
    },
    Setting {
        key: "gearman.job_retries",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.gearman.job_retries, parse_job_retries(value[0])),
        show: |config| config.gearman.job_retries.to_string(),
    },
    Setting {
        key: "gearman.worker_wakeup",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.gearman.worker_wakeup, parse_worker_wakeup(value[0]))
        },
        show: |config| config.gearman.worker_wakeup.to_string(),
    },
    Setting {
        key: "gearman.exceptions",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.gearman.exceptions, parse_bool(value[0])),
        show: |config| config.gearman.exceptions.to_string(),
    },
    Setting {
        key: "gearman.handle_prefix",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.gearman.handle_prefix, parse_handle_prefix(value[0]))
        },
        show: |config| quote(config.gearman.handle_prefix.as_deref().unwrap_or("auto")),
    },
    Setting {
        key: "kestrel.version",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.kestrel.version, parse_kestrel_version(value[0])),
        show: |config| quote(&config.kestrel.version),
    },
    Setting {
        key: "kestrel.connection_limit_refuse_reads",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.kestrel.refuse_reads_above, parse_limit(value[0])),
        show: |config| show_limit(config.kestrel.refuse_reads_above),
    },
    Setting {
        key: "kestrel.connection_limit_refuse_writes",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.kestrel.refuse_writes_above, parse_limit(value[0])),
        show: |config| show_limit(config.kestrel.refuse_writes_above),
    },
    Setting {
        key: "kestrel.status_change_grace",
        many: false,
        live: false,
        set: |config, value| {
            assign(&mut config.kestrel.status_change_grace, duration::parse(value[0]))
        },
        show: |config| quote(&duration::format(config.kestrel.status_change_grace)),
    },
    Setting {
        key: "kestrel.client_timeout",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.kestrel.client_timeout, parse_time_max(value[0])),
        show: |config| {
            quote(
                &config.kestrel.client_timeout.map_or_else(|| "none".to_owned(), duration::format),
            )
        },
    },
    Setting {
        key: "kestrel.control",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.kestrel.control, Control::parse(value[0])),
        show: |config| quote(config.kestrel.control.name()),
    },
    Setting {
        key: "kestrel.admin_get",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.kestrel.admin_get, parse_bool(value[0])),
        show: |config| config.kestrel.admin_get.to_string(),
    },
    Setting {
        key: "messages.format",
        many: false,
        live: false,
        set: |config, value| assign(&mut config.messages.format, parse_message_format(value[0])),
        show: |config| {
            quote(match config.messages.format {
                MessageFormat::Human => "human",
                MessageFormat::Json => "json",
            })
        },
    },
    Setting {
        key: "messages.level",
        many: false,
        live: true,
        set: |config, value| assign(&mut config.messages.level, parse_level(value[0])),
        show: |config| quote(&config.messages.level.to_string().to_lowercase()),
    },
];

pub(super) fn assign<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn parse_io_threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=IO_THREADS_MAX).contains(count));
    count.ok_or_else(|| format!("`{text}` is not a number from 1 to {IO_THREADS_MAX}"))
}

fn parse_mode(text: &str) -> Result<Option<u32>, String> {
    if text == "umask" {
        return Ok(None);
    }
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Some(mode))
        }
        _ => Err(format!("`{text}` is neither `umask` nor an octal mode such as `0660`")),
    }
}

/// Refuses zero. With zero, the server would disconnect every client with unsent replies at the
/// next check.
fn parse_unsent_time(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err(format!("`{text}` must be greater than zero")),
        time => Ok(time),
    }
}

pub(super) fn parse_file(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "off" => Ok(None),
        "" => Err("the file has no name; write its path, or `off`".to_owned()),
        path => Ok(Some(PathBuf::from(path))),
    }
}

fn parse_connections(text: &str) -> Result<Option<usize>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(format!("`{text}` is neither `auto` nor a number from 1 on")),
    }
}

fn show_count(count: Option<usize>) -> String {
    count.map_or_else(|| quote("off"), |count| count.to_string())
}

/// Reads a number, or `off` for no limit.
fn parse_count(text: &str) -> Result<Option<usize>, String> {
    if text == "off" {
        return Ok(None);
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(format!("`{text}` is neither `off` nor a number from 1 on")),
    }
}

fn parse_job_bytes(text: &str) -> Result<u32, String> {
    match size::parse(text)? {
        bytes if bytes <= JOB_BYTES_LIMIT => Ok(bytes as u32),
        _ => Err(format!(
            "`{text}` is more than {}, the limit for one job",
            size::format(JOB_BYTES_LIMIT)
        )),
    }
}

fn parse_packet_bytes(text: &str) -> Result<u32, String> {
    match size::parse(text)? {
        bytes if (PACKET_BYTES_MIN..=JOB_BYTES_LIMIT).contains(&bytes) => Ok(bytes as u32),
        _ => Err(format!("`{text}` is not a size from 8KiB to 1GiB")),
    }
}

fn parse_hosts(names: &[&str]) -> Result<Vec<String>, String> {
    if names == ["auto"] {
        return Ok(Vec::new());
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match names.iter().find(|name| name.is_empty() || !name.bytes().all(is_part)) {
        Some(name) => Err(format!("`{name}` is not the name of a host, without a port")),
        None if names.is_empty() => Err("the list is empty; write `auto`".to_owned()),
        None => Ok(names.iter().map(|name| (*name).to_owned()).collect()),
    }
}

fn parse_tokens(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "" => Err("the file has no name; write `auto` for the file in the data folder".to_owned()),
        "auto" => Ok(None),
        path => Ok(Some(PathBuf::from(path))),
    }
}

fn parse_pointer(text: &str) -> Result<Option<JsonPointer>, String> {
    if text == "off" {
        return Ok(None);
    }
    let wrong = || format!("`{text}` is not `off` or a JSON pointer such as `/traceparent`");
    JsonPointer::parse(text).map(Some).map_err(|_| wrong())
}

/// A collector. If the URL has no path, this adds the usual one.
fn parse_endpoint(text: &str) -> Result<Option<Uri>, String> {
    if text == "off" {
        return Ok(None);
    }
    if text.contains('@') {
        // Do not show the text, because it can have a password.
        return Err(
            "the URL has an `@`; the server sends no user name and no password to a collector"
                .to_owned(),
        );
    }
    let read = || {
        let uri = text.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("http"))?;
        let (host, authority) = (uri.host()?, uri.authority()?.as_str());
        // Nothing or a port is behind the host.
        let port = authority.strip_prefix(host)?;
        let is_port = |digits: &str| digits.parse::<u16>().is_ok_and(|port| port > 0);
        let has_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        if host.is_empty() || !has_port {
            return None;
        }
        let has_path = uri.path_and_query().is_some_and(|path| path.as_str() != "/");
        let usual = format!("http://{authority}/v1/traces");
        if has_path { Some(uri) } else { usual.parse().ok() }
    };
    read().map(Some).ok_or_else(|| {
        format!(
            "`{text}` is not `off` or a URL such as `http://127.0.0.1:4318/v1/traces`; TLS is not supported"
        )
    })
}

fn parse_body_bytes(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if (1..=JOB_BYTES_LIMIT).contains(&bytes) => Ok(bytes),
        _ => Err(format!("`{text}` is not a size from 1B to 1GiB")),
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text)
        .ok_or_else(|| format!("`{text}` is not `none`, `viewer`, `operator` or `admin`"))
}

fn parse_shown_to(text: &str) -> Result<Option<Role>, String> {
    match (text, Role::parse(text)) {
        ("off", _) => Ok(None),
        (_, Some(role)) if role > Role::None => Ok(Some(role)),
        _ => Err(format!("`{text}` is not `viewer`, `operator`, `admin` or `off`")),
    }
}

fn parse_masks(pointers: &[&str]) -> Result<Vec<JsonPointer>, String> {
    match pointers {
        ["off"] => Ok(Vec::new()),
        [] => Err("the list is empty; write `off`".to_owned()),
        pointers => pointers.iter().map(|pointer| JsonPointer::parse(pointer)).collect(),
    }
}

fn parse_metrics_access(text: &str) -> Result<MetricsAccess, String> {
    match text {
        "open" => Ok(MetricsAccess::Open),
        "viewer" => Ok(MetricsAccess::Viewer),
        "off" => Ok(MetricsAccess::Off),
        _ => Err(format!("`{text}` is not `open`, `viewer` or `off`")),
    }
}

/// Shows one text, or a list. `none` stands for no text.
pub(super) fn show_list(texts: &[&str], none: &str) -> String {
    match texts {
        [] => quote(none),
        [one] => quote(one),
        many => {
            let list: Vec<String> = many.iter().map(|one| quote(one)).collect();
            format!("[{}]", list.join(", "))
        }
    }
}

fn parse_queues_max(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= METRICS_QUEUES_LIMIT);
    count.ok_or_else(|| format!("`{text}` is not a number from 0 to {METRICS_QUEUES_LIMIT}"))
}

pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
}

fn parse_job_retries(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number from 0 (no limit) to 255"))
}

fn parse_worker_wakeup(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number from 0 (all) on"))
}

fn parse_handle_prefix(text: &str) -> Result<Option<String>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let is_fit = (1..=HANDLE_PREFIX_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_fit.then(|| Some(text.to_owned())).ok_or_else(|| {
        format!(
            "`{text}` is neither `auto` nor 1 to {HANDLE_PREFIX_BYTES_MAX} characters without spaces"
        )
    })
}

fn parse_item_bytes(text: &str) -> Result<u32, String> {
    match size::parse(text)? {
        bytes if (ITEM_BYTES_MIN..=JOB_BYTES_LIMIT).contains(&bytes) => Ok(bytes as u32),
        _ => Err(format!("`{text}` is not a size from 1KiB to 1GiB")),
    }
}

/// Refuses a version that begins with 0, because the client library libmemcached refuses such a
/// server.
fn parse_kestrel_version(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|first: char| first.is_ascii_digit() && first != '0');
    let is_fit = begins && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_fit.then(|| text.to_owned()).ok_or_else(|| {
        format!("`{text}` is not one word that begins with a number from 1 on, such as `2.4.1`")
    })
}

fn parse_limit(text: &str) -> Result<Option<u32>, String> {
    let refused = |_| format!("`{text}` is neither `none` nor a number from 0 on");
    (text != "none").then(|| text.parse().map_err(refused)).transpose()
}

fn parse_time_max(text: &str) -> Result<Option<Duration>, String> {
    match (text != "none").then(|| duration::parse(text)).transpose()? {
        Some(Duration::ZERO) => {
            Err(format!("`{text}` must be greater than zero; write `none` for no limit"))
        }
        time => Ok(time),
    }
}

fn show_limit(limit: Option<u32>) -> String {
    limit.map_or_else(|| quote("none"), |limit| limit.to_string())
}

fn parse_message_format(text: &str) -> Result<MessageFormat, String> {
    match text {
        "human" => Ok(MessageFormat::Human),
        "json" => Ok(MessageFormat::Json),
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

pub(crate) fn quote(text: &str) -> String {
    // A TOML string allows the same escapes as JSON. But TOML also requires an escape for this
    // character.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

pub(super) fn show_file(path: Option<&Path>) -> String {
    quote(&path.map_or_else(|| "off".to_owned(), |path| path.display().to_string()))
}

/// The key with the addresses of the protocol with this number.
const fn addresses<const PROTOCOL: usize>(key: &'static str) -> Setting {
    Setting {
        key,
        many: true,
        live: false,
        set: |config, value| {
            let read = parse_listeners(value).map_err(|error| error.to_string())?;
            config.listen.set(Protocol::ALL[PROTOCOL], read);
            Ok(())
        },
        show: |config| show_addresses(config.listen.of(Protocol::ALL[PROTOCOL])),
    }
}

fn show_addresses(addresses: &[ListenAddress]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    show_list(&texts.iter().map(String::as_str).collect::<Vec<_>>(), "off")
}
