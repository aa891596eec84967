//! Tests Kestrel's listeners in `serve`, and `lineshaft kestrel`, as an operator or a service file
//! starts them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::running::{Running, command, finish, wait_for};

const SERVE: [&str; 4] = ["serve", "--memory", "--only", "--kestrel=127.0.0.1:0"];

/// A connection to the memcache or the text port.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends a request and reads one line.
    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn set(&mut self, queue: &str, item: &str) -> String {
        self.ask(&format!("SET {queue} 0 0 {}\r\n{item}\r\n", item.len()))
    }

    /// True if the server closes the connection and sends no further byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.0.read(&mut [0]).unwrap() == 0
    }
}

fn limit(jobs: u32) -> String {
    format!("[[policy]]\nmatch = \"m*\"\nlimits = {{ jobs = {jobs} }}\n")
}

pub(crate) fn write_config(folder: &Path, text: &str) {
    std::fs::write(folder.join("lineshaft.toml"), text).unwrap();
}

#[test]
fn its_three_protocols_reach_one_queue_and_beanstalkds_clients_too() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        &SERVE[..],
        &["--kestrel-text=127.0.0.1:0", "--kestrel-thrift=127.0.0.1:0", "--beanstalk=127.0.0.1:0"],
    ];
    let mut server = Running::start(folder.path(), &arguments.concat());
    let mut memcache = Client::connect(&server.address_of("kestrel "));
    let mut text = Client::connect(&server.address_of("kestrel_text"));
    assert_eq!(memcache.ask("VERSION\r\n"), "VERSION 2.4.1");
    assert_eq!(memcache.set("mail", "one"), "STORED");
    assert_eq!(text.ask("put mail:\ntwo\n\n"), "+1");
    assert_eq!(text.ask("get mail\n"), ":one");
    let taken = crate::ask(&server.address(), "watch mail\r\nreserve\r\n");
    assert!(taken.ends_with(" 3\r\ntwo\r\n"), "{taken}");

    // Clients of finagle send an unknown method first. The reply must be an exception of type 1,
    // with the sequence number of the call.
    let mut thrift = TcpStream::connect(server.address_of("kestrel_thrift")).unwrap();
    let call = b"\x80\x01\x00\x01\x00\x00\x00\x02zz\x00\x00\x00\x01\x00";
    thrift.write_all(&(call.len() as u32).to_be_bytes()).unwrap();
    thrift.write_all(call).unwrap();
    let mut reply = [0; 12];
    thrift.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..], *b"\x80\x01\x00\x03\x00\x00\x00\x02");
}

#[test]
fn a_client_can_stop_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::spawn(command(folder.path(), &SERVE));
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.ask("SHUTDOWN\r\n"), "");
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.stderr().contains("stopping"), "{}", server.stderr());
}

#[test]
fn silent_clients_are_closed_if_the_configuration_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), "[kestrel]\nclient_timeout = \"100ms\"\nversion = \"3.1\"\n");
    let mut server = Running::spawn(command(folder.path(), &SERVE));
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.ask("VERSION\r\n"), "VERSION 3.1");
    assert!(client.is_closed());
}

#[test]
fn a_changed_limit_is_in_force_after_sighup_and_after_reload() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), &limit(1));
    let arguments = [&SERVE[..], &["--beanstalk=127.0.0.1:0"]].concat();
    let mut server = Running::start(folder.path(), &arguments);
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("mail", "one"), "STORED");
    assert_eq!(client.set("mail", "two"), "NOT_STORED");

    write_config(folder.path(), &limit(2));
    server.signal(Signal::HUP);
    server.wait_for_stderr("configuration reloaded");
    wait_for("the new limit", || (client.set("mail", "two") == "STORED").then_some(()));
    assert_eq!(client.set("mail", "three"), "NOT_STORED");

    // Policies apply to all dialects. A reload is complete when its client gets the reply.
    write_config(folder.path(), &limit(3));
    let put = "use mail\r\nput 0 0 0 1\r\nx\r\n";
    assert_eq!(crate::ask(&server.address(), put), "USING mail\r\nDRAINING\r\n");
    assert_eq!(client.ask("RELOAD\r\n"), "Reloaded config.");
    assert_eq!(client.set("mail", "three"), "STORED");
    assert_eq!(client.set("mail", "four"), "NOT_STORED");
    assert_eq!(client.set("news", "one"), "STORED");
}

