//! The arguments of the tools that talk to a server: put, work, stats, peek, kick, delete, pause and watch.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args};

use crate::client::{Address, Protocol, ServerName, WaitingState};
use crate::text::{parse_priority, parse_seconds};

/// Which server a tool talks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// Where the server listens: HOST:PORT or unix:PATH; the port is 11300, in Gearman 4730
    #[arg(long, env = "LINESHAFT_SERVER", value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub server: ServerName,
}

impl ServerArguments {
    /// Where a tool connects that knows beanstalkd's protocol only.
    pub(crate) fn beanstalk(&self) -> Address {
        self.server.address(Protocol::Beanstalk)
    }
}

/// What `-h` says below the options, and where there is more.
pub(super) fn shorter(examples: &str, command: &str) -> String {
    format!("{examples}\n\n`lineshaft {command} --help` tells more.")
}

/// What `--help` says there.
pub(super) fn longer(examples: &str, details: &str) -> String {
    format!("{examples}\n\n{details}")
}

const PUT_EXAMPLES: &str = "\
Examples:
  lineshaft put mail 'to=ann'                     one job
  lineshaft put mail 'to=ann' 'to=bob'            two jobs
  ls *.csv | lineshaft put pack                   one job for each line
  lineshaft put --file addresses.txt mail         the same, from a file
  lineshaft put --whole orders < order.json       the whole input as one job
  lineshaft put --delay 10m --priority 0 mail x   urgent, in ten minutes
  lineshaft put --ids mail x y                    print the new ids
  lineshaft put --wait --whole wc < order.json    ask a worker, print its answer";

const PUT_DETAILS: &str = "\
A line ends at its line feed: the carriage return of a Windows file stays in the
body (remove it with `tr -d '\\r'`), and an empty line is an empty job.

Lines that are too big are refused and named by number, all others are in. When
the server takes no more jobs at all (it has no room, or drains), put stops: it
names the lines that were refused and the one after which nothing was sent, so
that the rest can be put again. The exit code is 1 in both cases.

With --protocol gearman the jobs are background jobs of the function QUEUE, at
port 4730 unless --server names another. With --wait, which implies that, they
are foreground jobs: up to 100 are asked for at a time, and their results are
printed in the order of the jobs, as they are, without a line end. Warnings go
to the error output. The exit code is 1 when a job failed. Who stops put before
the end, stops the jobs that wait for a worker.";

/// Put jobs into a queue
#[derive(Debug, Args)]
#[command(
    after_help = shorter(PUT_EXAMPLES, "put"),
    after_long_help = longer(PUT_EXAMPLES, PUT_DETAILS)
)]
pub(crate) struct PutArguments {
    /// The queue
    pub queue: String,
    /// Each argument is a job; with none, each line of the input is one
    #[arg(value_name = "BODY", conflicts_with_all = ["file", "whole"])]
    pub bodies: Vec<OsString>,
    /// Read the jobs from this file instead of from the input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Put the whole input as one job, line ends and all
    #[arg(long)]
    pub whole: bool,
    /// Wait for the results and print them; speaks Gearman
    #[arg(long, conflicts_with_all = ["ids", "delay"])]
    pub wait: bool,
    /// Join an unfinished job of the same key; `-`: the body is the key; speaks Gearman
    #[arg(long, value_name = "KEY")]
    pub unique: Option<String>,
    /// Which jobs are taken first: 0 is the most urgent; or high (512), normal (1024), low
    #[arg(long, short, default_value = "normal", value_parser = parse_priority)]
    pub priority: u32,
    /// Hold the jobs back for this long: 90, 5s, 2m, 1h30m
    #[arg(long, short, value_name = "TIME", default_value = "0", value_parser = parse_seconds)]
    pub delay: u32,
    /// How long a worker may keep a job without a sign of life before it goes to another one: 60s
    #[arg(long, short, value_name = "TIME", value_parser = parse_seconds)]
    pub ttr: Option<u32>,
    /// Print the id of each job, one a line; a refused one has an empty line
    #[arg(long)]
    pub ids: bool,
    /// No summary and no progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Protocol to speak: beanstalk, unless an option needs gearman
    #[arg(long, value_enum)]
    pub protocol: Option<Protocol>,
    #[command(flatten)]
    pub server: ServerArguments,
}

impl PutArguments {
    /// The protocol that was chosen, or that the options need.
    pub(crate) fn protocol(&self) -> Result<Protocol, clap::Error> {
        let gearman_only = [("--wait", self.wait), ("--unique", self.unique.is_some())];
        let needed = gearman_only.into_iter().find(|(_, given)| *given).map(|(option, _)| option);
        match (self.protocol, needed) {
            (Some(Protocol::Beanstalk), Some(option)) => Err(refuse(&format!(
                "{option}: beanstalkd's protocol knows neither results nor keys; leave out \
                 --protocol, and name the server's Gearman address with --server"
            ))),
            (Some(protocol), _) => Ok(protocol),
            (None, Some(_)) => Ok(Protocol::Gearman),
            (None, None) => Ok(Protocol::Beanstalk),
        }
    }
}

