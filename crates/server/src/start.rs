//! Starts a server, runs it, and ends it: the only place that knows all the parts.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use broker::{Broker, Millis, Options};
use log::RecoveryReport;
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::unconstrained;

use crate::accept::Acceptor;
use crate::address::Address;
use crate::clock::Clock;
use crate::config::{Config, Data, Durability};
use crate::error::ServeError;
use crate::io_thread::{Ended, IoThread, Shared};
use crate::limits::{LiveLimits, raise_descriptors};
use crate::listen::{Bound, bind};
use crate::listen_file::ListenFile;
use crate::logging::Logging;
use crate::mailbox::{Open, Port};
use crate::process;
use crate::signals::{Control, Hangup, Signals, is_in_terminal};
use crate::systemd;

/// All that a server needs.
#[derive(Debug)]
pub struct Setup {
    /// Its configuration. The listeners in it are bound already.
    pub config: Config,
    /// The sockets of the beanstalk dialect.
    pub beanstalk: Vec<Bound>,
    /// The installed output of the server's log, if its level can be changed.
    pub logging: Option<Logging>,
    /// What SIGHUP does.
    pub hangup: Hangup,
}

/// What a server has to say when it is ready.
#[derive(Debug)]
pub struct Started<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// Where the beanstalk dialect listens.
    pub beanstalk: &'a [Address],
    /// What was found in the log; `None` in memory.
    pub recovery: Option<&'a RecoveryReport>,
}

/// Binds the configured addresses.
pub fn bind_configured(config: &Config) -> Result<Vec<Bound>, ServeError> {
    let mut bound = Vec::new();
    for address in &config.listen.beanstalk {
        bound.extend(bind(address)?);
    }
    if bound.is_empty() { Err(ServeError::NothingToListenOn) } else { Ok(bound) }
}

/// Opens the log and serves until a signal ends it. `announce` is called when clients are served.
pub fn run(setup: Setup, announce: impl FnOnce(&Started<'_>)) -> Result<(), ServeError> {
    let Setup { config, beanstalk, logging, hangup } = setup;
    let descriptors = raise_descriptors();
    let (broker, clock, recovery) = open_broker(&config.data)?;
    let limits = Arc::new(LiveLimits::new(&config.limits, descriptors));
    let shared = Shared { broker: broker.clone(), clock, limits: limits.clone() };
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let signals = Signals::new().map_err(failed("watch for signals"))?;

    let ports: Vec<Arc<Port>> = (0..config.io_threads).map(|_| Arc::default()).collect();
    // The first mailbox is the one that the broker's timers are told to: it belongs to this thread.
    let first = IoThread::new(shared.clone(), ports[0].clone());
    let others = spawn_others(&shared, &ports[1..])?;

    let addresses: Vec<Address> = beanstalk.iter().map(|bound| bound.address.clone()).collect();
    let open = open_beanstalk(&config, clock.now());
    let mut acceptors = Vec::new();
    for bound in beanstalk {
        let acceptor = Acceptor::new(bound, open.clone(), limits.clone(), ports.clone())
            .map_err(failed("watch a listening socket"))?;
        acceptors.push(runtime.spawn(acceptor.run()).abort_handle());
    }
    let _listen_file = match config.data.sync {
        Durability::Memory => None,
        Durability::Always | Durability::Every(_) | Durability::Never => {
            Some(write_listen_file(&config.data.dir, &addresses)?)
        }
    };
    announce(&Started { config: &config, beanstalk: &addresses, recovery: recovery.as_ref() });
    systemd::ready();
    let control = Control {
        shared,
        config,
        hangup,
        logging,
        acceptors,
        ports: ports.clone(),
        has_terminal: is_in_terminal(),
    };
    runtime.spawn(control.run(signals));
    // Its rounds are bounded by themselves, and see all sockets at once.
    let ended = runtime.block_on(unconstrained(first.run()));
    end(ended, others, &ports, &broker, clock)
}

fn end(
    ended: Ended,
    others: Vec<JoinHandle<Ended>>,
    ports: &[Arc<Port>],
    broker: &Broker,
    clock: Clock,
) -> Result<(), ServeError> {
    for port in ports {
        port.stop();
    }
    for thread in others {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    match (ended, broker.failure()) {
        (Ended::Stopped, None) => {
            broker.close(clock.now()).map_err(ServeError::LogFailed)?;
            tracing::info!("stopped");
            Ok(())
        }
        (_, Some(failure)) => Err(ServeError::LogFailed(failure)),
        (Ended::LogFailed, None) => unreachable!("a failed log stays failed"),
    }
}

fn open_broker(data: &Data) -> Result<(Broker, Clock, Option<RecoveryReport>), ServeError> {
    let sync = match data.sync {
        Durability::Memory => {
            let clock = Clock::start(Millis(0));
            return Ok((Broker::memory(clock.now()), clock, None));
        }
        Durability::Always => log::Sync::Always,
        Durability::Every(duration) => log::Sync::Every(duration),
        Durability::Never => log::Sync::Never,
    };
    let disk = log::PosixDisk::new(&data.dir)
        .map_err(|source| ServeError::Folder { dir: data.dir.clone(), source })?;
    let settings =
        log::Settings { segment_bytes: data.segment_bytes, bytes_max: data.bytes_max, sync };
    // The log's threads need a clock before the log has said where it must start. It only stamps
    // what they write; the broker never goes back.
    let early = Clock::start(Millis(0));
    let options =
        Options { disk: Arc::new(disk), log: settings, clock: Some(Arc::new(move || early.now())) };
    let (broker, report) = Broker::open(options, early.now())?;
    let clock = Clock::start(broker.last_time());
    Ok((broker, clock, Some(report)))
}

pub(crate) fn open_beanstalk(config: &Config, started: Millis) -> Arc<Open> {
    let listener = Arc::new(beanstalk::Listener {
        server: beanstalk::Server::new(process::info(started, config.data.segment_bytes)),
        max_job_size: config.limits.beanstalk_job_bytes,
    });
    Arc::new(move |turn, mailbox| {
        let session = beanstalk::Session::new(listener.clone(), turn, mailbox);
        (session.id(), Box::new(session))
    })
}

fn runtime() -> Result<Runtime, ServeError> {
    Builder::new_current_thread().enable_all().build().map_err(failed("start a runtime"))
}

fn spawn_others(
    shared: &Shared,
    ports: &[Arc<Port>],
) -> Result<Vec<JoinHandle<Ended>>, ServeError> {
    let mut threads = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let runtime = runtime()?;
        let thread = IoThread::new(shared.clone(), port.clone());
        let named = std::thread::Builder::new().name(format!("io-{}", index + 1));
        let spawned = named.spawn(move || runtime.block_on(unconstrained(thread.run())));
        threads.push(spawned.map_err(failed("start a thread"))?);
    }
    Ok(threads)
}

fn write_listen_file(dir: &Path, addresses: &[Address]) -> Result<ListenFile, ServeError> {
    ListenFile::write(dir, addresses)
        .map_err(|source| ServeError::Folder { dir: dir.to_owned(), source })
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::System { doing, source }
}