#[test]
fn a_broken_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), &limit(1));
    let mut server = Running::spawn(command(folder.path(), &SERVE));
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("mail", "one"), "STORED");
    for (broken, complaint) in [
        (limit(9) + "expire_too = \"x\"\n", "did you mean `expire_to`?"),
        (limit(9) + "[[policy]]\nmatch = \"a\"\nalias = \"a\"\n", "would come back to it"),
        ("io_threads = 9\n".to_owned() + &limit(9), "these keys need a restart: io_threads"),
    ] {
        write_config(folder.path(), &broken);
        assert_eq!(client.ask("RELOAD\r\n"), "Reloaded config.");
        server.wait_for_stderr(complaint);
        assert_eq!(client.set("mail", "two"), "NOT_STORED");
    }
    std::fs::remove_file(folder.path().join("lineshaft.toml")).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_stderr("cannot read");
    assert_eq!(client.set("mail", "two"), "NOT_STORED");
    assert!(!server.stderr().contains("configuration reloaded"));
}

#[test]
fn a_policy_is_shown_with_the_line_of_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let text = limit(5) + "\n[[policy]]\nmatch = \"mail+copy\"\nlimits.age = \"1h\"\n";
    write_config(folder.path(), &text);
    let shown = |queue: &str| {
        let finished = finish(command(folder.path(), &["policy", "show", queue]));
        String::from_utf8(finished.stdout).unwrap()
    };
    let child = shown("mail+copy");
    let lines: Vec<&str> = child.lines().collect();
    assert_eq!(lines[0], "limits.jobs = 5                          # lineshaft.toml:3");
    assert_eq!(lines[3], "limits.age = \"1h\"                        # lineshaft.toml:7");
    assert_eq!(lines[4], "limits.when_full = \"refuse\"              # default");
    assert!(shown("mail").contains("limits.age = \"none\"                      # default\n"));
    let whole = finish(command(folder.path(), &["config", "show"]));
    let whole = String::from_utf8(whole.stdout).unwrap();
    assert!(whole.contains("[[policy]]\nmatch = \"mail+copy\""), "{whole}");

    let finished = finish(command(folder.path(), &["policy", "mail"]));
    assert_eq!(finished.status.code(), Some(2));
    let stderr = String::from_utf8(finished.stderr).unwrap();
    assert!(stderr.contains("tip: `lineshaft policy show mail`"), "{stderr}");

    write_config(folder.path(), "[[policy]]\nlimits = 3\n");
    for arguments in [&["policy", "show", "mail"][..], &["config", "check"]] {
        let finished = finish(command(folder.path(), arguments));
        assert_eq!(finished.status.code(), Some(78));
        let stderr = String::from_utf8(finished.stderr).unwrap();
        let complaint = "lineshaft.toml:2:1: policy: `limits` has keys of its own";
        assert!(stderr.starts_with(complaint), "{stderr}");
    }
}

const LOCAL: [&str; 5] =
    ["--listen=127.0.0.1", "--port=0", "--text-port=off", "--thrift-port=0", "--admin-port=0"];

