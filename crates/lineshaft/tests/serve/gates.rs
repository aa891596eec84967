//! Limits of hand-outs (`rate`, `concurrency`), with an unmodified client of each protocol, and over
//! ends of the server in the middle of the work. The scripts are in `tests/clients/policies`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

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
