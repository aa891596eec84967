//! Limits of hand-outs (`rate`, `concurrency`), with an unmodified client of each protocol, and over
//! ends of the server in the middle of the work. The scripts are in `tests/clients/policies`.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType};

use crate::dead_letters::check;
use crate::kestrel::write_config;
use crate::running::{Running, command};

const POLICIES: &str = r#"
[[policy]]
match = ["calls", "call_api", "fetch"]
rate = { per_second = 2, burst = 1 }

[[policy]]
match = ["few", "few_jobs", "few_items"]
concurrency = { limit = 1 }

[[policy]]
match = ["exports", "export_job", "export_items"]
concurrency = { limit = 1, key = "until:-" }

[[policy]]
match = ["steps", "step_job", "step_items"]
concurrency = { limit = 1, key = "until:-", order = "strict" }
retries = { limit = 3, base = "1s", jitter = 0.0, count_release = false }

[[policy]]
match = ["mails", "send_mail", "mail_items"]
fair = { key = "until:-", weights = { ada = 2 } }

[[policy]]
match = "shared"
fair = { key = "client", weights = { "127.0.0.2" = 2 } }

[[policy]]
match = "reports"
aging = "1000/1s"
"#;

#[test]
fn greenstalk() {
    check(POLICIES, "beanstalk", "greenstalk_gates.py");
}

#[test]
fn gear() {
    check(POLICIES, "gearman", "gear_gates.py");
}

#[test]
fn pymemcache() {
    check(POLICIES, "kestrel", "pymemcache_gates.py");
}

/// The jobs of a second, and of a burst.
const RATE: u32 = 40;
/// How long each server lives. Within this time, a full bucket would double the hand-outs.
const LIFE: Duration = Duration::from_millis(700);
const LIVES: u32 = 6;

/// Takes jobs until the time is over, and returns their number.
fn take_for(address: &str, time: Duration) -> u32 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut line = || {
        let mut line = String::new();
        replies.read_line(&mut line).unwrap();
        line
    };
    stream.write_all(b"watch calls\r\n").unwrap();
    assert_eq!(line(), "WATCHING 2\r\n");
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < time {
        stream.write_all(b"reserve-with-timeout 1\r\n").unwrap();
        if line().starts_with("RESERVED") {
            assert_eq!(line(), "call\r\n");
            count += 1;
        }
    }
    count
}

/// Sends a command of beanstalkd, and returns the number of the job in the reply, or the reply.
struct Dialogue {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
}

impl Dialogue {
    fn with(address: &str, queue: &str) -> Dialogue {
        Dialogue::over(TcpStream::connect(address).unwrap(), queue)
    }

    /// A client at another address of this machine.
    fn from(own: [u8; 4], address: &str, queue: &str) -> Dialogue {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::from((own, 0))).unwrap();
        net::connect(&socket, &address.parse::<SocketAddr>().unwrap()).unwrap();
        Dialogue::over(socket.into(), queue)
    }

    fn over(stream: TcpStream, queue: &str) -> Dialogue {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let replies = BufReader::new(stream.try_clone().unwrap());
        let mut dialogue = Dialogue { stream, replies };
        assert_eq!(dialogue.say(&format!("use {queue}")), format!("USING {queue}"));
        assert_eq!(dialogue.say(&format!("watch {queue}")), "WATCHING 2");
        dialogue
    }

    fn say(&mut self, command: &str) -> String {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn put(&mut self, priority: u32, body: &str) {
        let reply = self.say(&format!("put {priority} 0 600 {}\r\n{body}", body.len()));
        assert!(reply.starts_with("INSERTED"), "{reply}");
    }

    /// Takes a job. Returns its number and its body.
    fn take(&mut self, seconds: u32) -> Option<(u64, String)> {
        let reply = self.say(&format!("reserve-with-timeout {seconds}"));
        let id = reply.strip_prefix("RESERVED ")?.split(' ').next()?.parse().unwrap();
        Some((id, self.line()))
    }
}

