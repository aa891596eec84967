//! The arguments of the tools that talk to a server: put, work, stats, peek, kick, delete, pause.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args};

use notation::address::ServerName;
use notation::{duration, port};

use crate::client::{Protocol, Target, TargetError, TlsFiles, WaitingState};
use crate::text::parse_priority;

/// The server that a tool connects to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// Address of the server: HOST:PORT or unix:PATH, with TLS tls:HOST:PORT; default port 11300,
    /// Gearman 4730, Kestrel 22133
    #[arg(long, env = "LINESHAFT_SERVER", value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub server: ServerName,
    #[command(flatten)]
    pub tls: TlsArguments,
}

/// The files that a tool uses if the server's address begins with `tls:`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArguments {
    /// For tls: the authority of the server's certificate (PEM); default: those of the system
    #[arg(id = "tls_ca", long = "tls-ca", value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// For tls: this tool's own certificate (PEM)
    #[arg(
        id = "tls_certificate",
        long = "tls-certificate",
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub certificate: Option<PathBuf>,
    /// For tls: the key of this tool's certificate (PEM)
    #[arg(id = "tls_key", long = "tls-key", value_name = "FILE", requires = "tls_certificate")]
    pub key: Option<PathBuf>,
}

impl TlsArguments {
    pub(crate) fn files(&self) -> TlsFiles {
        TlsFiles {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}

impl ServerArguments {
    /// The server of a tool that speaks only the beanstalkd protocol.
    pub(crate) fn beanstalk(&self) -> Result<Target, TargetError> {
        self.target(port::BEANSTALK)
    }

    /// The server of a tool that speaks a protocol with this default port.
    pub(crate) fn target(&self, default_port: u16) -> Result<Target, TargetError> {
        Target::new(&self.server, default_port, &self.tls.files())
    }
}

/// The text below the options for `-h`: examples, and a pointer to `--help`.
pub(super) fn shorter(examples: &str, command: &str) -> String {
    format!("{examples}\n\n`lineshaft {command} --help` says more.")
}

/// The text below the options for `--help`: examples and details.
pub(super) fn longer(examples: &str, details: &str) -> String {
    format!("{examples}\n\n{details}")
}

/// The usual priority.
const PRIORITY_NORMAL: u32 = 1024;

const PUT_EXAMPLES: &str = "\
Examples:
  lineshaft put mail 'to=ann'                     one job
  lineshaft put mail 'to=ann' 'to=bob'            two jobs
  ls *.csv | lineshaft put pack                   one job for each line
  lineshaft put --file addresses.txt mail         the same, from a file
  lineshaft put --whole orders < order.json       the whole input as one job
  lineshaft put --delay 10m --priority 0 mail x   urgent, in ten minutes
  lineshaft put --ids mail x y                    print the new ids
  lineshaft put --wait --whole wc < order.json    print the worker's result";

const PUT_DETAILS: &str = "\
A line ends at its line feed: the carriage return of a Windows file stays in the
body (remove it with `tr -d '\\r'`), and an empty line is an empty job.

If a line is too big, put reports its number and puts all others. If the server
accepts no more jobs (it has no room, or is in drain mode), put stops. It lists
the refused lines, and the last line that it sent, so that you can put the
remaining lines later. The exit code is 1 in both cases.

With --protocol kestrel the jobs are items: they have no ids, and neither
priority, delay nor ttr. The default port is 22133.

With --protocol gearman the jobs are background jobs of the function QUEUE. The
default port is 4730. With --wait, which implies --protocol gearman, they are
foreground jobs. Up to 100 run at a time. put prints their results in the order
of the jobs, unchanged, without line ends. Warnings go to standard error. The
exit code is 1 if a job failed. If you interrupt put, jobs that still wait for a
worker are cancelled.";

/// Put jobs into a queue
#[derive(Debug, Args)]
#[command(
    after_help = shorter(PUT_EXAMPLES, "put"),
    after_long_help = longer(PUT_EXAMPLES, PUT_DETAILS)
)]
pub(crate) struct PutArguments {
    /// The queue
    pub queue: String,
    /// Each argument is a job; without arguments, each line of the input is a job
    #[arg(value_name = "BODY", conflicts_with_all = ["file", "whole"])]
    pub bodies: Vec<OsString>,
    /// Read the jobs from this file instead of the input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Put the whole input as one job, including line ends
    #[arg(long)]
    pub whole: bool,
    /// Wait for the results and print them; speaks Gearman
    #[arg(long, conflicts_with_all = ["ids", "delay"])]
    pub wait: bool,
    /// Join an unfinished job with this key; `-`: the body is the key; speaks Gearman
    #[arg(long, value_name = "KEY")]
    pub unique: Option<String>,
    /// Priority: a number, 0 is the most urgent; or high (512), normal (1024), low
    #[arg(long, short, default_value = "normal", value_parser = parse_priority)]
    pub priority: u32,
    /// Delay the jobs for this long: 90, 5s, 2m, 1h30m
    #[arg(long, short, value_name = "TIME", default_value = "0", value_parser = duration::parse_seconds)]
    pub delay: u32,
    /// How long a worker can hold a job without renewing it; default 60s
    #[arg(long, short, value_name = "TIME", value_parser = duration::parse_seconds)]
    pub ttr: Option<u32>,
    /// Print the id of each job, one per line; an empty line for a refused job
    #[arg(long)]
    pub ids: bool,
    /// No summary and no progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as JSON
    #[arg(long, conflicts_with_all = ["ids", "wait"])]
    pub json: bool,
    /// Protocol to speak: beanstalk, unless an option needs gearman
    #[arg(long, value_enum)]
    pub protocol: Option<Protocol>,
    #[command(flatten)]
    pub server: ServerArguments,
}

