//! Retries and dead letters, as docs/policies.md describes them, with an unmodified client of each
//! protocol. The scripts are in `tests/clients/policies`.

use std::net::SocketAddr;
use std::path::Path;

use testkit::process::{Script, installed, scripts};

use crate::kestrel::write_config;
use crate::running::{Running, command};

const POLICIES: &str = r#"
[[policy]]
match = ["mail", "send_mail", "work"]
retries = { limit = 1, base = "3s", jitter = 0 }
dead = { queue = "dead.{name}", keep = "30d" }

[[policy]]
match = "buried"
retries = { limit = 0 }
"#;

/// Runs a script of a protocol's client against a server with these policies.
fn check(protocol: &str, variable: &'static str, python: &str, file: &str) {
    let script =
        Script::new(variable, installed(python), scripts(Path::new("policies").join(file)));
    let script = script.needing(installed(python));
    if !script.is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let listener = format!("--{protocol}=127.0.0.1:0");
    let mut server = Running::spawn(command(folder.path(), &["serve", "--only", &listener]));
    let address: SocketAddr = server.address_of(protocol).parse().unwrap();
    script.run(address).unwrap();
}

#[test]
fn greenstalk() {
    check("beanstalk", "BEANSTALK_PORT", "python/bin/python", "greenstalk_dead.py");
}

#[test]
fn gear() {
    check("gearman", "GEARMAN_PORT", "gearman/python/bin/python", "gear_dead.py");
}

#[test]
fn pymemcache() {
    check("kestrel", "KESTREL_PORT", "kestrel/python/bin/python", "pymemcache_dead.py");
}
