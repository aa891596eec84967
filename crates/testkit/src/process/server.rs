//! A server under test, and its result after its end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::wait;

/// The time limit for a server's start, and for its end.
const LIMIT: Duration = Duration::from_secs(20);

/// The exit code of a server that cannot bind its address.
const EXIT_ADDRESS: i32 = 111;

/// The reason why a server did not start.
pub(super) enum StartError {
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
    /// Everything that it wrote to standard output.
    pub stdout: String,
    /// Everything that it wrote to standard error.
    pub stderr: String,
}

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    pub(super) child: Child,
    /// The listeners, by name.
    pub(super) addresses: Vec<(&'static str, SocketAddr)>,
    /// The working folder, which also contains the output.
    pub(super) folder: TempDir,
}

impl Server {
    /// The address of the server's first listener.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0].1
    }

    /// The address of the listener of this name.
    pub fn address_of(&self, listener: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(name, _)| *name == listener);
        found.unwrap_or_else(|| panic!("it has no listener {listener}")).1
    }

    /// The id of the server's process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The server's resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = printed(Path::new(&format!("/proc/{}/status", self.process_id())));
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kibibytes.context("the process is gone")?.parse::<u64>()? * 1024)
    }

    /// The processor time that the server has used, user and system, in ticks of 10 milliseconds.
    pub fn processor_ticks(&self) -> Result<u64> {
        let stat = printed(Path::new(&format!("/proc/{}/stat", self.process_id())));
        // The process's name is in parentheses, and can contain any bytes. After the last
        // parenthesis, the 12th field is the user time, and the 13th is the system time.
        let (_, fields) = stat.rsplit_once(") ").context("the process is gone")?;
        let field = |number: usize| fields.split(' ').nth(number).context("a field");
        Ok(field(11)?.parse::<u64>()? + field(12)?.parse::<u64>()?)
    }

    /// The number of the server's open file descriptors.
    pub fn descriptor_count(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.process_id()))?.count())
    }

    /// The server's working folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's standard output so far.
    pub fn stdout(&self) -> String {
        printed(&self.folder.path().join("stdout"))
    }

    /// The server's standard error so far.
    pub fn stderr(&self) -> String {
        printed(&self.folder.path().join("stderr"))
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let process_id = Pid::from_child(&self.child);
        Ok(kill_process(process_id, signal)?)
    }

    /// Kills the server like a crash, and waits for its end.
    pub fn kill(mut self) {
        self.end();
    }

    /// Sends SIGTERM to the server, and waits for its end.
    pub fn terminate(mut self) -> Result<Finished> {
        self.signal(Signal::TERM)?;
        let status = self.wait()?;
        Ok(self.finished(status))
    }

    pub(super) fn finished(&self, status: ExitStatus) -> Finished {
        Finished { status, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// True if the server still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the server ends. At the time limit, kills it and fails.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = wait::for_exit(&mut self.child, LIMIT)? {
            return Ok(status);
        }
        self.end();
        bail!("the server did not end within {LIMIT:?}; stderr: {}", self.stderr())
    }

    pub(super) fn wait_until_accepting(&mut self) -> Result<(), StartError> {
        for (_, address) in self.addresses.clone() {
            self.wait_until_accepting_at(address)?;
        }
        Ok(())
    }

    fn wait_until_accepting_at(&mut self, address: SocketAddr) -> Result<(), StartError> {
        enum Seen {
            Gone(ExitStatus),
            Accepting,
        }
        let seen = wait::for_some(LIMIT, || match self.child.try_wait() {
            Ok(Some(status)) => Some(Ok(Seen::Gone(status))),
            Ok(None) => TcpStream::connect_timeout(&address, Duration::from_secs(1))
                .is_ok()
                .then_some(Ok(Seen::Accepting)),
            Err(error) => Some(Err(error)),
        });
        match seen.transpose().context("waiting for the server")? {
            Some(Seen::Gone(status)) => Err(self.gone(status)),
            // If another process has taken the port, our server is about to end with an error.
            Some(Seen::Accepting) if !listens(self.process_id(), address.port()) => {
                let status = self.wait()?;
                Err(self.gone(status))
            }
            Some(Seen::Accepting) => Ok(()),
            None => {
                let stderr = self.stderr();
                Err(anyhow::anyhow!("nothing accepts at {address}; stderr: {stderr}").into())
            }
        }
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
        // These calls fail only if the process has already ended.
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
            eprintln!("--- stderr of the server on {:?}:\n{tail}", self.addresses);
        }
    }
}

/// True if this signal ended the process.
pub fn ended_by(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal.as_raw())
}

fn printed(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// True if the process has a listening socket on this port.
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
