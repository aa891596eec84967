//! The command line: every subcommand, its options and its help.
//!
//! Only the shape is here; what a subcommand does is in `commands`.

mod tools;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use tools::{
    KickArguments, PeekArguments, PutArguments, StatsArguments, WatchArguments, WorkArguments,
};

const AFTER_HELP: &str = "\
Without a subcommand, the server starts with its defaults.

A first round, with the server running in another terminal:
  lineshaft put mail 'to=ann' 'to=bob'      put two jobs into the queue `mail`
  lineshaft stats                           see what is waiting
  lineshaft work mail --drain -- cat        run a command for each of them

The tools speak the beanstalkd protocol and work with any server of it.";

/// A durable work queue that speaks the protocols of beanstalkd and Gearman, with its tools.
#[derive(Debug, Parser)]
#[command(name = "lineshaft", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// What to do; `None` is `serve` with its defaults.
    #[command(subcommand)]
    pub command: Option<Command>,
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
    Put(PutArguments),
    Work(WorkArguments),
    Stats(StatsArguments),
    Peek(PeekArguments),
    Kick(KickArguments),
    Watch(WatchArguments),
    /// Measure a server, or compare servers
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(bench::BenchArgs),
}

const SERVE_EXAMPLES: &str = "\
Examples:
  lineshaft serve                             jobs in ./lineshaft-data
  lineshaft serve --data /var/lib/lineshaft   jobs somewhere else
  lineshaft serve --memory                    nothing is kept
  lineshaft serve --sync 50ms                 a power failure may cost 50 ms
  lineshaft serve --beanstalk 0.0.0.0:11300 --beanstalk unix:/run/lineshaft.sock
  lineshaft serve --only --gearman 0.0.0.0:4730  nothing but Gearman

Every option has a key in lineshaft.toml and a variable in the environment;
`lineshaft config show` lists them all. Flags win over the environment, and
that over the file.

SIGTERM and Ctrl-C stop the server cleanly, SIGUSR1 makes it refuse new jobs,
SIGHUP takes over changed limits and log level from the file.";

/// Start the server
#[derive(Debug, Default, Args)]
#[command(after_help = SERVE_EXAMPLES)]
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
    /// Say what is wrong with a configuration file, if anything
    Check {
        /// The file; ./lineshaft.toml unless named
        file: Option<PathBuf>,
    },
    /// Show every setting, its value, and where that came from
    Show {
        /// The configuration file; ./lineshaft.toml if there is one
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

const BENCH_EXAMPLES: &str = "\
Examples:
  lineshaft bench put --connections 50    how many puts a second
  lineshaft bench trip                    from a put to a waiting worker
  lineshaft bench compare --quick         side by side with beanstalkd and redis

Bench puts and takes real jobs: do not point it at a server that has others.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
            let longest = help.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(80), "the help of {name} is folded in a small terminal");
        }
    }
}
