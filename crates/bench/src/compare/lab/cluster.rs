//! Three nodes of a cluster, and three servers of NATS, on this machine. They share all processors
//! with the generator.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::port::free_address;
use super::server::Programs;
use super::wire::page;
use crate::interrupt;

const NAMES: [&str; 3] = ["one", "two", "three"];
/// The servers of NATS elect a leader, and then a node takes over.
const START_MAX: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// The processes of a cluster without its leader. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Cluster {
    others: Vec<Child>,
    /// The addresses of the followers.
    pub(crate) followers: Vec<SocketAddr>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.others {
            // Both calls fail only if the process has ended and was already waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The addresses of one machine.
struct Machine {
    nats: SocketAddr,
    monitor: SocketAddr,
    route: SocketAddr,
    beanstalk: SocketAddr,
    http: SocketAddr,
    peers: SocketAddr,
}

impl Machine {
    fn new() -> anyhow::Result<Machine> {
        Ok(Machine {
            nats: free_address()?,
            monitor: free_address()?,
            route: free_address()?,
            beanstalk: free_address()?,
            http: free_address()?,
            peers: free_address()?,
        })
    }
}

/// Starts a cluster with its data in `folder`. Returns the leader, its address, and the rest.
pub(super) fn start(
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<(Child, SocketAddr, Cluster)> {
    let machines = [Machine::new()?, Machine::new()?, Machine::new()?];
    let mut cluster = Cluster { others: Vec::new(), followers: Vec::new() };
    for at in 0..NAMES.len() {
        let file = write_nats(&machines, at, folder)?;
        let mut command = Command::new(&programs.optional.nats_server);
        command.arg("-c").arg(file);
        cluster.others.push(spawn(&mut command, folder, &format!("nats-{at}"))?);
    }
    let lineshaft = |arguments: &[&str]| {
        let mut command = Command::new(&programs.lineshaft);
        command.args(arguments).current_dir(folder);
        command
    };
    let names = NAMES.map(|name| ["--node", name]).concat();
    run(lineshaft(&[&["cluster", "keys", "keys"], &names[..]].concat()))?;
    for at in 0..NAMES.len() {
        write_node(&machines, at, folder)?;
    }
    run(lineshaft(&["cluster", "create", "--config", "one.toml"]))?;
    let mut leader = None;
    for (at, name) in NAMES.iter().enumerate() {
        let file = format!("{name}.toml");
        let child = spawn(&mut lineshaft(&["serve", "--config", &file]), folder, name)?;
        if at == 0 {
            leader = Some(child);
            wait_for(machines[at].http, "/health/leader")?;
        } else {
            cluster.others.push(child);
            cluster.followers.push(machines[at].beanstalk);
            wait_for(machines[at].http, "/health/ready")?;
        }
    }
    Ok((leader.expect("it is the first one"), machines[0].beanstalk, cluster))
}

fn spawn(command: &mut Command, folder: &Path, name: &str) -> anyhow::Result<Child> {
    let output = File::create(folder.join(format!("{name}.txt")))?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))
}

fn run(mut command: Command) -> anyhow::Result<()> {
    let ended = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    anyhow::ensure!(ended.status.success(), "{command:?}: {said}");
    Ok(())
}

fn wait_for(http: SocketAddr, path: &str) -> anyhow::Result<()> {
    let give_up = Instant::now() + START_MAX;
    while page(http, path).is_err() {
        anyhow::ensure!(Instant::now() < give_up, "a node of the cluster does not begin: {path}");
        interrupt::sleep(PAUSE)?;
    }
    Ok(())
}

fn write_nats(machines: &[Machine; 3], at: usize, folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("nats-{at}.conf"));
    let Machine { nats, monitor, route, .. } = &machines[at];
    let routes = machines.each_ref().map(|machine| format!("nats://{}", machine.route));
    let store = folder.join(format!("store-{at}"));
    let store = store.display();
    let text = format!(
        "server_name: n{at}\nlisten: \"{nats}\"\nhttp: \"{monitor}\"\n\
         jetstream {{ store_dir: \"{store}\"\n sync_interval: always }}\n\
         cluster {{ name: bench\n listen: \"{route}\"\n routes: {routes:?} }}\n"
    );
    fs::write(&file, text)?;
    Ok(file)
}

fn write_node(machines: &[Machine; 3], at: usize, folder: &Path) -> anyhow::Result<()> {
    let name = NAMES[at];
    let Machine { beanstalk, http, peers, .. } = &machines[at];
    let nats = machines.each_ref().map(|machine| format!("nats://{}", machine.nats));
    let monitors = machines.each_ref().map(|machine| format!("http://{}", machine.monitor));
    let off = ["gearman", "kestrel", "kestrel_text", "kestrel_thrift", "kestrel_admin"];
    let off = off.map(|one| format!("{one} = \"off\"\n")).concat();
    let text = format!(
        "io_threads = 1\n[data]\ndir = \"data-{name}\"\nsync = \"100ms\"\n\
         [listen]\nbeanstalk = \"{beanstalk}\"\nhttp = \"{http}\"\n{off}\
         [cluster]\nname = \"bench\"\nnode = \"{name}\"\nnats = {nats:?}\n\
         nats_monitor = {monitors:?}\nallow_colocated = true\nstream_max = \"4GiB\"\n\
         listen = \"{peers}\"\nca = \"keys/ca.pem\"\n\
         certificate = \"keys/{name}.pem\"\nkey = \"keys/{name}-key.pem\"\n"
    );
    fs::write(folder.join(format!("{name}.toml")), text)?;
    Ok(())
}
