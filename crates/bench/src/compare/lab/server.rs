//! Starts the servers of a comparison on free loopback ports. Binds each server to its processor,
//! and always ends all servers.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::QUEUE;
use super::brokers::{self, Names};
use super::cluster::{self, Cluster};
use super::port::free_address;
use super::slow_sync::SlowSync;
use super::wire::page;
use crate::compare::measure::limits_for_each_key;
use crate::compare::plan::heavy::expiry_policy;
use crate::compare::plan::missing::Optional;
use crate::compare::plan::sizes::{
    COLD_BODIES_BYTES, COLD_RECORDS_BYTES, JOB_BYTES_MAX, MEMORY_LIMIT,
};
use crate::compare::plan::work::{Binlog, Keeping, Peer, Side};
use crate::{interrupt, process};

/// The time limit for a server to accept its first connection.
const START_MAX: Duration = Duration::from_mins(1);

/// The paths of the programs, and the processors for servers and the generator.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) lineshaft: PathBuf,
    pub(crate) beanstalkd: PathBuf,
    pub(crate) optional: Optional,
    pub(crate) redis_server: PathBuf,
    pub(crate) server_cpu: usize,
    pub(crate) generator_cpu: usize,
    /// Set if each sync of a server takes a chosen time.
    pub(crate) slow_sync: Option<SlowSync>,
}

/// The processors that a server can use.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Processors {
    /// One, which the generator does not use.
    One,
    /// Also the generator's.
    Both,
}

/// A running server. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The addresses for the other protocols. They are valid only if the server has all protocols.
    pub(crate) gearman: SocketAddr,
    pub(crate) memcache: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The address of the server's metrics, if it shows them.
    http: Option<SocketAddr>,
    /// True if the server can use the generator's processor, too.
    pub(crate) has_both_processors: bool,
    output: PathBuf,
    /// A second process that the server needs.
    _names: Option<Names>,
    /// The rest of a cluster, of which this is the leader.
    cluster: Option<Cluster>,
}

impl Server {
    /// Starts `peer` with its data in `folder`, and waits until it accepts connections.
    pub(crate) fn start(programs: &Programs, peer: Peer, folder: &Path) -> anyhow::Result<Self> {
        let processors = match peer {
            Peer::Lineshaft(Side::Threads(_), _) => Processors::Both,
            _ => Processors::One,
        };
        let mut server = Self::launch(programs, peer, folder, processors)?;
        let give_up = Instant::now() + START_MAX;
        loop {
            interrupt::check()?;
            if TcpStream::connect(server.address).is_ok() {
                break;
            }
            server.check_alive()?;
            anyhow::ensure!(Instant::now() < give_up, "{peer} does not accept connections");
            std::thread::sleep(Duration::from_millis(2));
        }
        match peer {
            Peer::Nats { .. } => brokers::make_stream(server.address, QUEUE)?,
            Peer::RabbitMq => brokers::make_quorum_queue(server.address, QUEUE)?,
            _ => {}
        }
        Ok(server)
    }

