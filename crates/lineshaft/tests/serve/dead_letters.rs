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

/// The script of a protocol's client, or nothing if the client is not installed.
pub(crate) fn client_script(protocol: &str, file: &str) -> Option<Script> {
    let (variable, python) = match protocol {
        "beanstalk" => ("BEANSTALK_PORT", "python/bin/python"),
        "gearman" => ("GEARMAN_PORT", "gearman/python/bin/python"),
        _ => ("KESTREL_PORT", "kestrel/python/bin/python"),
    };
    let script =
        Script::new(variable, installed(python), scripts(Path::new("policies").join(file)));
    let script = script.needing(installed(python));
    script.is_there().then_some(script)
}

/// Runs a script of a protocol's client against a server with these policies.
pub(crate) fn check(policies: &str, protocol: &str, file: &str) {
    if let Some(script) = client_script(protocol, file) {
        run_with(policies, protocol, &script);
    }
}

/// Runs a script against a server that has these policies and serves only this protocol.
pub(crate) fn run_with(policies: &str, protocol: &str, script: &Script) {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), policies);
    let listener = format!("--{protocol}=127.0.0.1:0");
    let mut server = Running::spawn(command(folder.path(), &["serve", "--only", &listener]));
    let address: SocketAddr = server.address_of(protocol).parse().unwrap();
    script.run(address).unwrap();
}

#[test]
fn greenstalk() {
    check(POLICIES, "beanstalk", "greenstalk_dead.py");
}

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_dead.py");
}

#[test]
fn pymemcache() {
    check(POLICIES, "kestrel", "pymemcache_dead.py");
}
