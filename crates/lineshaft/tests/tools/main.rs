//! The command-line tools against a running server: Debian's beanstalkd, so that they are known to
//! work with any server of the protocol. With `LINESHAFT_TOOLS_SERVER=lineshaft`, it is Lineshaft.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod look;
mod put;
mod work;

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::tools;

const LINESHAFT: &str = env!("CARGO_BIN_EXE_lineshaft");

/// The original's program as Debian installs it.
const BEANSTALKD: &str = "/usr/bin/beanstalkd";

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The server that the tools talk to, without a log; `None` when it is not installed and the test may
/// be skipped.
fn server_program() -> Option<Program> {
    if lineshaft_is_chosen() {
        return Some(Program::serve(LINESHAFT, &["--memory"]));
    }
    Some(Program::like_beanstalkd(tools::find_or_skip(BEANSTALKD)?, &[]))
}

/// The same with a log in `folder`, written before each reply.
fn durable_server_program(folder: &Path) -> Option<Program> {
    if lineshaft_is_chosen() {
        return Some(Program::serve(LINESHAFT, &["--data"]).with(&[folder]));
    }
    let program = Program::like_beanstalkd(tools::find_or_skip(BEANSTALKD)?, &["-f", "0", "-b"]);
    Some(program.with(&[folder]))
}

fn lineshaft_is_chosen() -> bool {
    std::env::var_os("LINESHAFT_TOOLS_SERVER").is_some_and(|server| server == "lineshaft")
}

/// A server and a place for files.
struct World {
    /// `None` only while it is started anew.
    server: Option<Server>,
    folder: TempDir,
}

/// A started tool.
struct Tool {
    child: Child,
    folder: TempDir,
}

/// A tool that has ended.
#[derive(Debug)]
struct Output {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl World {
    /// `None` when there is no server to test with.
    fn new() -> Option<World> {
        Some(World::with(&server_program()?))
    }

    fn with(program: &Program) -> World {
        let server = Some(program.start().unwrap());
        World { server, folder: tempfile::tempdir().unwrap() }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Ends the server without warning and starts it again on the same port.
    fn restart(&mut self, program: &Program) {
        let server = self.server.take().unwrap();
        let address = server.address();
        server.kill();
        let listener = address.to_string();
        let program = if lineshaft_is_chosen() {
            program.clone().with(&["--only", "--beanstalk", &listener])
        } else {
            let (host, port) = listener.split_once(':').unwrap();
            program.clone().with(&["-l", host, "-p", port])
        };
        self.server = Some(program.start_at(address).unwrap());
    }

    fn client(&self, queue: &str) -> Client {
        Client::on_tube(self.server().address(), queue).unwrap()
    }

    /// Runs a tool to its end with this input.
    fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut tool = self.start(arguments);
        let mut stdin = tool.child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = tool.wait();
        writer.join().unwrap();
        output
    }

    /// The same, and it has to succeed.
    fn run_well(&self, arguments: &[&str], input: &[u8]) -> Output {
        let output = self.run(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {output:#?}");
        output
    }

    fn start(&self, arguments: &[&str]) -> Tool {
        Tool::start(&self.server().address().to_string(), arguments)
    }

    /// The value of one key of `stats-tube` or `stats-job`.
    fn stat(&self, command: &str, key: &str) -> String {
        let mut client = Client::connect(self.server().address()).unwrap();
        client.stats(command).ok().and_then(|mut stats| stats.remove(key)).unwrap_or_default()
    }

    /// A path in this test's folder.
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Tool {
    fn start(server: &str, arguments: &[&str]) -> Tool {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(LINESHAFT)
            .args(arguments)
            .env("LINESHAFT_SERVER", server)
            .stdin(Stdio::piped())
            .stdout(File::create(folder.path().join("stdout")).unwrap())
            .stderr(File::create(folder.path().join("stderr")).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        Tool { child, folder }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Waits until the tool has said this on its error output.
    fn wait_for(&self, text: &str) {
        wait_until(text, || self.printed("stderr").contains(text));
    }

    fn wait(mut self) -> Output {
        let mut status = None;
        wait_until("the tool to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        Output {
            status: status.unwrap(),
            stdout: self.printed("stdout"),
            stderr: self.printed("stderr"),
        }
    }
}

impl Drop for Tool {
    /// Leaves no process behind when a test fails.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LIMIT, "waited too long for: {what}");
        sleep(Duration::from_millis(10));
    }
}
