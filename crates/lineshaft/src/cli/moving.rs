//! The arguments of the tools that move jobs between servers: import, export.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use notation::address::ServerName;

use super::tools::{ServerArguments, TlsArguments, refuse};

const IMPORT_EXAMPLES: &str = "\
Examples:
  lineshaft import beanstalkd /var/lib/beanstalkd --dry-run
  lineshaft import beanstalkd /var/lib/beanstalkd --data ./lineshaft-data
  lineshaft import beanstalkd --from old:11300 --server new:11300   both run
  lineshaft import gearmand /var/lib/gearman/queue.db
  lineshaft import gearmand dump.csv           a table of another database
  lineshaft import kestrel /var/spool/kestrel
  lineshaft import jsonl mail.jsonl            from `lineshaft export`

Stop the original server and Lineshaft first. An import only reads the source.
If an import is interrupted, run the same command again: it continues.
A source that was imported before is not imported again. The exit code is 65
if a part of the source could not be imported. docs/migrating.md has the steps.";

/// Take over the jobs of another server, from its files
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    pub source: ImportSource,
}

/// Where the jobs come from.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportSource {
    /// Jobs from the binlog of a beanstalkd that was started with -b DIR
    Beanstalkd {
        /// The folder with the files binlog.N
        #[arg(value_name = "DIR", required_unless_present = "from", conflicts_with = "from")]
        folder: Option<PathBuf>,
        /// Instead of a folder: drain this running server over its protocol, HOST:PORT or unix:PATH
        #[arg(
            long,
            value_name = "ADDRESS",
            conflicts_with_all = ["data", "again", "set_aside", "config"]
        )]
        from: Option<ServerName>,
        /// Drain only this tube; may be repeated
        #[arg(long = "tube", value_name = "TUBE", requires = "from")]
        tubes: Vec<String>,
        // This field is before `server`, because parsing `server` removes its value.
        #[command(flatten)]
        server_option: ServerOption,
        #[command(flatten)]
        server: ServerArguments,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Background jobs from gearmand's sqlite database, or from a CSV dump of its table
    Gearmand {
        /// The database, or CSV with a header row
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Name of the table in the database
        #[arg(long, value_name = "NAME", default_value = import::gearmand::TABLE)]
        table: String,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Items from Kestrel's journals
    Kestrel {
        /// The folder with the journals (Kestrel's queuePath)
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Jobs that `lineshaft export` or your own program wrote
    Jsonl {
        /// The file; - is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        options: ImportOptions,
    },
}

impl ImportSource {
    pub(crate) fn options(&self) -> &ImportOptions {
        match self {
            ImportSource::Beanstalkd { options, .. }
            | ImportSource::Gearmand { options, .. }
            | ImportSource::Kestrel { options, .. }
            | ImportSource::Jsonl { options, .. } => options,
        }
    }

    /// Fails if the command line names a server, or files for it, and the import uses no server.
    pub(crate) fn refuse_unused_server(&self) -> Result<(), clap::Error> {
        let ImportSource::Beanstalkd { from: None, server_option, server, .. } = self else {
            return Ok(());
        };
        let TlsArguments { authority, certificate, key } = &server.tls;
        let unused = [
            ("--server", server_option.is_given),
            ("--tls-ca", authority.is_some()),
            ("--tls-certificate", certificate.is_some()),
            ("--tls-key", key.is_some()),
        ];
        match unused.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(refuse(&format!(
                "{option}: an import of files uses no server; name the data folder with --data, or \
                 drain a running beanstalkd with --from"
            ))),
            None => Ok(()),
        }
    }
}

/// Notes whether the command line has `--server`. The environment can also name a server. It does
/// so for all tools, so an import of files must ignore it.
#[derive(Debug)]
pub(crate) struct ServerOption {
    is_given: bool,
}

impl Args for ServerOption {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServerOption {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = matches.value_source("server") == Some(ValueSource::CommandLine);
        Ok(ServerOption { is_given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// How to import.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportOptions {
    /// Folder that gets the jobs; default: that of the configuration, or ./lineshaft-data
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Only report what would be imported; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Import even if this source, or an earlier state of it, was imported before
    #[arg(long)]
    pub again: bool,
    /// After the import, move the source's files into a folder `imported` beside them
    #[arg(long)]
    pub set_aside: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  lineshaft export mail > mail.jsonl            the jobs of one queue
  lineshaft export --all --data /var/lib/lineshaft > all.jsonl
  lineshaft export mail | jq .body              look at the bodies

It writes one JSON object for each job, with everything that `lineshaft import
jsonl` needs. It only reads the data folder, and no server may use the folder.
While a server runs, make a backup (`lineshaft backup DIR`) and export that.";

/// Write the jobs of a data folder as JSON lines
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArguments {
    /// The queues
    #[arg(value_name = "QUEUE", required_unless_present = "all", conflicts_with = "all")]
    pub queues: Vec<OsString>,
    /// All queues
    #[arg(long)]
    pub all: bool,
    /// The data folder; default: that of the configuration, or ./lineshaft-data
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
