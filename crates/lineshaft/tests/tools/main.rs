//! Tests the command-line tools with a running server. Each test runs with Lineshaft. It also runs
//! with Debian's beanstalkd or gearmand, because the tools must work with any server of the
//! protocol.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod bench;
mod compare;
mod equal;
mod gate;
mod gearman;
mod howto;
mod interfaces;
mod kestrel;
mod look;
mod operator;
mod policy;
mod put;
mod readme;
#[path = "../http/request.rs"]
#[allow(dead_code, reason = "shared with the tests of HTTP")]
mod request;
mod tls;
mod top;
mod tutorial;
mod work;
mod workers;

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::tools;
use testkit::wait::until as wait_until;

const LINESHAFT: &str = env!("CARGO_BIN_EXE_lineshaft");

/// The original's program as Debian installs it.
const BEANSTALKD: &str = "/usr/bin/beanstalkd";

/// The program of Gearman's original, as Debian installs it.
const GEARMAND: &str = "/usr/sbin/gearmand";

/// The time limit of all waits here.
const LIMIT: Duration = Duration::from_secs(30);

/// The server that the tools use.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Lineshaft,
    Beanstalkd,
    LineshaftGearman,
    Gearmand,
}

/// A server, and a folder for files.
struct World {
    program: Program,
    /// `None` after the test has ended the server.
    server: Option<Server>,
    folder: TempDir,
}

