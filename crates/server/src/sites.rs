//! What is served over HTTP: health and metrics, and Kestrel's admin commands, with all that they have to know of this
//! process.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use http_api::kestrel::{About, KestrelAdmin, Served};
use http_api::{Overview, Site};

use crate::config::Config;
use crate::controls::Controls;
use crate::io_thread::Shared;
use crate::mailbox::Port;
use crate::process;
use crate::reload::Asker;

/// Health and metrics of this server.
pub(crate) fn overview(config: &Config, shared: &Shared, port: &Arc<Port>) -> Arc<dyn Site> {
    let Shared { broker, clock, limits } = shared.clone();
    let port = port.clone();
    Arc::new(Overview {
        broker,
        clock: Arc::new(move || clock.now()),
        version: env!("CARGO_PKG_VERSION"),
        started: clock.now(),
        queues_max: config.metrics.queues_max,
        process: Box::new(move || process::facts(&limits, port.is_stopping())),
    })
}

/// How long an answer waits for files that are read, and all HTTP connections with it: a short file takes
/// no time, and one that never ends must not keep health from being asked.
const RELOAD_TIME: Duration = Duration::from_secs(1);

/// What Kestrel's admin commands change.
struct AdminControls(Controls);

impl http_api::kestrel::Controls for AdminControls {
    fn reload(&self) {
        let (done, told) = sync_channel(1);
        self.0.reloader.ask(Asker::Thread(done));
        // After that time it is done later. Nobody is told when the new policies are durable.
        let _ = told.recv_timeout(RELOAD_TIME);
    }

    fn shut_down(&self) {
        kestrel::Controls::shut_down(&self.0);
    }
}

/// Kestrel's admin commands.
pub(crate) fn kestrel_admin(
    config: &Config,
    shared: &Shared,
    kestrel: &Arc<kestrel::Server>,
    controls: Controls,
) -> Arc<dyn Site> {
    let Shared { broker, clock, limits } = shared.clone();
    let about = About {
        version: config.kestrel.version.clone(),
        build: concat!("lineshaft-", env!("CARGO_PKG_VERSION")).to_owned(),
        host: process::host_name(),
        started: clock.now(),
    };
    let kestrel = kestrel.clone();
    Arc::new(KestrelAdmin::new(
        broker,
        Arc::new(move || clock.now()),
        about,
        Box::new(move || served(&kestrel)),
        Box::new(move || process::facts(&limits, false)),
        Box::new(AdminControls(controls)),
    ))
}

fn served(kestrel: &kestrel::Server) -> Served {
    let counters = kestrel.counters();
    let named = [
        ("total_connections", &counters.connections_total),
        ("cmd_get", &counters.cmd_get),
        ("cmd_set", &counters.cmd_set),
        ("cmd_peek", &counters.cmd_peek),
        ("cmd_monitor", &counters.cmd_monitor),
        ("cmd_monitor_get", &counters.cmd_monitor_get),
        ("cmd_get_open_dropped", &counters.cmd_get_open_dropped),
        ("waiters_aborted", &counters.waiters_aborted),
        ("get_hits", &counters.get_hits),
        ("get_misses", &counters.get_misses),
        ("bytes_read", &counters.bytes_read),
        ("bytes_written", &counters.bytes_written),
    ];
    let mut shown: Vec<(&str, u64)> =
        named.iter().map(|(name, count)| (*name, count.get())).collect();
    // An item that comes too late for a client that waits is not taken for it.
    shown.push(("cmd_get_timeout_dropped", 0));
    let latencies = kestrel.latencies();
    let metrics = [
        ("set_latency_usec", latencies.set_us),
        ("get_hit_latency_usec", latencies.hit_us),
        ("get_miss_latency_usec", latencies.miss_us),
        ("get_timeout_msec", latencies.timeout_ms),
    ];
    Served {
        connections: counters.connections.get(),
        counters: shown,
        metrics: metrics.map(|(name, all)| (name, Arc::new(all))).into(),
    }
}
