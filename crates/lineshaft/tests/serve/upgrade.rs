//! Starts servers on data folders that earlier versions wrote. The folders are in `corpus/data`.
//!
//! Each folder has the configuration of the server that wrote it, the log's segments without the
//! zeros at their ends, and that server's listing of its jobs. To add the folders of another
//! format, run the tests with `LINESHAFT_MAKE_DATA=FORMAT`, and with `LINESHAFT_BIN`, the path of a
//! program that writes the format.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use testkit::wait;

use crate::running::{Running, command};

const SERVE: [&str; 7] =
    ["serve", "--beanstalk", "127.0.0.1:0", "--gearman", "127.0.0.1:0", "--kestrel", "127.0.0.1:0"];
/// The highest id of a job in the folders.
const LAST_ID: u64 = 200;
/// The offset of the segment's size in its header.
const SIZE_AT: usize = 32;

fn corpus() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/data"))
}

#[test]
fn a_folder_of_format_1_that_was_stopped_is_served() {
    check("format-1-stopped");
}

#[test]
fn a_folder_of_format_1_whose_server_was_killed_is_served() {
    check("format-1-killed");
}

fn check(name: &str) {
    let from = corpus().join(name);
    let folder = tempfile::tempdir().unwrap();
    unpack(&from, folder.path());
    let expected = fs::read_to_string(from.join("expected.txt")).unwrap();
    assert!(expected.lines().count() > 50, "the list of {name} is short");
    let said = listing(folder.path());
    assert!(said == expected, "{name} has other jobs now:\n{said}");
    // The first start has written to the folder. After a second start, the listing is still the
    // same.
    assert!(listing(folder.path()) == expected, "{name} changes from start to start");
}

/// Copies a stored folder. Gives the segments their full sizes.
fn unpack(from: &Path, to: &Path) {
    fs::copy(from.join("lineshaft.toml"), to.join("lineshaft.toml")).unwrap();
    let data = to.join("lineshaft-data");
    fs::create_dir(&data).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|end| end != "seg") {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        let size = u64::from_le_bytes(bytes[SIZE_AT..SIZE_AT + 8].try_into().unwrap());
        let copy = data.join(file.file_name().unwrap());
        fs::write(&copy, bytes).unwrap();
        File::options().write(true).open(&copy).unwrap().set_len(size).unwrap();
    }
}

/// Starts a server on this folder, and returns its listing of its jobs.
fn listing(folder: &Path) -> String {
    let mut server = start(folder);
    let mut client = Lines::connect(&server.address());
    let mut list = String::new();
    let tubes = client.yaml("list-tubes").unwrap();
    let mut tubes: Vec<&str> = tubes.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    tubes.sort_unstable();
    for tube in tubes {
        let stats = client.yaml(&format!("stats-tube {tube}")).unwrap();
        let counts = keep(&stats, "current-jobs-", &["ready", "delayed", "buried", "reserved"]);
        writeln!(list, "queue {tube}: {counts}").unwrap();
    }
    let kept = [
        "tube", "state", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries",
        "kicks",
    ];
    for id in 1..=LAST_ID {
        let Some(stats) = client.yaml(&format!("stats-job {id}")) else { continue };
        let facts = keep(&stats, "", &kept);
        let body = client.body(&format!("peek {id}"));
        let begin = String::from_utf8_lossy(&body[..body.len().min(20)]).into_owned();
        writeln!(list, "job {id}: {facts}, {} bytes: {begin}", body.len()).unwrap();
    }
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    list
}

/// The values of these keys, in the order of the keys. Each key begins with `prefix`.
fn keep(yaml: &str, prefix: &str, keys: &[&str]) -> String {
    let values = keys.iter().filter_map(|key| {
        let mut lines = yaml.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = lines.find(|(found, _)| found.strip_prefix(prefix) == Some(key))?;
        Some(format!("{key} {value}"))
    });
    values.collect::<Vec<_>>().join(", ")
}

fn start(folder: &Path) -> Running {
    let mut command = command(folder, &SERVE);
    for protocol in ["GEARMAN", "KESTREL"] {
        command.env_remove(format!("LINESHAFT_LISTEN_{protocol}"));
    }
    let mut server = Running::spawn(command);
    server.address();
    server
}

/// A client of a protocol with lines.
struct Lines {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Lines {
    fn connect(address: &str) -> Lines {
        let stream = TcpStream::connect(address).unwrap();
        let replies = BufReader::new(stream.try_clone().unwrap());
        Lines { stream, replies }
    }

