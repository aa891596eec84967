//! Tests unmodified client libraries and tools. Each runs its own script against Lineshaft.
//!
//! The scripts are in `tests/clients/gearman`; `scripts/install-test-tools.sh` installs the
//! libraries. A script that fails against the original proves nothing, so every script runs against
//! the original as well.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use testkit::process::{Program, Server};
use testkit::tls::certificates::Authority;
use testkit::{tools, wait};

use crate::programs;

/// Generous, because interpreters start slowly on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

const PERL_CLIENT: &str = "/usr/share/perl5/Gearman/Client.pm";
/// The file that Perl needs for TLS.
const PERL_TLS: &str = "/usr/share/perl5/IO/Socket/SSL.pm";

/// A script counts as wrong after this many failures against the original.
const ATTEMPTS_WITH_THE_ORIGINAL: usize = 3;

/// A program that connects as a client, and usually also as workers.
struct Script {
    interpreter: PathBuf,
    /// Empty for a compiled client.
    path: Option<PathBuf>,
}

fn scripts_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/gearman")
}

fn tools_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/gearman")
}

fn script(interpreter: impl Into<PathBuf>, file: &str) -> Script {
    Script { interpreter: interpreter.into(), path: Some(scripts_folder().join(file)) }
}

impl Script {
    /// Runs the script against the original, and against Lineshaft, in memory and with a log. Skips
    /// it if `needed`, a program or file, is missing.
    fn check(&self, needed: &str) -> Result<()> {
        let interpreter = self.interpreter.to_str().context("a path that is text")?;
        if [interpreter, needed].iter().any(|program| tools::find_or_skip(program).is_none()) {
            return Ok(());
        }
        if let Some(reference) = programs::reference() {
            self.run_against_the_original(&reference)?;
        }
        for (name, program) in programs::lineshaft() {
            self.run(&program.start()?).context(name)?;
        }
        Ok(())
    }

    /// Sometimes the original does not wake a worker when a scheduled job becomes due. A script
    /// then waits in vain, which proves nothing. So a script is wrong only if it never passes.
    fn run_against_the_original(&self, reference: &Program) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..ATTEMPTS_WITH_THE_ORIGINAL {
            last = self.run(&reference.start()?).context("against the original");
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Runs the script against Lineshaft with TLS, started as itself and as the original. The
    /// script finds the files of its own certificate and of the authority in a folder. Skips it if
    /// one of `needed` is missing.
    fn check_with_tls(&self, needed: &[&str]) -> Result<()> {
        let interpreter = self.interpreter.to_str().context("a path that is text")?;
        let mut all = needed.iter().chain([&interpreter]);
        if all.any(|program| tools::find_or_skip(program).is_none()) {
            return Ok(());
        }
        let files = TempDir::new()?;
        let authority = Authority::new(files.path(), "authority")?;
        let identity = authority.issue("server")?;
        authority.issue("client")?;
        let ca = authority.file.to_str().context("a path that is text")?;
        let serve = programs::lineshaft_in_memory().with_tls(&identity);
        for program in [
            serve.with(&["--tls-client-ca", ca]),
            programs::lineshaft_as_gearmand_with_tls(&identity),
        ] {
            self.run_in(&program.start()?, &[("GEARMAN_TLS", files.path())]).context("with TLS")?;
        }
        Ok(())
    }

    fn run(&self, server: &Server) -> Result<()> {
        self.run_in(server, &[])
    }

    fn run_in(&self, server: &Server, environment: &[(&str, &Path)]) -> Result<()> {
        let folder = TempDir::new()?;
        let complaints = folder.path().join("stderr");
        let mut client = Command::new(&self.interpreter)
            .args(&self.path)
            .env("GEARMAN_PORT", server.address().port().to_string())
            .env("NODE_PATH", tools_folder().join("node/node_modules"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", folder.path())
            .envs(environment.iter().copied())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // A file and not a pipe, because the workers of a failed script would keep a pipe open.
            .stderr(std::fs::File::create(&complaints)?)
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

#[test]
fn gearman_and_gearadmin() -> Result<()> {
    script("bash", "tools/tools.sh").check("gearadmin")
}

#[test]
fn libgearman() -> Result<()> {
    for needed in ["cc", "/usr/include/libgearman/gearman.h"] {
        if tools::find_or_skip(needed).is_none() {
            return Ok(());
        }
    }
    let folder = TempDir::new()?;
    let program = folder.path().join("client");
    let source = scripts_folder().join("c/libgearman.c");
    let built = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-lgearman")
        .output()?;
    ensure!(built.status.success(), "cc said: {}", String::from_utf8_lossy(&built.stderr));
    Script { interpreter: program, path: None }.check("cc")
}

#[test]
fn php_gearman() -> Result<()> {
    script("php", "php/gearman.php").check("/usr/share/doc/php-gearman")
}

#[test]
fn perl_gearman() -> Result<()> {
    script("perl", "perl/gearman.pl").check(PERL_CLIENT)
}

#[test]
fn perl_gearman_with_tls() -> Result<()> {
    script("perl", "perl/gearman_tls.pl").check_with_tls(&[PERL_CLIENT, PERL_TLS])
}

#[test]
fn python_gear() -> Result<()> {
    let python = script(tools_folder().join("python/bin/python"), "python/gear_client.py");
    python.check("python3")?;
    python.check_with_tls(&[])
}

#[test]
fn node_gearmanode() -> Result<()> {
    node("gearmanode")
}

#[test]
fn node_abraxas() -> Result<()> {
    node("abraxas")
}

#[test]
fn node_gearman() -> Result<()> {
    node("node-gearman")
}

fn node(library: &str) -> Result<()> {
    let installed = tools_folder().join("node/node_modules").join(library);
    let file = format!("node/{library}.js");
    script("node", &file).check(installed.to_str().context("a path that is text")?)
}
