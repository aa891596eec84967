//! The command line: every subcommand, its options and its help.
//!
//! Only the shape is here; what a subcommand does is in `commands`.

mod tools;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand};

pub(crate) use tools::{
    DeleteArguments, KickArguments, PauseArguments, PeekArguments, PutArguments, StatsArguments,
    WatchArguments, WorkArguments, refuse,
};

const AFTER_HELP: &str = "\
Without a subcommand, the server starts with its defaults.

A first round, with the server running in another terminal:
  lineshaft put mail 'to=ann' 'to=bob'      put two jobs into the queue `mail`
  lineshaft stats                           see what is waiting
  lineshaft work mail --drain -- cat        run a command for each of them

The tools speak the beanstalkd protocol and work with any server of it;
put and work speak Gearman as well.";

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
    /// Serve as beanstalkd does: its flags, its defaults, in memory unless -b names a folder
    #[command(disable_help_flag = true)]
    Beanstalkd {
        /// beanstalkd's own flags; -h lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Serve as gearmand does: its flags, its defaults, in memory unless -q names a queue that is kept
    #[command(disable_help_flag = true)]
    Gearmand {
        /// gearmand's own flags; -h lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Kestrel(KestrelArguments),
    Policy(PolicyArguments),
    Log(LogArguments),
    Put(PutArguments),
    Work(WorkArguments),
    Stats(StatsArguments),
    Peek(PeekArguments),
    Kick(KickArguments),
    Delete(DeleteArguments),
    Pause(PauseArguments),
    Watch(WatchArguments),
    /// Measure a server, or compare servers
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(bench::BenchArgs),
}

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

/// The server's options where no subcommand was given. They are known only to say where they belong.
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

const SERVE_EXAMPLES: &str = "\
Examples:
  lineshaft serve                             jobs in ./lineshaft-data
  lineshaft serve --data /var/lib/lineshaft   jobs somewhere else
  lineshaft serve --memory                    nothing is kept
  lineshaft serve --sync 50ms                 a power failure may cost 50 ms
  lineshaft serve --beanstalk 0.0.0.0:11300 --beanstalk unix:/run/lineshaft.sock
  lineshaft serve --only --gearman 0.0.0.0:4730  nothing but Gearman
  lineshaft serve --gearman tls:0.0.0.0:4731 --tls-certificate c --tls-key k";

const SERVE_DETAILS: &str = "\
Every option but --only and --config has a key in lineshaft.toml and a variable
in the environment; `lineshaft config show` lists them all. Flags win over the
environment, and that over the file.

SIGTERM and Ctrl-C stop the server cleanly, SIGUSR1 makes it refuse new jobs,
SIGHUP takes over changed policies, limits and log level from the file.";

/// Start the server
#[derive(Debug, Default, Args)]
#[command(
    after_help = tools::shorter(SERVE_EXAMPLES, "serve"),
    after_long_help = tools::longer(SERVE_EXAMPLES, SERVE_DETAILS)
)]
pub(crate) struct ServeArguments {
    /// Where jobs are kept
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Keep nothing: all jobs are lost when the server ends
    #[arg(long, conflicts_with_all = ["data", "sync"])]
    pub memory: bool,
    /// How durable a job is when it is acknowledged: always, never, or a time such as 50ms
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
    /// The same for its text protocol
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel_text: Vec<String>,
    /// The same for its thrift protocol
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel_thrift: Vec<String>,
    /// Where Kestrel's admin commands are served, over HTTP
    #[arg(long, value_name = "ADDRESS")]
    pub kestrel_admin: Vec<String>,
    /// Where health and metrics are served: HOST:PORT, unix:PATH or off; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub http: Vec<String>,
    /// The certificate of listeners whose address begins with tls:, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<String>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Let only clients in that have a certificate of this authority
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<String>,
    /// Switch off every listener that is not named by a flag
    #[arg(long)]
    pub only: bool,
    /// The largest job that beanstalk clients may put: bytes, or 1MiB
    #[arg(long, value_name = "SIZE")]
    pub max_job_size: Option<String>,
    /// How many threads serve connections
    #[arg(long, value_name = "N")]
    pub io_threads: Option<String>,
    /// The configuration file; ./lineshaft.toml if there is one
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  lineshaft config check                       ./lineshaft.toml
  lineshaft config check /etc/lineshaft.toml   before a reload
  lineshaft config show                        what `serve` would use, and why";

/// Check the configuration, or show what is in force
#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong with a configuration file, and with the certificates it names, if anything
    Check {
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Show every setting, its value, and where that came from
    Show {
        #[command(flatten)]
        file: ConfigFile,
    },
}

/// A configuration file, named with or without `--config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file; ./lineshaft.toml if there is one
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same
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
  lineshaft kestrel --data /var/spool/kestrel   items somewhere else
  lineshaft kestrel -f kestrel.toml             with policies and settings
  lineshaft kestrel --listen 127.0.0.1 --text-port off   no text protocol

The configuration is a lineshaft.toml; docs/policies.md shows how one of the
original's is translated. SIGHUP and a client's RELOAD read it again, SIGTERM
and a client's SHUTDOWN stop the server cleanly, SIGUSR1 makes it refuse new
items. `lineshaft serve` has the same listeners beside the others.";

/// Serve as Kestrel does: its three protocols alone, at its ports on all addresses
#[derive(Debug, Args)]
#[command(after_help = KESTREL_EXAMPLES)]
pub(crate) struct KestrelArguments {
    /// The configuration file; ./lineshaft.toml if there is one
    #[arg(long, short = 'f', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where items are kept; ./kestrel-data unless the configuration names a folder
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Keep nothing: all items are lost when the server ends
    #[arg(long, conflicts_with_all = ["data", "sync"])]
    pub memory: bool,
    /// How durable an item is when it is acknowledged: always, never, or a time such as 50ms
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
  lineshaft policy show mail.in             every setting, and where it is from
  lineshaft policy show news+archive        of a fan-out child
  lineshaft policy show mail --config /etc/lineshaft/lineshaft.toml

`lineshaft config check` says what is wrong with the policies of a file.";

/// Show what the policies ask of a queue
#[derive(Debug, Args)]
#[command(after_help = POLICY_EXAMPLES)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show every setting of a queue, its value, and the line that it came from
    Show {
        /// The queue; it need not exist
        queue: OsString,
        #[command(flatten)]
        file: ConfigFile,
    },
}

const LOG_EXAMPLES: &str = "\
Examples:
  lineshaft log check ./lineshaft-data            read it all, say what is wrong
  lineshaft log repair ./lineshaft-data ./saved   save what is whole in ./saved
  lineshaft serve --data ./saved                  go on with it

Both only read DIR, which no server may be using.";

/// Read the log of a data folder, or save what is whole of a damaged one
#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
pub(crate) struct LogArguments {
    #[command(subcommand)]
    pub command: LogCommand,
}

/// What can be done with a log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Read all of a log, and say what is in it and what is damaged
    Check {
        /// The data folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Write all that is whole in a log into a new folder, and say what is lost
    Repair {
        /// The data folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Where the copy goes: a new or empty folder
        #[arg(value_name = "NEW_DIR")]
        copy: PathBuf,
    },
}

const BENCH_EXAMPLES: &str = "\
Examples:
  lineshaft bench put --connections 50    how many puts a second
  lineshaft bench trip                    from a put to a waiting worker
  lineshaft bench compare --quick         side by side with other servers

Bench puts and takes real jobs: do not point it at a server that has others.
`put` and `take` use the queue `default`, or --queue. What `put` put stays there
until `take`, or `lineshaft work default --drain -- true`, has removed it.
`trip` has queues of its own, which have to be empty: bench-trip-0, -1, ...";

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
        let names: Vec<&str> = options.get_arguments().filter_map(Arg::get_long).collect();
        assert_eq!(names, SERVE_OPTIONS);
        let serve = Cli::try_parse_from(["lineshaft", "serve", "--memory"]).expect("it is right");
        assert!(matches!(serve.command, Some(Command::Serve(arguments)) if arguments.memory));
        assert!(!Cli::command().render_long_help().to_string().contains("--memory"));
    }

    #[test]
    fn the_command_line_is_consistent_and_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            assert!(subcommand.get_about().is_some(), "{name} has no description");
            // Those take the original's flags, and explain them as the original does.
            if ["beanstalkd", "gearmand"].contains(&name) {
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