impl PutArguments {
    /// Returns the protocol that the user chose, or that the options require.
    pub(crate) fn protocol(&self) -> Result<Protocol, clap::Error> {
        let gearman_only = [("--wait", self.wait), ("--unique", self.unique.is_some())];
        let needed = gearman_only.into_iter().find(|(_, given)| *given).map(|(option, _)| option);
        if self.protocol == Some(Protocol::Kestrel) {
            let items_have_no = [
                ("--ids", self.ids),
                ("--delay", self.delay > 0),
                ("--ttr", self.ttr.is_some()),
                ("--priority", self.priority != PRIORITY_NORMAL),
            ];
            if let Some((option, _)) =
                gearman_only.into_iter().chain(items_have_no).find(|(_, given)| *given)
            {
                let why = "items of a Kestrel queue have nothing like that";
                return Err(refuse(&format!("{option}: {why}")));
            }
        }
        match (self.protocol, needed) {
            (Some(Protocol::Beanstalk), Some(option)) => Err(refuse(&format!(
                "{option}: the beanstalkd protocol has neither results nor keys; leave out \
                 --protocol, and name the server's Gearman address with --server"
            ))),
            (Some(protocol), _) => Ok(protocol),
            (None, Some(_)) => Ok(Protocol::Gearman),
            (None, None) => Ok(Protocol::Beanstalk),
        }
    }
}

/// Makes an error about the command line that looks like clap's own errors.
pub(crate) fn refuse(message: &str) -> clap::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n"))
}

const WORK_EXAMPLES: &str = "\
Examples:
  lineshaft work mail -- ./send-mail                  the body is its input
  lineshaft work urgent mail --drain -- ./send-mail   two queues, until empty
  lineshaft work mail --attempts 0 --backoff 30s -- ./send-mail
  lineshaft work pack --jobs 4 -- sh -c 'read -r f; gzip -k \"$f\"'
  lineshaft work wc --protocol gearman -- wc -l       for Gearman clients

Exit code 0: the job is deleted. Anything else: the job is retried with a
growing delay, and buried after --attempts. After Ctrl-C, running commands
finish.";

const WORK_DETAILS: &str = "\
The command gets the job's body as input, and these environment variables:
  LINESHAFT_JOB_ID    the job's id
  LINESHAFT_QUEUE     the job's queue
  LINESHAFT_ATTEMPT   1 the first time, then 2, 3, ... over all workers

What happens to the job:
  exit code 0    It is deleted.
  anything else  It is retried after 1 s, then 2 s, 4 s, ... up to 1 h. After
                 --attempts it is buried. `lineshaft peek QUEUE --state buried`
                 shows it, and `lineshaft kick QUEUE` gives it one more
                 attempt. Every take counts as an attempt, by any worker, even
                 if it was interrupted or lost its lease.
  --timeout      The worker stops the command, and the attempt counts as failed.
  lost worker    If its worker was lost, the job is taken again at once. After
                 --attempts lost workers it is buried without another attempt,
                 so that it cannot make workers crash for ever.

While the command runs, the worker renews the lease. So the command can take
longer than the job's ttr. If the lease is lost anyway, because the server gave
the job to another worker, the worker stops the command: SIGTERM to it and its
children, SIGKILL after --grace.

If the connection breaks, the command continues and the worker reconnects. If
the job is still free, the worker takes it back and nothing is lost. If another
worker has the job, or the server no longer has it, the lease is lost.

If the server is unreachable, the worker reconnects again and again. With
--drain it gives up after a minute (--give-up-after).

