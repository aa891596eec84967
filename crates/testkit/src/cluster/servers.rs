//! Three servers of NATS that replicate for each other.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cluster::links::{Network, Party};
use crate::process::free_port;
use crate::{tools, wait};

/// The setting with which a server flushes each record before it acknowledges it.
pub const FLUSH_ALWAYS: &str = "sync_interval: always";

/// Three servers. Their processes end when this value is dropped.
#[derive(Debug)]
pub struct NatsServers {
    program: PathBuf,
    folder: TempDir,
    all: Vec<NatsServer>,
}

#[derive(Debug)]
struct NatsServer {
    port: u16,
    monitor: u16,
    process: Option<Child>,
}

/// The program `nats-server`. `None`: it is missing, and the caller must skip the test.
/// `scripts/install-test-tools.sh` installs it where its wheel exists.
pub fn find_nats_server() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../../target/test-tools/nats/bin/nats-server");
    if installed.exists() {
        return Some(installed);
    }
    if cfg!(target_arch = "x86_64") {
        return tools::find_or_skip("nats-server");
    }
    let found = tools::find("nats-server");
    if found.is_none() {
        tools::leave_out("nats-server cannot be installed on this machine");
    }
    found
}

impl NatsServers {
    /// Starts the servers. `flush` is a line of their configuration, usually [`FLUSH_ALWAYS`].
    /// `None`: the program is not installed, and the caller must skip the test.
    pub fn start(flush: &str) -> Option<NatsServers> {
        let program = find_nats_server()?;
        let folder = tempfile::tempdir().expect("a folder");
        let stores = [0, 1, 2].map(|at| folder.path().join(format!("store-{at}")));
        Some(NatsServers::start_three(program, folder, flush, &stores, |_, _, port| port))
    }

    /// The same servers with their stores in these folders. They reach each other through the doors
    /// of this network.
    pub fn start_linked(network: &mut Network, stores: &[PathBuf; 3]) -> Option<NatsServers> {
        let program = find_nats_server()?;
        let folder = tempfile::tempdir().expect("a folder");
        let door = |from, to, port| network.door(Some(Party::Nats(from)), Party::Nats(to), port);
        let servers = NatsServers::start_three(program, folder, FLUSH_ALWAYS, stores, door);
        for at in 0..3 {
            network.open(Party::Nats(at), servers.process_id(at));
        }
        Some(servers)
    }

    /// `route` gets the number of a server, the number of another one, and its port for routes. It
    /// returns the port that leads there.
    fn start_three(
        program: PathBuf,
        folder: TempDir,
        flush: &str,
        stores: &[PathBuf; 3],
        mut route: impl FnMut(usize, usize, u16) -> u16,
    ) -> NatsServers {
        let ports: Vec<u16> = (0..9).map(|_| free_port().expect("a port is free")).collect();
        let mut servers = NatsServers { program, folder, all: Vec::new() };
        for (at, store) in stores.iter().enumerate() {
            let (port, own, monitor) = (ports[3 * at], ports[3 * at + 1], ports[3 * at + 2]);
            let others = (0..3).filter(|other| *other != at);
            let routes: Vec<String> = others
                .map(|other| route(at, other, ports[3 * other + 1]))
                .map(|port| format!("nats://127.0.0.1:{port}"))
                .collect();
            let store = store.display();
            // The servers tell each other an address where nobody listens. Otherwise they would find
            // ways around the routes.
            let text = format!(
                "server_name: n{at}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
                 jetstream {{ store_dir: \"{store}\"\n {flush}\n max_file_store: 1GB }}\n\
                 cluster {{ name: test\n listen: \"127.0.0.1:{own}\"\n pool_size: -1\n \
                 advertise: \"127.0.0.1:1\"\n no_advertise: true\n routes: {routes:?} }}\n"
            );
            fs::write(servers.configuration(at), text).expect("the folder can be written");
            servers.all.push(NatsServer { port, monitor, process: None });
            servers.run(at);
        }
        for server in &servers.all {
            wait::until("the server listens", || {
                TcpStream::connect(("127.0.0.1", server.port)).is_ok()
            });
        }
        servers
    }

    /// One server alone. `configure` gets the server's port, the port for monitoring, and a folder
    /// for its streams.
    pub fn start_one(configure: impl FnOnce(u16, u16, &Path) -> String) -> Option<NatsServers> {
        let program = find_nats_server()?;
        let folder = tempfile::tempdir().expect("a folder");
        let [port, monitor] = [(); 2].map(|()| free_port().expect("a port is free"));
        let text = configure(port, monitor, &folder.path().join("store"));
        let all = vec![NatsServer { port, monitor, process: None }];
        let mut servers = NatsServers { program, folder, all };
        fs::write(servers.configuration(0), text).expect("the folder is ours");
        servers.run(0);
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait::until("the server listens", listens);
        Some(servers)
    }

    fn configuration(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("nats-{at}.conf"))
    }

    /// Starts a server, again with its files.
    pub fn run(&mut self, at: usize) {
        let process = Command::new(&self.program)
            .arg("--config")
            .arg(self.configuration(at))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.all[at].process = Some(process.expect("the program starts"));
    }

    /// Kills a server, like a crash.
    pub fn kill(&mut self, at: usize) {
        let mut process = self.all[at].process.take().expect("the server runs");
        process.kill().expect("it is our process");
        process.wait().expect("it is our process");
    }

    /// Sends a signal to a server.
    pub fn signal(&self, at: usize, signal: Signal) {
        let process = self.all[at].process.as_ref().expect("the server runs");
        kill_process(Pid::from_child(process), signal).expect("it is our process");
    }

    /// The id of a server's process.
    pub fn process_id(&self, at: usize) -> u32 {
        self.all[at].process.as_ref().expect("the server runs").id()
    }

    /// The ports of a server: for clients, and for monitoring.
    pub fn ports(&self, at: usize) -> [u16; 2] {
        [self.all[at].port, self.all[at].monitor]
    }

    /// The addresses for clients.
    pub fn urls(&self) -> Vec<String> {
        self.all.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect()
    }

    /// The monitoring addresses.
    pub fn monitors(&self) -> Vec<String> {
        self.all.iter().map(|server| format!("http://127.0.0.1:{}", server.monitor)).collect()
    }

    /// How long the servers take to elect a leader, at most.
    pub const ELECTION_MAX: Duration = Duration::from_secs(30);
}

impl Drop for NatsServers {
    fn drop(&mut self) {
        for server in &mut self.all {
            if let Some(mut process) = server.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
