//! Starts, runs and stops a server. Only this module uses all other modules.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use broker::{Broker, EngineSetup, HEAD_JOBS, Options, Turn};
use http_api::{Site, Unread};
use log::RecoveryReport;
use notation::address::ListenAddress;
use origin::Names;
use replica::Lineage;
use rustix::thread::sched_getaffinity;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::cluster::ClusterFailure;
use crate::cluster::copy::send::Sending;
use crate::cluster::entrance::Entrance;
use crate::cluster::follower::follow;
use crate::cluster::join::{Joined, join};
use crate::cluster::keys::Keys;
use crate::cluster::node::NodeThread;
use crate::cluster::peers::Peers;
use crate::cluster::status::{Leaving, Status};
use crate::config::listener::Listener;
use crate::config::protocol::Protocol;
use crate::config::sources::Sources;
use crate::config::{Cluster, Config, Data, Durability};
use crate::error::{ServeError, TakenListener};
use crate::net::accept::Acceptor;
use crate::net::limits::{
    BLOCKING_THREADS_MAX, LiveLimits, descriptors_in_cluster, own_descriptors, raise_descriptors,
};
use crate::net::listen::{Bound, Endpoint, SocketOptions, bind};
use crate::net::listen_file::ListenFile;
use crate::net::sessions::opener;
use crate::net::tls::Certificates;
use crate::process::clock::{Clock, warn_of_wall_clock};
use crate::process::control_socket::ControlSocket;
use crate::process::controls::Controls;
use crate::process::facts::host_name;
use crate::process::messages::Messages;
use crate::process::reload::Reloader;
use crate::process::signals::{Control, Drain, EarlySignals, Hangup};
use crate::process::startup::Startup;
use crate::process::systemd;
use crate::process::traces::Exporter;
use crate::threads::io_thread::{Ended, IoThread, Shared};
use crate::threads::mailbox::Inbox;
use crate::web::sites::{StartFacts, kestrel_admin, names, overview, shown_recovery, starting};
use crate::web::thread::{WEB_THREAD, WebThread};

/// Everything that [`run`] needs.
#[derive(Debug)]
pub struct Setup {
    /// The configuration. The listeners in it are already bound.
    pub config: Config,
    /// The listening sockets.
    pub listeners: Vec<Bound>,
    /// The output of the server's own messages. `None` if a reload cannot change it.
    pub messages: Option<Messages>,
    /// Where a reload reads the configuration. `None` if the configuration cannot change.
    pub sources: Option<Sources>,
    /// What SIGHUP does.
    pub hangup: Hangup,
    /// What SIGUSR1 does.
    pub drain: Drain,
}

/// Facts about a server that is ready.
#[derive(Debug)]
pub struct Started<'a> {
    /// The configuration of the server.
    pub config: &'a Config,
    /// The listeners of the server, sorted by protocol.
    pub listeners: &'a [Arc<Listener>],
    /// The report of the log's recovery. `None` without a log.
    pub recovery: Option<&'a RecoveryReport>,
    /// Limit of the memory of jobs, queues and connections. `None` means no limit.
    pub memory_bytes: Option<u64>,
}

/// Binds the configured addresses of all protocols that have no inherited socket.
pub fn bind_configured(config: &Config, inherited: Vec<Bound>) -> Result<Vec<Bound>, ServeError> {
    let is_inherited =
        Protocol::ALL.map(|protocol| inherited.iter().any(|bound| bound.protocol == protocol));
    let options = SocketOptions { unix_mode: config.listen.unix_mode, ..SocketOptions::default() };
    let mut listeners = inherited;
    let mut taken = Vec::new();
    for (protocol, is_inherited) in Protocol::ALL.into_iter().zip(is_inherited) {
        if is_inherited {
            refuse_plain_instead_of_tls(protocol, config, &listeners)?;
        } else {
            for address in config.listen.of(protocol) {
                match bind(protocol, address, &options) {
                    Ok(bound) => listeners.extend(bound),
                    Err(error) => match name_listener(protocol, error) {
                        // Look for more addresses in use, so that one message names all.
                        ServeError::ListenersInUse(more) => taken.extend(more),
                        other => return Err(other),
                    },
                }
            }
        }
    }
    if !taken.is_empty() {
        return Err(ServeError::ListenersInUse(taken));
    }
    if listeners.is_empty() { Err(ServeError::NothingToListenOn) } else { Ok(listeners) }
}