After Ctrl-C (or SIGTERM, SIGHUP) the worker takes no more jobs, and running
commands finish. A second Ctrl-C stops the commands and gives their jobs back at
once. A third one does not wait for --grace. After Ctrl-C the worker does not
wait for an unreachable server: jobs that it could not report count as lost.

With --protocol gearman, the worker runs jobs of functions. The default port is
4730. The command's output is the result. Each line of its standard error is a
warning to the client, except `progress: 3/10`, which reports progress. With any
exit code except 0 the job fails, and is not retried. There is no lease: if the
connection breaks, another worker gets the job, and this one stops the command.

With --protocol kestrel, the worker opens items of Kestrel's queues, and closes
an item when its command exits with 0. The default port is 22133. Otherwise the
item goes back and is the next one again, after a pause of a second. If the
worker is killed, or the connection breaks, another worker gets the item. Give
--timeout if the queue's policy has `open.timeout`: Kestrel has no touch.

The exit code is 0; 1 if a job was lost, --drain ended with buried jobs, or the
worker gave up; 130 after a second Ctrl-C.";

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
    /// Bury a job that fails on this attempt; default 5; 0 = never
    #[arg(long, short, value_name = "N")]
    pub attempts: Option<u32>,
    /// Wait before the second attempt; doubles with each further attempt; default 1s
    #[arg(long, value_name = "TIME", value_parser = duration::parse_seconds)]
    pub backoff: Option<u32>,
    /// Longest wait before an attempt; default 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse_seconds)]
    pub backoff_max: Option<u32>,
    /// Stop a command that runs longer than this; the attempt counts as failed; 0 = no limit
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse_seconds)]
    pub timeout: u32,
    /// Kill a stopped command that has not ended after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_seconds)]
    pub grace: u32,
    /// Stop when the server is unreachable for this long; default 1m with --drain, else never; 0 = never
    #[arg(long, value_name = "TIME", value_parser = duration::parse_seconds)]
    pub give_up_after: Option<u32>,
    /// Stop when no job is ready, and no job that failed in this worker waits for its next attempt
    #[arg(long)]
    pub drain: bool,
    /// Print a line about each job, not only about failed ones
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

/// Show statistics of the server and its queues
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
  lineshaft peek mail                    the next job
  lineshaft peek mail --state buried     the job that was buried first
  lineshaft peek --id 42 > job.bin       the job with this id, in any queue
  lineshaft peek mail --json | jq .body
  lineshaft peek news --protocol kestrel the next item of a Kestrel queue

The unchanged body goes to the output, a line about the job to standard error.
The exit code is 1 if the job or the queue does not exist.";

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
    /// Print only the body
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON: the body, and what is known about the job
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Protocol to speak: beanstalk or kestrel
    #[arg(long, value_enum, default_value = "beanstalk")]
    pub protocol: Protocol,
    #[command(flatten)]
    pub server: ServerArguments,
}

const KICK_EXAMPLES: &str = "\
Examples:
  lineshaft kick mail                the job that was buried first
  lineshaft kick mail --count 100    up to a hundred
  lineshaft kick mail --all          all jobs that are buried now
  lineshaft kick --id 42             the job with this id, buried or delayed

As in the protocol, delayed jobs are kicked only if none is buried.
The exit code is 1 if there was nothing to kick.";

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
    /// All jobs that are buried now; if none is buried, all delayed jobs
    #[arg(long, conflicts_with = "id")]
    pub all: bool,
    /// This job
    #[arg(long)]
    pub id: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArguments,
}

const DELETE_EXAMPLES: &str = "\
Examples:
  lineshaft delete mail --state buried         the job that was buried first
  lineshaft delete mail --state delayed --all  all jobs that are delayed now
  lineshaft delete --id 42                     the job with this id, any queue

Deleted jobs are gone: look first, with `lineshaft peek`. Jobs that workers hold
are not deleted. If there are very many, and this tool can use the HTTP API of
the same server, the server deletes them itself. See `lineshaft clear`.
The exit code is 1 if there was nothing to delete.";

/// Delete waiting jobs
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
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArguments,
}

const PAUSE_EXAMPLES: &str = "\
Examples:
  lineshaft pause mail 10m    no worker gets a job from it for ten minutes
  lineshaft pause mail 0      end the pause

During a pause, clients can put jobs, and workers can finish the jobs they hold.
A pause ends early if the server stops or the queue is removed.
The exit code is 1 if the queue does not exist.";

/// Stop handing out jobs of a queue for a while
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct PauseArguments {
    /// The queue
    pub queue: String,
    /// For how long: 90, 5s, 2m, 1h30m; 0 ends a pause
    #[arg(value_parser = duration::parse_seconds)]
    pub time: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArguments,
}
