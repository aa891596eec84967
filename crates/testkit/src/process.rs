//! Programs under test. They are started on free ports. Each server has a temporary folder, which
//! also contains its output.

mod port;
mod script;
mod server;

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tls::certificates::Identity;
pub use port::free_port;
pub use script::{Script, installed, scripts};
use server::StartError;
pub use server::{Finished, Server, ended_by};

/// Number of attempts to start a server. If another process takes a free port first, the next
/// attempt uses another port.
const PORT_ATTEMPTS: u32 = 5;

/// The numbers of I/O threads that tests use for Lineshaft. Three are enough for clients to be on
/// different threads. `crates/lineshaft/tests/README.md` lists the tests that use each number.
pub const IO_THREADS: [usize; 2] = [1, 3];

/// The path of the Lineshaft binary that tests use. The variable `LINESHAFT_BIN` can name a binary,
/// for example a release build. If the variable is not set, tests use `built`.
pub fn lineshaft_path(built: &str) -> PathBuf {
    std::env::var_os("LINESHAFT_BIN").map_or_else(|| built.into(), PathBuf::from)
}

/// A program that a test can start, with its arguments and environment.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    /// The arguments before the addresses.
    arguments: Vec<String>,
    /// Variables in addition to the environment of the test.
    environment: Vec<(String, String)>,
    /// Files in the program's folder: their names and texts.
    files: Vec<(&'static str, String)>,
    addressing: Addressing,
    /// The prefix of each address.
    address_prefix: &'static str,
    /// Where the program's folder is. `None`: where temporary files are.
    place: Option<PathBuf>,
}

/// How a program takes the addresses of its listeners.
#[derive(Debug, Clone)]
enum Addressing {
    /// The program has one listener. This flag sets the host, and `-p` sets the port.
    HostAndPort(&'static str),
    /// `--only`, then `--NAME HOST:PORT` for each of these names.
    Listeners(Vec<&'static str>),
}

impl Program {
    /// The original beanstalkd, or any program with the same flags: `path arguments… -l HOST -p
    /// PORT`.
    pub fn like_beanstalkd(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, Addressing::HostAndPort("-l")).with(arguments)
    }

    /// The original gearmand, or any program with the same flags: `path arguments… -L HOST -p
    /// PORT`.
    pub fn like_gearmand(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, Addressing::HostAndPort("-L")).with(arguments)
    }

    /// `lineshaft serve` with only a beanstalk listener.
    pub fn serve(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::serve_on(&["beanstalk"], path, arguments)
    }

    /// `lineshaft serve` with only a beanstalk listener, started by another program such as a
    /// tracer. `arguments` contains Lineshaft, its subcommand, and all arguments before
    /// `--beanstalk`.
    pub fn serve_under(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program::new(path, Addressing::Listeners(vec!["beanstalk"])).with(arguments)
    }

