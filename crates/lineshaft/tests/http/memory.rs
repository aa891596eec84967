//! Tests the memory limit. The memory account must be close to the real memory of the process. Some
//! tests reach the limit, or empty a server whose log has more jobs than the limit allows.

use std::any::Any;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use testkit::client::Client;

use crate::Site;
use crate::exposition::Page;
use crate::packet;
use crate::request::Peer;
use crate::running::wait_for;

/// The number of connections that begin a put and do not complete it.
const HALF_OPEN: usize = 100;

fn metric(site: &Site, name: &str) -> f64 {
    Page::read(&site.get("/metrics").body).value(name)
}

fn resident_bytes(site: &Site) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", site.server.process_id()));
    let rollup = rollup.unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<f64>().unwrap() * 1024.0
}

/// The number of bytes by which the process can grow with this limit of memory. The account does
/// not include the buffers of the log, which have a limit of their own. After many writes, these
/// buffers use 4 MiB.
fn grown_max(limit_mib: f64) -> f64 {
    (1.1 * limit_mib + 4.0) * 1024.0 * 1024.0
}

fn connect(site: &Site) -> TcpStream {
    let stream = TcpStream::connect(&site.beanstalk).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends requests and reads the replies. Returns the lines that do not begin with `INSERTED` or
/// `USING`.
fn ask_all(stream: &mut TcpStream, requests: impl Iterator<Item = Vec<u8>>) -> Vec<String> {
    let requests: Vec<Vec<u8>> = requests.collect();
    let mut others = Vec::new();
    for some in requests.chunks(200) {
        let lines: usize =
            some.iter().map(|request| if request.starts_with(b"use") { 2 } else { 1 }).sum();
        stream.write_all(&some.concat()).unwrap();
        let mut replies = String::new();
        while replies.matches('\n').count() < lines {
            let mut buffer = [0; 16 * 1024];
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the server closed the connection");
            replies.push_str(str::from_utf8(&buffer[..count]).unwrap());
        }
        let usual = |line: &&str| line.starts_with("INSERTED") || line.starts_with("USING");
        others.extend(replies.lines().filter(|line| !usual(line)).map(str::to_owned));
    }
    others
}

fn put_head(body_bytes: usize) -> Vec<u8> {
    format!("put 0 0 60 {body_bytes}\r\n").into_bytes()
}

fn put(delay_s: u32, body_bytes: usize) -> Vec<u8> {
    let head = format!("put 0 {delay_s} 60 {body_bytes}\r\n");
    [head.as_bytes(), &vec![b'x'; body_bytes], b"\r\n"].concat()
}

/// Puts jobs of this size until the server refuses a job. Returns the number of accepted jobs.
fn fill(site: &Site, body_bytes: usize) -> usize {
    let mut stream = connect(site);
    for round in 0.. {
        let refused = ask_all(&mut stream, (0..200).map(|_| put(0, body_bytes)));
        if let Some(first) = refused.first() {
            assert_eq!(first, "OUT_OF_MEMORY");
            return (round + 1) * 200 - refused.len();
        }
    }
    unreachable!("the loop has no end")
}

#[test]
fn the_account_is_near_the_memory_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d", "--sync", "never"]);
    let used = |site: &Site| metric(site, "lineshaft_memory_used_bytes");
    let (used_before, resident_before) = (used(&site), resident_bytes(&site));
    let mut stream = connect(&site);
    let name = |number: usize| format!("use a-queue-with-a-name-{number:08}\r\n").into_bytes();
    assert!(ask_all(&mut stream, (0..200_000).map(|_| put(0, 100))).is_empty());
    assert!(ask_all(&mut stream, (0..50_000).map(|_| put(1000, 10))).is_empty());
    assert!(ask_all(&mut stream, (0..3_000).map(|_| put(0, 10_000))).is_empty());
    let among = (0..20_000).map(|number| [name(number), put(0, 100)].concat());
    assert!(ask_all(&mut stream, among).is_empty());
    let half_open: Vec<TcpStream> = (0..HALF_OPEN)
        .map(|_| {
            let mut stream = connect(&site);
            stream.write_all(&put(0, 65_000)[..40_000]).unwrap();
            stream
        })
        .collect();
    // The allocator keeps freed memory for some seconds before the system gets it back.
    wait_for("the account to be near", || {
        let counted = used(&site) - used_before;
        let grown = resident_bytes(&site) - resident_before;
        (counted > 60e6 && (0.9..1.1).contains(&(counted / grown))).then_some(())
    });
    drop(half_open);
}

