//! The arguments of the operator's commands, which use the server's HTTP API.

use std::path::PathBuf;

use api::types::DeathCause;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use notation::address::ServerName;
use notation::duration;

use super::tools::{TlsArguments, refuse};
use crate::client::WaitingState;

/// Where the API is, and who asks. At most one of `http` and `config` has a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiArguments {
    pub http: Option<ServerName>,
    pub token_file: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub tls: TlsArguments,
}

/// Where the API is, and who asks, as clap reads it. `conflicts_with` would refuse `--config` if
/// the environment has the address, because to clap, such a value is one that the user gave.
#[derive(Args)]
struct GivenArguments {
    /// HTTP address of the server: HOST:PORT, unix:PATH or tls:HOST:PORT; default: the socket of
    /// the data folder, or 127.0.0.1:7300
    #[arg(long, env = "LINESHAFT_HTTP", value_name = "ADDRESS")]
    pub http: Option<ServerName>,
    /// File with a token; default: the token in `LINESHAFT_TOKEN`
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Configuration file that names the data folder; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub tls: TlsArguments,
}

impl Args for ApiArguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        GivenArguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        GivenArguments::augment_args_for_update(command)
    }
}

impl FromArgMatches for ApiArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_variable = matches.value_source("http") == Some(ValueSource::EnvVariable);
        let given = GivenArguments::from_arg_matches(matches)?;
        let GivenArguments { mut http, token_file, config, tls } = given;
        if config.is_some() && is_variable {
            http = None;
        }
        if config.is_some() && http.is_some() {
            return Err(refuse("--config and --http both name the server: use one of them"));
        }
        Ok(ApiArguments { http, token_file, config, tls })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ApiArguments::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ApiArguments {
    /// The server that the environment names, or the one of this folder.
    pub(crate) fn of_environment() -> ApiArguments {
        let http = std::env::var("LINESHAFT_HTTP").ok().and_then(|name| name.parse().ok());
        ApiArguments { http, ..ApiArguments::default() }
    }
}

const CONNECTIONS_EXAMPLES: &str = "\
Examples:
  lineshaft connections                       all connections, except for HTTP
  lineshaft connections --only gearman
  lineshaft connections --address 10.0.0.7
  lineshaft connections --close 2a            its jobs go back to their queues

Closing a connection needs the role admin, which the user of the server has on
the same machine.";

