//! The command line: all subcommands, with their options and their help.
//!
//! This module only describes the command line. The module `commands` runs the subcommands.

mod cluster;
mod moving;
mod operator;
mod token;
mod tools;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use notation::size;

pub(crate) use cluster::{
    CheckArguments, ClusterArguments, ClusterCommand, CreateArguments, ForgetArguments,
    KeysArguments, LeaveArguments, PromoteArguments, RecoverArguments, StatusOfClusterArguments,
};
pub(crate) use moving::{ExportArguments, ImportArguments, ImportOptions, ImportSource};
pub(crate) use operator::{
    ApiArguments, ClearArguments, ConnectionsArguments, ConsoleArguments, CronArguments,
    DoctorArguments, DrainArguments, HistoryArguments, JobsArguments, MoveArguments, PingArguments,
    RedriveArguments, ReloadArguments, SessionsArguments, SetAsideArguments, StatusArguments,
    WhyArguments,
};
pub(crate) use token::{TokenAddArguments, TokenArguments, TokenCommand, TokenPlace};
pub(crate) use tools::{
    DeleteArguments, KickArguments, PauseArguments, PeekArguments, PutArguments, StatsArguments,
    WorkArguments, refuse,
};
pub(crate) use top::TopArguments;

const AFTER_HELP: &str = "\
Without a subcommand, the server starts with its defaults.

A first round, with the server running in another terminal:
  lineshaft put mail 'to=ann' 'to=bob'      put two jobs into the queue `mail`
  lineshaft stats                           see what is waiting
  lineshaft work mail --drain -- cat        run a command for each job

  http://127.0.0.1:7300/console             the same in a browser

put, work, stats, peek, kick, delete, pause and bench use the beanstalkd
protocol, and work with any such server. put, work and bench can also use those
of Gearman and Kestrel, and peek that of Kestrel. top, status, jobs,
move, clear, connections, console, cron, why, drain, reload, ping and doctor use
Lineshaft's HTTP API.";

