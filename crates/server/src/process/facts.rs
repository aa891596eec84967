//! Facts about the process and the machine, for statistics.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use beanstalk::{ProcessorTime, ServerInfo};
use broker::Millis;
use broker::policy::QueueSync;
use http_api::ProcessFacts;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::param::page_size;
use rustix::system::uname;

use crate::config::protocol::Protocol;
use crate::config::{Config, Durability};
use crate::net::limits::LiveLimits;

/// Facts for the beanstalkd dialect.
pub(crate) fn beanstalk_info(started: Millis, segment_bytes: u64) -> ServerInfo {
    let machine = uname();
    ServerInfo {
        pid: std::process::id(),
        version: concat!("lineshaft ", env!("CARGO_PKG_VERSION")).to_owned(),
        hostname: machine.nodename().to_string_lossy().into_owned(),
        os: machine.version().to_string_lossy().into_owned(),
        platform: machine.machine().to_string_lossy().into_owned(),
        // `RandomState` has random keys from the system.
        id: RandomState::new().hash_one(std::process::id()),
        segment_bytes,
        started,
        processor_time: recent_processor_time,
    }
}

/// Options of the Gearman dialect.
pub(crate) fn gearman_options(config: &Config) -> gearman::ServerOptions {
    let settings = &config.gearman;
    // All nodes of a cluster make equal handles, so that a handle outlives its leader.
    let host = config.cluster.name.clone().unwrap_or_else(host_name);
    let defaults = gearman::ServerOptions::for_host(&host);
    gearman::ServerOptions {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        verbosity: settings.verbosity(config.messages.level).to_owned(),
        handle_prefix: settings.handle_prefix.clone().unwrap_or(defaults.handle_prefix),
        round_robin: settings.round_robin,
        exceptions: settings.exceptions,
        packet_bytes_max: config.limits.gearman_packet_bytes,
    }
}

/// Options of Kestrel's dialects.
pub(crate) fn kestrel_options(config: &Config, started: Millis) -> kestrel::ServerOptions {
    let settings = &config.kestrel;
    kestrel::ServerOptions {
        version: settings.version.clone(),
        started,
        item_bytes_max: config.limits.kestrel_item_bytes,
        sync: match config.data.sync {
            Durability::Memory => QueueSync::Memory,
            Durability::Always => QueueSync::Always,
            Durability::Every(time) => QueueSync::Every(time.as_millis() as u64),
            Durability::Never => QueueSync::Never,
        },
        status_grace_ms: settings.status_change_grace.as_millis() as u64,
        refuse_writes_above: settings.refuse_writes_above,
        refuse_reads_above: settings.refuse_reads_above,
    }
}

/// The name of the machine.
pub(crate) fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// Facts for the metrics.
pub(crate) fn process_facts(limits: &LiveLimits, is_stopping: bool) -> ProcessFacts {
    let time = processor_time();
    ProcessFacts {
        connections: limits.open() as u64,
        connections_by_protocol: Protocol::ALL
            .into_iter()
            .map(|protocol| (protocol.name(), limits.open_of(protocol) as u64))
            .filter(|(_, open)| *open > 0)
            .collect(),
        connections_max: limits.connections() as u64,
        refused_per_address: limits.refused.per_address.load(Ordering::Relaxed),
        refused_wrong_protocol: limits.refused.wrong_protocol.load(Ordering::Relaxed),
        turns_ns: limits.turns_ns.load(Ordering::Relaxed),
        processor_us: time.user_us + time.system_us,
        resident_bytes: resident_bytes().unwrap_or(0),
        processors: std::thread::available_parallelism().map_or(1, usize::from) as u64,
        spans: Vec::new(),
        recovery_ms: None,
        cluster: None,
        is_stopping,
    }
}

/// The memory of the process. `None` if the system does not report it in `/proc`.
fn resident_bytes() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// The processor time at this moment or less than a millisecond ago. `stats` asks for it in a turn,
/// which holds the broker's lock, and the system call takes more than a microsecond.
fn recent_processor_time() -> ProcessorTime {
    const AGE_MAX: Duration = Duration::from_millis(1);
    static RECENT: Mutex<Option<(Instant, ProcessorTime)>> = Mutex::new(None);
    let now = Instant::now();
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    match *recent {
        Some((at, time)) if now.saturating_duration_since(at) < AGE_MAX => time,
        _ => recent.insert((now, processor_time())).1,
    }
}

fn processor_time() -> ProcessorTime {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return ProcessorTime::default() };
    let micros = |time: nix::sys::time::TimeVal| {
        (time.tv_sec() as u64).saturating_mul(1_000_000) + time.tv_usec() as u64
    };
    ProcessorTime { user_us: micros(usage.user_time()), system_us: micros(usage.system_time()) }
}
