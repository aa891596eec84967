//! Builds the two HTTP sites: health, metrics and the API; and Kestrel's admin commands. Passes facts
//! about this process to the sites.

use std::sync::Arc;
use std::time::Duration;

use api::{Api, Setup};
use http_api::{
    Door, Overview, ProcessFacts, RequestTimes, Site, StartState, Starting, health_router,
    metrics_router,
};
use kestrel_admin::{AdminSetup, KestrelAdmin, Permissions, Served, ServerInfo, Work};
use log::RecoveryReport;
use origin::{Names, Reach};
use tokio::sync::oneshot;

use crate::cluster::status::Status;
use crate::cluster::view;
use crate::config::listener::Listener;
use crate::config::policies::show_value;
use crate::config::protocol::Protocol;
use crate::config::{Config, MetricsAccess};
use crate::net::limits::LiveLimits;
use crate::process::controls::Controls;
use crate::process::reload::{ReloadRequester, Reloader};
use crate::process::startup::Startup;
use crate::process::traces::Exporter;
use crate::process::{backup, facts};
use crate::threads::io_thread::Shared;
use crate::threads::mailbox::Inbox;
use crate::web::clients::AllConnections;

/// The site for health and metrics while the server starts, and while it follows another node.
pub(crate) fn starting(
    config: &Config,
    startup: Arc<Startup>,
    status: Arc<Status>,
) -> Arc<Starting> {
    let facts = status.clone();
    let state = move || {
        let of_start = || StartState { text: startup.state(), is_ready: false };
        status.state().unwrap_or_else(of_start)
    };
    let starting = Starting::new(state).with_cluster(move || facts.facts());
    Arc::new(match config.http.metrics {
        MetricsAccess::Open => starting,
        MetricsAccess::Viewer => {
            let viewers = api::Viewers::new(access(config));
            starting.with_metrics_for(Box::new(move |request| viewers.refusal(request)))
        }
        MetricsAccess::Off => starting.without_metrics(),
    })
}

fn access(config: &Config) -> api::AccessSettings {
    api::AccessSettings { tokens: config.tokens_file(), anonymous: config.http.anonymous }
}

/// Facts about this start.
pub(crate) struct StartFacts<'a> {
    pub(crate) listeners: &'a [Arc<Listener>],
    pub(crate) recovery: Option<api::types::Recovery>,
}

/// The work of reading the log, for the API.
pub(crate) fn shown_recovery(report: &RecoveryReport, took: Duration) -> api::types::Recovery {
    api::types::Recovery {
        took_ms: took.as_millis() as u64,
        segments: report.segments,
        indexed_segments: report.indexed,
        bytes: report.bytes,
        jobs: report.jobs,
        cut_bytes: report.cut_bytes,
    }
}

/// Health, metrics and the API of this server.
pub(crate) fn overview(
    config: &Config,
    shared: &Shared,
    inboxes: &[Arc<Inbox>],
    start: StartFacts<'_>,
    reloader: &Arc<Reloader>,
    traces: Option<&Exporter>,
    status: Arc<Status>,
) -> (Site, Api) {
    let Shared { broker, clock, limits, .. } = shared.clone();
    let StartFacts { listeners, recovery } = start;
    let (inbox, request_limits) = (inboxes[0].clone(), limits.clone());
    let started = clock.now();
    let clock: broker::Clock = Arc::new(move || clock.now());
    let spans = traces.map(|exporter| exporter.counts.clone());
    let facts_of = status.clone();
    let process = move || ProcessFacts {
        spans: spans.as_ref().map_or_else(Vec::new, |counts| counts.read()),
        recovery_ms: recovery.map(|recovery| recovery.took_ms),
        cluster: facts_of.facts(),
        ..facts::process_facts(&limits, inbox.is_stopping())
    };
    let door = Door::open(broker.clone(), clock);
    let api = Api::new(Setup {
        door: door.clone(),
        info: api::ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: facts::host_name(),
            started,
            listeners: listeners.iter().map(|one| shown(one)).collect(),
            recovery,
        },
        process: Box::new(process.clone()),
        access: access(config),
        bodies: config.http.bodies.clone(),
        has_console: config.http.console,
        body_bytes_max: config.http.body_bytes as usize,
        backup: backup::begin(broker, config.data.folder().map(Into::into)),
        reload: reload_of(reloader.clone()),
        show_setting: show_value,
        connections: Box::new(AllConnections(inboxes.to_vec())),
        cluster: cluster_of(config, status.clone()),
        history: api::HistoryFiles {
            numbers: config.data.folder().map(|folder| folder.join("history")),
            jobs: config
                .data
                .folder()
                .map(|folder| (folder.join("job-history"), config.data.history_bytes_max)),
        },
    });
    let (top, times) = (api.top_queues(config.metrics.queues_max), api.clone());
    let measured: Vec<Protocol> = listeners.iter().map(|one| one.protocol).collect();
    let overview = Overview {
        door,
        version: env!("CARGO_PKG_VERSION"),
        started,
        has_console: config.http.console,
        has_metrics: config.http.metrics != MetricsAccess::Off,
        queues_max: config.metrics.queues_max,
        choose_queues: Box::new(move || Box::pin(top.clone().names())),
        requests: Box::new(move || request_times(&request_limits, &measured)),
        queue_times: Box::new(move || times.queue_times()),
        process: Box::new(process),
    };
    let overview = Arc::new(overview);
    let metrics = metrics_router(overview.clone());
    let mut router = health_router(overview).nest(api::PREFIX, api::router(api.clone()));
    router = match config.http.metrics {
        MetricsAccess::Open => router.merge(metrics),
        MetricsAccess::Viewer => router.merge(api::only_viewers(&api, metrics)),
        MetricsAccess::Off => router,
    };
    if config.http.console {
        router = router.merge(console::router(api.clone()));
    }
    let ticking = api.clone();
    let site = Site::new(router).with_tick(move || ticking.tick());
    (site, api)
}