/// List the connections of clients, or close one
#[derive(Debug, Args)]
#[command(after_help = CONNECTIONS_EXAMPLES)]
pub(crate) struct ConnectionsArguments {
    /// Close the connection with this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["only", "address"])]
    pub close: Option<String>,
    /// Only connections of this protocol, such as beanstalk or gearman
    #[arg(long, value_name = "PROTOCOL")]
    pub only: Option<String>,
    /// Only connections whose address begins with this
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Print JSON, one line for each connection
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const SESSIONS_EXAMPLES: &str = "\
Examples:
  lineshaft sessions            the people who are signed in to the console
  lineshaft sessions --end 7    this person must sign in again

It needs the role admin, which the user of the server has on the same machine.
To keep somebody out, use `lineshaft token remove`, which ends sessions, too.";

/// List the people who are signed in to the web console, or end a session
#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES)]
pub(crate) struct SessionsArguments {
    /// End the session with this id
    #[arg(long, value_name = "ID")]
    pub end: Option<u64>,
    /// Print JSON, one line for each session
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const CRON_EXAMPLES: &str = "\
Examples:
  lineshaft cron           the next and the last job of each [[cron]] entry
  lineshaft cron --json";

/// List the entries that put jobs by schedules
#[derive(Debug, Args)]
#[command(after_help = CRON_EXAMPLES)]
pub(crate) struct CronArguments {
    /// Print JSON, one line for each entry
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const CONSOLE_EXAMPLES: &str = "\
Examples:
  lineshaft console            sign in as an admin, as the user of the server
  lineshaft console --print    only print the address
  lineshaft console --http tls:queue.example:7300 --token-file my.token

The address works once, within a minute. The session has the rights of the
command: those of an admin at the server's socket, or those of the token.";

/// Sign in to the web console
#[derive(Debug, Args)]
#[command(after_help = CONSOLE_EXAMPLES)]
pub(crate) struct ConsoleArguments {
    /// Print the address; do not open a browser
    #[arg(long)]
    pub print: bool,
    /// Print JSON, and do not open a browser
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const PING_EXAMPLES: &str = "\
Examples:
  lineshaft ping                                  the server on this machine
  lineshaft ping --http queue.example:7300 --json

The exit code is 1 if the server does not answer.";

/// Check that the server answers, and how fast
#[derive(Debug, Args)]
#[command(after_help = PING_EXAMPLES)]
pub(crate) struct PingArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  lineshaft status
  lineshaft status --json | jq .totals

The exit code is 1 if clients cannot work as they should.";

/// Show the health of the server, its jobs, clients and memory
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArguments {
    /// Print JSON, as the API has it
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const JOBS_EXAMPLES: &str = "\
Examples:
  lineshaft jobs mail                           the next jobs, with their bodies
  lineshaft jobs mail --state buried --limit 5
  lineshaft jobs mail --limit 1000 --json | jq -r .body.text
  lineshaft jobs mail --search ann@example.com  jobs whose body has this text

Nothing is taken or changed. With --json, each line is a job. A search reads all
waiting jobs of the queue, or those of one state, until it has found enough.";

/// List the jobs of a queue
#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES)]
pub(crate) struct JobsArguments {
    /// The queue
    pub queue: String,
    /// Which of the queue's jobs; default: ready, or with --search all three
    #[arg(long, short, value_enum)]
    pub state: Option<WaitingState>,
    /// Only jobs whose body has this text
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// How many jobs at most
    #[arg(long, short, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// Print JSON, one line for each job
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  lineshaft history mail                    the last jobs that left the queue
  lineshaft history mail --outcome dead     those that have failed too often
  lineshaft history --job 1207              what happened to one job
  lineshaft history mail --job 1207         the same, as it left this queue
  lineshaft history --job 1207 --run-again  put a copy of it

Only queues with `history` in their policy have a history. A copy needs a body:
`history = { body = \"full\" }`.";

/// Show the jobs that have left a queue, and what happened to them
#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct HistoryArguments {
    /// The queue
    #[arg(required_unless_present = "job")]
    pub queue: Option<String>,
    /// Show the job with this number, as it left the queue, or its last one
    #[arg(long, value_name = "ID", conflicts_with_all = ["outcome", "text", "limit"])]
    pub job: Option<u64>,
    /// Put a copy of the job into the queue that it left
    #[arg(long, requires = "job")]
    pub run_again: bool,
    /// Only jobs that left like this: done, failed, dead, deleted, expired, dropped, flushed,
    /// abandoned, replaced or moved
    #[arg(long, short, value_name = "OUTCOME")]
    pub outcome: Option<String>,
    /// Only jobs with this text in what is kept of their body, or in an error of a worker
    #[arg(long, short, value_name = "TEXT")]
    pub text: Option<String>,
    /// How many jobs at most
    #[arg(long, short, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// Print JSON, one line for each job
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const MOVE_EXAMPLES: &str = "\
Examples:
  lineshaft move failed mail                    all waiting jobs of `failed`
  lineshaft move mail later --count 1000
  lineshaft move mail mail-2 --state delayed    they keep their due times

The jobs come behind the jobs of the other queue. Buried jobs become ready.
Jobs that workers hold stay. If you interrupt the command, the server continues;
the console and `DELETE /api/v1/operations/N` can cancel it.
The exit code is 1 if there was nothing to move.";

/// Move waiting jobs to another queue
#[derive(Debug, Args)]
#[command(after_help = MOVE_EXAMPLES)]
pub(crate) struct MoveArguments {
    /// The queue that the jobs leave
    pub from: String,
    /// The queue that gets them; the server makes it if it does not exist
    pub to: String,
    /// How many jobs at most; default: as many as there are now
    #[arg(long, short, value_name = "N")]
    pub count: Option<u64>,
    /// Only jobs in this state; default: ready, delayed and buried jobs
    #[arg(long, short, value_enum)]
    pub state: Option<WaitingState>,
    #[command(flatten)]
    pub operation: OperationArguments,
}

/// How the server changes many jobs.
#[derive(Debug, Args)]
pub(crate) struct OperationArguments {
    /// At most about this many jobs in a second; 0: as many as the log allows
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
    /// Print the operation as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const REDRIVE_EXAMPLES: &str = "\
Examples:
  lineshaft redrive dead.mail           all dead letters go back to their queues
  lineshaft redrive mail                all buried jobs become ready
  lineshaft redrive mail --rate 50      at most about 50 in a second
  lineshaft redrive mail --count 10     the first ten, to see whether they work
  lineshaft redrive mail --id 4 --id 7  only these two jobs
  lineshaft redrive dead.mail --dry-run --older 1h --cause timed-out
                                        how many timed out before the last hour

If the queue has dead letters, they go back to the queues that they came from,
100 in a second if --rate says nothing else. Otherwise its buried jobs become
ready. Unlike `lineshaft kick`, the server does it, for the queues of all
protocols, and shows the progress. If you interrupt the command, the server
continues, also after a restart; the console and
`DELETE /api/v1/operations/N` can cancel it.
The exit code is 1 if there was no such job.";

/// Let the server bring dead letters back, or make buried jobs ready, at a limited rate
#[derive(Debug, Args)]
#[command(after_help = REDRIVE_EXAMPLES)]
pub(crate) struct RedriveArguments {
    /// The queue
    pub queue: String,
    /// Only this job; can be given several times
    #[arg(long = "id", value_name = "N")]
    pub ids: Vec<u64>,
    /// How many jobs at most; default: as many as there are now
    #[arg(long, short, value_name = "N", conflicts_with = "ids")]
    pub count: Option<u64>,
    /// Only dead letters that died for this reason
    #[arg(long, value_enum)]
    pub cause: Option<Cause>,
    /// Only dead letters that came from this queue
    #[arg(long, value_name = "QUEUE")]
    pub origin: Option<String>,
    /// Only dead letters with this key, by the policy of their first queue
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Only dead letters whose error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Only dead letters that died at least this long ago
    #[arg(long, value_name = "TIME", value_parser = duration::parse_seconds)]
    pub older: Option<u32>,
    /// Only dead letters that died at most this long ago
    #[arg(long, value_name = "TIME", value_parser = duration::parse_seconds)]
    pub younger: Option<u32>,
    /// Change nothing, and print how many jobs would become ready
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    #[command(flatten)]
    pub operation: OperationArguments,
}

/// Why a job became a dead letter.
#[derive(Copy, Clone, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Cause {
    /// The time for the job ended
    TimedOut,
    /// A Kestrel client gave the item back
    Aborted,
    /// The worker disconnected, or could no longer do the job
    WorkerLeft,
    /// The worker released the job
    Released,
    /// The worker reported a failure
    Reported,
    /// It expired: see the policy `dead.expired`
    Expired,
    /// A queue had no room for it: see the policy `dead.dropped`
    Dropped,
    /// An operator set it aside: see `lineshaft set-aside`
    Operator,
}

impl From<Cause> for DeathCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::TimedOut => Self::TimedOut,
            Cause::Aborted => Self::Aborted,
            Cause::WorkerLeft => Self::WorkerLeft,
            Cause::Released => Self::Released,
            Cause::Reported => Self::Reported,
            Cause::Expired => Self::Expired,
            Cause::Dropped => Self::Dropped,
            Cause::Operator => Self::Operator,
        }
    }
}

const SET_ASIDE_EXAMPLES: &str = "\
Examples:
  lineshaft set-aside --id 42                     the job with this id
  lineshaft redrive dead.mail --cause operator    such jobs go back

The policy `dead` of its queue says where a dead letter goes. By default, it is
buried in its queue. Jobs that workers hold are not set aside.
The exit code is 1 if the job stays as it is.";

/// Make a waiting job a dead letter, as if it had failed too often
#[derive(Debug, Args)]
#[command(after_help = SET_ASIDE_EXAMPLES)]
pub(crate) struct SetAsideArguments {
    /// This job
    #[arg(long)]
    pub id: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const CLEAR_EXAMPLES: &str = "\
Examples:
  lineshaft clear mail --state buried           how many jobs this would end
  lineshaft clear mail --state buried --yes     end them

Ended jobs are gone: look first, with `lineshaft jobs`. Jobs that workers hold
stay. If you interrupt the command, the server continues; the console and
`DELETE /api/v1/operations/N` can cancel it.
The exit code is 1 if there was nothing to end.";

/// End all jobs of a queue in one state
#[derive(Debug, Args)]
#[command(after_help = CLEAR_EXAMPLES)]
pub(crate) struct ClearArguments {
    /// The queue
    pub queue: String,
    /// Which of the queue's jobs
    #[arg(long, short, value_enum)]
    pub state: WaitingState,
    /// End them; without this, the command only counts them
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub operation: OperationArguments,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  lineshaft doctor                                 the server of this folder
  lineshaft doctor --config /etc/lineshaft/lineshaft.toml

Run it as the user of the server. It writes a small file into the data folder,
measures syncs, and removes the file. The exit code is 1 if something is wrong.";

/// Look at limits, disk, syncs, configuration and server, and say what to change
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArguments {
    /// Print JSON, one line for each finding
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const DRAIN_EXAMPLES: &str = "\
Examples:
  lineshaft drain          new jobs are refused; workers empty the queues
  lineshaft drain --end    new jobs are accepted again

A drain also ends when the server stops. It needs the role admin, which the
user of the server has on the same machine.";

/// Let the server refuse new jobs, or accept them again
#[derive(Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(crate) struct DrainArguments {
    /// Accept new jobs again
    #[arg(long)]
    pub end: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const RELOAD_EXAMPLES: &str = "\
Examples:
  lineshaft reload

It does the same as SIGHUP, and prints mistakes and the keys that have changed.
It needs the role admin, which the user of the server has on the same machine.";

/// Let the server read its configuration again
#[derive(Debug, Args)]
#[command(after_help = RELOAD_EXAMPLES)]
pub(crate) struct ReloadArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const WHY_EXAMPLES: &str = "\
Examples:
  lineshaft why mail

It walks through everything that a job needs in order to be handed out, and
prints the first thing that is in the way.";

/// Say why no job of a queue runs
#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
pub(crate) struct WhyArguments {
    /// The queue
    pub queue: String,
    /// Print JSON, as the API has it
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}
