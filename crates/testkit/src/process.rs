//! Server processes under test: started on a free port, watched, and ended by their id.
//!
//! A server never outlives its [`Server`] value. A temporary folder keeps its output, which is
//! printed after a failure.

mod port;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use port::free_port;

use crate::tls::certificates::Identity;
use crate::wait;

/// The time limit for a server until it accepts connections, and until it ends.
const LIMIT: Duration = Duration::from_secs(20);

/// The number of attempts with another port after another process took the free one.
const PORT_ATTEMPTS: u32 = 5;

/// The exit code of a server that could not bind its address.
const EXIT_ADDRESS: i32 = 111;

/// The numbers of I/O threads that tests give to Lineshaft: one, and enough for clients to be on
/// different threads. `crates/lineshaft/tests/README.md` says which test uses which.
pub const IO_THREADS: [usize; 2] = [1, 3];

/// A program, and how it gets its address.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    /// The arguments before the address.
    arguments: Vec<String>,
    /// Variables that are added to the environment of the test.
    environment: Vec<(String, String)>,
    address_style: AddressStyle,
    /// The prefix of the address.
    address_prefix: &'static str,
}

/// How a program takes the address of the listener under test.
#[derive(Debug, Clone, Copy)]
enum AddressStyle {
    /// `-l HOST -p PORT`.
    HostAndPort,
    /// `--only --beanstalk HOST:PORT`.
    Listener,
    /// `-L HOST -p PORT`.
    ListenAndPort,
    /// `--only --gearman HOST:PORT`.
    GearmanListener,
}

