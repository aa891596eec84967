//! Servers of NATS, for one test.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) struct Servers {
    program: PathBuf,
    folder: TempDir,
    all: Vec<Server>,
}

struct Server {
    port: u16,
    monitor: u16,
    process: Option<Child>,
}

/// `scripts/install-test-tools.sh` installs the program where its wheel exists.
fn find_program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../../target/test-tools/nats/bin/nats-server");
    if installed.exists() {
        return Some(installed);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("nats-server")).find(|p| p.exists());
    if found.is_none() {
        skip();
    }
    found
}

/// Like the function of `testkit`, which would bring the whole broker.
fn skip() {
    let is_required = std::env::var_os("LINESHAFT_REQUIRE_TOOLS").is_some();
    let can_be_installed = cfg!(target_arch = "x86_64");
    assert!(!is_required || !can_be_installed, "nats-server is required, but not installed");
    let test = std::env::var("NEXTEST_TEST_NAME").unwrap_or_default();
    let line = format!("SKIPPED: {test}: nats-server is not installed\n");
    eprint!("{line}");
    let Some(path) = std::env::var_os("LINESHAFT_SKIPPED_FILE") else { return };
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

/// Ports that were free a moment ago.
fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect()
}

impl Servers {
    /// Three servers with a common cluster. `None`: the program is not installed.
    pub(crate) fn start(flush: &str) -> Option<Servers> {
        let program = find_program()?;
        let folder = tempfile::tempdir().unwrap();
        let ports = free_ports(9);
        let routes: Vec<String> =
            (0..3).map(|at| format!("nats://127.0.0.1:{}", ports[3 * at + 1])).collect();
        let mut servers = Servers { program, folder, all: Vec::new() };
        for at in 0..3 {
            let (port, route, monitor) = (ports[3 * at], ports[3 * at + 1], ports[3 * at + 2]);
            let store = servers.folder.path().join(format!("store-{at}"));
            let store = store.display();
            let text = format!(
                "server_name: n{at}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
                 jetstream {{ store_dir: \"{store}\"\n {flush}\n max_file_store: 1GB }}\n\
                 cluster {{ name: test\n listen: \"127.0.0.1:{route}\"\n pool_size: -1\n \
                 routes: {routes:?} }}\n"
            );
            fs::write(servers.configuration(at), text).unwrap();
            servers.all.push(Server { port, monitor, process: None });
            servers.run(at);
        }
        for server in &servers.all {
            wait_for_port(server.port);
        }
        Some(servers)
    }

    fn configuration(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("nats-{at}.conf"))
    }

    /// Starts a server, again with its files.
    pub(crate) fn run(&mut self, at: usize) {
        let process = Command::new(&self.program)
            .arg("--config")
            .arg(self.configuration(at))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.all[at].process = Some(process);
    }

    pub(crate) fn kill(&mut self, at: usize) {
        let mut process = self.all[at].process.take().expect("the server runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.all.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect()
    }

    pub(crate) fn monitors(&self) -> Vec<String> {
        self.all.iter().map(|server| format!("http://127.0.0.1:{}", server.monitor)).collect()
    }
}

fn wait_for_port(port: u16) {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server listens");
        std::thread::yield_now();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.all {
            if let Some(mut process) = server.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}
