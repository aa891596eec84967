//! Handles signals: a clean stop, an immediate end, a drain, a reload. Also notifies the watchdog.

use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use broker::{Broker, DiskRoom};
use log::ReclaimError;
use notation::size;

use crate::cluster::status::Status;
use crate::process::clock::ClockWatch;
use crate::process::reload::{ReloadRequester, Reloader};
use crate::process::systemd;
use crate::threads::io_thread::Shared;
use crate::threads::mailbox::Inbox;

/// What SIGHUP does.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Hangup {
    /// Reloads the configuration.
    Reload,
    /// Stops the server, like SIGTERM.
    Stop,
    /// Reopens the server's own message file, because an operator may have moved the file. Also
    /// reads the certificates again. This is for a server without a configuration file.
    ReopenMessages,
}

/// What SIGUSR1 does.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Drain {
    /// The server refuses new jobs. Everything else continues.
    RefuseJobs,
    /// The server refuses new connections. It stops when no worker holds a job, and all ready and
    /// delayed jobs are in the log. Without a log, it stops when no ready, delayed or leased job is
    /// left.
    StopWhenDone,
}

/// Time between checks of the log's room, the log's errors, and the clocks.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

/// Time between two checks whether all jobs are done: see [`Drain::StopWhenDone`].
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Delay of a stop that a client requested. During this time, the server sends its last replies to
/// the client.
const CLIENTS_STOP_DELAY: Duration = Duration::from_millis(100);

/// Watches for signals while the server runs.
pub(crate) struct Control {
    pub(crate) shared: Shared,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) hangup: Hangup,
    pub(crate) drain: Drain,
    /// Notified when a client requests a stop.
    pub(crate) clients_stop: Arc<Notify>,
    /// The node of a cluster. It stops if it hands the lead over.
    pub(crate) node: Arc<Status>,
    pub(crate) acceptors: Vec<AbortHandle>,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    /// Whether jobs survive a restart.
    pub(crate) has_log: bool,
}

/// Handlers of signals that must not end the server during recovery. If such a signal arrives
/// during recovery, the server handles it after recovery.
pub(crate) struct EarlySignals {
    /// `None` means that SIGHUP ends the server, even during recovery.
    hangup: Option<Signal>,
    drain: Signal,
    /// Whether the server was started in a terminal. The server checks this at its start, because
    /// the terminal no longer exists after a hang-up.
    has_terminal: bool,
}

/// All handled signals. The server creates this before it reports that it is ready.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    drain: Signal,
    has_terminal: bool,
}

/// Makes the second SIGTERM or SIGINT end the process at once. The signal handler itself ends the
/// process, because all threads may be stuck. It calls `exit`, because process 1 of a container
/// cannot kill itself with a signal. The exit status is the status that a shell reports for the
/// signal.
fn end_at_the_second() -> io::Result<()> {
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // The order matters. At the first signal, the first handler finds the flag unset, and does
        // nothing. Then the second handler sets the flag.
        flag::register_conditional_shutdown(signal, 128 + signal, is_second.clone())?;
        flag::register(signal, is_second.clone())?;
    }
    Ok(())
}

/// Whether all these threads have given a sign of life since the last call. Threads that are
/// stopping count as alive. Also requests the next sign of life.
fn all_live(inboxes: &[Arc<Inbox>]) -> bool {
    let all_live = inboxes.iter().all(|inbox| inbox.has_shown_life() || inbox.is_stopping());
    for inbox in inboxes {
        inbox.request_life_sign();
    }
    all_live
}

/// Whether standard error is a terminal, and the terminal still exists.
fn is_in_terminal() -> bool {
    io::stderr().is_terminal()
}

impl EarlySignals {
    pub(crate) fn new(hangup: Hangup) -> io::Result<EarlySignals> {
        let has_terminal = is_in_terminal();
        let hangup = match hangup {
            Hangup::Stop => None,
            Hangup::Reload | Hangup::ReopenMessages => Some(signal(SignalKind::hangup())?),
        };
        let drain = signal(SignalKind::user_defined1())?;
        Ok(EarlySignals { hangup, drain, has_terminal })
    }

    /// Adds the signals that stop the server. Before this, these signals end the process at once.
    pub(crate) fn complete(self) -> io::Result<Signals> {
        let EarlySignals { hangup, drain, has_terminal } = self;
        end_at_the_second()?;
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: hangup.map_or_else(|| signal(SignalKind::hangup()), Ok)?,
            drain,
            has_terminal,
        })
    }
}

/// What a signal means to the node of a cluster that follows.
pub(crate) enum FollowerSignal {
    Stop,
    Reload,
    /// A follower has no jobs of its own.
    Drain,
}

