//! Reloads the configuration while the server runs. A reload applies all changes or none.
//!
//! A separate thread reads the files, so that the broker and the I/O threads never wait for a file.
//! Reading can take any time, for example if the file is a pipe, or is on a network that is down.
//! Reloads run one after the other, so the configuration that was read last applies.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker::{Answer, Broker, SessionId};
use tokio::sync::{Notify, oneshot};

use crate::cluster::status::Status;
use crate::config::Config;
use crate::config::settings::{Setting, settings};
use crate::config::sources::{Effective, Sources};
use crate::net::limits::LiveLimits;
use crate::net::tls::Certificates;
use crate::process::message_limit::MessageLimit;
use crate::process::messages::Messages;
use crate::threads::io_thread::Shared;

/// Reloads the configuration when a signal or a client requests a reload.
#[derive(Debug)]
pub(crate) struct Reloader {
    /// `None` if a reload reads only certificates.
    sources: Option<Mutex<Sources>>,
    limits: Arc<LiveLimits>,
    messages: Option<Messages>,
    /// The certificates of TLS listeners, if any.
    certificates: Option<Arc<Certificates>>,
    /// The status of the node, which tells other nodes what they should have in common.
    node: Arc<Status>,
    /// The current configuration.
    config: Mutex<Config>,
    /// The requests since the last reload began.
    requests: Mutex<Requests>,
    asked: Notify,
    last_mistake: Mutex<LastMistake>,
}

/// Requests that one reload answers.
#[derive(Debug, Default)]
struct Requests {
    /// A signal has come.
    by_signal: bool,
    /// Kestrel clients that are still connected.
    sessions: BTreeSet<SessionId>,
    /// Clients that sent an admin command. Some of them may have disconnected.
    admins: Vec<oneshot::Sender<ReloadReport>>,
}

/// Who asked for a reload. Any client of Kestrel's protocol can ask, as often as it likes, so the
/// messages tell only news of a reload that nobody else asked for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum AskedBy {
    Operator,
    Clients,
}

/// The last mistake that a message reported, and when the next message can repeat it for clients.
#[derive(Debug, Default)]
struct LastMistake {
    message: String,
    limit: MessageLimit,
}

/// The source of a reload request. It is notified when the reload is done.
#[derive(Debug)]
pub(crate) enum ReloadRequester {
    /// A signal. No client waits for an answer.
    Signal,
    /// A Kestrel client.
    Session(SessionId),
    /// A client that sent an admin command, over HTTP. It may have disconnected meanwhile.
    Admin(oneshot::Sender<ReloadReport>),
}

/// What a reload did: the keys whose values changed, or the reason why nothing changed.
pub(crate) type ReloadReport = Result<Vec<String>, String>;

/// What policies and entries with schedules are called in a report.
const POLICIES: &str = "policy";
const CRONS: &str = "cron";
/// Time between the end of a reload and the next one. Requests that come meanwhile share that one.
const PAUSE: Duration = Duration::from_millis(100);

impl Requests {
    fn is_empty(&self) -> bool {
        !self.by_signal && self.sessions.is_empty() && self.admins.is_empty()
    }

    fn asked_by(&self) -> AskedBy {
        let has_operator = self.by_signal || !self.admins.is_empty();
        if has_operator { AskedBy::Operator } else { AskedBy::Clients }
    }
}

impl Reloader {
    pub(crate) fn new(
        config: Config,
        sources: Option<Sources>,
        limits: Arc<LiveLimits>,
        messages: Option<Messages>,
        certificates: Option<Arc<Certificates>>,
        node: Arc<Status>,
    ) -> Reloader {
        node.use_settings(config.common());
        Reloader {
            sources: sources.map(Mutex::new),
            limits,
            messages,
            certificates,
            node,
            config: Mutex::new(config),
            requests: Mutex::default(),
            asked: Notify::new(),
            last_mistake: Mutex::default(),
        }
    }

    /// Requests a reload that begins after this call. Does not wait for the reload, because the
    /// caller may hold the broker's lock.
    pub(crate) fn request(&self, requester: ReloadRequester) {
        let mut requests = lock(&self.requests);
        match requester {
            ReloadRequester::Signal => requests.by_signal = true,
            ReloadRequester::Session(session) => {
                requests.sessions.insert(session);
            }
            ReloadRequester::Admin(waiting) => {
                // While a reload reads a slow file, any number of clients can connect, request a
                // reload and disconnect. So drop the requests of disconnected clients.
                requests.admins.retain(|waiting| !waiting.is_closed());
                requests.admins.push(waiting);
            }
        }
        drop(requests);
        self.asked.notify_one();
    }