/// Adds the listener's name to the error, because the configuration has many listeners.
fn name_listener(protocol: Protocol, error: ServeError) -> ServeError {
    match error {
        ServeError::AddressInUse(address) => {
            ServeError::ListenersInUse(vec![TakenListener { address, protocol: protocol.name() }])
        }
        other => other,
    }
}

/// Returns an error if the configuration requires TLS, but the inherited sockets speak plain text.
fn refuse_plain_instead_of_tls(
    protocol: Protocol,
    config: &Config,
    inherited: &[Bound],
) -> Result<(), ServeError> {
    let configured = config.listen.of(protocol);
    let mut sockets = inherited.iter().filter(|bound| bound.protocol == protocol);
    let is_mistaken = if configured.iter().all(|address| address.is_tls) {
        !configured.is_empty() && sockets.any(|bound| !bound.address.is_tls)
    } else {
        configured.iter().any(|address| address.is_tls)
            && !sockets.any(|bound| bound.address.is_tls)
    };
    if is_mistaken { Err(ServeError::InheritedWithoutTls(protocol.name())) } else { Ok(()) }
}

impl Started<'_> {
    /// The addresses of the server for one protocol.
    pub fn addresses(&self, protocol: Protocol) -> impl Iterator<Item = &ListenAddress> {
        let of_protocol = self.listeners.iter().filter(move |one| one.protocol == protocol);
        of_protocol.map(|one| &one.address)
    }
}

impl Started<'_> {
    /// Whether clients on other machines can stop the server.
    pub fn can_be_stopped_from_elsewhere(&self) -> bool {
        self.listeners.iter().any(|listener| listener.can_be_stopped_from_elsewhere())
    }
}

