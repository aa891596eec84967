//! Tests unmodified client libraries. Each runs its own script against Lineshaft.
//!
//! The scripts are in `tests/clients/beanstalk`; `scripts/install-test-tools.sh` puts the libraries
//! into `target/test-tools`. A script that fails against the original proves nothing, so every
//! script runs against the original as well.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::process::Server;
use testkit::{tools, wait};

use crate::programs;

/// Generous, because interpreters start slowly on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A client library, and how its script is started.
struct Script {
    interpreter: PathBuf,
    /// Empty for a compiled client.
    path: Option<PathBuf>,
}

fn scripts_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/beanstalk")
}

fn tools_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools")
}

fn python(file: &str) -> Script {
    let path = scripts_folder().join("python").join(file);
    Script { interpreter: tools_folder().join("python/bin/python"), path: Some(path) }
}

fn node(file: &str) -> Script {
    let path = scripts_folder().join("node").join(file);
    Script { interpreter: "node".into(), path: Some(path) }
}

fn rust(program: &str) -> Script {
    Script { interpreter: tools_folder().join("rust/debug").join(program), path: None }
}

impl Script {
    /// Runs the script against Lineshaft, in memory and with a log, and against the original.
    fn check(&self) -> Result<()> {
        let interpreter = self.interpreter.to_str().context("a path that is text")?;
        if tools::find_or_skip(interpreter).is_none() {
            return Ok(());
        }
        if let Some(reference) = programs::reference() {
            self.run(&reference.start()?).context("against the original")?;
        }
        self.run(&programs::lineshaft_in_memory().start()?).context("in memory")?;
        self.run(&programs::lineshaft_durable("data").start()?).context("with a log")
    }

    fn run(&self, server: &Server) -> Result<()> {
        let mut client = Command::new(&self.interpreter)
            .args(&self.path)
            .env("BEANSTALK_PORT", server.address().port().to_string())
            .env("NODE_PATH", tools_folder().join("node/node_modules"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        wait::for_exit(&mut client, LIMIT)?;
        // Fails only if the client has already ended.
        let _ = client.kill();
        let ended = client.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{}; it said: {complaint}", ended.status);
        Ok(())
    }
}

#[test]
fn python_greenstalk() -> Result<()> {
    python("greenstalk_client.py").check()
}

#[test]
fn python_aiostalk() -> Result<()> {
    python("aiostalk_client.py").check()
}

#[test]
fn python_pystalkd() -> Result<()> {
    python("pystalkd_client.py").check()
}

#[test]
fn python_pystalk() -> Result<()> {
    python("pystalk_client.py").check()
}

#[test]
fn python_beanstalkc3() -> Result<()> {
    python("beanstalkc3_client.py").check()
}

#[test]
fn node_fivebeans() -> Result<()> {
    node("fivebeans.js").check()
}

#[test]
fn node_jackd() -> Result<()> {
    node("jackd.js").check()
}

#[test]
fn node_beanstalkd() -> Result<()> {
    node("beanstalkd.js").check()
}

#[test]
fn node_nodestalker() -> Result<()> {
    node("nodestalker.js").check()
}

#[test]
fn node_beanstalk_client() -> Result<()> {
    node("beanstalk_client.js").check()
}

#[test]
fn php_pheanstalk() -> Result<()> {
    let path = scripts_folder().join("php/pheanstalk.php");
    Script { interpreter: "php".into(), path: Some(path) }.check()
}

#[test]
fn ruby_beaneater() -> Result<()> {
    let path = scripts_folder().join("ruby/beaneater.rb");
    Script { interpreter: "ruby".into(), path: Some(path) }.check()
}

#[test]
fn rust_beanstalkd() -> Result<()> {
    rust("beanstalkd").check()
}

#[test]
fn rust_beanstalkc() -> Result<()> {
    rust("beanstalkc").check()
}

#[test]
fn rust_tokio_beanstalkd() -> Result<()> {
    rust("tokio-beanstalkd").check()
}
