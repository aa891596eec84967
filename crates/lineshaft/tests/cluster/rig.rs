//! A cluster on this machine: three servers of NATS, and up to three nodes. They can be connected
//! through a network that a test can cut.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Broker, Millis, NewJob, Options};
use log::PosixDisk;
use nats::{Access, Place, stream};
use replica::Lineage;
use tempfile::TempDir;
use testkit::client::Client;
use testkit::cluster::{FLUSH_ALWAYS, NatsServers, Network, Party};
use testkit::process::{Program, Server, free_port, lineshaft_path};
use testkit::tls::certificates::{Authority, Identity};
use testkit::wait;

const LINEAGE: Lineage = Lineage([5; 16]);
const NAME: &str = "test";
/// A node whose answer takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One node: its folder, its addresses, and its process while it runs.
pub(crate) struct Node {
    pub(crate) folder: TempDir,
    pub(crate) beanstalk: SocketAddr,
    pub(crate) gearman: SocketAddr,
    pub(crate) kestrel: SocketAddr,
    http: SocketAddr,
    /// Kestrel's admin commands.
    pub(crate) admin: SocketAddr,
    peers: SocketAddr,
    /// Where the other nodes find it.
    advertised: SocketAddr,
    /// Where it finds NATS.
    nats: Vec<String>,
    monitors: Vec<String>,
    identity: Identity,
    pub(crate) server: Option<Server>,
}

/// What is special about a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Special {
    /// Lines of the tables `[data]`, `[http]` and `[cluster]`.
    pub(crate) data: &'static str,
    pub(crate) http: &'static str,
    pub(crate) cluster: &'static str,
    /// The bodies of the jobs that the origin has already.
    pub(crate) bodies: Vec<Vec<u8>>,
}

pub(crate) struct Rig {
    special: Special,
    runtime: tokio::runtime::Runtime,
    pub(crate) servers: NatsServers,
    pub(crate) nodes: Vec<Node>,
    /// `None`: the nodes and the servers are connected directly.
    pub(crate) network: Option<Network>,
    authority: Authority,
    keys: TempDir,
}

fn local() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()))
}

impl Rig {
    /// A cluster whose nodes do not run yet. The folder of the first node is the origin. `None`: a
    /// tool is missing.
    pub(crate) fn new(nodes: usize) -> Option<Rig> {
        Rig::with(nodes, Special::default())
    }

    pub(crate) fn with(nodes: usize, special: Special) -> Option<Rig> {
        let servers = NatsServers::start(FLUSH_ALWAYS)?;
        Some(Rig::over(servers, nodes, special))
    }

    /// The servers have this line in their configuration, in place of [`FLUSH_ALWAYS`].
    pub(crate) fn with_flush(nodes: usize, flush: &str) -> Option<Rig> {
        Some(Rig::over(NatsServers::start(flush)?, nodes, Special::default()))
    }

    fn over(servers: NatsServers, nodes: usize, special: Special) -> Rig {
        let folders = (0..nodes).map(|_| tempfile::tempdir().unwrap()).collect();
        Rig::build(servers, None, folders, special)
    }

    /// Three nodes and three servers in a network that can be cut. Each server of NATS and each node
    /// with the same number have their files below the same one of these folders.
    pub(crate) fn linked(machines: &[PathBuf; 3]) -> Option<Rig> {
        let mut network = Network::new();
        let stores = machines.each_ref().map(|machine| machine.join("nats"));
        let servers = NatsServers::start_linked(&mut network, &stores)?;
        let folder = |machine| tempfile::tempdir_in(machine).unwrap();
        let folders = machines.iter().map(folder).collect();
        // As docs/replication.md recommends.
        let special = Special { data: "sync = \"100ms\"\n", ..Special::default() };
        Some(Rig::build(servers, Some(network), folders, special))
    }

