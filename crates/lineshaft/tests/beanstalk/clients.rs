//! Tests Lineshaft with unmodified client libraries. Each library has a script of its own.
//!
//! The scripts are in `tests/clients/beanstalk`. `scripts/install-test-tools.sh` installs the
//! libraries into `target/test-tools`. Every script also runs against the original, because a
//! script that fails there proves nothing.

use anyhow::{Context, Result};
use testkit::process::{Script, installed, scripts};

use crate::programs;

const PORT: &str = "BEANSTALK_PORT";

fn script(interpreter: &str, file: &str) -> Script {
    Script::new(PORT, interpreter, scripts("beanstalk").join(file))
}

fn python(file: &str) -> Result<()> {
    let interpreter = installed("python/bin/python");
    check(&Script::new(PORT, interpreter, scripts("beanstalk/python").join(file)))
}

fn node(file: &str) -> Result<()> {
    let libraries = installed("node/node_modules");
    let script = Script::new(PORT, "node", scripts("beanstalk/node").join(file));
    check(&script.needing(&libraries).with_environment("NODE_PATH", &libraries))
}

fn rust(program: &str) -> Result<()> {
    check(&Script::compiled(PORT, installed("rust/debug").join(program)))
}

/// Runs a script against Lineshaft, in memory and with a log, and against the original.
fn check(script: &Script) -> Result<()> {
    if !script.is_there() {
        return Ok(());
    }
    if let Some(reference) = programs::reference() {
        script.run(reference.start()?.address()).context("against the original")?;
    }
    script.run(programs::lineshaft_in_memory().start()?.address()).context("in memory")?;
    script.run(programs::lineshaft_durable("data").start()?.address()).context("with a log")
}

#[test]
fn python_greenstalk() -> Result<()> {
    python("greenstalk_client.py")
}

#[test]
fn python_aiostalk() -> Result<()> {
    python("aiostalk_client.py")
}

#[test]
fn python_pystalkd() -> Result<()> {
    python("pystalkd_client.py")
}

#[test]
fn python_pystalk() -> Result<()> {
    python("pystalk_client.py")
}

#[test]
fn python_beanstalkc3() -> Result<()> {
    python("beanstalkc3_client.py")
}

#[test]
fn node_fivebeans() -> Result<()> {
    node("fivebeans.js")
}

#[test]
fn node_jackd() -> Result<()> {
    node("jackd.js")
}

#[test]
fn node_beanstalkd() -> Result<()> {
    node("beanstalkd.js")
}

#[test]
fn node_nodestalker() -> Result<()> {
    node("nodestalker.js")
}

#[test]
fn node_beanstalk_client() -> Result<()> {
    node("beanstalk_client.js")
}

#[test]
fn php_pheanstalk() -> Result<()> {
    check(&script("php", "php/pheanstalk.php"))
}

#[test]
fn ruby_beaneater() -> Result<()> {
    check(&script("ruby", "ruby/beaneater.rb"))
}

#[test]
fn rust_beanstalkd() -> Result<()> {
    rust("beanstalkd")
}

#[test]
fn rust_beanstalkc() -> Result<()> {
    rust("beanstalkc")
}

#[test]
fn rust_tokio_beanstalkd() -> Result<()> {
    rust("tokio-beanstalkd")
}