/// Opens the log and serves clients until a signal stops the server. Calls `announce` when the
/// server is ready.
pub fn run(setup: Setup, announce: impl FnOnce(&Started<'_>)) -> Result<(), ServeError> {
    let Setup { config, listeners: mut sockets, messages, sources, hangup, drain } = setup;
    let runtime = runtime()?;
    let _inside = runtime.enter();
    // Do this before anything slow, because an operator can send a signal at any time during the
    // start.
    let signals = EarlySignals::new(hangup).map_err(failed("watch for signals"))?;
    let certificates = load_certificates(&config, &sockets)?;
    let descriptors = raise_descriptors();
    let has_traces = config.traces.endpoint.is_some();
    let has_folder = config.data.folder().is_some();
    let own = own_descriptors(config.io_threads, sockets.len(), has_traces, has_folder);
    let descriptors = match config.cluster.name {
        Some(_) => descriptors_in_cluster(descriptors, own),
        None => descriptors,
    };
    let limits = Arc::new(LiveLimits::new(&config.limits, descriptors, own));
    // Each of the two sites gets half of the connections. One site is for health and metrics, the
    // other is for Kestrel's admin commands.
    let web_connections_max = (limits.web_connections() / 2).max(1);
    let names = Arc::new(names(&config));
    sockets.sort_by_key(|bound| bound.protocol);
    let endpoint = |bound| Endpoint::new(bound, &config, certificates.as_ref());
    let endpoints: Vec<Endpoint> = sockets.into_iter().map(endpoint).collect();
    let listeners: Vec<Arc<Listener>> =
        endpoints.iter().map(|endpoint| endpoint.listener.clone()).collect();
    // Serve health during the start. Listen on the other addresses only when the log is read.
    let startup = Startup::new(config.messages.format);
    let status = Arc::new(Status::default());
    let starting = starting(&config, startup.clone(), status.clone());
    let (mut health, mut endpoints): (Vec<Endpoint>, Vec<Endpoint>) =
        endpoints.into_iter().partition(|endpoint| endpoint.listener.protocol == Protocol::Http);
    listen(&mut health)?;
    let unread = Unread::without_broker();
    let has_health = !health.is_empty();
    let health = spawn_web(Some(starting.site()), health, &names, web_connections_max, &unread)?;
    let joined = join_cluster(&config.cluster, &runtime, &status)?;
    let lineage = joined.as_ref().map(|joined| joined.found.lineage);
    let began = Instant::now();
    let opened = open_broker(&config.data, &limits, startup.clone(), lineage);
    startup.end();
    let (broker, mut clock, recovery) = opened?;
    let recovered = recovery.as_ref().map(|report| shown_recovery(report, began.elapsed()));
    unread.set_broker(broker.clone());
    let reloader = Arc::new(Reloader::new(
        config.clone(),
        sources,
        limits.clone(),
        messages,
        certificates.clone(),
        status.clone(),
    ));
    let mut signals = Err(signals);
    let (mut node, mut files) = (None, None);
    if let Some(joined) = joined {
        // A follower may wait here for months. Its operator's tools work meanwhile.
        files = Some(serve_files(&config.data, &listeners, &broker, &runtime));
        let mut all =
            signals.or_else(EarlySignals::complete).map_err(failed("watch for signals"))?;
        let opened_ms = broker.clock_step_ms();
        let early = clock.moved(-opened_ms);
        let keys = Keys::load(&config.cluster)?;
        let with = (keys.clone(), config.data.dir.clone());
        let mut thread = NodeThread::spawn(
            &config.cluster,
            config.data.sync,
            joined,
            broker.clone(),
            early,
            status.clone(),
            with,
        )
        .map_err(failed("start a thread"))?;
        let peers = join_peers(&config, keys, &thread, (broker.clone(), early))?;
        starting.pass_on(peers.pass_http_on());
        listen(&mut endpoints)?;
        let passing =
            peers.pass_on(&endpoints, &limits, &names).map_err(failed("pass clients on"))?;
        let follows = follow(&mut thread, &broker, (&mut all, hangup), &reloader);
        if !runtime.block_on(follows)? {
            // The folder needs no clean end, because everything in it is in the stream, too.
            tracing::info!("stopped");
            return Ok(());
        }
        clock = early.moved(broker.clock_step_ms());
        drop(passing);
        (node, signals) = (Some((thread, peers)), Ok(all));
    }
    // A follower may have reloaded it since the start.
    let config = reloader.config();
    prepare_engine(&config, &mut broker.turn(clock.now()));
    limits.apply_to(&broker);
    let shared = Shared {
        broker: broker.clone(),
        clock,
        limits: limits.clone(),
        client_mix: Arc::default(),
    };

    let inboxes: Vec<Arc<Inbox>> = (0..config.io_threads).map(|_| Arc::default()).collect();
    // The first mailbox, that of the first thread, also gets the broker's alarms.
    let thread_of = |inbox: &Arc<Inbox>| IoThread::new(shared.clone(), inbox.clone());
    let threads: io::Result<Vec<IoThread>> = inboxes.iter().map(thread_of).collect();
    let threads = threads.map_err(failed("watch sockets"))?;

    let traces = Exporter::spawn(&config.traces, &broker, clock, host_name())
        .map_err(failed("export traces"))?;
    let facts = StartFacts { listeners: &listeners, recovery: recovered };
    let (site, api) =
        overview(&config, &shared, &inboxes, facts, &reloader, traces.as_ref(), status.clone());
    if has_health {
        api.begin_past_jobs();
        api.take_up_operations();
    }
    starting.become_site(site);
    let clients_stop = Arc::new(Notify::new());
    let controls = controls(&reloader, &clients_stop, &listeners);
    let kestrel = controls.clone().kestrel_server(&config, clock.now());
    let has_admin = is_served(Protocol::KestrelAdmin, &listeners);
    let admin_site = has_admin.then(|| kestrel_admin(&config, &shared, &kestrel, controls));
    let opens = Protocol::ALL.map(|protocol| opener(protocol, &config, clock.now(), &kestrel));
    let mut acceptors = Vec::new();
    let mut admin = Vec::new();
    listen(&mut endpoints)?;
    for endpoint in endpoints {
        let Some(open) = opens[endpoint.listener.protocol as usize].clone() else {
            admin.push(endpoint);
            continue;
        };
        let acceptor = Acceptor::new(endpoint, open, limits.clone(), inboxes.clone())
            .map_err(failed("watch a listening socket"))?;
        acceptors.push(runtime.spawn(acceptor.run()).abort_handle());
    }
    let unread = Unread::new(broker.clone());
    let web = [health, spawn_web(admin_site, admin, &names, web_connections_max, &unread)?];
    if let Some((_, peers)) = &node {
        let doors = web.each_ref().map(|web| web.as_ref().map(WebThread::door));
        peers.open(Entrance::new(&config, &opens, limits.clone(), inboxes.clone(), doors));
    }
    // Do this before `announce`, because a program that waits for the announcement may then send a
    // signal to stop the server.
    let signals = signals.or_else(EarlySignals::complete).map_err(failed("watch for signals"))?;
    let _files = files.unwrap_or_else(|| serve_files(&config.data, &listeners, &broker, &runtime));
    let _operator_socket = serve_operator_socket(&config.data, web[0].as_ref());
    let (threads, mut ends) = spawn_io_threads(threads)?;
    let memory_bytes = limits.memory_bytes();
    let recovery = recovery.as_ref();
    announce(&Started { config: &config, listeners: &listeners, recovery, memory_bytes });
    systemd::ready();
    runtime.spawn(reloader.clone().run(shared.clone()));
    let control = Control {
        shared,
        reloader,
        hangup,
        drain,
        clients_stop,
        node: status,
        acceptors,
        inboxes: inboxes.clone(),
        has_log: config.data.sync != Durability::Memory,
    };
    runtime.spawn(control.run(signals));
    // If a thread panicked, `join_threads` passes the panic on.
    let ended = runtime.block_on(ends.recv()).unwrap_or(Ended::Stopped);
    let leaving = node.as_ref().and_then(|(node, _)| node.status.leaving());
    // The sites must not use the broker after its end. Their ticks also write the histories, and must
    // not do so at the same time as this function.
    api.stop();
    drop(web);
    // The other threads still answer what they have read, so jobs can end until they have ended.
    join_threads(threads, &inboxes);
    // After a failure of the log, the disk may hang.
    let hangs = leaving == Some(Leaving::FolderHangs);
    if ended == Ended::Stopped && has_health && !hangs {
        api.save_history();
        api.collect_past_jobs();
    }
    // The API has a session for each lease of an HTTP client.
    drop((api, traces));
    drop(starting);
    end(ended, &broker, clock, node.as_ref().map(|(node, _)| node))
}

/// The actions with which clients control the process. The server measures latencies only if it
/// serves Kestrel's admin commands, because only these report latencies.
fn controls(reloader: &Arc<Reloader>, stop: &Arc<Notify>, listeners: &[Arc<Listener>]) -> Controls {
    let stopwatch = is_served(Protocol::KestrelAdmin, listeners).then(Instant::now);
    Controls { reloader: reloader.clone(), stop: stop.clone(), stopwatch }
}

fn is_served(protocol: Protocol, listeners: &[Arc<Listener>]) -> bool {
    listeners.iter().any(|one| one.protocol == protocol)
}

/// The certificates of TLS listeners, if any.
fn load_certificates(
    config: &Config,
    listeners: &[Bound],
) -> Result<Option<Arc<Certificates>>, ServeError> {
    if !listeners.iter().any(|bound| bound.address.is_tls) {
        return Ok(None);
    }
    Ok(Some(Arc::new(Certificates::load(&config.tls)?)))
}

fn listen(endpoints: &mut [Endpoint]) -> Result<(), ServeError> {
    endpoints.iter_mut().try_for_each(|Endpoint { bound, .. }| {
        bound.listen().map_err(|error| name_listener(bound.protocol, error))
    })
}

fn spawn_web(
    site: Option<Site>,
    endpoints: Vec<Endpoint>,
    names: &Arc<Names>,
    connections_max: usize,
    unread: &Unread,
) -> Result<Option<WebThread>, ServeError> {
    let Some(site) = site.filter(|_| !endpoints.is_empty()) else { return Ok(None) };
    let unread = unread.clone();
    let web = WebThread::spawn(web_runtime()?, site, endpoints, names, connections_max, unread);
    web.map(Some).map_err(failed("serve HTTP"))
}

/// Stops all I/O threads, and waits for their end.
fn join_threads(threads: Vec<JoinHandle<()>>, inboxes: &[Arc<Inbox>]) {
    for inbox in inboxes {
        inbox.stop();
    }
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

fn end(
    ended: Ended,
    broker: &Broker,
    clock: Clock,
    node: Option<&NodeThread>,
) -> Result<(), ServeError> {
    match (ended, broker.failure()) {
        (Ended::Stopped, None) => {
            let has_resigned = node.is_some_and(NodeThread::resign);
            broker.close(clock.now()).map_err(ServeError::LogFailed)?;
            if let Some(Leaving::For(name)) = node.and_then(|node| node.status.leaving()) {
                return Err(ClusterFailure::after_order(name, has_resigned).into());
            }
            tracing::info!("stopped");
            Ok(())
        }
        (_, Some(failure)) => Err(ServeError::LogFailed(failure)),
        (Ended::LogFailed, None) => unreachable!("a failed log stays failed"),
    }
}

fn open_broker(
    data: &Data,
    limits: &LiveLimits,
    startup: Arc<Startup>,
    cluster: Option<Lineage>,
) -> Result<(Broker, Clock, Option<RecoveryReport>), ServeError> {
    let sync = match data.sync {
        Durability::Memory => {
            let clock = Clock::start();
            return Ok((Broker::memory(engine_setup(), clock.now()), clock, None));
        }
        Durability::Always => log::Sync::Always,
        Durability::Every(duration) => log::Sync::Every(duration),
        Durability::Never => log::Sync::Never,
    };
    let disk = log::PosixDisk::new(&data.dir)
        .map_err(|source| ServeError::Folder { dir: data.dir.clone(), source })?;
    let settings = log::Settings {
        segment_bytes: data.segment_bytes,
        bytes_max: data.bytes_max,
        sync,
        // A quota of a container does not count: with a quota, threads can still run side by side.
        one_processor: sched_getaffinity(None).is_ok_and(|processors| processors.count() == 1),
        ..log::Settings::default()
    };
    // The log's threads need a clock before `Broker::open` returns. But the time at which the clock
    // must start is in the log. So the threads start with the clock `early`. After recovery, the
    // threads and this function move their clocks by the same step, so that all clocks agree. If
    // they did not agree, a sync could be too late.
    let early = Clock::start();
    let options = Options {
        disk: Arc::new(disk),
        log: settings,
        engine: engine_setup(),
        clock: Some(Arc::new(move || early.now())),
        on_progress: Some(Arc::new(move |progress| startup.note(progress))),
        bodies_bytes_max: limits.bodies_bytes(),
        jobs_bytes_max: limits.jobs_bytes(),
        head_jobs: HEAD_JOBS,
        cluster,
    };
    let (broker, report) = Broker::open(options, early.now())?;
    let clock = early.moved(broker.clock_step_ms());
    warn_of_wall_clock(broker.stopped_ms());
    Ok((broker, clock, Some(report)))
}

fn engine_setup() -> EngineSetup {
    // `RandomState` has random keys from the system.
    EngineSetup { hash_seed: RandomState::new().hash_one(0), ..EngineSetup::default() }
}

fn prepare_engine(config: &Config, turn: &mut Turn<'_>) {
    turn.set_wake_max(config.gearman.worker_wakeup);
    turn.set_attempts_max(config.gearman.job_retries.into());
    // Ignore the position, because no reply waits for the policies to be durable.
    let _ = turn.set_policies(config.policies.clone());
    let _ = turn.set_crons(config.crons.clone());
}

fn runtime() -> Result<Runtime, ServeError> {
    Builder::new_current_thread().enable_all().build().map_err(failed("start a runtime"))
}

/// A runtime of a web thread. Its threads have the name of web threads, so that a panic ends only
/// one request.
fn web_runtime() -> Result<Runtime, ServeError> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().thread_name(WEB_THREAD).max_blocking_threads(BLOCKING_THREADS_MAX);
    builder.on_thread_start(log::mark_as_patient);
    builder.build().map_err(failed("start a runtime"))
}

/// Starts the I/O threads. The receiver gets why each of them ended.
fn spawn_io_threads(
    threads: Vec<IoThread>,
) -> Result<(Vec<JoinHandle<()>>, UnboundedReceiver<Ended>), ServeError> {
    let (sender, ends) = unbounded_channel();
    let mut handles = Vec::new();
    for (index, thread) in threads.into_iter().enumerate() {
        let named = std::thread::Builder::new().name(format!("io-{index}"));
        let sender = sender.clone();
        let spawned = named.spawn(move || {
            // The server waits for the first end only.
            let _ = sender.send(thread.run());
        });
        handles.push(spawned.map_err(failed("start a thread"))?);
    }
    Ok((handles, ends))
}

/// Waits until the node knows the stream of its cluster. `None`: the server is alone.
fn join_cluster(
    settings: &Cluster,
    runtime: &Runtime,
    status: &Status,
) -> Result<Option<Joined>, ServeError> {
    let Some(name) = &settings.name else { return Ok(None) };
    Ok(Some(runtime.block_on(join(settings, name, status))?))
}

/// Starts the links to other nodes. Nobody listens at this node's address before: otherwise other
/// nodes would not notice that its last process is gone.
fn join_peers(
    config: &Config,
    keys: Keys,
    node: &NodeThread,
    broker: (Broker, Clock),
) -> Result<Peers, ServeError> {
    let settings = &config.cluster;
    // The protocol is of no importance for the socket.
    let mut bound = bind(Protocol::Http, &settings.listen, &SocketOptions::default())?.remove(0);
    bound.listen()?;
    let socket = bound.socket.into();
    let (status, events) = (node.status.clone(), node.events.clone());
    let sending = Sending::new(config.data.dir.clone(), settings.copy_bytes_per_s);
    let sending = sending.map_err(failed("open the data folder"))?;
    Peers::spawn(keys, socket, node.identity, broker, status, events, sending)
        .map_err(failed("connect the nodes"))
}

/// Writes `listen.json`, and serves the control socket.
fn serve_files(
    data: &Data,
    listeners: &[Arc<Listener>],
    broker: &Broker,
    runtime: &Runtime,
) -> (Option<ListenFile>, Option<ControlSocket>) {
    (write_listen_file(data, listeners), serve_control_socket(data, broker, runtime))
}

/// Writes `listen.json`. If this fails, for example on a full disk, the server starts without the
/// file. So workers can still finish jobs, which frees space.
fn write_listen_file(data: &Data, listeners: &[Arc<Listener>]) -> Option<ListenFile> {
    let dir = data.folder()?;
    ListenFile::write(dir, listeners)
        .inspect_err(|error| {
            tracing::warn!(%error, dir = %dir.display(), "cannot write listen.json; serving without it");
        })
        .ok()
}

/// Serves the control socket. Without it, the server works, but cannot be backed up.
fn serve_control_socket(data: &Data, broker: &Broker, runtime: &Runtime) -> Option<ControlSocket> {
    let dir = data.folder()?;
    let socket = ControlSocket::listen(dir).and_then(|socket| Ok((socket.listener()?, socket)));
    let (listener, socket) = socket
        .inspect_err(|error| {
            tracing::warn!(%error, dir = %dir.display(), "cannot listen on the control socket; serving without backups");
        })
        .ok()?;
    runtime.spawn(ControlSocket::serve(listener, broker.clone()));
    Some(socket)
}

/// Serves the API on the operator's socket. The site exists only if there is an HTTP listener.
fn serve_operator_socket(data: &Data, web: Option<&WebThread>) -> Option<ControlSocket> {
    let web = web.filter(|_| data.sync != Durability::Memory)?;
    let served = ControlSocket::listen_for_api(&data.dir).and_then(|socket| {
        web.add_operator_socket(socket.listener()?)?;
        Ok(socket)
    });
    served
        .inspect_err(|error| {
            let dir = data.dir.display();
            tracing::warn!(%error, %dir, "cannot listen on the operator's socket; serving without it");
        })
        .ok()
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::System { doing, source }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use notation::address::Address;

    use super::*;

    #[test]
    fn a_signal_of_the_end_as_soon_as_clients_are_served_stops_cleanly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::Unix(path.clone()).into();
        let listeners = bind(Protocol::Beanstalk, &address, &SocketOptions::default()).unwrap();
        let mut config = Config { io_threads: 1, ..Config::default() };
        config.data.sync = Durability::Memory;
        let setup = Setup {
            config,
            listeners,
            messages: None,
            sources: None,
            hangup: Hangup::Reload,
            drain: Drain::RefuseJobs,
        };
        run(setup, |_| {
            assert!(path.exists());
            kill_process(getpid(), Signal::TERM).unwrap();
        })
        .unwrap();
        assert!(!path.exists(), "the socket stays");
    }

    #[test]
    fn sockets_that_were_handed_over_speak_tls_where_all_addresses_do() {
        let plain = Address::Tcp { host: "127.0.0.1".to_owned(), port: 0 };
        let (plain, tls) = (ListenAddress::from(plain.clone()), plain.with_tls());
        let bound = |address: &ListenAddress| {
            bind(Protocol::Gearman, address, &SocketOptions::default()).unwrap().remove(0)
        };
        let is_right = |configured: &[&ListenAddress], inherited: &[&ListenAddress]| {
            let mut config = Config::default();
            let configured = configured.iter().copied().cloned().collect();
            config.listen.set(Protocol::Gearman, configured);
            let inherited: Vec<Bound> = inherited.iter().copied().map(bound).collect();
            refuse_plain_instead_of_tls(Protocol::Gearman, &config, &inherited).is_ok()
        };
        assert!(is_right(&[&tls], &[&tls]));
        assert!(!is_right(&[&tls], &[&plain]));
        assert!(!is_right(&[&tls], &[&tls, &plain]));
        assert!(is_right(&[&tls, &plain], &[&tls, &plain]));
        assert!(!is_right(&[&tls, &plain], &[&plain]));
        assert!(is_right(&[&plain], &[&plain]));
        assert!(is_right(&[], &[&plain]));
    }
}