    fn build(
        servers: NatsServers,
        mut network: Option<Network>,
        folders: Vec<TempDir>,
        special: Special,
    ) -> Rig {
        let (servers_at, access) = (servers.urls(), Access::default());
        let place = Place { servers: servers_at, name: NAME.into(), replicas: 3, access };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let begun = Instant::now();
        while let Err(error) = runtime.block_on(stream::create_at(&place, LINEAGE)) {
            assert!(begun.elapsed() < NatsServers::ELECTION_MAX, "{error}");
        }
        let keys = tempfile::tempdir().unwrap();
        let authority = Authority::new(keys.path(), "authority").unwrap();
        let node = |(at, folder): (usize, TempDir)| {
            let peers = local();
            let (mut nats, mut monitors, mut advertised) =
                (servers.urls(), servers.monitors(), peers);
            if let Some(network) = &mut network {
                let own = Party::Node(at);
                advertised.set_port(network.door(None, own, peers.port()));
                // A door is closed until the process behind it runs.
                network.close(own);
                let mut door = |server, port| network.door(Some(own), Party::Nats(server), port);
                let ports = [0, 1, 2].map(|server| servers.ports(server));
                let doors = [0, 1, 2].map(|at| ports[at].map(|port| door(at, port)));
                nats = doors.map(|[port, _]| format!("nats://127.0.0.1:{port}")).to_vec();
                monitors = doors.map(|[_, port]| format!("http://127.0.0.1:{port}")).to_vec();
            }
            Node {
                folder,
                beanstalk: local(),
                gearman: local(),
                kestrel: local(),
                http: local(),
                admin: local(),
                peers,
                advertised,
                nats,
                monitors,
                identity: authority.issue(&format!("node-{at}")).unwrap(),
                server: None,
            }
        };
        let nodes = folders.into_iter().enumerate().map(node).collect();
        let rig = Rig { special, runtime, servers, nodes, network, authority, keys };
        rig.make_origin(0, &rig.special.bodies);
        rig
    }

    /// Makes the folder of a node the origin of the cluster, with these jobs.
    pub(crate) fn make_origin(&self, at: usize, bodies: &[Vec<u8>]) {
        let folder = self.nodes[at].folder.path().join("data");
        let settings = || log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
        let disk = || Arc::new(PosixDisk::new(&folder).unwrap());
        if !bodies.is_empty() {
            let options = Options::without_threads(disk(), settings());
            let (broker, _) = Broker::open(options, Millis(1)).unwrap();
            for body in bodies {
                let mut turn = broker.turn(Millis(1));
                let session = turn.open_session(0);
                let job = NewJob { priority: 0, ttr_s: 600, ..NewJob::default() };
                turn.caller(session).put(job, body[..].into()).value.unwrap();
                drop(turn);
                broker.commit_step(Millis(1)).unwrap();
                broker.prepare_step().unwrap();
            }
            broker.close(Millis(1)).unwrap();
        }
        broker::offline::make_origin(disk(), settings(), LINEAGE).unwrap();
    }

    /// The first record of the stream.
    pub(crate) fn first_record(&self) -> u64 {
        let access = Access::default();
        let servers = self.servers.urls();
        let place = Place { servers, name: NAME.into(), replicas: 3, access };
        self.runtime.block_on(async {
            let Ok(context) = nats::connect(&place).await else { return 0 };
            let info = stream::info(&context, &place.stream()).await;
            info.ok().flatten().map_or(0, |info| info.state.first_sequence)
        })
    }

    /// Waits until this node has fetched a copy and ended, and starts it again. Returns what it has
    /// said.
    pub(crate) fn wait_for_copy(&mut self, at: usize) -> String {
        let mut server = self.nodes[at].server.take().unwrap();
        let status = server.wait().unwrap();
        let said = server.stderr();
        assert_eq!(status.code(), Some(76), "{said}");
        assert!(said.contains("this node has a whole copy of the folder of node node-"), "{said}");
        drop(server);
        self.start(at);
        said
    }

