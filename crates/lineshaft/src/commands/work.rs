//! `lineshaft work`: runs a command for each job.
//!
//! Each of the `--jobs` slots is a thread with its own connection, because a connection that waits
//! for a job cannot renew a lease. The slots share only [`Shared`]. The module `slot` has the loop
//! of a slot. Its trait `Side` hides the differences between the protocols.

mod beanstalk;
mod gearman;
mod kestrel;
mod lease;
mod outage;
mod policy;
mod process;
mod report;
mod slot;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use notation::plain;

use crate::cli::{WorkArguments, refuse};
use crate::client::{ClientError, Protocol, Target};
use crate::interrupt::Interrupts;
use crate::text;
use outage::{Notice, Outage};
use policy::RetryPolicy;
use slot::Side;

/// Default of `--give-up-after` with `--drain`. It is long enough for a restart of the server, and
/// short enough for a script that waits.
const DRAIN_GIVES_UP_AFTER_SECONDS: u32 = 60;

/// Settings that all slots share. They do not change.
#[derive(Debug)]
struct Plan {
    target: Target,
    queues: Vec<String>,
    command: Vec<OsString>,
    retry: RetryPolicy,
    /// Time limit of a command; `None` means no limit.
    timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    grace: Duration,
    /// How long the server can be unreachable; `None` means for ever.
    give_up_after: Option<Duration>,
    drain: bool,
    verbose: bool,
}

/// Counts of jobs by outcome.
#[derive(Debug, Default)]
struct Totals {
    done: AtomicU64,
    given_back: AtomicU64,
    buried: AtomicU64,
    /// Gearman jobs whose command failed.
    failed: AtomicU64,
    /// Jobs whose lease ended while their command still ran.
    lost: AtomicU64,
}

/// State that all slots share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    interrupts: Interrupts,
    totals: Totals,
    /// True if a slot failed. If so, no slot takes another job.
    stop: AtomicBool,
    /// Number of slots that hold a job.
    busy: AtomicUsize,
    /// Number of commands that run now. The Ctrl-C handler reads it, too.
    running: Arc<AtomicUsize>,
    outage: Outage,
    /// The latest moment when a job that we gave back with a delay becomes ready. `--drain` waits
    /// for it.
    retries_due: Mutex<Instant>,
    /// The first error of a slot that ends the work.
    failure: Mutex<Option<anyhow::Error>>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.interrupts.count() > 0 || self.stop.load(Ordering::Relaxed)
    }

    /// True if the user pressed Ctrl-C twice: the running commands must end now.
    fn insists(&self) -> bool {
        self.interrupts.count() > 1
    }

    fn fail(&self, error: anyhow::Error) {
        let mut failure = self.failure.lock().expect("no slot panics while it holds this");
        failure.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Records that a slot has connected.
    fn note_connected(&self) {
        if self.outage.ended() {
            say(&format!("connected to {} again", self.plan.target));
        }
    }

    /// Records a failed attempt to connect. The user gets a message at the first failure and every
    /// 30 seconds.
    fn note_outage(&self, error: &ClientError) {
        match self.outage.failed(Instant::now()) {
            None => {}
            Some(Notice::Began) => {
                let how_long = match self.plan.give_up_after {
                    Some(time) => format!("for {}", text::seconds(time.as_secs())),
                    None => "until it works".to_owned(),
                };
                say(&format!("{error}; trying again {how_long}"));
            }
            Some(Notice::GoesOn(time)) => {
                let time = text::seconds(time.as_secs());
                say(&format!("still cannot connect to {} after {time}", self.plan.target));
            }
        }
    }

    /// Ends the work if the server was unreachable for longer than `--give-up-after`. Only slots
    /// without a running command call this, because an unreachable server must not stop a command.
    fn give_up_when_due(&self) {
        let Some(limit) = self.plan.give_up_after else { return };
        if self.outage.lasts(Instant::now()) >= limit {
            let time = text::seconds(limit.as_secs());
            let target = &self.plan.target;
            self.fail(anyhow!("gave up: could not connect to {target} for {time}"));
        }
    }

    /// Records that a job was given back with this delay. `--drain` waits until the delay is over.
    fn expect_retry_in(&self, delay: Duration) {
        let mut retries_due = self.retries_due();
        *retries_due = retries_due.max(Instant::now() + delay);
    }

    fn retries_due(&self) -> MutexGuard<'_, Instant> {
        self.retries_due.lock().expect("no slot panics while it holds this")
    }

    /// True if no work is left. At the moment `asked`, the caller sent a request for a job, and no
    /// job was ready. Jobs that this program gave back with a delay may have been delayed at that
    /// moment. So `asked` must be later than the end of all these delays.
    fn is_drained(&self, asked: Instant) -> bool {
        self.busy.load(Ordering::SeqCst) == 0 && asked > *self.retries_due()
    }
}

