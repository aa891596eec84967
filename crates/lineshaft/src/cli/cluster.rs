//! The command line of `lineshaft cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  lineshaft cluster keys keys --node north --node south --node west
  lineshaft cluster create --config /etc/lineshaft/lineshaft.toml
  lineshaft cluster status                      the nodes and the stream
  lineshaft cluster check                       read and verify the stream
  lineshaft cluster check --offline /var/lib/lineshaft /backups/monday
  lineshaft cluster promote two                 node two leads from now on
  lineshaft cluster recover --from /var/lib/lineshaft   the stream is lost

docs/replication.md describes how to set up a cluster, and what it promises.";

/// Begin, watch and repair a cluster of servers that share a stream of NATS
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Create the stream, and make the folder of this stopped server the origin of the cluster
    Create(CreateArguments),
    /// Make an authority and certificates for the links between nodes
    Keys(KeysArguments),
    /// Show the nodes, the stream and the servers of NATS; exit code 1 if anything is not well
    Status(StatusOfClusterArguments),
    /// Verify the stream from its first record to its last one, or data folders of stopped servers
    Check(CheckArguments),
    /// Hand the lead over to a node that follows
    Promote(PromoteArguments),
    /// Say that a node does not come back, so that the stream keeps nothing for it
    Forget(ForgetArguments),
    /// Take the folder of this stopped server out of its cluster
    Leave(LeaveArguments),
    /// Begin a new stream with the jobs of a folder, after the loss of the old stream
    Recover(RecoverArguments),
}

/// The configuration of the node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeConfig {
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The arguments of `lineshaft cluster create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    #[command(flatten)]
    pub node: NodeConfig,
    /// The data folder; default: that of the configuration
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Copies of each record, on as many servers of NATS: 3 or 5
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_replicas)]
    pub replicas: usize,
}

/// The arguments of `lineshaft cluster keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    /// Folder for the files; if it has an authority, this authority signs
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Name of a node; may be repeated
    #[arg(long = "node", value_name = "NAME", required = true)]
    pub nodes: Vec<String>,
}

/// The arguments of `lineshaft cluster status`.
#[derive(Debug, Args)]
pub(crate) struct StatusOfClusterArguments {
    #[command(flatten)]
    pub node: NodeConfig,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `lineshaft cluster check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub node: NodeConfig,
    /// Do not use NATS: read these data folders of stopped servers
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["config", "repair_stream"])]
    pub offline: Vec<PathBuf>,
    /// Give the stream the right settings, if it has wrong ones
    #[arg(long)]
    pub repair_stream: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `lineshaft cluster promote`.
#[derive(Debug, Args)]
pub(crate) struct PromoteArguments {
    #[command(flatten)]
    pub node: NodeConfig,
    /// The node's name, or its number as `status --json` shows it
    #[arg(value_name = "NODE")]
    pub name: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `lineshaft cluster forget`.
#[derive(Debug, Args)]
pub(crate) struct ForgetArguments {
    #[command(flatten)]
    pub node: NodeConfig,
    /// The node's name, or its number as `status --json` shows it
    #[arg(value_name = "NODE")]
    pub name: String,
}

/// The arguments of `lineshaft cluster leave`.
#[derive(Debug, Args)]
pub(crate) struct LeaveArguments {
    /// The data folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// The arguments of `lineshaft cluster recover`.
#[derive(Debug, Args)]
pub(crate) struct RecoverArguments {
    #[command(flatten)]
    pub node: NodeConfig,
    /// The data folder whose jobs the new stream begins with
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Data folders of other nodes, or copies of them: they are compared
    #[arg(value_name = "DIR")]
    pub others: Vec<PathBuf>,
    /// Copies of each record, on as many servers of NATS: 3 or 5
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_replicas)]
    pub replicas: usize,
    /// Do not ask for the number of the group
    #[arg(long)]
    pub yes: bool,
}

fn parse_replicas(text: &str) -> Result<usize, String> {
    match text {
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("write 3 or 5".to_owned()),
    }
}