#[test]
fn at_the_limit_puts_are_refused_and_nothing_else_and_it_heals() {
    ["1", "3"].into_iter().for_each(puts_are_refused_at_the_limit);
}

fn puts_are_refused_at_the_limit(io_threads: &str) {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["--data", "d", "--sync", "never", "--gearman", "127.0.0.1:0", "--kestrel", "127.0.0.1:0"];
    let limit = |size| {
        let bodies = ("LINESHAFT_MEMORY_BODIES", "off");
        let anonymous = ("LINESHAFT_HTTP_ANONYMOUS", "operator");
        let threads = ("LINESHAFT_IO_THREADS", io_threads);
        [("LINESHAFT_LIMITS_MEMORY", size), threads, bodies, anonymous]
    };
    let mut site = Site::start_with(folder.path(), &arguments, &limit("48MiB"));
    assert!(site.server.stdout().contains("at most 48.0 MiB"), "{}", site.server.stdout());
    let resident_before = resident_bytes(&site);
    let count = fill(&site, 10_000);
    assert!((3_500..5_000).contains(&count), "{count} jobs");
    wait_for("memory to be within the limit", || {
        (resident_bytes(&site) - resident_before < grown_max(48.0)).then_some(())
    });

    let ready = site.get("/health/ready");
    assert_eq!(ready.status, 200);
    assert_eq!(ready.body, "ready, but the memory is full: new jobs are refused\n");
    assert!(metric(&site, "lineshaft_memory_refusals_total") >= 1.0);
    for (name, value) in
        [("lineshaft_memory_full", 1.0), ("lineshaft_memory_limit_bytes", 48.0 * 1024.0 * 1024.0)]
    {
        assert!((metric(&site, name) - value).abs() < 0.5, "{name}");
    }
    // Each protocol has an error of its own for a full server.
    let mut gearman = packet::Peer::connect(&site.server.address_of("gearman"));
    gearman.send(packet::SUBMIT_JOB_BG, &["f", "", &"x".repeat(20_000)]);
    assert_eq!(gearman.expect(packet::ERROR)[0], "QUEUE_ERROR");
    let mut kestrel = TcpStream::connect(site.server.address_of("kestrel")).unwrap();
    let set = format!("SET q 0 0 20000\r\n{}\r\n", "x".repeat(20_000));
    kestrel.write_all(set.as_bytes()).unwrap();
    let mut reply = [0; 12];
    kestrel.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"NOT_STORED\r\n");
    // A put over HTTP is refused before its body comes.
    let mut http = Peer::connect(&site.http);
    let head =
        "POST /api/v1/queues/q/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n";
    http.send(head.as_bytes());
    let refused = http.answer(true);
    assert!(refused.status == 507 && refused.body.contains("memory-full"), "{refused:?}");

    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    for _ in 0..300 {
        let job = client.reserve(0).unwrap().unwrap();
        client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    }
    client.put(0, 0, 60, &vec![b'y'; 20_000]).unwrap();
    assert_eq!(site.get("/health/ready").body, "ready\n");

    // A producer fills the server. Then the server crashes, and starts again with a lower limit of
    // memory than its jobs need.
    let refilled = fill(&site, 10_000);
    assert!(refilled > 200, "{refilled}");
    site.server.signal(Signal::KILL);
    site.server.wait();
    let site = Site::start_with(folder.path(), &arguments, &limit("16MiB"));
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    assert_eq!(client.try_put(0, 0, 60, b"z").unwrap(), "OUT_OF_MEMORY");
    let mut found = 0;
    while let Some(job) = client.reserve(0).unwrap() {
        client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
        found += 1;
    }
    assert_eq!(found, count - 300 + 1 + refilled);
    client.put(0, 0, 60, &vec![b'z'; 20_000]).unwrap();
}

