//! `lineshaft work`: runs a command for each job.
//!
//! Each of the `--jobs` slots is a thread with its own connection, because a connection that waits
//! for a job cannot renew the lease of another one. The slots share only [`Shared`]. Their work is
//! in `slot`; its trait `Side` hides the differences between the protocols.

mod beanstalk;
mod gearman;
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
use notation::address::Address;

use crate::cli::{WorkArguments, refuse};
use crate::client::{ClientError, Protocol};
use crate::interrupt::Interrupts;
use crate::text;
use outage::{Notice, Outage};
use policy::RetryPolicy;
use slot::Side;

/// How long `--drain` waits for a server that is away, by default: long enough for a restart, short
/// enough for a script.
const DRAIN_GIVES_UP_AFTER_SECONDS: u32 = 60;

/// The task of the slots. It does not change.
#[derive(Debug)]
struct Plan {
    address: Address,
    queues: Vec<String>,
    command: Vec<OsString>,
    retry: RetryPolicy,
    /// Time limit of a command; `None` means no limit.
    timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    grace: Duration,
    /// How long the server can be away; `None` means for ever.
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
    /// Jobs whose lease ended before their command.
    lost: AtomicU64,
}

/// State that all slots share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    interrupts: Interrupts,
    totals: Totals,
    /// Set when the work itself must stop taking jobs.
    stop: AtomicBool,
    /// Slots that hold a job.
    busy: AtomicUsize,
    /// Commands running now. The Ctrl-C handler reads it, too.
    running: Arc<AtomicUsize>,
    outage: Outage,
    /// When the last job that we gave back becomes ready. `--drain` waits for it.
    retries_due: Mutex<Instant>,
    /// Why the work cannot continue, from the slot that noticed first.
    failure: Mutex<Option<anyhow::Error>>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.interrupts.count() > 0 || self.stop.load(Ordering::Relaxed)
    }

    /// Whether the running commands must end now.
    fn insists(&self) -> bool {
        self.interrupts.count() > 1
    }

    fn fail(&self, error: anyhow::Error) {
        let mut failure = self.failure.lock().expect("no slot panics while it holds this");
        failure.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Notes a successful connection.
    fn note_connected(&self) {
        if self.outage.ended() {
            say(&format!("connected to {} again", self.plan.address));
        }
    }

    /// Notes a failed attempt to connect, and reports it from time to time.
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
                say(&format!("still cannot connect to {} after {time}", self.plan.address));
            }
        }
    }

    /// Ends the work if the server was away for too long. Only idle slots call it: a running
    /// command is never stopped for this.
    fn give_up_when_due(&self) {
        let Some(limit) = self.plan.give_up_after else { return };
        if self.outage.lasts(Instant::now()) >= limit {
            let time = text::seconds(limit.as_secs());
            let address = &self.plan.address;
            self.fail(anyhow!("gave up: could not connect to {address} for {time}"));
        }
    }

    /// Notes a job that was just given back. It becomes ready after `delay` or a little later,
    /// because a server's timers can be coarse.
    fn expect_retry_in(&self, delay: Duration) {
        let mut retries_due = self.retries_due();
        *retries_due = retries_due.max(Instant::now() + delay);
    }

    fn retries_due(&self) -> MutexGuard<'_, Instant> {
        self.retries_due.lock().expect("no slot panics while it holds this")
    }

    /// Whether nothing is left to wait for, given that a request at `asked` found no ready job. A
    /// reply to an earlier request says nothing about jobs that were not due then.
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

/// Works until it is stopped or, with `--drain`, until nothing is left.
pub(crate) fn run(arguments: WorkArguments) -> Result<ExitCode> {
    let retries = [
        ("--attempts", arguments.attempts),
        ("--backoff", arguments.backoff),
        ("--backoff-max", arguments.backoff_max),
    ];
    if arguments.protocol == Protocol::Gearman
        && let Some((option, _)) = retries.into_iter().find(|(_, given)| given.is_some())
    {
        let why = "a Gearman job that failed has ended, and its client knows";
        return Err(refuse(&format!("{option}: {why}; it is not retried")).into());
    }
    // This check comes before the first take, because each take counts as an attempt.
    let program = &arguments.command[0];
    process::look_up(program).with_context(|| format!("cannot run `{}`", program.display()))?;
    let plan = Plan {
        address: arguments.server.server.address(arguments.protocol.default_port()),
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
    }
}

fn run_slots<S: Side>(plan: Plan, jobs: u16) -> Result<ExitCode> {
    let started = Instant::now();
    // A wrong address or name must fail at once, not cause attempts to reconnect.
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

/// Prints a line to standard error. Standard output belongs to the commands.
fn say(line: &str) {
    // Not `eprintln`, which panics if the terminal is gone: the jobs come first.
    let _ = writeln!(io::stderr(), "lineshaft: {line}");
}