    fn ask(&mut self, request: &str) -> String {
        self.stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn tell(&mut self, request: &str, expected: &str) {
        let reply = self.ask(request);
        assert!(reply.starts_with(expected), "{request}: {reply}");
    }

    fn yaml(&mut self, request: &str) -> Option<String> {
        let reply = self.ask(request);
        let len: usize = reply.strip_prefix("OK ")?.parse().unwrap();
        Some(String::from_utf8(self.bytes(len)).unwrap())
    }

    fn body(&mut self, request: &str) -> Vec<u8> {
        let reply = self.ask(request);
        let len = reply.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{reply}"));
        self.bytes(len)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len + 2];
        self.replies.read_exact(&mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }
}

const CONFIGURATION: &str = r#"
[data]
segment_size = "256KiB"

[kestrel]
control = "local"

[[policy]]
match = "mail.*"
limits = { jobs = 1000 }

[[policy]]
match = "news"
limits = { age = "3650d" }
"#;

/// Not a test: makes the folders, and only on request.
#[test]
fn folders_are_made_on_request() {
    let Some(format) = std::env::var_os("LINESHAFT_MAKE_DATA") else { return };
    let format = format.into_string().unwrap();
    for (end, signal) in [("stopped", Signal::TERM), ("killed", Signal::KILL)] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lineshaft.toml"), CONFIGURATION.trim_start()).unwrap();
        let mut server = start(folder.path());
        fill(&mut server);
        server.signal(signal);
        server.wait();
        let to = corpus().join(format!("{format}-{end}"));
        pack(folder.path(), &to);
        let copy = tempfile::tempdir().unwrap();
        unpack(&to, copy.path());
        fs::write(to.join("expected.txt"), listing(copy.path())).unwrap();
    }
}

/// Stores the folder of a server. Leaves out the zeros at the ends of segments.
fn pack(folder: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::copy(folder.join("lineshaft.toml"), to.join("lineshaft.toml")).unwrap();
    for file in fs::read_dir(folder.join("lineshaft-data")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|end| end == "seg") {
            let mut bytes = fs::read(&file).unwrap();
            bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1);
            fs::write(to.join(file.file_name().unwrap()), bytes).unwrap();
        }
    }
}

/// Puts jobs of all protocols into a server, in all states that survive a restart.
fn fill(server: &mut Running) {
    let mut jobs = Lines::connect(&server.address());
    let put = |jobs: &mut Lines, tube: &str, options: &str, body: &str| {
        jobs.tell(&format!("use {tube}"), "USING");
        jobs.tell(&format!("put {options} {}\r\n{body}", body.len()), "INSERTED");
    };
    // Enough jobs for several segments. Reclaim copies the live jobs of the first segments, and
    // frees these segments.
    for n in 0..60 {
        let body = format!("{n} {}", "long ".repeat(4000 + n));
        put(&mut jobs, "bulk", &format!("{n} 0 60"), &body);
    }
    for id in (1..=60).filter(|id| id % 6 != 0) {
        jobs.tell(&format!("delete {id}"), "DELETED");
    }
    for n in 0..10 {
        put(&mut jobs, "mail.in", &format!("{n} 0 {}", 100 + n), &format!("mail {n}"));
        // The delay is about a century.
        put(&mut jobs, "mail.later", &format!("{n} {} 60", 3_000_000_000_u32 + n), "later");
    }
    jobs.tell("watch mail.in", "WATCHING");
    let reserve = |jobs: &mut Lines| {
        let reply = jobs.ask("reserve-with-timeout 0");
        let words: Vec<&str> = reply.split(' ').collect();
        let ["RESERVED", id, len] = words[..] else { panic!("{reply}") };
        jobs.bytes(len.parse().unwrap());
        id.to_owned()
    };
    let (buried, kicked, released) = (reserve(&mut jobs), reserve(&mut jobs), reserve(&mut jobs));
    jobs.tell(&format!("bury {buried} 7"), "BURIED");
    jobs.tell(&format!("bury {kicked} 8"), "BURIED");
    jobs.tell(&format!("kick-job {kicked}"), "KICKED");
    jobs.tell(&format!("release {released} 900 2999999999"), "RELEASED");
    // This job is leased when the server ends.
    reserve(&mut jobs);

    let mut items = Lines::connect(&server.address_of("kestrel"));
    items.tell("get news+archive", "END");
    for n in 0..10 {
        // The first items expire in the year 2038.
        let expires = if n < 5 { 2_145_916_800 } else { 0 };
        let item = format!("item {n}");
        items.tell(&format!("set news 0 {expires} {}\r\n{item}", item.len()), "STORED");
    }
    items.tell("get news", "VALUE news");
    assert_eq!(items.bytes(6), b"item 0");
    assert_eq!(items.line(), "END");
    items.tell("get news+archive/open", "VALUE news+archive");
    assert_eq!(items.bytes(6), b"item 0");

    let mut gearman = TcpStream::connect(server.address_of("gearman")).unwrap();
    for n in 0..5 {
        submit(&mut gearman, 18, &["resize", &format!("key-{n}"), &format!("photo {n}")]);
        submit(&mut gearman, 36, &["resize", &format!("in 2100 {n}"), "4102444800", "later"]);
    }
    // The counters of takes are written within a second.
    wait::let_pass(std::time::Duration::from_millis(1500), "lazy counters are written");
    drop((jobs, items, gearman));
}

/// Sends a packet of Gearman that creates a job, and waits for the reply.
fn submit(stream: &mut TcpStream, kind: u32, arguments: &[&str]) {
    let body = arguments.join("\0");
    let mut packet = b"\0REQ".to_vec();
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(&(body.len() as u32).to_be_bytes());
    packet.extend_from_slice(body.as_bytes());
    stream.write_all(&packet).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[4..8], 8_u32.to_be_bytes(), "a job was created");
    let len = u32::from_be_bytes(head[8..12].try_into().unwrap());
    stream.read_exact(&mut vec![0; len as usize]).unwrap();
}
