//! Clients in other languages. Their scripts are in `crates/lineshaft/tests/clients`.
//! `scripts/install-test-tools.sh` installs their libraries into `target/test-tools`.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::{tools, wait};

/// The limit is generous, because interpreters start slowly on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A client program of one protocol, with its environment.
#[derive(Debug, Clone)]
pub struct Script {
    program: PathBuf,
    /// The file that the program interprets. `None` for a compiled client.
    file: Option<PathBuf>,
    /// Programs and files that the script needs. If one is missing, the script is skipped.
    needed: Vec<PathBuf>,
    /// The environment variable for the port of the server.
    port_variable: &'static str,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Script {
    /// A compiled client. It gets the server's port in this environment variable.
    pub fn compiled(port_variable: &'static str, program: impl Into<PathBuf>) -> Script {
        let program = program.into();
        let needed = vec![program.clone()];
        let environment = vec![("PYTHONDONTWRITEBYTECODE", "1".into())];
        Script { program, file: None, needed, port_variable, environment }
    }

    /// A script that `interpreter` runs. It gets the server's port in this environment variable.
    pub fn new(
        port_variable: &'static str,
        interpreter: impl Into<PathBuf>,
        file: impl Into<PathBuf>,
    ) -> Script {
        let mut script = Script::compiled(port_variable, interpreter);
        script.file = Some(file.into());
        script
    }

    /// The same script with a further variable in its environment.
    #[must_use]
    pub fn with_environment(mut self, name: &'static str, value: impl Into<PathBuf>) -> Script {
        self.environment.push((name, value.into()));
        self
    }

    /// The same script, which also needs this program or file.
    #[must_use]
    pub fn needing(mut self, needed: impl Into<PathBuf>) -> Script {
        self.needed.push(needed.into());
        self
    }

    /// True if the machine has everything that the script needs. Otherwise reports what is missing.
    #[track_caller]
    pub fn is_there(&self) -> bool {
        let text = |path: &PathBuf| path.to_str().expect("test paths are text").to_owned();
        self.needed.iter().all(|needed| tools::find_or_skip(&text(needed)).is_some())
    }

    /// Runs the script in a folder of its own, with the port of this server. Fails if the script
    /// fails or does not end in time. The error contains the script's standard error.
    pub fn run(&self, server: SocketAddr) -> Result<()> {
        let folder = TempDir::new()?;
        let complaints = folder.path().join("stderr");
        let mut client = Command::new(&self.program)
            .args(&self.file)
            .env(self.port_variable, server.port().to_string())
            .env("TMPDIR", folder.path())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Standard error is a file and not a pipe. A child process of a failed script could
            // keep a pipe open, and then reading the pipe would not end.
            .stderr(File::create(&complaints)?)
            // The script and its child processes are in one process group, so that the test can end
            // all of them.
            .process_group(0)
            .spawn()?;
        wait::for_exit(&mut client, LIMIT)?;
        // This fails only if all processes of the group have already ended.
        let _ = kill_process_group(Pid::from_child(&client), Signal::KILL);
        let status = client.wait()?;
        let complaint = String::from_utf8_lossy(&std::fs::read(&complaints)?).into_owned();
        ensure!(status.success(), "{status}; it said: {complaint}");
        Ok(())
    }
}

/// The path of a file or folder among the scripts.
pub fn scripts(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lineshaft/tests/clients").join(path)
}

/// The path of a file or folder among the installed libraries.
pub fn installed(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools").join(path)
}