#[test]
fn a_backlog_can_be_larger_than_the_memory() {
    const JOBS: u32 = 12_000;
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", "d", "--sync", "never"];
    let limits = [("LINESHAFT_LIMITS_MEMORY", "40MiB"), ("LINESHAFT_MEMORY_BODIES", "4MiB")];
    let mut site = Site::start_with(folder.path(), &arguments, &limits);
    let resident_before = resident_bytes(&site);
    // 120 MB of bodies. Each body has a different text.
    let body = |number: u32| format!("{number:08}.").repeat(1100).into_bytes();
    let put = |number: u32| [put_head(body(number).len()), body(number), b"\r\n".to_vec()].concat();
    let mut stream = connect(&site);
    assert!(ask_all(&mut stream, (0..JOBS).map(put)).is_empty(), "no put is refused");
    assert!(metric(&site, "lineshaft_stored_bodies") > 10_000.0);
    assert!(metric(&site, "lineshaft_resident_body_bytes") <= 4.5 * 1024.0 * 1024.0);
    wait_for("memory to be within the limit", || {
        (resident_bytes(&site) - resident_before < grown_max(40.0)).then_some(())
    });
    let take = |site: &Site, numbers: std::ops::Range<u32>| {
        let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
        for number in numbers {
            let job = client.reserve(5).unwrap().unwrap();
            assert!(job.body == body(number), "job {number}");
            client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
        }
    };
    take(&site, 0..JOBS / 2);
    site.server.signal(Signal::KILL);
    site.server.wait();
    let site = Site::start_with(folder.path(), &arguments, &limits);
    assert!(metric(&site, "lineshaft_resident_body_bytes") <= 4.5 * 1024.0 * 1024.0);
    take(&site, JOBS / 2..JOBS);
    assert!(metric(&site, "lineshaft_body_errors_total") < 0.5);
    assert!(metric(&site, "lineshaft_stored_bodies") < 0.5);
}

/// Makes the server use more memory. Returns the connections that must stay open, so that the
/// memory stays in use.
type Enlarge = fn(&mut Site) -> Box<dyn Any>;

fn create_functions(site: &mut Site) -> Box<dyn Any> {
    let mut stream = TcpStream::connect(site.server.address_of("gearman")).unwrap();
    let requests =
        (0..100_000).map(|number| format!("create function a-function-{number}\n").into_bytes());
    ask_all(&mut stream, requests);
    Box::new(stream)
}

fn create_functions_with_long_names(site: &mut Site) -> Box<dyn Any> {
    let mut stream = TcpStream::connect(site.server.address_of("gearman")).unwrap();
    let tail = "x".repeat(480);
    let requests = (0..30_000)
        .map(|number| format!("create function a-function-{number}-{tail}\n").into_bytes());
    ask_all(&mut stream, requests);
    Box::new(stream)
}

fn register_workers(site: &mut Site) -> Box<dyn Any> {
    let register = |worker| {
        let mut peer = packet::Peer::connect(&site.server.address_of("gearman"));
        for function in 0..10_000 {
            // Half of the functions are the same for all workers.
            let own = if function % 2 == 0 { worker } else { 0 };
            peer.send(packet::CAN_DO, &[&format!("a-function-{own}-{function}")]);
        }
        peer.send(packet::ECHO_REQ, &["done"]);
        peer.expect(packet::ECHO_RES);
        peer
    };
    Box::new((0..10).map(register).collect::<Vec<_>>())
}

fn use_queues_of_items(site: &mut Site) -> Box<dyn Any> {
    let mut kestrel = Lines::connect(site);
    for number in 0..50_000 {
        kestrel.ask(&format!("GET a-queue-of-items-{number}"), "END");
    }
    Box::new(kestrel)
}

fn wait_at_tubes(site: &mut Site) -> Box<dyn Any> {
    let wait = |_| {
        let mut stream = connect(site);
        let watches = (0..9_000).map(|tube| format!("watch a-tube-{tube}\r\n").into_bytes());
        ask_all(&mut stream, watches);
        stream.write_all(b"reserve\r\n").unwrap();
        stream
    };
    Box::new((0..100).map(wait).collect::<Vec<_>>())
}

/// The policies of the servers below. In the tube `hour`, a job is a duplicate for an hour.
const UNIQUE: &str = "[[policy]]\nmatch = \"*\"\nunique = { by = \"body\" }\n\
    [[policy]]\nmatch = \"hour\"\nunique = { by = \"body\", window = \"1h\" }\n";

/// The number of jobs with a key.
const KEYS: usize = 100_000;

fn put_unique_jobs(site: &mut Site) -> Box<dyn Any> {
    put_unique_jobs_into(site, "default")
}

fn put_unique_jobs_into(site: &mut Site, tube: &str) -> Box<dyn Any> {
    let mut stream = connect(site);
    let put = |number| format!("use {tube}\r\nput 0 0 60 12\r\nunique{number:06}\r\n").into_bytes();
    assert!(ask_all(&mut stream, (0..KEYS).map(put)).is_empty());
    let again = ask_all(&mut stream, (0..KEYS).map(put));
    assert!(again.is_empty(), "the answer is the other job");
    assert_eq!(metric(site, "lineshaft_duplicate_puts_total") as usize, KEYS);
    Box::new(stream)
}

fn remember_keys(site: &mut Site) -> Box<dyn Any> {
    let stream = put_unique_jobs_into(site, "hour");
    let mut deleting = connect(site);
    let deleted =
        ask_all(&mut deleting, (1..=KEYS).map(|id| format!("delete {id}\r\n").into_bytes()));
    assert!(deleted.len() == KEYS && deleted.iter().all(|line| line == "DELETED"));
    stream
}

