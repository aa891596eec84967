//! Tests Lineshaft with unmodified client libraries and tools, in memory and with a log. Each one
//! has a script of its own.
//!
//! The scripts are in `tests/clients/kestrel`. `scripts/install-test-tools.sh` installs the
//! libraries. The original does not run on current machines, so the scripts cannot run against it.
//! They use the libraries as Kestrel's users did.

use anyhow::{Context, Result};
use testkit::process::{Script, installed, scripts};

use crate::programs::start_both;

fn script(interpreter: &str, file: &str) -> Script {
    Script::new("KESTREL_PORT", interpreter, scripts("kestrel").join(file))
}

fn python(file: &str) -> Result<()> {
    let interpreter = installed("kestrel/python/bin/python");
    let file = scripts("kestrel/python").join(file);
    check(&Script::new("KESTREL_PORT", interpreter, file).needing("python3"))
}

fn node(library: &str) -> Result<()> {
    let libraries = installed("kestrel/node/node_modules");
    let script = script("node", &format!("node/{library}.js")).needing(libraries.join(library));
    check(&script.with_environment("NODE_PATH", libraries))
}

fn check(script: &Script) -> Result<()> {
    if !script.is_there() {
        return Ok(());
    }
    for (name, server) in start_both(&["kestrel"], "")? {
        script.run(server.address()).context(name)?;
    }
    Ok(())
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
    check(&script("php", "php/memcached.php").needing("/usr/share/doc/php-memcached"))
}

#[test]
fn libmemcached_tools() -> Result<()> {
    check(&script("bash", "tools/tools.sh").needing("memccat"))
}
