//! The arguments of `lineshaft top`.

use clap::Args;
use notation::address::ServerName;
use notation::duration;

use super::operator::ApiArguments;

const TOP_EXAMPLES: &str = "\
Examples:
  lineshaft top                                 the server on this machine
  lineshaft top mail                            queues with `mail` in the name
  lineshaft top --http queue.example:7300 --token-file token
  lineshaft top --server 10.0.0.7:11300         any beanstalkd, only to look at

Keys: 1 to 6 for the screens, Enter to open, / to filter, ? for all others.

top uses the HTTP API of Lineshaft. Changes need the role operator, which the
user of the server has on the same machine. With --server and without --http, it
uses the beanstalkd protocol: it then shows only the queues, and changes
nothing. NO_COLOR=1 turns off colours. `watch` is another name of top.";

/// See and control the server live: queues, jobs, connections, operations
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES, visible_alias = "watch")]
pub(crate) struct TopArguments {
    /// Show only queues whose names contain this
    pub filter: Option<String>,
    /// How often to ask the server
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse_seconds)]
    pub interval: u32,
    /// A server of the beanstalkd protocol: HOST:PORT, unix:PATH or tls:HOST:PORT
    #[arg(long, env = "LINESHAFT_SERVER", value_name = "ADDRESS")]
    pub server: Option<ServerName>,
    #[command(flatten)]
    pub api: ApiArguments,
}