impl Program {
    /// The original beanstalkd, or any program with its flags: `path arguments… -l HOST -p PORT`.
    pub fn like_beanstalkd(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, arguments, AddressStyle::HostAndPort)
    }

    /// Lineshaft's `serve` with only a beanstalk listener.
    pub fn serve(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        let mut program = Program::new(path, &["serve"], AddressStyle::Listener);
        program.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        program
    }

    /// The same, started by another program such as a tracer. `arguments` contain Lineshaft, its
    /// subcommand and all arguments before `--beanstalk`.
    pub fn serve_under(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, arguments, AddressStyle::Listener)
    }

    /// The original gearmand, or any program with its flags: `path arguments… -L HOST -p PORT`.
    pub fn like_gearmand(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, arguments, AddressStyle::ListenAndPort)
    }

    /// Lineshaft's `serve` with only a Gearman listener.
    pub fn serve_gearman(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, &["serve"], AddressStyle::GearmanListener).with(arguments)
    }

    fn new(path: impl Into<PathBuf>, arguments: &[&str], address_style: AddressStyle) -> Program {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Program {
            path: path.into(),
            arguments,
            environment: Vec::new(),
            address_style,
            address_prefix: "",
        }
    }

    /// The same `serve` with a TLS listener and this certificate.
    #[must_use]
    pub fn with_tls(mut self, identity: &Identity) -> Program {
        self.address_prefix = "tls:";
        let Identity { certificate, key } = identity;
        self.with(&["--tls-certificate".as_ref(), certificate.as_os_str()])
            .with(&["--tls-key".as_ref(), key.as_os_str()])
    }

    /// The same program with a variable in its environment.
    #[must_use]
    pub fn with_environment(mut self, name: &str, value: &str) -> Program {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same program with this number of I/O threads, if it is Lineshaft.
    #[must_use]
    pub fn with_io_threads(mut self, count: usize) -> Program {
        const VARIABLE: &str = "LINESHAFT_IO_THREADS";
        self.environment.retain(|(name, _)| name != VARIABLE);
        self.with_environment(VARIABLE, &count.to_string())
    }

    /// The same program with further arguments.
    #[must_use]
    pub fn with<S: AsRef<OsStr>>(mut self, arguments: &[S]) -> Program {
        let text =
            |argument: &S| argument.as_ref().to_str().expect("test paths are text").to_owned();
        self.arguments.extend(arguments.iter().map(text));
        self
    }

    /// Starts the program on a free port and waits until it accepts connections.
    pub fn start(&self) -> Result<Server> {
        for _ in 0..PORT_ATTEMPTS {
            match self.start_on(free_port()?) {
                Err(StartError::PortTaken) => {}
                Err(StartError::Other(error)) => return Err(error),
                Ok(server) => return Ok(server),
            }
        }
        bail!("somebody took every free port first, {PORT_ATTEMPTS} times")
    }

    /// Starts the program without an address, and waits until it accepts connections at this one.
    /// For programs whose arguments set the address in another way.
    pub fn start_at(&self, address: SocketAddr) -> Result<Server> {
        let mut server = self.spawn(&[], address)?;
        match server.wait_until_accepting() {
            Ok(()) => Ok(server),
            Err(StartError::PortTaken) => bail!("{address} is taken"),
            Err(StartError::Other(error)) => Err(error),
        }
    }

    /// Starts the program without changes, and returns at once.
    pub fn start_unwatched(&self) -> Result<Server> {
        self.spawn(&[], local(0))
    }

    /// Runs the program without an address until it ends. Kills it at the time limit.
    pub fn run(&self) -> Result<Finished> {
        let mut server = self.spawn(&[], SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let status = server.wait()?;
        Ok(Finished { status, stdout: server.stdout(), stderr: server.stderr() })
    }

    /// The same with an address, for starts that must fail.
    pub fn run_on(&self, port: u16) -> Result<Finished> {
        let mut server = self.spawn(&self.address_arguments(port), local(port))?;
        let status = server.wait()?;
        Ok(Finished { status, stdout: server.stdout(), stderr: server.stderr() })
    }

    fn start_on(&self, port: u16) -> Result<Server, StartError> {
        let mut server = self.spawn(&self.address_arguments(port), local(port))?;
        server.wait_until_accepting()?;
        Ok(server)
    }

    fn address_arguments(&self, port: u16) -> Vec<String> {
        let (host, prefix) = (Ipv4Addr::LOCALHOST, self.address_prefix);
        match self.address_style {
            AddressStyle::HostAndPort => {
                vec!["-l".into(), host.to_string(), "-p".into(), port.to_string()]
            }
            AddressStyle::Listener => {
                vec!["--only".into(), "--beanstalk".into(), format!("{prefix}{host}:{port}")]
            }
            AddressStyle::ListenAndPort => {
                vec!["-L".into(), host.to_string(), "-p".into(), port.to_string()]
            }
            AddressStyle::GearmanListener => {
                vec!["--only".into(), "--gearman".into(), format!("{prefix}{host}:{port}")]
            }
        }
    }

    fn spawn(&self, address_arguments: &[String], address: SocketAddr) -> Result<Server> {
        let folder = tempfile::Builder::new().prefix("lineshaft-test-").tempdir()?;
        let child = Command::new(&self.path)
            .args(&self.arguments)
            .args(address_arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(folder.path().join("stderr"))?)
            .spawn()
            .with_context(|| format!("starting {}", self.path.display()))?;
        Ok(Server { child, address, folder })
    }
}

/// Why a server did not start.
enum StartError {
    PortTaken,
    Other(anyhow::Error),
}

impl From<anyhow::Error> for StartError {
    fn from(error: anyhow::Error) -> StartError {
        StartError::Other(error)
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit code or the signal.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its error output.
    pub stderr: String,
}

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// The working folder, which also contains the output.
    folder: TempDir,
}

impl Server {
    /// The address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = printed(Path::new(&format!("/proc/{}/status", self.process_id())));
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kibibytes.context("the process is gone")?.parse::<u64>()? * 1024)
    }

    /// The processor time that it has used, user and system, in ticks of 10 milliseconds.
    pub fn processor_ticks(&self) -> Result<u64> {
        let stat = printed(Path::new(&format!("/proc/{}/stat", self.process_id())));
        // The name in parentheses can contain any bytes. User and system time are the 12th and 13th
        // field after it.
        let (_, fields) = stat.rsplit_once(") ").context("the process is gone")?;
        let field = |number: usize| fields.split(' ').nth(number).context("a field");
        Ok(field(11)?.parse::<u64>()? + field(12)?.parse::<u64>()?)
    }

    /// The number of its open descriptors.
    pub fn descriptor_count(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.process_id()))?.count())
    }

    /// Its working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its output so far.
    pub fn stdout(&self) -> String {
        printed(&self.folder.path().join("stdout"))
    }

    /// Its error output so far.
    pub fn stderr(&self) -> String {
        printed(&self.folder.path().join("stderr"))
    }

    /// Sends a signal to it.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let process_id = Pid::from_child(&self.child);
        Ok(kill_process(process_id, signal)?)
    }

    /// Kills it as a crash would, and waits for its end.
    pub fn kill(mut self) {
        self.end();
    }

    /// Asks it to stop, and waits for its end.
    pub fn terminate(mut self) -> Result<Finished> {
        self.signal(Signal::TERM)?;
        let status = self.wait()?;
        Ok(Finished { status, stdout: self.stdout(), stderr: self.stderr() })
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it ends. Returns an error at the time limit.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = wait::for_exit(&mut self.child, LIMIT)? {
            return Ok(status);
        }
        self.end();
        bail!("the server did not end within {LIMIT:?}; stderr: {}", self.stderr())
    }

    fn wait_until_accepting(&mut self) -> Result<(), StartError> {
        enum Seen {
            Gone(ExitStatus),
            Accepting,
        }
        let seen = wait::for_some(LIMIT, || match self.child.try_wait() {
            Ok(Some(status)) => Some(Ok(Seen::Gone(status))),
            Ok(None) => TcpStream::connect_timeout(&self.address, Duration::from_secs(1))
                .is_ok()
                .then_some(Ok(Seen::Accepting)),
            Err(error) => Some(Err(error)),
        });
        match seen.transpose().context("waiting for the server")? {
            Some(Seen::Gone(status)) => Err(self.gone(status)),
            Some(Seen::Accepting) => self.ensure_it_was_ours(),
            None => {
                let stderr = self.stderr();
                let what = format!("nothing accepts at {} ; stderr: {stderr}", self.address);
                Err(anyhow::anyhow!(what).into())
            }
        }
    }

    /// If another process has taken the port, our server is about to end.
    fn ensure_it_was_ours(&mut self) -> Result<(), StartError> {
        let process_id = self.child.id();
        if listens(process_id, self.address.port()) {
            return Ok(());
        }
        let status = self.wait()?;
        Err(self.gone(status))
    }

    fn gone(&self, status: ExitStatus) -> StartError {
        let stderr = self.stderr();
        if status.code() == Some(EXIT_ADDRESS) || stderr.contains("in use") {
            return StartError::PortTaken;
        }
        StartError::Other(anyhow::anyhow!(
            "the server ended at once with {status}; stderr: {stderr}"
        ))
    }

    fn end(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let tail: String = self.stderr().chars().rev().take(4_000).collect();
            let tail: String = tail.chars().rev().collect();
            eprintln!("--- stderr of the server on {}:\n{tail}", self.address);
        }
    }
}

/// Whether an exit was caused by this signal.
pub fn ended_by(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn printed(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Whether the process has a listening socket on this port.
fn listens(process_id: u32, port: u16) -> bool {
    const STATE_LISTEN: &str = "0A";
    let table = printed(Path::new("/proc/net/tcp"));
    let port_suffix = format!(":{port:04X}");
    let inodes = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listening = fields.get(3) == Some(&STATE_LISTEN);
        (listening && fields[1].ends_with(&port_suffix)).then(|| format!("socket:[{}]", fields[9]))
    });
    let inodes: Vec<String> = inodes.collect();
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process_id}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        let target = std::fs::read_link(descriptor.path()).unwrap_or_default();
        inodes.iter().any(|inode| target == Path::new(inode))
    })
}