impl Signals {
    /// Waits for the next signal of a follower.
    pub(crate) async fn next_of_follower(&mut self, hangup: Hangup) -> FollowerSignal {
        tokio::select! {
            _ = self.terminate.recv() => FollowerSignal::Stop,
            _ = self.interrupt.recv() => FollowerSignal::Stop,
            _ = self.hangup.recv() => match hangup {
                Hangup::Stop => FollowerSignal::Stop,
                Hangup::Reload if self.has_terminal && !is_in_terminal() => FollowerSignal::Stop,
                Hangup::Reload | Hangup::ReopenMessages => FollowerSignal::Reload,
            },
            _ = self.drain.recv() => FollowerSignal::Drain,
        }
    }
}

impl Control {
    /// Handles signals until the future is dropped.
    pub(crate) async fn run(mut self, mut signals: Signals) {
        let period = systemd::watchdog_period();
        let mut beat = tokio::time::interval(period.unwrap_or(Duration::from_hours(24)));
        let mut look = tokio::time::interval(LOOK_PERIOD);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stops_when_done = false;
        let mut health = tokio::time::interval(HEALTH_PERIOD);
        let mut log_health = LogHealth::default();
        let mut clock_watch = ClockWatch::default();
        let mut clients_stop = pin!(clients_stop(self.clients_stop.clone()));
        let node = self.node.clone();
        let mut is_stopping = false;
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => self.stop("SIGTERM"),
                _ = signals.interrupt.recv() => self.stop("SIGINT"),
                _ = signals.hangup.recv() => self.hang_up(signals.has_terminal),
                _ = signals.drain.recv() => match self.drain {
                    Drain::RefuseJobs => self.refuse_jobs(),
                    Drain::StopWhenDone => {
                        tracing::info!("no more connections; stopping when all jobs are done");
                        self.close_listeners();
                        // The checks begin now. Skip the ticks that were missed since the server
                        // started.
                        look.reset();
                        stops_when_done = true;
                    }
                },
                () = &mut clients_stop, if !is_stopping => {
                    is_stopping = true;
                    self.stop("a client's SHUTDOWN");
                }
                // The node has said why. If its disk hangs, a message could wait for it.
                () = node.must_leave() => self.stop_serving(),
                _ = look.tick(), if stops_when_done => if self.is_done() {
                    stops_when_done = false;
                    self.stop("SIGUSR1");
                },
                _ = health.tick() => {
                    log_health.look(&self.shared.broker);
                    clock_watch.look(&self.shared.clock, &self.shared.broker, &self.inboxes);
                }
                _ = beat.tick(), if period.is_some() => self.notify_watchdog(),
            }
        }
    }

    fn stop(&mut self, signal: &str) {
        tracing::info!(signal, "stopping");
        self.stop_serving();
    }

    fn stop_serving(&self) {
        systemd::stopping();
        self.close_listeners();
        for inbox in &self.inboxes {
            inbox.stop();
        }
    }

    fn close_listeners(&self) {
        for acceptor in &self.acceptors {
            acceptor.abort();
        }
    }

    /// Whether the server can stop without losing or interrupting a job. No worker may hold a job,
    /// and all ready and delayed jobs must be in the log. The server does not wait until workers
    /// have taken the jobs of the log, because perhaps no worker is left. Buried jobs do not count.
    fn is_done(&self) -> bool {
        let totals = self.shared.broker.turn(self.shared.clock.now()).totals();
        let waiting = totals.ready + totals.delayed;
        totals.leased == 0 && (waiting == 0 || (self.has_log && totals.unlogged == 0))
    }

    fn refuse_jobs(&self) {
        if !self.shared.broker.draining() {
            tracing::info!("draining: no more jobs are accepted");
            self.shared.broker.drain();
        }
    }

    fn notify_watchdog(&self) {
        // This turn tests the broker's lock. If another thread holds the lock for ever, this call
        // blocks, and the watchdog gets no notification.
        drop(self.shared.broker.turn(self.shared.clock.now()));
        if all_live(&self.inboxes) {
            systemd::alive();
        }
    }

    fn hang_up(&mut self, had_terminal: bool) {
        match self.hangup {
            Hangup::Stop => self.stop("SIGHUP"),
            // The original meaning of SIGHUP is that the terminal no longer exists. This is the
            // case here, so the server stops.
            Hangup::Reload if had_terminal && !is_in_terminal() => self.stop("SIGHUP"),
            Hangup::Reload | Hangup::ReopenMessages => {
                self.reloader.request(ReloadRequester::Signal);
            }
        }
    }
}