    /// Starts `peer` and returns at once, except for a cluster.
    pub(crate) fn launch(
        programs: &Programs,
        peer: Peer,
        folder: &Path,
        processors: Processors,
    ) -> anyhow::Result<Self> {
        if peer == Peer::Cluster {
            return Self::launch_cluster(programs, folder);
        }
        let address = free_address()?;
        let [gearman, memcache, admin, http] =
            [free_address()?, free_address()?, free_address()?, free_address()?];
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        let output = folder.join("output.txt");
        let file = File::create(&output)?;
        let names = matches!(peer, Peer::RabbitMq).then(Names::start).transpose()?;
        let mut command = programs.command(peer, names.as_ref(), address, &data)?;
        let (has_all, has_http) = match peer {
            Peer::Lineshaft(Side::All | Side::Bounded, _) => (true, true),
            Peer::Lineshaft(Side::Watched | Side::ColdJobs, _) => (false, true),
            _ => (false, false),
        };
        if has_all {
            command.args(["--gearman", &gearman.to_string(), "--kestrel", &memcache.to_string()]);
            command.args(["--kestrel-admin", &admin.to_string()]);
        }
        if let Some(text) = configuration(peer) {
            let config = folder.join("lineshaft.toml");
            fs::write(&config, text)?;
            command.arg("--config").arg(config);
        }
        if has_http {
            command.args(["--http", &http.to_string()]);
        }
        let http = has_http.then_some(http);
        if let Some(slow_sync) = &programs.slow_sync {
            slow_sync.slow_down(&mut command);
        }
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        // A child inherits the processors of the thread that starts it. So this function binds its
        // own thread first, and needs no helper program.
        match processors {
            Processors::One => process::pin(programs.server_cpu)?,
            Processors::Both => {
                process::pin_to(&[programs.server_cpu, programs.generator_cpu])?;
            }
        }
        let child = command.spawn();
        process::pin(programs.generator_cpu)?;
        let child =
            child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self {
            child,
            address,
            gearman,
            memcache,
            admin,
            http,
            has_both_processors: processors == Processors::Both,
            output,
            _names: names,
            cluster: None,
        })
    }

    fn launch_cluster(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        process::pin_to(&[programs.server_cpu, programs.generator_cpu])?;
        let started = cluster::start(programs, folder);
        process::pin(programs.generator_cpu)?;
        let (child, address, cluster) = started?;
        let output = folder.join("one.txt");
        Ok(Self {
            child,
            address,
            gearman: address,
            memcache: address,
            admin: address,
            http: None,
            has_both_processors: true,
            output,
            _names: None,
            cluster: Some(cluster),
        })
    }

    /// The addresses of the followers, if this is a cluster.
    pub(crate) fn followers(&self) -> Option<&[SocketAddr]> {
        self.cluster.as_ref().map(|cluster| &cluster.followers[..])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Two numbers from the server's metrics: the seconds under the broker's lock, and the seconds
    /// of processor time. `None` if the server has no metrics.
    pub(crate) fn lock_and_processor(&self) -> anyhow::Result<Option<(f64, f64)>> {
        if self.http.is_none() {
            return Ok(None);
        }
        let names = ["lineshaft_turn_seconds_total", "process_cpu_seconds_total"];
        let [lock, processor] = self.metrics(names)?;
        Ok(Some((lock, processor)))
    }

    /// Numbers without labels from the server's metrics.
    pub(crate) fn metrics<const N: usize>(&self, names: [&str; N]) -> anyhow::Result<[f64; N]> {
        let http = self.http.context("the server was not asked to show its metrics")?;
        let page = page(http, "/metrics")?;
        let mut values = [0.0; N];
        for (value, name) in values.iter_mut().zip(names) {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let number = line.and_then(|line| line.trim().parse().ok());
            *value = number.with_context(|| format!("no {name} in the metrics"))?;
        }
        Ok(values)
    }

    /// If the server has ended, returns an error with the last lines of its output.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        let tail: Vec<&str> = text.lines().rev().take(3).collect();
        let words: Vec<&str> = tail.into_iter().rev().collect();
        anyhow::bail!("the server ended with {status}: {}", words.join(" / "))
    }

    /// Ends the leader of a cluster like a crash. Its followers go on.
    pub(crate) fn kill_leader(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends the server like a crash, with SIGKILL.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended and was already waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Programs {
    fn command(
        &self,
        peer: Peer,
        names: Option<&Names>,
        address: SocketAddr,
        data: &Path,
    ) -> anyhow::Result<Command> {
        match peer {
            Peer::Lineshaft(side, keeping) => Ok(self.lineshaft(side, keeping, address, data)),
            Peer::Beanstalkd(binlog) => Ok(self.beanstalkd(binlog, address, data)),
            Peer::Gearmand { sqlite } => Ok(self.gearmand(sqlite, address, data)),
            Peer::Redis => Ok(self.redis(address, data)),
            Peer::Nats { sync_always } => {
                brokers::nats(&self.optional.nats_server, sync_always, address, data)
            }
            Peer::RabbitMq => {
                let names = names.context("RabbitMQ needs a table of names")?;
                brokers::rabbitmq(&self.optional.rabbitmq_server, names, address, data)
            }
            Peer::BareLoop { keeps, syncs } => Ok(self.bare_loop(keeps, syncs, address, data)),
            Peer::Cluster => anyhow::bail!("a cluster has more than one program"),
            Peer::Disk => anyhow::bail!("the disk is not a server"),
        }
    }

    fn lineshaft(&self, side: Side, keeping: Keeping, address: SocketAddr, data: &Path) -> Command {
        let listen = match side {
            Side::Gearman => "--gearman",
            Side::Memcache => "--kestrel",
            _ => "--beanstalk",
        };
        let mut command = Command::new(&self.lineshaft);
        command.args(["serve", "--only", listen]).arg(address.to_string());
        if listen == "--beanstalk" {
            command.args(["--max-job-size", &JOB_BYTES_MAX.to_string()]);
        }
        if let Side::Threads(threads) = side {
            command.args(["--io-threads", &threads.to_string()]);
        }
        match keeping {
            Keeping::Memory => command.arg("--memory"),
            Keeping::SyncAlways => command.args(["--sync", "always", "--data"]).arg(data),
        };
        command
    }

    fn bare_loop(&self, keeps: bool, syncs: bool, address: SocketAddr, data: &Path) -> Command {
        let mut command = Command::new(&self.lineshaft);
        command.args(["bench", "bare-loop", "--listen", &address.to_string()]);
        if keeps {
            command.arg("--keep");
        }
        if syncs {
            command.arg("--log").arg(data);
        }
        command
    }

    fn beanstalkd(&self, binlog: Binlog, address: SocketAddr, data: &Path) -> Command {
        let mut command = Command::new(&self.beanstalkd);
        command.args(["-l", "127.0.0.1", "-p", &address.port().to_string()]);
        command.args(["-z", &JOB_BYTES_MAX.to_string()]);
        match binlog {
            Binlog::None => &mut command,
            Binlog::Usual => command.arg("-b").arg(data),
            Binlog::EachWrite => command.args(["-f", "0", "-b"]).arg(data),
        };
        command
    }

    fn gearmand(&self, sqlite: bool, address: SocketAddr, data: &Path) -> Command {
        let mut command = Command::new(&self.optional.gearmand);
        let port = address.port().to_string();
        command.args(["-p", &port, "-L", "127.0.0.1", "-l", "none", "-P"]).arg(data.join("pid"));
        if sqlite {
            command.args(["-q", "libsqlite3", "--libsqlite3-db"]).arg(data.join("jobs.db"));
        }
        command
    }

    fn redis(&self, address: SocketAddr, data: &Path) -> Command {
        let mut command = Command::new(&self.redis_server);
        command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(data);
        command
    }

    /// The version of RabbitMQ. Its programs print it only after they have started a process that
    /// stays. So this reads the name of its library's folder.
    pub(crate) fn rabbitmq_version(server: &Path) -> Option<String> {
        let libraries = server.parent()?.parent()?.join("lib");
        let names = fs::read_dir(libraries).ok()?.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(format!("RabbitMQ {}", name.strip_prefix("rabbitmq_server-")?))
        });
        names.min()
    }

    /// The version that a program prints, without details of its build.
    pub(crate) fn version(program: &Path, argument: &str) -> Option<String> {
        let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        // gearmand's output begins with an empty line.
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        let end = [" - ", " sha="].into_iter().filter_map(|mark| line.find(mark)).min();
        output.status.success().then(|| line[..end.unwrap_or(line.len())].to_owned())
    }
}

/// The configuration file of a server, if it has one.
fn configuration(peer: Peer) -> Option<String> {
    let Peer::Lineshaft(side, _) = peer else { return None };
    let bounded = format!("[limits]\nmemory = {MEMORY_LIMIT}\n\n[memory]\nbodies = \"off\"\n\n");
    match side {
        Side::All => Some(expiry_policy()),
        Side::Bounded => Some(bounded + &expiry_policy()),
        Side::StoredBodies => Some("[memory]\nbodies = \"1MiB\"\n".to_owned()),
        Side::ColdJobs => {
            Some(format!("[memory]\nbodies = {COLD_BODIES_BYTES}\njobs = {COLD_RECORDS_BYTES}\n"))
        }
        Side::Limited => Some(limits_for_each_key()),
        Side::Beanstalk | Side::Gearman | Side::Memcache | Side::Watched | Side::Threads(_) => None,
    }
}