/// The server is killed while the first job of a key is delayed, and while a worker holds the first
/// job of another key.
#[test]
fn an_order_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let (server, address) = serve(folder.path());
    let mut client = Dialogue::with(&address, "steps");
    for body in ["ada-1", "bob-1", "ada-2", "bob-2"] {
        client.put(9, body);
    }
    let (ada, _) = client.take(0).unwrap();
    assert_eq!(client.take(0).unwrap().1, "bob-1");
    assert_eq!(client.say(&format!("release {ada} 9 3")), "RELEASED");
    client.put(0, "ada-0");
    // Kills the process.
    drop(server);
    let (server, address) = serve(folder.path());
    let mut client = Dialogue::with(&address, "steps");
    let (bob, body) = client.take(10).unwrap();
    assert_eq!(body, "bob-1", "a worker held it when the server ended");
    assert_eq!(client.take(0), None, "a delayed job and a leased one hold back the others");
    assert_eq!(client.say(&format!("delete {bob}")), "DELETED");
    let (bob, body) = client.take(10).unwrap();
    assert_eq!(body, "bob-2");
    assert_eq!(client.say(&format!("delete {bob}")), "DELETED");
    for wanted in ["ada-1", "ada-0", "ada-2"] {
        let (id, body) = client.take(30).unwrap();
        assert_eq!(body, wanted);
        assert_eq!(client.say(&format!("delete {id}")), "DELETED");
    }
    drop(server);
}

fn serve(folder: &Path) -> (Running, String) {
    let mut server =
        Running::spawn(command(folder, &["serve", "--only", "--beanstalk=127.0.0.1:0"]));
    let address = server.address();
    (server, address)
}

/// The server is killed again and again, and does not know how many jobs it has handed out. Each
/// process begins with an empty bucket, so all of them together keep the bound.
#[test]
fn no_burst_above_the_rate_over_kills() {
    let folder = tempfile::tempdir().unwrap();
    let policy = format!("[[policy]]\nmatch = \"calls\"\nrate.per_second = {RATE}\n");
    write_config(folder.path(), &policy);
    let begin = Instant::now();
    let mut count = 0;
    for life in 0..LIVES {
        let (server, address) = serve(folder.path());
        if life == 0 {
            let mut stream = TcpStream::connect(&address).unwrap();
            let puts = b"put 0 0 600 4\r\ncall\r\n".repeat(1000);
            stream.write_all(&[b"use calls\r\n", &puts[..]].concat()).unwrap();
            let replies = BufReader::new(stream).lines().take(1001);
            assert!(replies.skip(1).all(|line| line.unwrap().starts_with("INSERTED")));
        }
        count += take_for(&address, LIFE);
        // Kills the process.
        drop(server);
    }
    let allowed = f64::from(RATE) * (1.0 + begin.elapsed().as_secs_f64());
    assert!(f64::from(count) <= allowed, "{count} jobs, and {allowed} are allowed");
    assert!(count >= LIVES, "{count} jobs are too few to show anything");
}

/// Each address has its share, however many connections it has.
#[test]
fn clients_share_a_queue_by_their_addresses() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), POLICIES);
    let (_server, address) = serve(folder.path());
    for connection in 0..2 {
        let mut local = Dialogue::from([127, 0, 0, 1], &address, "shared");
        (0..2).for_each(|number| local.put(9, &format!("local-{connection}-{number}")));
    }
    let mut other = Dialogue::from([127, 0, 0, 2], &address, "shared");
    (0..3).for_each(|number| other.put(9, &format!("other-{number}")));
    let order: Vec<String> = (0..7).map(|_| other.take(0).unwrap().1).collect();
    let wanted =
        ["local-0-0", "other-0", "other-1", "local-0-1", "other-2", "local-1-0", "local-1-1"];
    assert_eq!(order, wanted);
}
