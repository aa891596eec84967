//! Clients in other languages: scripts in `crates/lineshaft/tests/clients`, and the libraries that
//! `scripts/install-test-tools.sh` puts into `target/test-tools`.

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

/// Generous, because interpreters start slowly on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A client of one protocol, and how it is started.
#[derive(Debug, Clone)]
pub struct Script {
    program: PathBuf,
    /// Empty for a compiled client.
    file: Option<PathBuf>,
    /// Programs and files without which it is skipped.
    needed: Vec<PathBuf>,
    /// The environment variable with the port of the server.
    port_variable: &'static str,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Script {
    /// A compiled client, which gets the port in this environment variable.
    pub fn compiled(port_variable: &'static str, program: impl Into<PathBuf>) -> Script {
        let program = program.into();
        let needed = vec![program.clone()];
        let environment = vec![("PYTHONDONTWRITEBYTECODE", "1".into())];
        Script { program, file: None, needed, port_variable, environment }
    }

    /// A file that this program runs.
    pub fn new(
        port_variable: &'static str,
        interpreter: impl Into<PathBuf>,
        file: impl Into<PathBuf>,
    ) -> Script {
        let mut script = Script::compiled(port_variable, interpreter);
        script.file = Some(file.into());
        script
    }

    /// The same with a further variable in its environment.
    #[must_use]
    pub fn with_environment(mut self, name: &'static str, value: impl Into<PathBuf>) -> Script {
        self.environment.push((name, value.into()));
        self
    }

    /// The same. It is skipped if this program or file is missing.
    #[must_use]
    pub fn needing(mut self, needed: impl Into<PathBuf>) -> Script {
        self.needed.push(needed.into());
        self
    }

    /// Whether the machine has all that the script needs. If not, reports what is missing.
    #[track_caller]
    pub fn is_there(&self) -> bool {
        let text = |path: &PathBuf| path.to_str().expect("test paths are text").to_owned();
        self.needed.iter().all(|needed| tools::find_or_skip(&text(needed)).is_some())
    }

    /// Runs it in a folder of its own, with the port of this server. Fails with its error output if
    /// it does, or at the time limit.
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
            // A file and not a pipe, because the workers of a failed script would keep a pipe open.
            .stderr(File::create(&complaints)?)
            // One process group with its workers, so that the test can end all of them.
            .process_group(0)
            .spawn()?;
        wait::for_exit(&mut client, LIMIT)?;
        // Fails if all of them have already ended.
        let _ = kill_process_group(Pid::from_child(&client), Signal::KILL);
        let status = client.wait()?;
        let complaint = String::from_utf8_lossy(&std::fs::read(&complaints)?).into_owned();
        ensure!(status.success(), "{status}; it said: {complaint}");
        Ok(())
    }
}

/// A file or folder among the scripts.
pub fn scripts(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lineshaft/tests/clients").join(path)
}

/// A file or folder among the installed libraries.
pub fn installed(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools").join(path)
}