#[test]
fn queues_registrations_and_waits_are_in_the_account() {
    // The account may be less exact for the lists of waiters, because a list doubles its memory
    // when it grows, and for remembered keys, because their jobs have gone.
    let kinds: [(Enlarge, f64); 7] = [
        (create_functions, 0.1),
        (create_functions_with_long_names, 0.1),
        (register_workers, 0.1),
        (use_queues_of_items, 0.1),
        (wait_at_tubes, 0.2),
        (put_unique_jobs, 0.1),
        (remember_keys, 0.15),
    ];
    for (kind, (enlarge, error_max)) in kinds.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lineshaft.toml"), UNIQUE).unwrap();
        let arguments = [
            "--config",
            "lineshaft.toml",
            "--data",
            "d",
            "--sync",
            "never",
            "--gearman",
            "127.0.0.1:0",
            "--kestrel",
            "127.0.0.1:0",
        ];
        let mut site = Site::start(folder.path(), &arguments);
        let used = |site: &Site| metric(site, "lineshaft_memory_used_bytes");
        let (used_before, resident_before) = (used(&site), resident_bytes(&site));
        let connections = enlarge(&mut site);
        wait_for("the account to be near", || {
            let counted = used(&site) - used_before;
            let grown = resident_bytes(&site) - resident_before;
            let is_near = counted > 20e6 && (counted / grown - 1.0).abs() < error_max;
            is_near.then_some(()).or_else(|| {
                println!("kind {kind}: {counted} counted, grown by {grown}");
                None
            })
        });
        drop(connections);
    }
}

#[test]
fn the_account_includes_the_history_of_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--memory", "--kestrel", "127.0.0.1:0", "--kestrel-admin", "127.0.0.1:0"];
    let mut site = Site::start(folder.path(), &arguments);
    let admin = site.server.address_of("kestrel_admin");
    let mut kestrel = Lines::connect(&mut site);
    for number in 0..3_000 {
        kestrel.ask(&format!("GET a-queue-of-items-{number}"), "END");
    }
    let used = |site: &Site| metric(site, "lineshaft_memory_used_bytes");
    let (used_before, resident_before) = (used(&site), resident_bytes(&site));
    let namespaces = (0..32).map(|number| format!("namespace=n{number}"));
    let periods = (1..10).map(|number| format!("period={number}000"));
    for parameter in namespaces.chain(periods) {
        let answer = crate::get(&admin, &format!("/stats?{parameter}"));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let counted = used(&site) - used_before;
    assert!(counted > 10e6, "{counted}");
    // The server needs memory while it makes an answer. The allocator returns this memory to the
    // system late.
    wait_for("memory to be in the account", || {
        let grown = resident_bytes(&site) - resident_before;
        (0.9 * counted < grown && grown < counted + 16e6).then_some(())
    });
}

#[test]
fn nor_do_queues_and_registrations_go_beyond_it() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["--data", "d", "--sync", "never", "--gearman", "127.0.0.1:0", "--kestrel", "127.0.0.1:0"];
    let limit = [("LINESHAFT_LIMITS_MEMORY", "48MiB")];
    let mut site = Site::start_with(folder.path(), &arguments, &limit);
    let resident_before = resident_bytes(&site);
    let mut kestrel = Lines::connect(&mut site);
    for number in 0..60_000 {
        kestrel.ask(&format!("GET a-queue-of-items-{number}"), "END");
    }
    for worker in 0..20 {
        let mut peer = packet::Peer::connect(&site.server.address_of("gearman"));
        for function in 0..10_000 {
            peer.send(packet::CAN_DO, &[&format!("a-function-{worker}-{function}")]);
        }
        peer.send(packet::ECHO_REQ, &["done"]);
        peer.expect(packet::ECHO_RES);
    }
    wait_for("memory to be within the limit", || {
        (resident_bytes(&site) - resident_before < grown_max(48.0)).then_some(())
    });
    assert!(metric(&site, "lineshaft_queues_refused_total") >= 100_000.0);
}