/// An error of the command line, as clap's own.
pub(crate) fn refuse(message: &str) -> clap::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n"))
}

const WORK_EXAMPLES: &str = "\
Examples:
  lineshaft work mail -- ./send-mail                  the body is its input
  lineshaft work urgent mail --drain -- ./send-mail   two queues, till empty
  lineshaft work mail --attempts 0 --backoff 30s -- ./send-mail
  lineshaft work pack --jobs 4 -- sh -c 'read -r f; gzip -k \"$f\"'
  lineshaft work wc --protocol gearman -- wc -l       for Gearman clients

Exit code 0: the job is deleted. Anything else: it is tried again, later and
later, and buried after --attempts. Ctrl-C lets the running commands finish.";

const WORK_DETAILS: &str = "\
The command gets the body as its input, and in its environment
  LINESHAFT_JOB_ID    the job's id
  LINESHAFT_QUEUE     the queue it came from
  LINESHAFT_ATTEMPT   1 the first time, then 2, 3, ... over all workers

What becomes of the job:
  exit code 0    It is finished and deleted.
  anything else  It goes back and waits: 1 s after the first attempt, then 2 s,
                 4 s, ... up to 1 h. After --attempts it is buried. See it with
                 `lineshaft peek QUEUE --state buried`, and give it one more
                 attempt with `lineshaft kick QUEUE`. Every take is an attempt,
                 by any worker, also one that was interrupted or lost its lease.
  --timeout      The command is stopped, and the job has failed as above.
  lost worker    A job whose worker vanished is taken again at once. When that
                 happened --attempts times it is buried without being run, so
                 that it cannot kill workers for ever.

With --protocol gearman it is the worker of functions, at port 4730 unless
--server names another. The command's output is the result. Each line of its
error output is a warning to the client, except `progress: 3/10`, which tells
how far it is. Any end but exit code 0 makes the job fail for good. There is no
lease: when the connection breaks, another worker gets the job, and the command
is stopped.

While the command runs the lease is renewed, so it may take longer than the
job's ttr. When the lease is lost all the same (the server gave the job to
another worker), the command is stopped, because the job would be done twice:
SIGTERM to it and its children, SIGKILL after --grace.

When the connection breaks, the command goes on and the worker connects anew.
If the job still waits there, it is taken back and nothing is lost. If another
worker has it by then, or the server came back without it, the lease is lost,
as above.

When the server is away, the worker tries to connect until it is back. With
--drain it gives up after a minute (--give-up-after).

Ctrl-C (or SIGTERM, SIGHUP) takes no more jobs and lets the running commands
finish. A second one stops the commands and gives their jobs back at once, a
third one does not wait for --grace. The worker does not wait for a server that
is away then: what that one could not be told counts as lost.

The exit code is 0; 1 when a job was lost, when --drain ended with jobs buried,
or when the worker gave up; 130 after a second Ctrl-C.";

/// Run a command for each job of a queue
#[derive(Debug, Args)]
#[command(
    after_help = shorter(WORK_EXAMPLES, "work"),
    after_long_help = longer(WORK_EXAMPLES, WORK_DETAILS)
)]
pub(crate) struct WorkArguments {
    /// The queues to take jobs from
    #[arg(required = true, value_name = "QUEUE")]
    pub queues: Vec<String>,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
    /// How many commands run at the same time
    #[arg(long, short, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub jobs: u16,
    /// Bury a job that fails when it was taken this often: 5; 0 = never
    #[arg(long, short, value_name = "N")]
    pub attempts: Option<u32>,
    /// How long a failed job waits before its second attempt: 1s; doubled each time after
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub backoff: Option<u32>,
    /// The longest that a failed job waits: 1h
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub backoff_max: Option<u32>,
    /// How long a command may run; then it is stopped, and the job has failed. 0 = for ever
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_seconds)]
    pub timeout: u32,
    /// How long a command that is stopped may take to end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_seconds)]
    pub grace: u32,
    /// Stop when the server has been away for so long: 1m with --drain, else never; 0 = never
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub give_up_after: Option<u32>,
    /// Stop when no job is ready and no failed one waits for its next attempt here
    #[arg(long)]
    pub drain: bool,
    /// Say a line about each job, not only about failed ones
    #[arg(long, short)]
    pub verbose: bool,
    /// Protocol to speak
    #[arg(long, value_enum, default_value = "beanstalk")]
    pub protocol: Protocol,
    #[command(flatten)]
    pub server: ServerArguments,
}

const STATS_EXAMPLES: &str = "\
Examples:
  lineshaft stats              the server, and a table of its queues
  lineshaft stats mail         everything about one queue
  lineshaft stats --json | jq '.queues[] | select(.[\"current-jobs-ready\"] > 9)'";