impl Totals {
    fn summary(&self, elapsed: Duration) -> String {
        let mut parts = vec![text::counted(self.done.load(Ordering::Relaxed), "job") + " done"];
        for (counter, word) in [
            (&self.given_back, "given back"),
            (&self.buried, "buried"),
            (&self.failed, "failed"),
            (&self.lost, "lost"),
        ] {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                parts.push(format!("{} {word}", text::count(count)));
            }
        }
        format!("{} in {}", parts.join(", "), text::elapsed(elapsed))
    }
}

/// Works until the user stops it. With `--drain`, works until no job is left.
pub(crate) fn run(arguments: WorkArguments) -> Result<ExitCode> {
    let retries = [
        ("--attempts", arguments.attempts),
        ("--backoff", arguments.backoff),
        ("--backoff-max", arguments.backoff_max),
    ];
    let why = match arguments.protocol {
        Protocol::Beanstalk => None,
        Protocol::Gearman => {
            Some("a Gearman job that failed has ended, and its client knows; it is not retried")
        }
        Protocol::Kestrel => {
            Some("a Kestrel server counts no attempts; a failed item is the next one again")
        }
    };
    if let Some(why) = why
        && let Some((option, _)) = retries.into_iter().find(|(_, given)| given.is_some())
    {
        return Err(refuse(&format!("{option}: {why}")).into());
    }
    // Each take counts as an attempt. So check before the first take that the program exists.
    let program = &arguments.command[0];
    process::look_up(program).with_context(|| format!("cannot run `{}`", program.display()))?;
    let plan = Plan {
        target: arguments.server.target(arguments.protocol.default_port())?,
        queues: arguments.queues,
        command: arguments.command,
        retry: RetryPolicy::new(arguments.attempts, arguments.backoff, arguments.backoff_max),
        timeout: (arguments.timeout > 0).then(|| Duration::from_secs(arguments.timeout.into())),
        grace: Duration::from_secs(arguments.grace.into()),
        give_up_after: give_up_after(arguments.give_up_after, arguments.drain),
        drain: arguments.drain,
        verbose: arguments.verbose,
    };
    match arguments.protocol {
        Protocol::Beanstalk => run_slots::<beanstalk::BeanstalkSide>(plan, arguments.jobs),
        Protocol::Gearman => run_slots::<gearman::GearmanSide>(plan, arguments.jobs),
        Protocol::Kestrel => run_slots::<kestrel::KestrelSide>(plan, arguments.jobs),
    }
}

fn run_slots<S: Side>(plan: Plan, jobs: u16) -> Result<ExitCode> {
    let started = Instant::now();
    // Slots retry failed connections. A wrong address or name must fail at once, so make the first
    // connection here.
    let mut first = S::default();
    first.connect(&plan)?;
    let mut first = Some(first);
    let running = Arc::new(AtomicUsize::new(0));
    let running_at_interrupt = Arc::clone(&running);
    let interrupts = Interrupts::listen(move |count| {
        match (count, running_at_interrupt.load(Ordering::SeqCst)) {
            (1, 0) => say("stopping"),
            (1, _) => {
                say("stopping when the running commands end; press Ctrl-C again to stop them");
            }
            (2, 1..) => say("stopping the running commands and giving their jobs back"),
            _ => {}
        }
    })?;
    let shared = Shared {
        plan,
        interrupts,
        totals: Totals::default(),
        stop: AtomicBool::new(false),
        busy: AtomicUsize::new(0),
        running,
        outage: Outage::default(),
        retries_due: Mutex::new(started),
        failure: Mutex::new(None),
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            let side = first.take().unwrap_or_default();
            scope.spawn(|| slot::serve(side, &shared));
        }
    });
    say(&shared.totals.summary(started.elapsed()));
    if let Some(error) = shared.failure.into_inner().expect("all slots have ended") {
        return Err(error);
    }
    let some = |counter: &AtomicU64| counter.load(Ordering::Relaxed) > 0;
    let went_wrong = some(&shared.totals.buried) || some(&shared.totals.failed);
    Ok(if shared.interrupts.count() > 1 {
        ExitCode::from(130)
    } else if some(&shared.totals.lost) || (shared.plan.drain && went_wrong) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The value of `--give-up-after`; 0 means for ever.
fn give_up_after(given_seconds: Option<u32>, drain: bool) -> Option<Duration> {
    let default = if drain { DRAIN_GIVES_UP_AFTER_SECONDS } else { 0 };
    let seconds = given_seconds.unwrap_or(default);
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Prints a line to standard error. Standard output is only for the output of the commands. Names
/// and texts of the server in it cannot change the terminal.
fn say(line: &str) {
    // `eprintln` would panic if the terminal is gone. The jobs must continue.
    let _ = writeln!(io::stderr(), "lineshaft: {}", plain::escaped(line));
}