/// Completes when the stop that a client requested can begin.
async fn clients_stop(wished: Arc<Notify>) {
    wished.notified().await;
    tokio::time::sleep(CLIENTS_STOP_DELAY).await;
}

/// The time between two messages that the disk has little room.
const DISK_WARNING_PERIOD: Duration = Duration::from_hours(1);

/// The health of the log, as last reported in messages.
#[derive(Debug, Default)]
struct LogHealth {
    is_full: bool,
    /// Puts are refused because of `disk.critical`.
    is_critical: bool,
    /// When a message last said that the disk has little room.
    disk_warned_at: Option<Instant>,
    reclaim_error: Option<Arc<ReclaimError>>,
    has_lost_body: bool,
    has_index_error: bool,
}

impl LogHealth {
    /// Reports changes of the log's health.
    fn look(&mut self, broker: &Broker) {
        self.look_at_disk(broker.disk_room());
        let is_full = broker.is_full();
        if is_full && !self.is_full && !self.is_critical {
            if broker.lacks_descriptors() {
                tracing::warn!(
                    "too many open files, so the log cannot begin its next file: puts are refused until some are closed"
                );
            } else {
                tracing::warn!(
                    "no room for the log: puts are refused until jobs are finished or space is freed"
                );
            }
        } else if self.is_full && !is_full {
            tracing::info!("the log has room again: puts are accepted");
        }
        self.is_full = is_full;
        if let Some(error) = broker.body_error().filter(|_| !self.has_lost_body) {
            self.has_lost_body = true;
            tracing::error!(
                %error,
                "a job's body cannot be read from the log. The job was buried; if a client had already taken it for good, it \
                 is lost. The metric lineshaft_body_errors_total counts such jobs. The disk may be failing"
            );
        }
        if let Some(error) = broker.index_error().filter(|_| !self.has_index_error) {
            self.has_index_error = true;
            tracing::error!(
                %error,
                "an index file cannot be written or read. If it cannot be written, its jobs stay in memory. If cold jobs \
                 cannot be read, the server tries again, and clients do not get them meanwhile. The metric \
                 lineshaft_unreadable_jobs counts such jobs. The disk may be failing"
            );
        }
        let is_known = |error: &Arc<_>| {
            self.reclaim_error.as_ref().is_some_and(|known| Arc::ptr_eq(known, error))
        };
        if let Some(error) = broker.reclaim_error().filter(|error| !is_known(error)) {
            self.reclaim_error = Some(error.clone());
            match *error {
                ReclaimError::Read { .. } | ReclaimError::Damaged { .. } => tracing::error!(
                    %error,
                    "the log's oldest file cannot be read. The server writes its jobs again, as far as it has or can \
                     read their bodies; a restart before that is done may lose them. The disk may be failing"
                ),
                ReclaimError::Left { .. } => tracing::error!(
                    %error,
                    "some jobs of the log's oldest file cannot be read. All its other jobs were written again. The server \
                     tries to read these jobs again every minute. The disk may be failing"
                ),
                ReclaimError::NoOwner { .. } => {
                    tracing::error!(%error, "cannot free the log's files; they will grow until the disk is full");
                }
            }
        }
    }

    /// Warns that the disk has little room: at once if puts are refused, and once an hour.
    fn look_at_disk(&mut self, room: Option<DiskRoom>) {
        let is_critical = room.is_some_and(|room| room.is_critical);
        let begins = is_critical && !self.is_critical;
        self.is_critical = is_critical;
        let is_due = self.disk_warned_at.is_none_or(|at| at.elapsed() >= DISK_WARNING_PERIOD);
        let Some(room) = room.filter(|room| room.is_low && (is_due || begins)) else { return };
        self.disk_warned_at = Some(Instant::now());
        let [free, size] = [room.free_bytes, room.size_bytes].map(size::rounded);
        if is_critical {
            tracing::warn!(
                "the disk of the data folder has {free} of {size} left: puts are refused until a tenth more than \
                 disk.critical is free"
            );
        } else {
            tracing::warn!(
                "the disk of the data folder has {free} of {size} left, which is less than disk.low: free some space"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_that_does_not_look_at_its_port_silences_the_watchdog() {
        let inboxes: [Arc<Inbox>; 3] = Default::default();
        assert!(all_live(&inboxes), "no thread has a request yet");
        for inbox in &inboxes[..2] {
            inbox.show_life_sign();
        }
        assert!(!all_live(&inboxes), "the third one has not answered");
        for inbox in &inboxes {
            inbox.show_life_sign();
        }
        assert!(all_live(&inboxes), "the third one is back");
    }
}