/// The cluster for the API. `None`: the server is alone.
fn cluster_of(
    config: &Config,
    status: Arc<Status>,
) -> Option<Box<dyn Fn() -> api::types::Cluster + Send + Sync>> {
    let settings = config.cluster.clone();
    let stream = nats::stream_name(settings.name.as_deref()?);
    Some(Box::new(move || view::shown(&settings, &stream, &status)))
}

/// Reads the configuration again for a client of the API.
fn reload_of(reloader: Arc<Reloader>) -> api::Reload {
    Box::new(move || {
        let (done, reloaded) = oneshot::channel();
        reloader.request(ReloadRequester::Admin(done));
        Box::pin(async move {
            match tokio::time::timeout(RELOAD_TIME, reloaded).await {
                Ok(Ok(report)) => report,
                Ok(Err(_)) => Err("the server stops".to_owned()),
                Err(_) => Err("reading the files takes long; the reload continues".to_owned()),
            }
        })
    })
}

fn shown(one: &Listener) -> api::types::Listener {
    api::types::Listener {
        protocol: one.protocol.name().to_owned(),
        address: one.address.address.to_string(),
        tls: one.address.is_tls,
    }
}

/// The times of requests of the protocols that have a listener and are served by I/O threads.
fn request_times(limits: &LiveLimits, listening: &[Protocol]) -> Vec<RequestTimes> {
    let is_measured = |protocol: &Protocol| {
        !matches!(protocol, Protocol::Http | Protocol::KestrelAdmin) && listening.contains(protocol)
    };
    let measured = Protocol::ALL.into_iter().filter(is_measured);
    measured.map(|protocol| (protocol.name(), limits.request_times.of(protocol))).collect()
}

/// The names of the server over HTTP.
pub(crate) fn names(config: &Config) -> Names {
    let listening = Protocol::ALL.into_iter().flat_map(|protocol| config.listen.of(protocol));
    let configured = listening.filter_map(|address| address.address.host().map(str::to_owned));
    Names::new(configured.chain([facts::host_name()]), config.http.hosts.clone())
}

/// How long a response waits for a reload. Reading a file takes almost no time, but the
/// configuration can be a pipe, which may never end.
const RELOAD_TIME: Duration = Duration::from_secs(5);

/// The actions with which Kestrel's admin commands control the process.
struct AdminControls(Controls);

impl kestrel_admin::Controls for AdminControls {
    fn reload(&self) -> Work {
        let (done, reloaded) = oneshot::channel();
        self.0.reloader.request(ReloadRequester::Admin(done));
        Box::pin(async move {
            // After this time, the server responds, and the reload continues in the background. The
            // response does not wait until new policies are durable.
            let _ = tokio::time::timeout(RELOAD_TIME, reloaded).await;
        })
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
) -> Site {
    let Shared { broker, clock, limits, .. } = shared.clone();
    let info = ServerInfo {
        version: config.kestrel.version.clone(),
        build: concat!("lineshaft-", env!("CARGO_PKG_VERSION")).to_owned(),
        host: facts::host_name(),
        started: clock.now(),
    };
    let control = config.kestrel.control;
    let permissions = Permissions {
        by_get: config.kestrel.admin_get,
        stop_locally: control.is_allowed(Reach::Loopback),
        stop_from_elsewhere: control.is_allowed(Reach::Network),
    };
    let kestrel = kestrel.clone();
    let admin = KestrelAdmin::new(AdminSetup {
        broker,
        clock: Arc::new(move || clock.now()),
        info,
        permissions,
        served: Box::new(move || served(&kestrel)),
        process: Box::new(move || facts::process_facts(&limits, false)),
        controls: Box::new(AdminControls(controls)),
    });
    Arc::new(admin).site()
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
    // In Kestrel, this counts items that it took for a waiting client whose wait was already over.
    // This server never takes an item for such a client. So the number is always 0.
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
