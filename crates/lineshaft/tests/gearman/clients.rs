//! Tests Lineshaft with unmodified client libraries and tools. Each one has a script of its own.
//!
//! The scripts are in `tests/clients/gearman`. `scripts/install-test-tools.sh` installs the
//! libraries. Every script also runs against the original, because a script that fails there proves
//! nothing.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::process::{Program, Script, installed, scripts};
use testkit::tls::certificates::Authority;
use testkit::tools;

use crate::programs;

const PORT: &str = "GEARMAN_PORT";

const PERL_CLIENT: &str = "/usr/share/perl5/Gearman/Client.pm";
/// The file of the Perl module that TLS needs.
const PERL_TLS: &str = "/usr/share/perl5/IO/Socket/SSL.pm";

/// A script counts as wrong if it fails this many times against the original.
const ATTEMPTS_WITH_THE_ORIGINAL: usize = 3;

fn script(interpreter: &str, file: &str) -> Script {
    Script::new(PORT, interpreter, scripts("gearman").join(file))
}

/// Runs a script against the original, and against Lineshaft in memory and with a log.
fn check(script: &Script) -> Result<()> {
    if !script.is_there() {
        return Ok(());
    }
    if let Some(reference) = programs::reference() {
        check_against_the_original(script, &reference)?;
    }
    for (name, program) in programs::lineshaft() {
        script.run(program.start()?.address()).context(name)?;
    }
    Ok(())
}

/// Sometimes the original does not wake a worker when a job becomes due. Then a correct script
/// fails. So a script counts as wrong only if it fails in all attempts.
fn check_against_the_original(script: &Script, reference: &Program) -> Result<()> {
    let mut last = Ok(());
    for _ in 0..ATTEMPTS_WITH_THE_ORIGINAL {
        last = script.run(reference.start()?.address()).context("against the original");
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Runs a script against Lineshaft with TLS, both as `serve` and as `gearmand`. The script gets a
/// folder with its own certificate and the authority's file.
fn check_with_tls(script: &Script) -> Result<()> {
    if !script.is_there() {
        return Ok(());
    }
    let files = TempDir::new()?;
    let authority = Authority::new(files.path(), "authority")?;
    let identity = authority.issue("server")?;
    authority.issue("client")?;
    let ca = authority.file.to_str().context("a path that is text")?;
    let script = script.clone().with_environment("GEARMAN_TLS", files.path());
    let serve = programs::lineshaft_in_memory().with_tls(&identity);
    for program in
        [serve.with(&["--tls-client-ca", ca]), programs::lineshaft_as_gearmand_with_tls(&identity)]
    {
        script.run(program.start()?.address()).context("with TLS")?;
    }
    Ok(())
}

#[test]
fn gearman_and_gearadmin() -> Result<()> {
    check(&script("bash", "tools/tools.sh").needing("gearadmin"))
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
    let source = scripts("gearman/c/libgearman.c");
    let built = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-lgearman")
        .output()?;
    ensure!(built.status.success(), "cc said: {}", String::from_utf8_lossy(&built.stderr));
    check(&Script::compiled(PORT, program))
}

#[test]
fn php_gearman() -> Result<()> {
    check(&script("php", "php/gearman.php").needing("/usr/share/doc/php-gearman"))
}

#[test]
fn perl_gearman() -> Result<()> {
    check(&script("perl", "perl/gearman.pl").needing(PERL_CLIENT))
}

#[test]
fn perl_gearman_with_tls() -> Result<()> {
    check_with_tls(&script("perl", "perl/gearman_tls.pl").needing(PERL_CLIENT).needing(PERL_TLS))
}

#[test]
fn python_gear() -> Result<()> {
    let interpreter = installed("gearman/python/bin/python");
    let file = scripts("gearman/python/gear_client.py");
    let python = Script::new(PORT, interpreter, file).needing("python3");
    check(&python)?;
    check_with_tls(&python)
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
    let libraries = installed("gearman/node/node_modules");
    let script = script("node", &format!("node/{library}.js")).needing(libraries.join(library));
    check(&script.with_environment("NODE_PATH", libraries))
}