    /// `lineshaft serve` with only these listeners.
    pub fn serve_on(
        listeners: &[&'static str],
        path: impl Into<PathBuf>,
        arguments: &[&str],
    ) -> Program {
        Program::new(path, Addressing::Listeners(listeners.to_vec()))
            .with(&["serve"])
            .with(arguments)
    }

    /// `lineshaft serve` with these listeners, in two ways: in memory with one I/O thread, and with
    /// a log and three I/O threads. The names are for failure messages.
    pub fn serve_both_ways(
        listeners: &[&'static str],
        path: impl Into<PathBuf>,
    ) -> [(&'static str, Program); 2] {
        let path = path.into();
        let in_memory = Program::serve_on(listeners, &path, &["--memory"]).with_io_threads(1);
        let with_log = Program::serve_on(listeners, &path, &["--data", "data"]).with_io_threads(3);
        [("in memory", in_memory), ("with a log", with_log)]
    }

    fn new(path: impl Into<PathBuf>, addressing: Addressing) -> Program {
        Program {
            path: path.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
            addressing,
            address_prefix: "",
            place: None,
        }
    }

    /// The same program. Its folder, with what it says, is below this one.
    #[must_use]
    pub fn in_folder(mut self, place: impl Into<PathBuf>) -> Program {
        self.place = Some(place.into());
        self
    }

    /// The same `lineshaft serve` with this configuration.
    #[must_use]
    pub fn with_configuration(mut self, text: &str) -> Program {
        self.files.push(("lineshaft.toml", text.to_owned()));
        self.with(&["--config", "lineshaft.toml"])
    }

    /// The same `lineshaft serve` with this certificate. Its listeners use TLS.
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

    /// The same program with this number of I/O threads. The number affects only Lineshaft.
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

    /// Starts the program on free ports and waits until it accepts connections.
    pub fn start(&self) -> Result<Server> {
        let names = match &self.addressing {
            Addressing::HostAndPort(_) => vec![""],
            Addressing::Listeners(names) => names.clone(),
        };
        for _ in 0..PORT_ATTEMPTS {
            let ports: Vec<u16> = names.iter().map(|_| free_port()).collect::<Result<_, _>>()?;
            let addresses: Vec<SocketAddr> = ports.into_iter().map(local).collect();
            let arguments = self.address_arguments(&addresses);
            let addresses = names.iter().copied().zip(addresses).collect();
            match self.start_with(&arguments, addresses) {
                Err(StartError::PortTaken) => {}
                Err(StartError::Other(error)) => return Err(error),
                Ok(server) => return Ok(server),
            }
        }
        bail!("another process took every free port first, {PORT_ATTEMPTS} times")
    }

    /// Starts the program at the address of an earlier server, and waits until it accepts
    /// connections.
    pub fn start_again_at(&self, address: SocketAddr) -> Result<Server> {
        self.start_only(&self.address_arguments(&[address]), address)
    }

    /// Starts the program without an address argument, and waits until it accepts connections at
    /// `address`. Use it if other arguments set the address.
    pub fn start_at(&self, address: SocketAddr) -> Result<Server> {
        self.start_only(&[], address)
    }

    /// Starts the program without an address argument, and returns at once.
    pub fn start_unwatched(&self) -> Result<Server> {
        self.spawn(&[], Vec::new())
    }

    /// Runs the program without an address argument until it ends. Kills it at the time limit.
    pub fn run(&self) -> Result<Finished> {
        let mut server = self.spawn(&[], Vec::new())?;
        let status = server.wait()?;
        Ok(server.finished(status))
    }

    /// Runs the program with an address until it ends. Use it for starts that must fail.
    pub fn run_on(&self, port: u16) -> Result<Finished> {
        let mut server = self.spawn(&self.address_arguments(&[local(port)]), Vec::new())?;
        let status = server.wait()?;
        Ok(server.finished(status))
    }

    fn start_only(&self, arguments: &[String], address: SocketAddr) -> Result<Server> {
        self.start_with(arguments, vec![("", address)]).map_err(|error| match error {
            StartError::PortTaken => anyhow::anyhow!("{address} is taken"),
            StartError::Other(error) => error,
        })
    }

    fn start_with(
        &self,
        arguments: &[String],
        addresses: Vec<(&'static str, SocketAddr)>,
    ) -> Result<Server, StartError> {
        let mut server = self.spawn(arguments, addresses)?;
        server.wait_until_accepting()?;
        Ok(server)
    }

    /// The arguments for the listeners' addresses. The addresses are in the order of the listeners.
    fn address_arguments(&self, addresses: &[SocketAddr]) -> Vec<String> {
        match &self.addressing {
            Addressing::HostAndPort(flag) => {
                let address = addresses[0];
                let (host, port) = (address.ip().to_string(), address.port().to_string());
                vec![(*flag).to_owned(), host, "-p".to_owned(), port]
            }
            Addressing::Listeners(names) => {
                let prefix = self.address_prefix;
                let listeners = names.iter().zip(addresses);
                let listeners =
                    listeners.map(|(name, address)| format!("--{name}={prefix}{address}"));
                std::iter::once("--only".to_owned()).chain(listeners).collect()
            }
        }
    }

    fn spawn(
        &self,
        address_arguments: &[String],
        addresses: Vec<(&'static str, SocketAddr)>,
    ) -> Result<Server> {
        let place = self.place.clone().unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix("lineshaft-test-").tempdir_in(place)?;
        for (name, text) in &self.files {
            std::fs::write(folder.path().join(name), text)?;
        }
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
        Ok(Server { child, addresses, folder })
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