    /// A metric of a node.
    pub(crate) fn metric(&self, at: usize, name: &str) -> Option<f64> {
        let (_, page) = self.ask(at, "/metrics")?;
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Starts a node, again with its folder.
    pub(crate) fn start(&mut self, at: usize) {
        let program = self.program(at);
        self.start_as(at, &program);
    }

    /// Starts a node as this program, which has its configuration.
    pub(crate) fn start_as(&mut self, at: usize, program: &Program) {
        let node = &mut self.nodes[at];
        assert!(node.server.is_none(), "the node runs already");
        node.server = Some(program.start_at(node.http).unwrap());
    }

    pub(crate) fn program(&self, at: usize) -> Program {
        let binary = lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"));
        Program::serve_under(binary, &["serve"]).with_configuration(&self.configuration(at))
    }

    /// The configuration file of a node.
    pub(crate) fn configuration(&self, at: usize) -> String {
        let node = &self.nodes[at];
        let Node { nats, monitors, beanstalk, gearman, kestrel, .. } = node;
        let Node { http, admin, peers, advertised, .. } = node;
        let Identity { certificate, key } = &node.identity;
        let files = [&self.authority.file, certificate, key];
        let [ca, certificate, key] = files.map(|file| file.display().to_string());
        let folder = node.folder.path().join("data").display().to_string();
        let Special { data, http: of_http, cluster, .. } = &self.special;
        let tokens = self.keys.path().join("tokens.toml").display().to_string();
        format!(
            "[data]\ndir = {folder:?}\n{data}[listen]\nbeanstalk = \"{beanstalk}\"\nhttp = \"{http}\"\n\
             gearman = \"{gearman}\"\nkestrel = \"{kestrel}\"\nkestrel_text = \"off\"\n\
             kestrel_thrift = \"off\"\nkestrel_admin = \"{admin}\"\n[http]\n\
             hosts = [\"node-{at}.test\"]\ntokens = {tokens:?}\n{of_http}\
             [cluster]\nname = \"{NAME}\"\nnode = \"node-{at}\"\n\
             nats = {nats:?}\nnats_monitor = {monitors:?}\nlisten = \"{peers}\"\n\
             advertise = \"{advertised}\"\nca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\nallow_colocated = true\n{cluster}"
        )
    }

    /// Runs `lineshaft cluster` with the configuration of a node. Returns its exit code, and what it
    /// has printed.
    pub(crate) fn command(&self, at: usize, arguments: &[&str]) -> (i32, String, String) {
        let file = self.nodes[at].folder.path().join("node.toml");
        std::fs::write(&file, self.configuration(at)).unwrap();
        let done = Command::new(lineshaft_path(env!("CARGO_BIN_EXE_lineshaft")))
            .arg("cluster")
            .args(arguments)
            .arg("--config")
            .arg(file)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    /// The nodes that lead, as they say themselves.
    pub(crate) fn leaders(&self) -> BTreeSet<usize> {
        let says_so =
            |at: &usize| self.ask(*at, "/health/leader").is_some_and(|(code, _)| code == 200);
        (0..self.nodes.len()).filter(says_so).collect()
    }

    /// Waits until one of these nodes leads. Returns it, and how long it took.
    pub(crate) fn wait_for_leader(&self, among: &[usize], limit: Duration) -> usize {
        let begun = Instant::now();
        let found =
            wait::for_some(limit, || among.iter().copied().find(|at| self.leaders().contains(at)));
        let found =
            found.unwrap_or_else(|| panic!("no node of {among:?} leads: {}", self.states()));
        eprintln!("node {found} leads after {} ms", begun.elapsed().as_millis());
        found
    }

    /// Waits until this node follows another one.
    pub(crate) fn wait_for_follower(&self, at: usize) {
        wait::until("the node follows", || {
            self.ask(at, "/health/live").is_some_and(|(_, text)| text.contains("follows node-"))
        });
    }

    /// What all nodes say about themselves.
    pub(crate) fn states(&self) -> String {
        let said = |at| format!("node {at}: {:?}; ", self.ask(at, "/health/ready"));
        (0..self.nodes.len()).map(said).collect()
    }

    /// A page of a node. `None`: it does not answer.
    pub(crate) fn ask(&self, at: usize, path: &str) -> Option<(u16, String)> {
        Rig::exchange(self.connect_http(at)?, "GET", path, "")
    }

    /// A response of a node that is not too busy. Each of `headers` ends with a line end.
    pub(crate) fn request(
        &self,
        at: usize,
        method: &str,
        path: &str,
        headers: &str,
    ) -> (u16, String) {
        let socket = self.connect_http(at).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Rig::exchange(socket, method, path, headers).unwrap()
    }

    fn exchange(
        mut socket: TcpStream,
        method: &str,
        path: &str,
        headers: &str,
    ) -> Option<(u16, String)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        );
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// A connection to the HTTP listener of a node that runs.
    pub(crate) fn connect_http(&self, at: usize) -> Option<TcpStream> {
        self.nodes[at].server.as_ref()?;
        let limit = Duration::from_secs(1);
        let socket = TcpStream::connect_timeout(&self.nodes[at].http, limit).ok()?;
        socket.set_read_timeout(Some(limit)).ok()?;
        Some(socket)
    }

    /// Makes a token that all nodes know. Returns the header with it.
    pub(crate) fn token(&self, role: &str) -> String {
        let done = Command::new(lineshaft_path(env!("CARGO_BIN_EXE_lineshaft")))
            .args(["token", "add", role, "--role", role, "--file"])
            .arg(self.keys.path().join("tokens.toml"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let token = String::from_utf8(done.stdout).unwrap();
        format!("Authorization: Bearer {}\r\n", token.trim())
    }

    pub(crate) fn client(&self, at: usize) -> Client {
        let connect = || Client::connect(self.nodes[at].beanstalk).ok();
        wait::for_some(Duration::from_secs(10), connect).expect("the node listens")
    }

    /// Kills a node, like a crash.
    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].server.take().unwrap().kill();
    }
}

/// Puts jobs with these numbers as bodies.
pub(crate) fn put(client: &mut Client, numbers: impl Iterator<Item = u32>) {
    for number in numbers {
        client.put(0, 0, 600, number.to_string().as_bytes()).unwrap();
    }
}

/// Takes and deletes all ready jobs. Returns the numbers in their bodies, in order.
pub(crate) fn drain(client: &mut Client) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(job) = client.reserve(0).unwrap() {
        numbers.push(String::from_utf8(job.body).unwrap().parse().unwrap());
        client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    }
    numbers
}