#[test]
fn nor_do_references_to_queues_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--memory", "--gearman", "127.0.0.1:0"];
    let limit = [("LINESHAFT_LIMITS_MEMORY", "16MiB")];
    let mut site = Site::start_with(folder.path(), &arguments, &limit);
    let resident_before = resident_bytes(&site);
    // All workers register for the same functions, and then the watchers watch the same names as
    // tubes.
    let workers: Vec<packet::Peer> = (0..40)
        .map(|_| {
            let mut peer = packet::Peer::connect(&site.server.address_of("gearman"));
            for function in 0..10_000 {
                peer.send(packet::CAN_DO, &[&format!("a-function-{function}")]);
            }
            peer.send(packet::ECHO_REQ, &["done"]);
            peer.expect(packet::ECHO_RES);
            peer
        })
        .collect();
    let watchers: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect(&site);
            let watches =
                (0..2_000).map(|tube| format!("watch a-function-{tube}\r\n").into_bytes());
            let replies = ask_all(&mut stream, watches);
            // `ignore` must still work, because it frees memory.
            assert_eq!(replies[62], "WATCHING 64");
            assert_eq!(replies[1_999], "OUT_OF_MEMORY");
            stream
        })
        .collect();
    let grown = resident_bytes(&site) - resident_before;
    assert!(grown < grown_max(16.0), "{grown}");
    drop((workers, watchers));
}

#[test]
fn a_client_can_make_no_more_queues_than_there_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--memory", "--gearman", "127.0.0.1:0", "--kestrel", "127.0.0.1:0"];
    let limit = [("LINESHAFT_LIMITS_QUEUES", "4")];
    let mut site = Site::start_with(folder.path(), &arguments, &limit);
    // The queue `default` exists already. The test creates further queues.
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    client.expect("use tube", "USING tube").unwrap();
    let mut gearman = packet::Peer::connect(&site.server.address_of("gearman"));
    gearman.send(packet::SUBMIT_JOB_BG, &["function", "", "x"]);
    gearman.expect(packet::JOB_CREATED);
    assert_eq!(site.get("/health/ready").body, "ready\n");
    let mut kestrel = Lines::connect(&mut site);
    kestrel.ask("SET items 0 0 1\r\nx", "STORED");
    let full = "ready, but the limit of queues is reached: clients cannot create queues\n";
    assert_eq!(site.get("/health/ready").body, full);

    client.expect("use other", "OUT_OF_MEMORY").unwrap();
    client.expect("watch other", "OUT_OF_MEMORY").unwrap();
    gearman.send(packet::SUBMIT_JOB_BG, &["other", "", "x"]);
    assert_eq!(gearman.expect(packet::ERROR)[0], "QUEUE_ERROR");
    gearman.send(packet::CAN_DO, &["other"]);
    kestrel.ask("SET other 0 0 1\r\nx", "NOT_STORED");
    kestrel.ask("GET other", "END");
    let page = Page::read(&site.get("/metrics").body);
    assert!((page.value("lineshaft_queues") - 4.0).abs() < 0.5);
    assert!((page.value("lineshaft_queues_limit") - 4.0).abs() < 0.5);
    assert!((page.value("lineshaft_queues_refused_total") - 6.0).abs() < 0.5);

    // Existing connections and jobs continue. A removed tube makes room for a new one.
    client.put(0, 0, 60, b"x").unwrap();
    client.expect("watch tube", "WATCHING 2").unwrap();
    gearman.send(packet::SUBMIT_JOB_BG, &["function", "", "x"]);
    gearman.expect(packet::JOB_CREATED);
    gearman.send(packet::CAN_DO, &["function"]);
    gearman.send(packet::GRAB_JOB, &[]);
    gearman.expect(packet::JOB_ASSIGN);
    let job = client.reserve(0).unwrap().unwrap();
    client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
    client.expect("ignore tube", "WATCHING 1").unwrap();
    client.expect("use default", "USING default").unwrap();
    client.expect("use other", "USING other").unwrap();
}

#[test]
fn the_threads_that_give_memory_back_let_others_first() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    let mut stream = connect(&site);
    assert!(ask_all(&mut stream, (0..2000).map(|_| put(0, 1000))).is_empty());
    let tasks = fs::read_dir(format!("/proc/{}/task", site.server.process_id())).unwrap();
    let mut nice = Vec::new();
    for task in tasks {
        // A thread can end at any time.
        let Ok(line) = fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
        let (name, fields) = line.rsplit_once(')').unwrap();
        if name.ends_with("(jemalloc_bg_thd") {
            nice.push(fields.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap());
        }
    }
    assert!(!nice.is_empty() && nice.iter().all(|nice| *nice >= 10), "{nice:?}");
}

/// A memcache client of Kestrel that reads lines.
struct Lines(BufReader<TcpStream>);

impl Lines {
    fn connect(site: &mut Site) -> Self {
        let stream = TcpStream::connect(site.server.address_of("kestrel")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, request: &str, reply: &str) {
        self.0.get_mut().write_all(format!("{request}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), reply, "{request}");
    }
}
