//! Tests that the monitors of others show Lineshaft's queues. Each runs unchanged, as a process.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use testkit::client::Client;
use testkit::process::{Program, Server, installed};
use testkit::readme::Running;
use testkit::tools;

use super::{LINESHAFT, wait_until};

/// The folder of the plugins for Nagios and its relatives.
const PLUGINS: &str = "/usr/lib/nagios/plugins";

/// beanstalkc calls `yaml.load` without a loader, which its version 6 refuses.
const BEANSTALKTOP: &str = "\
import functools, sys, yaml
yaml.load = functools.partial(yaml.load, Loader=yaml.SafeLoader)
import beanstalktop
beanstalktop.main()
";

fn serve(listeners: &'static [&'static str]) -> Server {
    Program::serve_on(listeners, LINESHAFT, &["--memory"]).start().unwrap()
}

/// Text of a terminal without its control sequences. Each sequence becomes a space.
fn plain(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        let end =
            part.find(|letter: char| letter.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        format!("{shown} {}", &part[end..])
    })
}

#[test]
fn beanstalktop_shows_the_tubes() {
    let python = installed("interfaces/python/bin/python");
    let (Some(python), Some(script)) =
        (tools::find_or_skip(python.to_str().unwrap()), tools::find_or_skip("script"))
    else {
        return;
    };
    let server = serve(&["beanstalk"]);
    let address = server.address_of("beanstalk");
    let mut client = Client::on_tube(address, "mail").unwrap();
    for priority in [0, 5000, 5000] {
        client.put(priority, 0, 60, b"x").unwrap();
    }
    client.put(0, 3600, 60, b"later").unwrap();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("top.py"), BEANSTALKTOP).unwrap();
    let top = format!("{} top.py --host {} -p {}", python.display(), address.ip(), address.port());
    let mut command = Command::new(script);
    command.args(["-qec", &top, "/dev/null"]).current_dir(folder.path());
    command.envs([("TERM", "xterm"), ("COLUMNS", "120"), ("LINES", "30")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It shows the server once, then reads the key.
    child.stdin.take().unwrap().write_all(b"q").unwrap();
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
    let shown = plain(&output);
    let words: Vec<&str> = shown.split_whitespace().collect();
    let row = words.iter().position(|word| *word == "mail").unwrap_or_else(|| panic!("{shown}"));
    // Ready, urgent, reserved, delayed, buried.
    assert_eq!(words[row + 1..row + 6], ["3", "1", "0", "1", "0"], "{shown}");
    assert!(shown.contains("Total Jobs: 4"), "{shown}");
}

/// Runs a plugin, which must be content. Returns what it says.
fn check(plugin: &str, server: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new(Path::new(PLUGINS).join(plugin));
    command.args(["-H", &server.ip().to_string(), "-p", &server.port().to_string()]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn checks_of_nagios_find_the_server_healthy() {
    let plugins = ["check_tcp", "check_http"].map(|name| format!("{PLUGINS}/{name}"));
    if plugins.iter().any(|plugin| tools::find_or_skip(plugin).is_none()) {
        return;
    }
    let server = serve(&["beanstalk", "gearman", "kestrel", "http"]);
    let expect = |listener, question, answer| {
        let said =
            check("check_tcp", server.address_of(listener), &["-E", "-s", question, "-e", answer]);
        assert!(said.starts_with("TCP OK"), "{said}");
    };
    expect("beanstalk", "stats\\r\\n", "current-jobs-ready: 0");
    expect("gearman", "version\\n", "OK ");
    expect("kestrel", "version\\r\\n", "VERSION ");
    let said =
        check("check_http", server.address_of("http"), &["-u", "/health/ready", "-s", "ready"]);
    assert!(said.starts_with("HTTP OK"), "{said}");
}

#[test]
fn collectd_reads_the_statistics_of_kestrel() {
    let Some(collectd) = tools::find_or_skip("collectd") else { return };
    let server = serve(&["kestrel"]);
    let address = server.address_of("kestrel");
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(b"set q 0 0 2\r\nhi\r\nset q 0 0 2\r\nho\r\nget q\r\nget none\r\nquit\r\n")
        .unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    // collectd writes into no folder whose name begins with a dot.
    let folder = tempfile::Builder::new().prefix("collectd-").tempdir().unwrap();
    let place = folder.path().display();
    let settings = format!(
        "BaseDir \"{place}\"\nPIDFile \"{place}/pid\"\nHostname \"machine\"\nInterval 0.2\n\
         LoadPlugin memcached\nLoadPlugin csv\n\
         <Plugin memcached>\n<Instance \"queues\">\nAddress \"{}\"\nPort \"{}\"\n</Instance>\n</Plugin>\n\
         <Plugin csv>\nDataDir \"{place}/csv\"\n</Plugin>\n",
        address.ip(),
        address.port()
    );
    fs::write(folder.path().join("collectd.conf"), settings).unwrap();
    let mut command = Command::new(collectd);
    command.args(["-f", "-C", "collectd.conf"]).current_dir(folder.path());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let _collectd = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let written = folder.path().join("csv/machine/memcached-queues");
    let wanted =
        [("items-current", "1"), ("command-set", "2"), ("ops-hits", "1"), ("ops-misses", "1")];
    wait_until("the numbers", || {
        let last = last_values(&written);
        wanted.iter().all(|(name, value)| last.get(*name).is_some_and(|last| last == value))
    });
}

/// The last value in each file of collectd, without the prefix `memcached_` and the day.
fn last_values(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let values = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let name = name.trim_start_matches("memcached_");
        let (name, _day) = name.split_at_checked(name.len().checked_sub("-2000-01-01".len())?)?;
        let text = fs::read_to_string(file.path()).ok()?;
        let (_, value) = text.lines().last()?.split_once(',')?;
        let value = value.parse::<f64>().ok()?;
        Some((name.to_owned(), value.to_string()))
    });
    values.collect()
}
