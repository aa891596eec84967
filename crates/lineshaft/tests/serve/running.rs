//! A server process. The test reads the server's address from its output. Dropping the value ends
//! the process.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testkit::wait;

/// The program, in a folder of its own. No settings come from the environment.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_lineshaft"));
    let program = std::env::var_os("LINESHAFT_BIN").map_or_else(built, PathBuf::from);
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    clear_environment(&mut command);
    command
}

/// Takes all settings out of the environment of a server, and switches all listeners off that have
/// a default port, except the one for beanstalkd clients.
pub(crate) fn clear_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LINESHAFT_") {
            command.env_remove(name);
        }
    }
    // Tests run in parallel, so the default ports would be in use.
    for listener in
        ["GEARMAN", "HTTP", "KESTREL", "KESTREL_TEXT", "KESTREL_THRIFT", "KESTREL_ADMIN"]
    {
        command.env(format!("LINESHAFT_LISTEN_{listener}"), "off");
    }
}

/// Starts a server that gets a listening socket from its parent, as from systemd, with this name if
/// it has one. Returns also the address of the socket.
pub(crate) fn handed_over(
    folder: &Path,
    name: Option<&str>,
    arguments: &[&str],
) -> (Running, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = command(folder, arguments);
    // The shell moves the socket to descriptor 3, and sets its own process id in the environment.
    // The server replaces the shell, so it has the same process id.
    let mut shell = Command::new("sh");
    clear_environment(&mut shell);
    shell
        .arg("-c")
        .arg("exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"")
        .arg(serve.get_program())
        .args(serve.get_args())
        .current_dir(folder)
        .stdin(Stdio::from(OwnedFd::from(listener)));
    if let Some(name) = name {
        shell.env("LISTEN_FDNAMES", name);
    }
    (Running::spawn(shell), address)
}

/// Runs the program to its end. For starts that must fail.
pub(crate) fn finish(mut command: Command) -> Output {
    command.output().unwrap()
}

/// Calls `look` repeatedly until it returns a value.
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::for_some(wait::LIMIT, look).unwrap_or_else(|| panic!("{what} did not come"))
}

pub(crate) struct Running {
    child: Child,
    output: tempfile::TempDir,
}

impl Running {
    /// Starts the server and waits until it is ready.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Running {
        let mut running = Running::spawn(command(folder, arguments));
        running.address();
        running
    }

    pub(crate) fn spawn(mut command: Command) -> Running {
        let output = tempfile::tempdir().unwrap();
        command.stdout(File::create(output.path().join("stdout")).unwrap());
        command.stderr(File::create(output.path().join("stderr")).unwrap());
        Running { child: command.spawn().unwrap(), output }
    }

    /// The address of the first beanstalk listener. Waits until the server is ready.
    pub(crate) fn address(&mut self) -> String {
        self.address_of("beanstalk")
    }

    /// The address of the first listener of a protocol. Waits until the server is ready.
    pub(crate) fn address_of(&mut self, protocol: &str) -> String {
        wait_for("the address", || {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", self.stderr());
            let stdout = self.stdout();
            let line = stdout.lines().find_map(|line| line.trim().strip_prefix(protocol))?;
            // The line can be incomplete until the output ends with a line feed.
            stdout.ends_with('\n').then(|| line.split(',').next().unwrap().trim().to_owned())
        })
    }

    /// The address of a server that was started as gearmand. Such a server prints its address on
    /// standard error.
    pub(crate) fn gearmand_address(&mut self) -> String {
        wait_for("the address", || {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", self.stderr());
            let stderr = self.stderr();
            let (_, said) = stderr.split_once(" on ")?;
            let (address, _) = said.split_once([',', ' '])?;
            Some(address.to_owned())
        })
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(self.output.path().join("stdout")).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.output.path().join("stderr")).unwrap()
    }

    pub(crate) fn wait_for_stderr(&self, text: &str) {
        wait_for(text, || self.stderr().contains(text).then_some(()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the end of the server", || self.child.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // These calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