/// Show what the server has
#[derive(Debug, Args)]
#[command(after_help = STATS_EXAMPLES)]
pub(crate) struct StatsArguments {
    /// Show everything about this queue
    pub queue: Option<String>,
    /// Print JSON, with the protocol's own keys
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArguments,
}

const PEEK_EXAMPLES: &str = "\
Examples:
  lineshaft peek mail                    the job that is next
  lineshaft peek mail --state buried     the job that was buried first
  lineshaft peek --id 42 > job.bin       one certain job, wherever it is

The body goes to the output as it is, a line about the job to the error output.
The exit code is 1 when there is no such job.";

/// Look at a job without taking it
#[derive(Debug, Args)]
#[command(after_help = PEEK_EXAMPLES)]
#[command(group = ArgGroup::new("jobs").required(true).args(["queue", "id"]))]
pub(crate) struct PeekArguments {
    /// The queue
    pub queue: Option<String>,
    /// Which of the queue's jobs
    #[arg(long, short, value_enum, default_value = "ready", conflicts_with = "id")]
    pub state: WaitingState,
    /// This job
    #[arg(long)]
    pub id: Option<u64>,
    /// Nothing but the body
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub server: ServerArguments,
}

const KICK_EXAMPLES: &str = "\
Examples:
  lineshaft kick mail                the job that was buried first
  lineshaft kick mail --count 100    up to a hundred
  lineshaft kick mail --all          all that are buried now
  lineshaft kick --id 42             one certain job, buried or delayed

As in the protocol, delayed jobs are kicked only when none is buried.
The exit code is 1 when there was nothing to kick.";

/// Make buried or delayed jobs ready again
#[derive(Debug, Args)]
#[command(after_help = KICK_EXAMPLES)]
#[command(group = ArgGroup::new("jobs").required(true).args(["queue", "id"]))]
pub(crate) struct KickArguments {
    /// The queue
    pub queue: Option<String>,
    /// How many jobs at most
    #[arg(long, short, value_name = "N", default_value_t = 1, conflicts_with_all = ["id", "all"])]
    pub count: u32,
    /// All jobs that are buried now or, when none is, all that are delayed
    #[arg(long, conflicts_with = "id")]
    pub all: bool,
    /// This job
    #[arg(long)]
    pub id: Option<u64>,
    #[command(flatten)]
    pub server: ServerArguments,
}

const DELETE_EXAMPLES: &str = "\
Examples:
  lineshaft delete mail --state buried         the job that was buried first
  lineshaft delete mail --state delayed --all  all that are delayed now
  lineshaft delete --id 42                     one certain job, wherever it is

Deleted jobs are gone: look first, with `lineshaft peek`. A job that a worker
has stays with it. The exit code is 1 when there was nothing to delete.";

/// Delete jobs that wait
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
#[command(group = ArgGroup::new("jobs").required(true).args(["queue", "id"]))]
pub(crate) struct DeleteArguments {
    /// The queue
    #[arg(requires = "state")]
    pub queue: Option<String>,
    /// Which of the queue's jobs
    #[arg(long, short, value_enum, conflicts_with = "id")]
    pub state: Option<WaitingState>,
    /// All jobs that are in this state now, not only the first one
    #[arg(long, conflicts_with = "id")]
    pub all: bool,
    /// This job
    #[arg(long)]
    pub id: Option<u64>,
    #[command(flatten)]
    pub server: ServerArguments,
}

const PAUSE_EXAMPLES: &str = "\
Examples:
  lineshaft pause mail 10m    no worker gets a job of it for ten minutes
  lineshaft pause mail 0      it goes on

Jobs can be put meanwhile, and those that workers have can be finished. A pause
ends with the server, and when the queue vanishes.
The exit code is 1 when there is no such queue.";

/// Have a queue hand out no jobs for a while
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct PauseArguments {
    /// The queue
    pub queue: String,
    /// For how long: 90, 5s, 2m, 1h30m; 0 ends a pause
    #[arg(value_parser = parse_seconds)]
    pub time: u32,
    #[command(flatten)]
    pub server: ServerArguments,
}

const WATCH_HELP: &str = "\
Keys:
  n r d l b       sort by name, ready, delayed, leased, buried
  p f             sort by put/s, finished/s
                  (the same key again turns the order round)
  arrows, j k, PageUp PageDown, Home End
                  scroll
  q, Esc          quit

It only looks. `lineshaft kick` gives buried jobs another chance.";

/// Watch the queues live, in a table
#[derive(Debug, Args)]
#[command(after_help = WATCH_HELP)]
pub(crate) struct WatchArguments {
    /// Show only queues whose name contains this
    pub filter: Option<String>,
    /// How often the table is renewed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_seconds)]
    pub interval: u32,
    #[command(flatten)]
    pub server: ServerArguments,
}