/// A durable work queue that speaks the protocols of beanstalkd, Gearman and Kestrel, with its tools.
#[derive(Debug, Parser)]
#[command(name = "lineshaft", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// What to do; `None` is `serve` with its defaults.
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub misplaced: MisplacedOptions,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArguments),
    Config(ConfigArguments),
    /// Replace beanstalkd: its flags and defaults; keeps jobs in memory without -b
    #[command(disable_help_flag = true)]
    Beanstalkd {
        /// beanstalkd's own flags; -h lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Replace gearmand: its flags and defaults; keeps jobs in memory without -q
    #[command(disable_help_flag = true)]
    Gearmand {
        /// gearmand's own flags; -h lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Kestrel(KestrelArguments),
    Policy(PolicyArguments),
    Token(TokenArguments),
    Log(LogArguments),
    Import(ImportArguments),
    Export(ExportArguments),
    Backup(BackupArguments),
    Cluster(ClusterArguments),
    Put(PutArguments),
    Work(WorkArguments),
    Stats(StatsArguments),
    Peek(PeekArguments),
    Kick(KickArguments),
    Delete(DeleteArguments),
    Pause(PauseArguments),
    Top(TopArguments),
    Status(StatusArguments),
    Jobs(JobsArguments),
    History(HistoryArguments),
    Connections(ConnectionsArguments),
    Console(ConsoleArguments),
    Sessions(SessionsArguments),
    Cron(CronArguments),
    Move(MoveArguments),
    Redrive(RedriveArguments),
    SetAside(SetAsideArguments),
    Clear(ClearArguments),
    Why(WhyArguments),
    Drain(DrainArguments),
    Reload(ReloadArguments),
    Ping(PingArguments),
    Doctor(DoctorArguments),
    /// Measure a server, or compare servers
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(bench::BenchArgs),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print names for the shell's Tab
    #[command(name = "__complete", hide = true)]
    Complete {
        /// What to complete
        #[arg(value_parser = ["queues"])]
        what: String,
        /// The beginning of the name
        #[arg(default_value = "", allow_hyphen_values = true)]
        prefix: String,
    },
    /// Write a man page for each command into a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The folder; it must exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

const MAN_EXAMPLES: &str = "\
Examples:
  lineshaft man /usr/local/share/man/man1
  lineshaft man . && man ./lineshaft-work.1";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  lineshaft completions bash > /etc/bash_completion.d/lineshaft
  lineshaft completions zsh > ~/.zfunc/_lineshaft
  lineshaft completions fish > ~/.config/fish/completions/lineshaft.fish";

/// The long names of [`ServeArguments`].
const SERVE_OPTIONS: [&str; 18] = [
    "data",
    "memory",
    "sync",
    "beanstalk",
    "gearman",
    "gearman-http",
    "kestrel",
    "kestrel-text",
    "kestrel-thrift",
    "kestrel-admin",
    "http",
    "tls-certificate",
    "tls-key",
    "tls-client-ca",
    "only",
    "max-job-size",
    "io-threads",
    "config",
];

/// Accepts options of `serve` without the subcommand, only to explain that they belong to
/// `lineshaft serve`.
#[derive(Debug, Default)]
pub(crate) struct MisplacedOptions;

impl Args for MisplacedOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        let parser =
            UnknownArgumentValueParser::suggest("the server's options belong to `lineshaft serve`");
        command.args(SERVE_OPTIONS.map(|name| {
            let option = Arg::new(name).long(name).action(ArgAction::SetTrue).hide(true);
            option.value_parser(parser.clone())
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for MisplacedOptions {
    fn from_arg_matches(_matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(MisplacedOptions)
    }

    fn update_from_arg_matches(&mut self, _matches: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

/// Accepts `serve --port`, as many servers have it, only to explain that each listener has an
/// option of its own.
#[derive(Debug, Default)]
pub(crate) struct PortOption;

impl Args for PortOption {
    fn augment_args(command: clap::Command) -> clap::Command {
        let tip = "name the listener, for example `--beanstalk 127.0.0.1:11400`";
        let parser = UnknownArgumentValueParser::suggest(tip);
        let option = Arg::new("port").long("port").short('p').hide(true);
        command.arg(option.num_args(0..=1).default_missing_value("").value_parser(parser))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PortOption {
    fn from_arg_matches(_matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(PortOption)
    }

    fn update_from_arg_matches(&mut self, _matches: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  lineshaft serve                             jobs in ./lineshaft-data
  lineshaft serve --data /var/lib/lineshaft   jobs in another folder
  lineshaft serve --memory                    keep nothing on disk
  lineshaft serve --sync 50ms                 a power failure can lose 50 ms
  lineshaft serve --beanstalk 0.0.0.0:11300 --beanstalk unix:/run/lineshaft.sock
  lineshaft serve --only --gearman 0.0.0.0:4730  only Gearman
  lineshaft serve --gearman tls:0.0.0.0:4731 --tls-certificate c --tls-key k";

const SERVE_DETAILS: &str = "\
Every option except --only and --config has a key in lineshaft.toml and an
environment variable; `lineshaft config show` lists them all. Flags override
the environment, and the environment overrides the file.

SIGTERM and Ctrl-C stop the server cleanly. SIGUSR1 makes it refuse new jobs.
SIGHUP reloads policies, limits, certificates and the level of messages.";

/// Start the server
#[derive(Debug, Default, Args)]
#[command(
    after_help = tools::shorter(SERVE_EXAMPLES, "serve"),
    after_long_help = tools::longer(SERVE_EXAMPLES, SERVE_DETAILS)
)]
pub(crate) struct ServeArguments {
    /// Folder for jobs
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Keep nothing on disk: all jobs are lost when the server ends
    #[arg(long, conflicts_with_all = ["data", "sync"])]
    pub memory: bool,
    /// How durable an acknowledged job is: always, never, or a time such as 50ms
    #[arg(long, value_name = "WHEN")]
    pub sync: Option<String>,
    /// Where beanstalk clients connect: HOST:PORT, unix:PATH or off; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub beanstalk: Vec<String>,
    /// Where Gearman clients and workers connect: HOST:PORT, unix:PATH or off; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub gearman: Vec<String>,
    /// Where HTTP requests submit Gearman jobs: HOST:PORT, unix:PATH or off; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub gearman_http: Vec<String>,
    /// Where Kestrel's memcache clients connect: HOST:PORT, unix:PATH or off; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel: Vec<String>,
    /// Where clients of Kestrel's text protocol connect
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel_text: Vec<String>,
    /// Where clients of Kestrel's thrift protocol connect
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel_thrift: Vec<String>,
    /// Where to serve Kestrel's admin commands, over HTTP
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel_admin: Vec<String>,
    /// Where HTTP clients connect (console, API, health, metrics): HOST:PORT, unix:PATH or off; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub http: Vec<String>,
    /// Certificate for listeners whose address begins with tls: (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<String>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Accept only clients with a certificate of this authority (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<String>,
    /// Turn off every listener that no flag names
    #[arg(long)]
    pub only: bool,
    /// Largest job that beanstalk clients can put: bytes, or a size such as 1MiB
    #[arg(long, value_name = "SIZE")]
    pub max_job_size: Option<String>,
    /// Number of threads that serve connections
    #[arg(long, value_name = "N")]
    pub io_threads: Option<String>,
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub port: PortOption,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  lineshaft config check                       ./lineshaft.toml
  lineshaft config check /etc/lineshaft.toml   before a reload
  lineshaft config show                        what `serve` would use, and why";

/// Check the configuration, or show the current settings
#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report mistakes in a configuration file, and in the certificates it names
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Show every setting, its value, and the origin of the value
    Show {
        /// Print JSON, one line for each setting
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        file: ConfigFile,
    },
}

/// A configuration file, named with or without `--config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Same as FILE
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file, if one was named.
    pub(crate) fn path(self) -> Option<PathBuf> {
        self.file.or(self.config)
    }
}

const KESTREL_EXAMPLES: &str = "\
Examples:
  lineshaft kestrel                             items in ./kestrel-data
  lineshaft kestrel --data /var/spool/kestrel   items in another folder
  lineshaft kestrel -f kestrel.toml             with policies and settings
  lineshaft kestrel --listen 127.0.0.1 --text-port off   no text protocol

The configuration is a lineshaft.toml; docs/policies.md shows how to translate
Kestrel's configuration. SIGHUP and a client's RELOAD read it again. SIGTERM and
a client's SHUTDOWN stop the server cleanly. SIGUSR1 makes it refuse new items.
`lineshaft serve` has the same listeners, and those of the other protocols.";

/// Replace Kestrel: only its three protocols, on its ports and all addresses
#[derive(Debug, Args)]
#[command(after_help = KESTREL_EXAMPLES)]
pub(crate) struct KestrelArguments {
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, short = 'f', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for items; default: ./kestrel-data, or that of the configuration
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Keep nothing on disk: all items are lost when the server ends
    #[arg(long, conflicts_with_all = ["data", "sync"])]
    pub memory: bool,
    /// How durable an acknowledged item is: always, never, or a time such as 50ms
    #[arg(long, value_name = "WHEN")]
    pub sync: Option<String>,
    /// The address of all ports
    #[arg(long, value_name = "HOST", default_value = "0.0.0.0")]
    pub listen: String,
    /// The port for memcache, or off
    #[arg(long, value_name = "PORT", default_value = "22133")]
    pub port: String,
    /// The port for the text protocol, or off
    #[arg(long, value_name = "PORT", default_value = "2222")]
    pub text_port: String,
    /// The port for thrift, or off
    #[arg(long, value_name = "PORT", default_value = "2229")]
    pub thrift_port: String,
    /// The port for admin commands over HTTP, or off
    #[arg(long, value_name = "PORT", default_value = "2223")]
    pub admin_port: String,
}

const POLICY_EXAMPLES: &str = "\
Examples:
  lineshaft policy show mail.in             every setting, and its origin
  lineshaft policy show news+archive        the same for a fan-out child
  lineshaft policy show mail --config /etc/lineshaft/lineshaft.toml
  lineshaft policy test mail.in --body order.json
  lineshaft policy diff new.toml            what a reload would do to a server

`lineshaft config check` reports mistakes in the policies of a file.";

/// Show the policies of a queue, try them, or compare a new file with the server
#[derive(Debug, Args)]
#[command(after_help = POLICY_EXAMPLES)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show every setting of a queue, its value, and the line that sets it
    Show {
        /// The queue; it need not exist
        queue: OsString,
        /// Print JSON, one line for each setting
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        file: ConfigFile,
    },
    Test(PolicyTestArguments),
    Diff(PolicyDiffArguments),
    /// A word that is no subcommand: probably the name of a queue.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

const POLICY_TEST_EXAMPLES: &str = "\
Examples:
  lineshaft policy test mail.in                       what a put gets, and from which line
  lineshaft policy test mail.in --body order.json     also its key, and whether it is too large
  lineshaft policy test mail.in --config new.toml

It needs no server.";

/// Try the policies of a file on a queue and on bodies of jobs
#[derive(Debug, Args)]
#[command(after_help = POLICY_TEST_EXAMPLES)]
pub(crate) struct PolicyTestArguments {
    /// The queue; it need not exist
    pub queue: OsString,
    /// A file with the body of a job; - is standard input
    #[arg(long = "body", value_name = "FILE")]
    pub bodies: Vec<OsString>,
    /// The unique key that a client of Gearman would send
    #[arg(long, value_name = "KEY")]
    pub unique: Option<OsString>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

const POLICY_DIFF_EXAMPLES: &str = "\
Examples:
  lineshaft policy diff new.toml                   what a reload with this file would do
  lineshaft policy diff new.toml --http HOST:7300  the same for a server elsewhere
  lineshaft policy diff new.toml --json            one line for each queue that changes

It reads from the server over HTTP, and changes nothing.";

/// Show what the policies of a new file would change for the queues and jobs of a server
#[derive(Debug, Args)]
#[command(after_help = POLICY_DIFF_EXAMPLES)]
pub(crate) struct PolicyDiffArguments {
    /// The new configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Look at so many ready jobs of a queue, at most, to count those older than a new `limits.age`
    #[arg(long, value_name = "N", default_value = "10000")]
    pub jobs: u64,
    /// Print JSON, one line for each queue that changes
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub api: ApiArguments,
}

const LOG_EXAMPLES: &str = "\
Examples:
  lineshaft log check ./lineshaft-data            read the log, report damage
  lineshaft log repair ./lineshaft-data ./saved   save the intact part
  lineshaft serve --data ./saved                  continue with it

Both commands only read DIR. They refuse to run while a server uses it.";

/// Check the log of a data folder, or save the intact part of a damaged one
#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
pub(crate) struct LogArguments {
    #[command(subcommand)]
    pub command: LogCommand,
}

/// What can be done with a log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Read the whole log, and report its content and any damage
    Check {
        /// The data folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the intact part of a log into a new folder, and report what is lost
    Repair {
        /// The data folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Folder for the copy: new or empty
        #[arg(value_name = "NEW_DIR")]
        copy: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const BACKUP_EXAMPLES: &str = "\
Examples:
  lineshaft backup /backups/monday          a folder; a server can start on it
  lineshaft backup /backups/monday.tar      a tar file
  lineshaft backup - | ssh host 'mkdir jobs && tar xf - -C jobs'
  lineshaft serve --data /backups/monday    continue with the backup
  lineshaft log check /backups/monday       read and check a backup";

const BACKUP_DETAILS: &str = "\
The backup has everything that the server acknowledged before the backup began.
The server continues to run during the backup. Run this command as the server's
user, on the server's machine.

If the folder is on the file system of the data folder, all files except one are
hard links. At first they take no disk space. But while the links exist, the
server cannot free the space of finished jobs. A copy on another disk is safer.

The command reads a folder or a tar file again, and checks every byte. It checks
a stream while it writes it: run `lineshaft log check` where the stream arrives.";

/// Back up the jobs of a running server
#[derive(Debug, Args)]
#[command(
    after_help = tools::shorter(BACKUP_EXAMPLES, "backup"),
    after_long_help = tools::longer(BACKUP_EXAMPLES, BACKUP_DETAILS)
)]
pub(crate) struct BackupArguments {
    /// New folder, new file whose name ends in .tar, or - for a tar stream
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    /// The server's data folder; default: that of the configuration
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read at most this much per second, as bytes or a size such as 20MiB
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = parse_rate)]
    pub rate: u64,
    /// No summary and no progress bar
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the summary as JSON; for a tar stream, to standard error
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
}

fn parse_rate(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("a backup needs at least 1 byte per second".to_owned()),
        bytes => Ok(bytes),
    }
}

const BENCH_EXAMPLES: &str = "\
Examples:
  lineshaft bench put --connections 50    puts per second
  lineshaft bench trip                    from a put to a waiting worker
  lineshaft bench compare --quick         side by side with other servers

Bench puts and takes real jobs: do not use it on a server with other jobs.
`put` and `take` use the queue `default`, or --queue. Jobs of `put` stay there:
`lineshaft bench take --seconds 600 --depth 8` removes them.
`trip` uses its own queues, which must be empty: bench-trip-0, -1, ...";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_of_the_server_without_serve_are_explained() {
        for arguments in [&["--memory"][..], &["--data", "/tmp"], &["--only"]] {
            let line = std::iter::once("lineshaft").chain(arguments.iter().copied());
            let error = Cli::try_parse_from(line).expect_err("serve is missing").to_string();
            assert!(error.contains("unexpected argument '--"), "{error}");
            assert!(
                error.contains("tip: the server's options belong to `lineshaft serve`"),
                "{error}"
            );
        }
        let options = ServeArguments::augment_args(clap::Command::new("serve"));
        let shown = options.get_arguments().filter(|option| !option.is_hide_set());
        let names: Vec<&str> = shown.filter_map(Arg::get_long).collect();
        assert_eq!(names, SERVE_OPTIONS);
        let serve = Cli::try_parse_from(["lineshaft", "serve", "--memory"]).expect("it is right");
        assert!(matches!(serve.command, Some(Command::Serve(arguments)) if arguments.memory));
        assert!(!Cli::command().render_long_help().to_string().contains("--memory"));
    }

    #[test]
    fn a_port_without_a_listener_is_explained() {
        for arguments in [&["--port", "11400"][..], &["-p", "11400"], &["--port=11400"]] {
            let line = ["lineshaft", "serve"].into_iter().chain(arguments.iter().copied());
            let error = Cli::try_parse_from(line).expect_err("no such option").to_string();
            assert!(error.contains("unexpected argument"), "{error}");
            assert!(error.contains("tip: name the listener, for example `--beanstalk"), "{error}");
        }
    }

    #[test]
    fn the_command_line_is_consistent_and_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            assert!(subcommand.get_about().is_some(), "{name} has no description");
            // The subcommands `beanstalkd` and `gearmand` take the originals' flags. Their own `-h`
            // explains these flags.
            if ["beanstalkd", "gearmand", "__complete"].contains(&name) {
                continue;
            }
            let help = subcommand.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_else(|| panic!("{name} has no examples"));
            let long_help = subcommand.get_after_long_help().map(ToString::to_string);
            let all = [help, long_help.unwrap_or_default()].join("\n");
            let longest = all.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(80), "the help of {name} is folded in a small terminal");
            let short = subcommand.clone().render_help().to_string();
            assert!(short.lines().count() <= 50, "{name} -h fills more than a screen:\n{short}");
        }
    }
}
