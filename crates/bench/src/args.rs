//! Command line of the load generator and of the comparison.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use notation::address::{AddressError, ServerName};
use notation::{port, size};

/// Arguments of `lineshaft bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub mode: BenchMode,
}

/// The kinds of measurement.
#[derive(Debug, Subcommand)]
pub enum BenchMode {
    /// Put jobs as fast as the server accepts them, or at a fixed rate; they stay in the queue (--queue).
    Put(PutArgs),
    /// Reserve and delete jobs; a pair counts as one operation.
    Take(TakeArgs),
    /// Measure the time from a put to a waiting consumer (Gearman: from a foreground job to its result); uses
    /// queues bench-trip-0, -1, ...
    Trip(TripArgs),
    /// Open idle connections (Gearman: sleeping workers), and report the server's memory for each.
    Idle(IdleArgs),
    /// Start Lineshaft, beanstalkd, gearmand, redis, NATS and RabbitMQ, and compare them with each other and with the
    /// goals. The exit code is 1 if a row is below its floor or could not be measured.
    Compare(CompareArgs),
    /// Serve as the bare loop, which `compare` measures beside the real servers.
    #[command(hide = true)]
    BareLoop(BareLoopArgs),
}

/// Arguments of `bench bare-loop`.
#[derive(Debug, Args)]
pub struct BareLoopArgs {
    /// Address to listen on.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Keep the jobs in memory.
    #[arg(long)]
    pub keep: bool,
    /// Folder of a log. Without it, nothing is written.
    #[arg(long, value_name = "FOLDER")]
    pub log: Option<PathBuf>,
}

/// Protocols that the generator speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// beanstalkd's protocol: `put`, `reserve-with-timeout 0`, `delete`.
    Beanstalk,
    /// Gearman's protocol: `SUBMIT_JOB_BG`, `GRAB_JOB`, `WORK_COMPLETE`.
    Gearman,
    /// Kestrel's memcache protocol: `set`, `get`.
    Memcache,
    /// Kestrel's thrift protocol: `put`, `get`.
    Thrift,
    /// Redis lists: `LPUSH`, `RPOP`.
    Redis,
    /// NATS, to a stream of JetStream. Only for comparisons, because a stream must exist.
    #[value(skip)]
    Nats,
    /// AMQP 0-9-1, to a quorum queue of RabbitMQ. Only for comparisons.
    #[value(skip)]
    Amqp,
}

impl Protocol {
    /// The default port.
    fn default_port(self) -> u16 {
        match self {
            Protocol::Beanstalk => port::BEANSTALK,
            Protocol::Gearman => port::GEARMAN,
            Protocol::Memcache => port::KESTREL,
            Protocol::Thrift => port::KESTREL_THRIFT,
            Protocol::Redis => 6379,
            Protocol::Nats => 4222,
            Protocol::Amqp => 5672,
        }
    }
}

/// Which server, and how the result is shown.
#[derive(Clone, Debug, Args)]
pub struct TargetArgs {
    /// Address of the server, not a unix socket. The default port is 11300; with --protocol gearman 4730, memcache
    /// 22133, thrift 2229, redis 6379.
    #[arg(
        long,
        alias = "address",
        env = "LINESHAFT_SERVER",
        value_name = "HOST[:PORT]",
        default_value = "127.0.0.1",
        value_parser = parse_server
    )]
    pub server: ServerName,
    /// Protocol to speak.
    #[arg(long, value_enum, default_value_t = Protocol::Beanstalk)]
    pub protocol: Protocol,
    /// Process id of the server, to report its processor time and memory.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Processor to which the generator binds itself; not the server's.
    #[arg(long, value_name = "CPU")]
    pub pin: Option<usize>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

impl TargetArgs {
    /// `HOST:PORT`. The default port is the protocol's.
    pub(crate) fn server(&self) -> String {
        self.server.address(self.protocol.default_port()).to_string()
    }
}

/// Shape of a load.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// Connections.
    #[arg(long, short, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// Operations in flight on each connection.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: u32,
    /// Operations to measure.
    #[arg(long)]
    pub count: Option<u64>,
    /// Seconds to measure; 5 without --count. With both, the run ends at the first limit.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Seconds of the same load before the measurement begins.
    #[arg(long, default_value_t = 0.5)]
    pub warm_up: f64,
    /// Open loop: operations per second on a fixed schedule, over all connections. Latency then counts from the
    /// time an operation was due, not from the time it was sent.
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Queue (tube, function, list) to use; jobs that are not taken stay there.
    #[arg(long, default_value = "default")]
    pub queue: String,
    /// Also draw the result, as an SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// Arguments of `bench put`.
#[derive(Debug, Args)]
pub struct PutArgs {
    /// Which server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Which load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Size of a body: bytes, or a size such as 1KiB.
    #[arg(long, short, value_name = "SIZE", default_value_t = 100, value_parser = parse_body_size)]
    pub body_bytes: u32,
    /// Spread the puts over this many queues, with a `use` before each put.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub queues: Option<u32>,
}

/// Arguments of `bench take`.
#[derive(Debug, Args)]
pub struct TakeArgs {
    /// Which server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Which load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Put this many jobs first, outside the measurement. The run ends when the queue is empty.
    #[arg(long, default_value_t = 0)]
    pub fill: u64,
    /// Size of a body that --fill puts: bytes, or a size such as 1KiB.
    #[arg(long, short, value_name = "SIZE", default_value_t = 100, value_parser = parse_body_size)]
    pub body_bytes: u32,
}

