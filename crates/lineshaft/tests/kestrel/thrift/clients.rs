//! Plays the conformance cases with clients that the thrift compiler generated. The clients use
//! thrift's own libraries, with each of their transports and protocols.
//!
//! The programs are in `tests/clients/kestrel-thrift`. `scripts/install-test-tools.sh` installs the
//! compiler and the libraries.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::conformance::policies;
use testkit::process::{installed, scripts};
use testkit::tools;

use crate::programs::start_both;

/// The thrift compiler, which generates clients from a service description.
const COMPILER: &str = "thrift";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/kestrel-thrift")
}

/// True if a program is installed. Otherwise the test is skipped.
fn is_there(program: &str) -> bool {
    tools::find_or_skip(program).is_some()
}

/// Generates code in a folder with the compiler.
fn generate(language: &str, folder: &Path) -> Result<()> {
    let made = Command::new(COMPILER)
        .args(["--gen", language, "-out"])
        .arg(folder)
        .arg(corpus().join("kestrel.thrift"))
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// Runs a client against Lineshaft, in memory and with a log at the same time. The client's last
/// argument is the port.
fn check(client: impl Fn() -> Command) -> Result<()> {
    let servers = start_both(&["kestrel-thrift"], policies::CONFIGURATION)?;
    let mut clients = Vec::new();
    for (name, server) in &servers {
        let mut client = client();
        client.arg(server.address().port().to_string());
        client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        clients.push((name, client.spawn().context("starting it")?));
    }
    for (name, client) in clients {
        let output = client.wait_with_output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{name}: {}; it said: {complaint}", output.status);
    }
    Ok(())
}

#[test]
fn python() -> Result<()> {
    let interpreter = installed("kestrel-thrift/python/bin/python3");
    if !is_there(COMPILER) || !is_there(interpreter.to_str().context("a path that is text")?) {
        return Ok(());
    }
    let generated = TempDir::new()?;
    generate("py", generated.path())?;
    check(|| {
        let mut client = Command::new(&interpreter);
        client.arg(scripts("kestrel-thrift/python/play.py")).arg(corpus().join("cases.jsonl"));
        client.env("GENERATED", generated.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        client
    })
}

#[test]
fn rust() -> Result<()> {
    let client = installed("kestrel-thrift/rust/debug/kestrel-thrift-client");
    if !is_there(client.to_str().context("a path that is text")?) {
        return Ok(());
    }
    check(|| {
        let mut client = Command::new(&client);
        client.arg(corpus().join("cases.jsonl"));
        client
    })
}

#[test]
fn java() -> Result<()> {
    let library = Path::new("/usr/share/java");
    for needed in [COMPILER, "javac", "/usr/share/java/thrift.jar"] {
        if !is_there(needed) {
            return Ok(());
        }
    }
    let folder = TempDir::new()?;
    generate("java:generated_annotations=suppress", folder.path())?;
    let jars = ["thrift.jar", "slf4j-api.jar", "slf4j-nop.jar"];
    let jars: Vec<String> = jars.map(|jar| library.join(jar).display().to_string()).into();
    let class_path = format!("{}:{}", jars.join(":"), folder.path().display());
    let compiled = Command::new("javac")
        .args(["-nowarn", "-cp", &class_path, "-d"])
        .arg(folder.path())
        .arg("-sourcepath")
        .arg(folder.path())
        .arg(scripts("kestrel-thrift/java/Client.java"))
        .output()?;
    ensure!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    check(|| {
        let mut client = Command::new("java");
        client.args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", &class_path, "Client"]);
        client
    })
}