    /// Drops the request of a Kestrel client that has disconnected, if it made one.
    pub(crate) fn forget(&self, session: SessionId) {
        lock(&self.requests).sessions.remove(&session);
    }

    /// The current configuration.
    pub(crate) fn config(&self) -> Config {
        lock(&self.config).clone()
    }

    /// Handles requests of a node that follows, until the future is dropped. The limits apply now. The
    /// policies apply when the node leads: until then, it has those of the leader.
    pub(crate) async fn run_as_follower(self: Arc<Self>, broker: Broker) {
        loop {
            self.asked.notified().await;
            // Only signals ask a follower, and wait for no answer.
            *lock(&self.requests) = Requests::default();
            // The messages have its result.
            let _ = self.clone().take_over_aside(AskedBy::Operator).await;
            self.limits.apply_to(&broker);
        }
    }

    /// Handles requests until the future is dropped.
    pub(crate) async fn run(self: Arc<Self>, shared: Shared) {
        loop {
            self.asked.notified().await;
            let requests = mem::take(&mut *lock(&self.requests));
            if requests.is_empty() {
                // All who asked have disconnected.
                continue;
            }
            let report = self.clone().take_over_aside(requests.asked_by()).await;
            shared.limits.apply_to(&shared.broker);
            self.finish(requests, &report, &shared);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Applies the policies if they are not those of the broker, then notifies all requesters. So the
    /// new policies apply when a client gets its notification. The last reload of a follower can have
    /// read policies that nobody has applied.
    fn finish(&self, requests: Requests, report: &ReloadReport, shared: &Shared) {
        let (loaded, crons) = {
            let config = lock(&self.config);
            (config.policies.clone(), config.crons.clone())
        };
        let mut turn = shared.broker.turn(shared.clock.now());
        let policies = (report.is_ok() && loaded != *turn.policies()).then_some(loaded);
        let tables = policies.as_ref().map(|policies| policies.0.len());
        let mut reloaded = policies.map_or(Answer::at_once(()), |rules| turn.set_policies(rules));
        let crons = (report.is_ok() && crons != *turn.cron_table()).then_some(crons);
        let cron_tables = crons.as_ref().map(|crons| crons.0.len());
        if let Some(crons) = crons {
            // The answer waits for all facts so far.
            reloaded = turn.set_crons(crons);
        }
        for session in requests.sessions {
            turn.tell_reloaded(session, reloaded);
        }
        drop(turn);
        if let Some(tables) = tables {
            tracing::info!("policies reloaded: {tables} tables");
        }
        if let Some(tables) = cron_tables {
            tracing::info!("cron reloaded: {tables} tables");
        }
        for waiting in requests.admins {
            let _ = waiting.send(report.clone());
        }
    }

    /// Does [`Reloader::take_over`] on a new thread. Returns an error if the thread cannot start. If the
    /// future is dropped before the end, nobody applies the policies that the thread reads. Then the
    /// thread requests another reload. Tokio's threads for blocking work cannot be used, because the
    /// process could not end before they finish.
    async fn take_over_aside(self: Arc<Self>, asked_by: AskedBy) -> ReloadReport {
        let (said, result) = oneshot::channel();
        let reloader = self.clone();
        let read = move || {
            if let Err(Ok(_)) = said.send(reloader.take_over(asked_by)) {
                reloader.request(ReloadRequester::Signal);
            }
        };
        match std::thread::Builder::new().name("reload".to_owned()).spawn(read) {
            Ok(_) => result.await.unwrap_or_else(|_| Err("the reload ended early".to_owned())),
            Err(error) => {
                let mistake = format!("configuration not reloaded: cannot start a thread: {error}");
                self.complain(mistake, asked_by);
                Err(format!("cannot start a thread: {error}"))
            }
        }
    }

    /// Reads the configuration, and applies all changes except policies. If there is a mistake,
    /// reports the mistake and changes nothing. If this function applied only some changes, the
    /// server would run with a configuration that no operator wrote.
    fn take_over(&self, asked_by: AskedBy) -> ReloadReport {
        let loaded = match self.sources.as_ref().map(|sources| lock(sources).load_and_keep()) {
            None => {
                self.reopen(asked_by);
                return Ok(Vec::new());
            }
            Some(Ok(Effective { config, .. })) => config,
            Some(Err(mistakes)) => return Err(self.refuse(mistakes.to_string(), asked_by)),
        };
        let current = lock(&self.config).clone();
        let changed = |setting: &&Setting| (setting.show)(&loaded) != (setting.show)(&current);
        let changes: Vec<&Setting> = settings().filter(changed).collect();
        if let Err(reason) = self.check(&changes, &loaded) {
            return Err(self.refuse(reason, asked_by));
        }
        let mut changed: Vec<String> =
            changes.iter().map(|setting| setting.key.to_owned()).collect();
        for setting in changes {
            tracing::info!("{} is now {}", setting.key, (setting.show)(&loaded));
        }
        self.limits.set(&loaded.limits);
        if let Some(messages) = &self.messages {
            messages.set_level(loaded.messages.level);
        }
        if loaded.policies != current.policies {
            changed.push(POLICIES.to_owned());
        }
        if loaded.crons != current.crons {
            changed.push(CRONS.to_owned());
        }
        self.node.use_settings(loaded.common());
        *lock(&self.config) = loaded;
        // The same mistake is news again.
        *lock(&self.last_mistake) = LastMistake::default();
        if asked_by == AskedBy::Operator || !changed.is_empty() {
            tracing::info!("configuration reloaded");
        }
        Ok(changed)
    }

    /// Reports a mistake because of which nothing changes, and returns it.
    fn refuse(&self, mistake: String, asked_by: AskedBy) -> String {
        self.complain(format!("configuration not reloaded, nothing changed: {mistake}"), asked_by);
        mistake
    }

    /// Writes a message about a mistake. If clients repeat a reload, this repeats the message at
    /// most once a minute.
    fn complain(&self, message: String, asked_by: AskedBy) {
        let mut last = lock(&self.last_mistake);
        if asked_by == AskedBy::Operator || last.message != message {
            *last = LastMistake { message, limit: MessageLimit::default() };
        }
        match last.limit.count() {
            None => {}
            Some(1) => tracing::error!("{}", last.message),
            Some(count) => tracing::error!(count, "{}", last.message),
        }
    }

    /// Makes all checks that can fail: whether a change needs a restart, and whether the
    /// certificates are valid. Also applies the certificates.
    fn check(&self, changes: &[&Setting], loaded: &Config) -> Result<(), String> {
        let fixed: Vec<&str> =
            changes.iter().filter(|setting| !setting.live).map(|setting| setting.key).collect();
        if !fixed.is_empty() {
            return Err(format!("these keys need a restart: {}", fixed.join(", ")));
        }
        let reload = self.certificates.as_ref().map(|shown| shown.reload(&loaded.tls));
        reload.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    /// Reopens the server's own message file, because an operator may have moved the file. Also
    /// reads the certificates again.
    pub(crate) fn reopen_files(&self) {
        self.reopen(AskedBy::Operator);
    }

    fn reopen(&self, asked_by: AskedBy) {
        if let Some(messages) = &self.messages {
            messages.reopen();
        }
        let tls = lock(&self.config).tls.clone();
        let reload = self.certificates.as_ref().map(|shown| shown.reload(&tls));
        if let Some(Err(error)) = reload {
            self.complain(format!("the old certificates stay in use: {error}"), asked_by);
        }
    }
}

fn lock<T>(content: &Mutex<T>) -> MutexGuard<'_, T> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::path::Path;

    use broker::Broker;
    use tokio::runtime::Builder;

    use super::*;
    use crate::process::captured_messages::during;
    use crate::process::clock::Clock;

    /// A configuration with one rule. The rule limits the number of jobs.
    fn limit(jobs: u32) -> String {
        format!("[[policy]]\nmatch = \"q\"\nlimits.jobs = {jobs}\n")
    }

    /// A reloader whose configuration file is a pipe, and a broker.
    fn over_a_pipe(file: &Path) -> (Arc<Reloader>, Shared) {
        let made = std::process::Command::new("mkfifo").arg(file).status().unwrap();
        assert!(made.success());
        over(file)
    }

    /// A reloader with this configuration file, and a broker.
    fn over(file: &Path) -> (Arc<Reloader>, Shared) {
        let config = Config::default();
        let limits = Arc::new(LiveLimits::new(&config.limits, 1024, 128));
        let sources = Sources { file: Some(file.to_owned()), ..Sources::default() };
        let reloader =
            Reloader::new(config, Some(sources), limits.clone(), None, None, Arc::default());
        let clock = Clock::start();
        let broker = Broker::memory(broker::EngineSetup::default(), clock.now());
        (Arc::new(reloader), Shared { broker, clock, limits, client_mix: Arc::default() })
    }

    /// Writes the first configuration into the pipe, for a reload that has begun. The reloads after it
    /// read the second one.
    fn write_through(mut pipe: File, file: &Path, first: &str, second: &str) {
        pipe.write_all(first.as_bytes()).unwrap();
        std::fs::remove_file(file).unwrap();
        std::fs::write(file, second).unwrap();
    }

    /// Runs a future on another thread, until the function is called.
    fn run_until(future: impl Future<Output = ()> + Send + 'static) -> impl FnOnce() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = future => {}
                    _ = stopped => {}
                }
            });
        });
        move || {
            stop.send(()).unwrap();
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_slow_configuration_file_blocks_no_client_and_the_last_request_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lineshaft.toml");
        let (reloader, shared) = over_a_pipe(&file);
        let (broker, clock) = (shared.broker.clone(), shared.clock);
        let stop = run_until(reloader.clone().run(shared));

        let ask = || {
            let (done, reloaded) = oneshot::channel();
            reloader.request(ReloadRequester::Admin(done));
            reloaded
        };
        let rules = || broker.turn(clock.now()).policies().0.len();
        let mut first = ask();
        assert!(first.try_recv().is_err());
        assert_eq!(rules(), 0, "the broker is free while the file is read");
        // This call waits until the first reload opens the pipe to read it. So the next requests
        // come after the first reload has begun.
        let pipe = File::options().write(true).open(&file).unwrap();
        let (second, third) = (ask(), ask());
        write_through(pipe, &file, &limit(1), &(limit(1) + &limit(2)));
        first.blocking_recv().unwrap().unwrap();
        second.blocking_recv().unwrap().unwrap();
        assert_eq!(third.blocking_recv().unwrap().unwrap(), [POLICIES]);
        assert_eq!(rules(), 2);
        stop();
    }

    #[test]
    fn reloads_for_clients_are_in_the_messages_only_if_something_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lineshaft.toml");
        let (reloader, _) = over(&file);
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        let lines = |asked_by| {
            let lines = during("reloaded", || {
                let _ = reloader.take_over(asked_by);
            });
            lines.len()
        };
        write(&limit(1));
        assert_eq!([(); 3].map(|()| lines(AskedBy::Clients)), [1, 0, 0]);
        assert_eq!(lines(AskedBy::Operator), 1);
        write("no_key = 1");
        assert_eq!([(); 3].map(|()| lines(AskedBy::Clients)), [1, 0, 0]);
        assert_eq!([(); 2].map(|()| lines(AskedBy::Operator)), [1, 1]);
        assert_eq!(lines(AskedBy::Clients), 0);
        write("no_other_key = 1");
        assert_eq!([(); 2].map(|()| lines(AskedBy::Clients)), [1, 0]);
    }

    #[test]
    fn a_client_that_leaves_takes_its_request_along() {
        let folder = tempfile::tempdir().unwrap();
        let (reloader, _) = over(&folder.path().join("lineshaft.toml"));
        for session in [1, 2, 2, 3] {
            reloader.request(ReloadRequester::Session(SessionId(session)));
        }
        reloader.forget(SessionId(1));
        reloader.forget(SessionId(4));
        let sessions = [2, 3].map(SessionId);
        assert_eq!(lock(&reloader.requests).sessions, BTreeSet::from(sessions));
    }

    #[test]
    fn a_reload_that_lasts_longer_than_the_time_as_a_follower_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lineshaft.toml");
        let (reloader, shared) = over_a_pipe(&file);
        let (broker, clock) = (shared.broker.clone(), shared.clock);
        let stop_following = run_until(reloader.clone().run_as_follower(broker.clone()));
        reloader.request(ReloadRequester::Signal);
        let pipe = File::options().write(true).open(&file).unwrap();
        // The node leads now, with the policies that it had at its start.
        stop_following();
        assert_eq!(reloader.config().policies.0.len(), 0);
        let stop = run_until(reloader.clone().run(shared));
        write_through(pipe, &file, &limit(1), &limit(1));
        let rules = || broker.turn(clock.now()).policies().0.len();
        testkit::wait::until("the policies are in force", || rules() == 1);
        stop();
    }
}
