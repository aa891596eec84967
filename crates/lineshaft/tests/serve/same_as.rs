//! Two names of one queue, as docs/policies.md describes them, with unmodified clients of all
//! protocols, and over a restart. The scripts are in `tests/clients/policies`.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;
use testkit::client::Client;
use testkit::process::{Script, installed, scripts};

use crate::kestrel::write_config;
use crate::running::{Running, command, finish, wait_for};

const POLICIES: &str = r#"
[[policy]]
match = "send_*"
same_as = "mail"
"#;

fn script(variable: &'static str, program: impl AsRef<Path>, file: &str) -> Script {
    let program = program.as_ref();
    Script::new(variable, program, scripts(Path::new("policies").join(file))).needing(program)
}

/// A producer of PHP puts into the tube `mail`, and one of Python into `send_mail`. A Gearman worker
/// that has registered `send_mail` gets one job, and a client of Kestrel that reads `send_mail` gets
/// the other one.
#[test]
fn clients_of_all_protocols_meet_in_one_queue() {
    let python = |path: &str| installed(Path::new(path).join("bin/python"));
    let steps = [
        ("beanstalk", script("BEANSTALK_PORT", "php", "pheanstalk_same_as.php")),
        ("gearman", script("GEARMAN_PORT", python("gearman/python"), "gear_same_as.py")),
        ("kestrel", script("KESTREL_PORT", python("kestrel/python"), "pymemcache_same_as.py")),
    ];
    if !steps.iter().all(|(_, script)| script.is_there()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let listeners = steps.each_ref().map(|(protocol, _)| format!("--{protocol}=127.0.0.1:0"));
    let arguments: Vec<&str> =
        ["serve", "--only"].into_iter().chain(listeners.iter().map(String::as_str)).collect();
    let mut server = Running::spawn(command(folder.path(), &arguments));
    for (protocol, script) in steps {
        let address: SocketAddr = server.address_of(protocol).parse().unwrap();
        script.run(address).unwrap();
    }
}

/// Jobs are in a queue when a reload makes its name stand for another one. They move there, and a
/// restart in between loses none.
#[test]
fn a_reload_gives_a_queue_with_jobs_another_name() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), "");
    let arguments = ["serve", "--only", "--beanstalk=127.0.0.1:0"];
    let mut server = Running::start(folder.path(), &arguments);
    let address: SocketAddr = server.address().parse().unwrap();
    let mut client = Client::on_tube(address, "send_mail").unwrap();
    for body in [b"1", b"2", b"3"] {
        client.put(0, 0, 60, body).unwrap();
    }
    let held = client.reserve(0).unwrap().expect("there are three");
    write_config(folder.path(), POLICIES);
    server.signal(Signal::HUP);
    let ready = |address, tube: &str, count: u32| {
        let mut other = Client::on_tube(address, "other").unwrap();
        wait_for("the jobs", || {
            let stats = other.stats(&format!("stats-tube {tube}")).ok()?;
            (stats["current-jobs-ready"] == count.to_string()).then_some(())
        });
    };
    ready(address, "mail", 2);
    // The connection still uses the tube. A put goes where the name says.
    client.put(0, 0, 60, b"4").unwrap();
    ready(address, "mail", 3);
    server.signal(Signal::KILL);
    server.wait();
    let mut server = Running::start(folder.path(), &arguments);
    let address: SocketAddr = server.address().parse().unwrap();
    ready(address, "mail", 4);
    let mut worker = Client::on_tube(address, "send_mail").unwrap();
    let mut bodies = Vec::new();
    while let Some(job) = worker.reserve(0).unwrap() {
        bodies.push(job.body);
    }
    bodies.sort_unstable();
    assert_eq!(bodies, [b"1", b"2", b"3", b"4"]);
    assert_eq!(held.body, b"1");
}

#[test]
fn the_tools_say_what_a_name_stands_for() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), "[[policy]]\nmatch = \"mail\"\nlimits.jobs = 7\n");
    let path = folder.path().join("lineshaft.toml");
    let rules = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{rules}{POLICIES}")).unwrap();
    let ask = |arguments: &[&str]| {
        let output = finish(command(folder.path(), arguments));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = ask(&["policy", "show", "send_mail"]);
    assert!(shown.contains("same_as = \"mail\""), "{shown}");
    assert!(shown.contains("limits.jobs = 7"), "the policy of `mail`: {shown}");
    let tested = ask(&["policy", "test", "send_mail"]);
    assert!(tested.contains("a put into send_mail goes to: mail"), "{tested}");
}
