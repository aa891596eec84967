//! Tests unmodified client libraries and tools. Each runs its own script against Lineshaft, in
//! memory and with a log.
//!
//! The scripts are in `tests/clients/kestrel`; `scripts/install-test-tools.sh` installs the
//! libraries. The original does not run on current machines, so the tests cannot compare with it.
//! The scripts do what its users did.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::{tools, wait};

use crate::programs::{Running, start_both};

/// Generous, because interpreters start slowly on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A script, and the program that runs it.
struct Script {
    interpreter: PathBuf,
    path: PathBuf,
}

fn tools_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/kestrel")
}

fn script(interpreter: impl Into<PathBuf>, file: &str) -> Script {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/kestrel");
    Script { interpreter: interpreter.into(), path: folder.join(file) }
}

fn python(file: &str) -> Result<()> {
    script(tools_folder().join("python/bin/python"), &format!("python/{file}")).check("python3")
}

fn node(library: &str) -> Result<()> {
    let installed = tools_folder().join("node/node_modules").join(library);
    let file = format!("node/{library}.js");
    script("node", &file).check(installed.to_str().context("a path that is text")?)
}

impl Script {
    /// Runs the script. Skips it if `needed`, a program or file, is missing.
    fn check(&self, needed: &str) -> Result<()> {
        let interpreter = self.interpreter.to_str().context("a path that is text")?;
        if [interpreter, needed].iter().any(|program| tools::find_or_skip(program).is_none()) {
            return Ok(());
        }
        for (name, server) in start_both("")? {
            self.run(&server).context(name)?;
        }
        Ok(())
    }

    fn run(&self, server: &Running) -> Result<()> {
        let folder = TempDir::new()?;
        let complaints = folder.path().join("stderr");
        let mut client = Command::new(&self.interpreter)
            .arg(&self.path)
            .env("KESTREL_PORT", server.memcache.port().to_string())
            .env("NODE_PATH", tools_folder().join("node/node_modules"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&complaints)?)
            .spawn()?;
        wait::for_exit(&mut client, LIMIT)?;
        // Fails only if the client has already ended.
        let _ = client.kill();
        let status = client.wait()?;
        let complaint = String::from_utf8_lossy(&std::fs::read(&complaints)?).into_owned();
        ensure!(status.success(), "{status}; it said: {complaint}");
        Ok(())
    }
}

#[test]
fn python_pymemcache() -> Result<()> {
    python("pymemcache_client.py")
}

#[test]
fn python_memcached() -> Result<()> {
    python("python_memcached_client.py")
}

#[test]
fn python_pylibmc() -> Result<()> {
    python("pylibmc_client.py")
}

#[test]
fn node_memcached() -> Result<()> {
    node("memcached")
}

#[test]
fn node_memcache_client() -> Result<()> {
    node("memcache-client")
}

#[test]
fn node_memcache_plus() -> Result<()> {
    node("memcache-plus")
}

#[test]
fn php_memcached() -> Result<()> {
    script("php", "php/memcached.php").check("/usr/share/doc/php-memcached")
}

#[test]
fn libmemcached_tools() -> Result<()> {
    script("bash", "tools/tools.sh").check("memccat")
}