/// A tool that runs.
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
    /// One world for each installed server. The servers keep their jobs in memory.
    fn each() -> impl Iterator<Item = World> {
        [Kind::Lineshaft, Kind::Beanstalkd].into_iter().filter_map(|kind| World::new(kind, false))
    }

    /// One world for each installed server. The servers have a log that is synced before each
    /// reply.
    fn each_durable() -> impl Iterator<Item = World> {
        [Kind::Lineshaft, Kind::Beanstalkd].into_iter().filter_map(|kind| World::new(kind, true))
    }

    /// One world for each installed Gearman server.
    fn each_gearman() -> impl Iterator<Item = World> {
        let kinds = [Kind::LineshaftGearman, Kind::Gearmand];
        kinds.into_iter().filter_map(|kind| World::new(kind, false))
    }

    /// Lineshaft as a Gearman server.
    fn lineshaft_gearman() -> World {
        World::new(Kind::LineshaftGearman, false).unwrap()
    }

    /// Lineshaft with a Gearman and a beanstalk listener. Returns the address for beanstalk
    /// clients, too.
    fn both_protocols() -> (World, String) {
        let mut world = World::lineshaft_gearman();
        let beanstalk = format!("unix:{}", world.path("beanstalk"));
        let program = world.program.clone().with(&["--beanstalk", &beanstalk]);
        world.server = Some(program.start().unwrap());
        (world, beanstalk)
    }

    fn new(kind: Kind, durable: bool) -> Option<World> {
        let folder = tempfile::tempdir().unwrap();
        let log = tempfile::tempdir_in(folder.path()).unwrap().keep();
        let program = match (kind, durable) {
            (Kind::Lineshaft, false) => Program::serve(LINESHAFT, &["--memory"]),
            (Kind::Lineshaft, true) => Program::serve(LINESHAFT, &["--data"]).with(&[&log]),
            (Kind::Beanstalkd, _) => {
                let path = tools::find_or_skip(BEANSTALKD)?;
                let program = Program::like_beanstalkd(path, &[]);
                if durable { program.with(&["-f", "0", "-b"]).with(&[&log]) } else { program }
            }
            (Kind::LineshaftGearman, _) => {
                Program::serve_on(&["gearman"], LINESHAFT, &["--memory"])
            }
            (Kind::Gearmand, _) => {
                let path = tools::find_or_skip(GEARMAND)?;
                Program::like_gearmand(path, &["-l", "stderr", "-P", "gearmand.pid"])
            }
        };
        // The output is visible only if the test fails.
        eprintln!("against {kind:?}:");
        let server = Some(program.start().unwrap());
        Some(World { program, server, folder })
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Kills the server for good. Returns its address.
    fn end(&mut self) -> SocketAddr {
        let server = self.server.take().unwrap();
        let address = server.address();
        server.kill();
        address
    }

    /// Kills the server, and starts it again on the same port.
    fn restart(&mut self) {
        let address = self.end();
        self.start_again(address);
    }

    /// Starts the server at its old address.
    fn start_again(&mut self, address: SocketAddr) {
        self.server = Some(self.program.start_again_at(address).unwrap());
    }

    fn client(&self, queue: &str) -> Client {
        Client::on_tube(self.server().address(), queue).unwrap()
    }

    /// Runs a tool with this input until it ends.
    fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        World::run_to_end(self.start(arguments), input)
    }

    /// Runs a tool until it ends, as if a person typed this input at a terminal. `stdout` is
    /// everything that the terminal shows. Returns `None` if the program `script`, which provides
    /// the terminal, is missing.
    fn run_on_terminal(&self, command: &str, input: &[u8]) -> Option<Output> {
        let script = tools::find_or_skip("script")?;
        let command = format!("{LINESHAFT} {command}");
        let server = self.server().address().to_string();
        let arguments = ["-qec", &command, "/dev/null"];
        let tool = Tool::start_program(&script, None, &server, &arguments);
        Some(World::run_to_end(tool, input))
    }

    fn run_to_end(mut tool: Tool, input: &[u8]) -> Output {
        let mut stdin = tool.child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = tool.wait();
        writer.join().unwrap();
        output
    }

    /// Runs a tool until it ends. It must succeed.
    fn run_well(&self, arguments: &[&str], input: &[u8]) -> Output {
        let output = self.run(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {output:#?}");
        output
    }

    fn start(&self, arguments: &[&str]) -> Tool {
        Tool::start(&self.server().address().to_string(), arguments)
    }

    /// Starts a tool. The test can read the tool's output while the tool runs.
    fn start_piped(&self, arguments: &[&str]) -> (Tool, BufReader<ChildStdout>) {
        let server = self.server().address().to_string();
        let mut tool = Tool::start_writing_to(Some(Stdio::piped()), &server, arguments);
        let output = tool.child.stdout.take().unwrap();
        (tool, BufReader::new(output))
    }

    /// The value of one key in the reply to `stats-tube` or `stats-job`.
    fn stat(&self, command: &str, key: &str) -> String {
        let mut client = Client::connect(self.server().address()).unwrap();
        client.stats(command).ok().and_then(|mut stats| stats.remove(key)).unwrap_or_default()
    }

    /// A Gearman server's reply to a line of text.
    fn admin(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(self.server().address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = Vec::new();
        let is_whole =
            |reply: &[u8]| reply == b".\n" || reply.ends_with(b"\n.\n") || reply.ends_with(b"\r\n");
        while !is_whole(&reply) {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "{line}: the connection ended after {reply:?}");
            reply.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(reply).unwrap()
    }

    /// A path in this test's folder.
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

impl Tool {
    fn start(server: &str, arguments: &[&str]) -> Tool {
        Tool::start_writing_to(None, server, arguments)
    }

    /// Starts a tool. If `output` is set, the tool writes its standard output there, and not into
    /// [`Output`].
    fn start_writing_to(output: Option<Stdio>, server: &str, arguments: &[&str]) -> Tool {
        Tool::start_program(Path::new(LINESHAFT), output, server, arguments)
    }

    fn start_program(
        program: &Path,
        output: Option<Stdio>,
        server: &str,
        arguments: &[&str],
    ) -> Tool {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("stdout")).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .env("LINESHAFT_SERVER", server)
            .stdin(Stdio::piped())
            .stdout(output.unwrap_or_else(|| file.into()))
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

    /// Waits until the tool's standard error contains this text.
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
    /// Kills the process if it still runs, for example after a failed test.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
