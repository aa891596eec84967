//! The command line of `lineshaft token`.

use std::path::PathBuf;

use api::types::Role;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  lineshaft token add ann --role operator     print a token for the console
  lineshaft token add grafana --role viewer   a token that can only read
  lineshaft token list                        names and roles
  lineshaft token remove ann                  the token stops working at once
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7300/api/v1/me

Viewers read; operators also change jobs and queues; admins also control the
server. A running server reads the file again within two seconds.";

/// Manage the tokens of the HTTP API and the console
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, or list a client certificate
    Add(TokenAddArguments),
    /// Show the names, roles and days of all tokens
    List {
        /// Print JSON, one line for each token
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: TokenPlace,
    },
    /// Remove a token or a certificate
    Remove {
        /// The name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: TokenPlace,
    },
}

/// The arguments of `lineshaft token add`.
#[derive(Debug, Args)]
pub(crate) struct TokenAddArguments {
    /// A name for people; the audit lines of the server show it
    pub name: String,
    /// What the token allows: viewer, operator or admin
    #[arg(long, value_parser = parse_role)]
    pub role: Role,
    /// List the TLS client certificate with this SHA-256 instead of making a token
    #[arg(long, value_name = "SHA256")]
    pub fingerprint: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: TokenPlace,
}

/// Which token file.
#[derive(Debug, Args)]
pub(crate) struct TokenPlace {
    /// Token file; default: http.tokens of the configuration
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Configuration file; default: ./lineshaft.toml, if it exists
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,
}

fn parse_role(text: &str) -> Result<Role, String> {
    let role = Role::parse(text).filter(|role| *role != Role::None);
    role.ok_or_else(|| "write `viewer`, `operator` or `admin`".to_owned())
}