#[test]
fn in_place_of_the_original_it_keeps_items_and_serves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut starting = command(folder.path(), &LOCAL);
    starting.arg0("/usr/local/bin/kestrel");
    // An environment variable for `serve` must not turn on this listener.
    starting.env("LINESHAFT_LISTEN_BEANSTALK", "127.0.0.1:0");
    let mut server = Running::spawn(starting);
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("mail", "one"), "STORED");
    let mut admin = Client::connect(&server.address_of("kestrel_admin"));
    assert_eq!(admin.ask("GET /ping.txt HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 OK");
    let said = server.stdout();
    assert!(said.contains("kestrel_thrift") && !said.contains("beanstalk"), "{said}");
    assert!(!said.contains("kestrel_text"), "{said}");
    assert!(folder.path().join("kestrel-data/listen.json").exists());
    assert_eq!(client.ask("SHUTDOWN\r\n"), "");
    assert_eq!(server.wait().code(), Some(0));

    let again = [&["kestrel"], &LOCAL[..]].concat();
    let mut server = Running::spawn(command(folder.path(), &again));
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.ask("GET mail\r\n"), "VALUE mail 0 3");
}

#[test]
fn in_place_of_the_original_a_taken_port_is_not_blamed_on_a_setting() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = format!("--text-port={}", address.port());
    let off = ["--port=off", "--thrift-port=off", "--admin-port=off"];
    let arguments = [&["kestrel", "--memory", "--listen=127.0.0.1", &port], &off[..]].concat();
    let finished = finish(command(folder.path(), &arguments));
    assert_eq!(finished.status.code(), Some(69));
    let stderr = String::from_utf8(finished.stderr).unwrap();
    let advice = "the address is in use; stop the other server, or choose another address\n";
    assert_eq!(stderr, format!("kestrel: cannot listen on {address}: {advice}"));
}

#[test]
fn a_configuration_is_named_as_for_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.toml");
    std::fs::write(&file, "[data]\ndir = \"there\"\n[[policy]]\nmatch = \"q\"\nlimits.jobs = 0\n")
        .unwrap();
    let arguments = [&["kestrel", "-f", "other.toml"], &LOCAL[..]].concat();
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.set("q", "one"), "NOT_STORED");
    assert!(folder.path().join("there").is_dir());

    let finished = finish(command(folder.path(), &["kestrel", "-f", "config/production.scala"]));
    assert_eq!(finished.status.code(), Some(78));
    let stderr = String::from_utf8(finished.stderr).unwrap();
    assert!(stderr.contains("production.scala is a Scala configuration; translate"), "{stderr}");
}

#[test]
fn in_place_of_the_original_a_reload_reads_the_keys_with_other_defaults_too() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&["kestrel"], &LOCAL[..]].concat();
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let mut client = Client::connect(&server.address_of("kestrel"));
    let text = "[data]\ndir = \"there\"\n[kestrel]\ncontrol = \"local\"\nadmin_get = false\n";
    write_config(folder.path(), text);
    assert_eq!(client.ask("RELOAD\r\n"), "Reloaded config.");
    let keys = "data.dir, kestrel.control, kestrel.admin_get";
    server.wait_for_stderr(&format!("nothing changed: these keys need a restart: {keys}"));
    write_config(folder.path(), "[messages]\nlevel = \"debug\"\n");
    assert_eq!(client.ask("RELOAD\r\n"), "Reloaded config.");
    server.wait_for_stderr("configuration reloaded");
}

#[test]
fn journals_of_the_original_stop_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("mail");
    let item = [&[2][..], &17_i32.to_le_bytes(), &[0; 16], b"x"].concat();
    std::fs::write(&journal, &item).unwrap();
    let arguments = [&["kestrel", "--data", "."], &LOCAL[..]].concat();
    let finished = finish(command(folder.path(), &arguments));
    assert_eq!(finished.status.code(), Some(65));
    let stderr = String::from_utf8(finished.stderr).unwrap();
    assert!(
        stderr.contains("mail is a journal of the original that still holds items"),
        "{stderr}"
    );

    std::fs::write(&journal, [&item[..], &[1]].concat()).unwrap();
    let mut server = Running::spawn(command(folder.path(), &arguments));
    let mut client = Client::connect(&server.address_of("kestrel"));
    assert_eq!(client.ask("GET mail\r\n"), "END");
}