/// Arguments of `bench trip`.
#[derive(Debug, Args)]
pub struct TripArgs {
    /// Which server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Pairs of a producer and a waiting consumer, used one after the other.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// Round trips a second; 0 is one after the other without a pause.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1000.0)]
    pub rate: f64,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Size of a body: bytes, or a size such as 1KiB.
    #[arg(long, short, value_name = "SIZE", default_value_t = 100, value_parser = parse_body_size)]
    pub body_bytes: u32,
    /// Also draw the result, as an SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// Arguments of `bench idle`.
#[derive(Debug, Args)]
pub struct IdleArgs {
    /// Which server.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Connections to open; each sends one request and then stays silent.
    #[arg(long, short, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,
    /// Seconds to keep them open after the memory was read.
    #[arg(long, default_value_t = 0.0)]
    pub seconds: f64,
}

/// Arguments of `bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Rounds; each measures every server once, in changing order.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Seconds of each throughput measurement.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Few rounds, short measurements and small backlogs: for a quick look only.
    #[arg(long)]
    pub quick: bool,
    /// Jobs of the deep queue (row M3): 10,000,000 by default. 100,000,000 need 25 GB of disk.
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1_000_000..))]
    pub deep_jobs: Option<u64>,
    /// The most jobs among which row T18 measures the cost of an operation, up to 30,000,000; 1,000,000 by default.
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1_000..))]
    pub cost_jobs: Option<u64>,
    /// Only these rows, e.g. `T1,T6,M4`; M6b, which takes minutes, only when it is named.
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,
    /// Write the result as a Markdown page. Its plots go to a folder beside it, with the name of the page.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Draw the rates of all servers, as an SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Processor of the servers.
    #[arg(long, value_name = "CPU")]
    pub server_cpu: Option<usize>,
    /// Processor of the generator.
    #[arg(long, value_name = "CPU")]
    pub generator_cpu: Option<usize>,
    /// Folder for the servers' data, on the disk to be measured. A folder is made below it and removed at the end.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Lineshaft's program; this program by default.
    #[arg(long, value_name = "FILE")]
    pub lineshaft: Option<PathBuf>,
    /// beanstalkd's program.
    #[arg(long, value_name = "FILE", default_value = "beanstalkd")]
    pub beanstalkd: PathBuf,
    /// gearmand's program; without it the rows that need it are left out.
    #[arg(long, value_name = "FILE", default_value = "/usr/sbin/gearmand")]
    pub gearmand: PathBuf,
    /// The program of NATS; without it the rows that need it are left out.
    #[arg(long, value_name = "FILE", default_value = "nats-server")]
    pub nats_server: PathBuf,
    /// RabbitMQ's program; without it the rows that need it are left out.
    #[arg(long, value_name = "FILE", default_value = "/usr/lib/rabbitmq/bin/rabbitmq-server")]
    pub rabbitmq_server: PathBuf,
    /// Redis' program.
    #[arg(long, value_name = "FILE", default_value = "redis-server")]
    pub redis_server: PathBuf,
}

/// Reads the size of a body.
fn parse_body_size(text: &str) -> Result<u32, String> {
    let bytes = size::parse(text)?;
    u32::try_from(bytes).map_err(|_| format!("`{text}` is too large; write less than 4GiB"))
}

/// Reads the name of a server. The generator speaks only TCP.
fn parse_server(text: &str) -> Result<ServerName, String> {
    let name: ServerName = text.parse().map_err(|error: AddressError| error.to_string())?;
    if name.is_unix() || name.is_tls {
        return Err("the generator speaks only TCP without TLS: name HOST:PORT".to_owned());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn server_of(arguments: &[&str]) -> String {
        let line = ["bench", "trip"].iter().chain(arguments);
        let program = <Program as clap::Parser>::try_parse_from(line).expect("it is right");
        let BenchMode::Trip(trip) = program.bench.mode else { panic!("not trip") };
        trip.target.server()
    }

    #[test]
    fn a_server_is_named_with_or_without_a_port() {
        for (text, expected) in [
            ("queue.example:4000", "queue.example:4000"),
            ("::1", "[::1]:11300"),
            ("[::1]:4000", "[::1]:4000"),
        ] {
            for name in ["--server", "--address"] {
                assert_eq!(server_of(&[name, text]), expected);
            }
        }
        for text in ["unix:/run/lineshaft.sock", "tls:queue.example:4000"] {
            let refused = parse_server(text).unwrap_err();
            assert_eq!(refused, "the generator speaks only TCP without TLS: name HOST:PORT");
        }
        assert!(parse_server("host:port").unwrap_err().starts_with("`port` is not a port"));
    }

    #[test]
    fn a_body_can_have_a_size_with_a_unit() {
        assert_eq!(parse_body_size("100"), Ok(100));
        assert_eq!(parse_body_size("1KiB"), Ok(1024));
        assert_eq!(
            parse_body_size("4GiB").unwrap_err(),
            "`4GiB` is too large; write less than 4GiB"
        );
    }

    #[test]
    fn each_protocol_has_a_port_of_its_own() {
        for (protocol, port) in
            [("beanstalk", 11300), ("memcache", 22133), ("thrift", 2229), ("redis", 6379)]
        {
            let server = server_of(&["--protocol", protocol, "--server", "localhost"]);
            assert_eq!(server, format!("localhost:{port}"));
        }
        let gearman = ["--protocol", "gearman", "--server"];
        for (text, expected) in [
            ("localhost", "localhost:4730"),
            ("::1", "[::1]:4730"),
            ("localhost:11300", "localhost:11300"),
        ] {
            assert_eq!(server_of(&[&gearman[..], &[text]].concat()), expected);
        }
    }
}
