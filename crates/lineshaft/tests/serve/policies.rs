//! Tests the replies of every protocol when a policy or the server's status refuses a request. The
//! table is in docs/policies.md.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::kestrel::{Client, write_config};
use crate::packet::{
    CAN_DO, ERROR, GRAB_JOB, JOB_CREATED, NO_JOB, Peer, SUBMIT_JOB, WORK_COMPLETE, WORK_FAIL,
};
use crate::running::{Running, wait_for};

const POLICIES: &str = r#"
[[policy]]
match = ["full", "side"]
limits.jobs = 1

[[policy]]
match = "small"
limits.item_bytes = 3

[[policy]]
match = "alias"
alias = ["side", "there"]

[[policy]]
match = "copied"
route.copy_to = ["side", "copy"]

[[policy]]
match = "parent*"
fanout_only = true

[[policy]]
match = "short"
limits.age = "20ms"
"#;

/// A server with these policies, and a client of each protocol.
struct World {
    beanstalk: String,
    http: String,
    gearman: Peer,
    memcache: Client,
    text: Client,
    _server: Running,
    _folder: tempfile::TempDir,
}

impl World {
    fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        write_config(folder.path(), POLICIES);
        let protocols = ["beanstalk", "gearman", "gearman-http", "kestrel", "kestrel-text"];
        let listeners = protocols.map(|protocol| format!("--{protocol}=127.0.0.1:0"));
        let mut arguments = vec!["serve", "--memory", "--only"];
        arguments.extend(listeners.iter().map(String::as_str));
        let mut server = Running::start(folder.path(), &arguments);
        World {
            beanstalk: server.address(),
            http: server.address_of("gearman_http"),
            gearman: Peer::connect(&server.address_of("gearman")),
            memcache: Client::connect(&server.address_of("kestrel")),
            text: Client::connect(&server.address_of("kestrel_text")),
            _server: server,
            _folder: folder,
        }
    }

    /// The reply to beanstalkd's `put`, without the number of the job.
    fn put(&self, tube: &str, body: &str) -> String {
        let request = format!("use {tube}\r\nput 0 0 0 {}\r\n{body}\r\n", body.len());
        let reply = crate::ask(&self.beanstalk, &request);
        let line = reply.lines().nth(1).unwrap();
        line.split(' ').next().unwrap().to_owned()
    }

    /// Takes a job as a beanstalk client and deletes it. Returns its body, or `None` if there is no
    /// job.
    fn reserve(&self, tube: &str) -> Option<String> {
        let request = format!("watch {tube}\r\nignore default\r\nreserve-with-timeout 0\r\n");
        let reply = crate::ask(&self.beanstalk, &request);
        let lines: Vec<&str> = reply.lines().skip(2).collect();
        match lines[..] {
            ["TIMED_OUT"] => None,
            [reserved, body] => {
                let id = reserved.split(' ').nth(1).unwrap();
                // The job became ready again when its connection ended.
                crate::ask(&self.beanstalk, &format!("delete {id}\r\n"));
                Some(body.to_owned())
            }
            _ => panic!("{reply}"),
        }
    }

    /// The code and the text of the error reply to a submit.
    fn submit_refused(&mut self, function: &str, workload: &str) -> Vec<String> {
        self.gearman.send(SUBMIT_JOB, &[function, "", workload]);
        self.gearman.expect(ERROR)
    }

    fn submit_by_http(&self, function: &str, workload: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        let length = workload.len();
        let request = format!(
            "POST /{function} HTTP/1.0\r\nX-Gearman-Background: true\r\nContent-Length: {length}\r\n\r\n{workload}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn put_by_text(&mut self, queue: &str, item: &str) -> String {
        self.text.ask(&format!("put {queue}:\n{item}\n\n"))
    }
}

const QUEUE_IS_FULL: [&str; 2] = ["QUEUE_ERROR", "Job queue is full"];

#[test]
fn a_full_queue_and_a_large_body() {
    let mut world = World::start();
    assert_eq!(world.put("full", "one"), "INSERTED");
    for (queue, refusal) in [("full", "DRAINING"), ("small", "JOB_TOO_BIG")] {
        assert_eq!(world.put(queue, "four"), refusal);
        assert_eq!(world.submit_refused(queue, "four"), QUEUE_IS_FULL);
        let answer = world.submit_by_http(queue, "four");
        assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
        assert!(answer.contains("X-Gearman-Command: ERROR\r\n"), "{answer}");
        assert_eq!(world.memcache.set(queue, "four"), "NOT_STORED");
        assert_eq!(world.put_by_text(queue, "four"), "+0");
    }
    assert_eq!(world.put("small", "123"), "INSERTED");
    // The server never refuses a job that is given back, even if the queue is full.
    let again = "watch full\r\nreserve\r\nrelease 1 0 0\r\n";
    assert!(crate::ask(&world.beanstalk, again).ends_with("RELEASED\r\n"));
}

#[test]
fn aliases_and_copies() {
    let mut world = World::start();
    assert_eq!(world.put("alias", "one"), "INSERTED");
    assert_eq!(world.put("alias", "two"), "DRAINING");
    assert_eq!(world.submit_refused("alias", "three"), QUEUE_IS_FULL);
    assert_eq!(world.memcache.set("alias", "four"), "NOT_STORED");
    // `side` has room for only one job. `there` has all jobs.
    assert_eq!(world.reserve("side").as_deref(), Some("one"));
    for expected in ["one", "two", "three", "four"] {
        assert_eq!(world.reserve("there").as_deref(), Some(expected));
    }
    assert_eq!(world.reserve("alias"), None);
    world.gearman.send(CAN_DO, &["alias"]);
    world.gearman.send(GRAB_JOB, &[]);
    world.gearman.expect(NO_JOB);
    assert_eq!(world.memcache.ask("GET alias/t=10000\r\n"), "END");
    assert_eq!(world.text.ask("get alias 10000\n"), "*");

    for body in ["one", "two"] {
        assert_eq!(world.put("copied", body), "INSERTED");
    }
    assert_eq!(world.reserve("side").as_deref(), Some("one"));
    assert_eq!(world.reserve("side"), None);
    for queue in ["copied", "copy"] {
        for expected in ["one", "two"] {
            assert_eq!(world.reserve(queue).as_deref(), Some(expected));
        }
    }
}

#[test]
fn a_parent_that_only_feeds_its_children() {
    let mut world = World::start();
    // The child does not exist yet, so no queue would get the job, and its client would wait for
    // ever.
    assert_eq!(world.submit_refused("parent", "lost"), QUEUE_IS_FULL);
    assert_eq!(world.memcache.ask("GET parent+child\r\n"), "END");
    assert_eq!(world.put("parent", "one"), "INSERTED");
    world.gearman.submit_background("parent", "two");
    assert_eq!(world.memcache.set("parent", "three"), "STORED");
    assert_eq!(world.put_by_text("parent", "four"), "+1");
    for expected in ["one", "two", "three", "four"] {
        assert_eq!(world.reserve("parent+child").as_deref(), Some(expected));
    }
    assert_eq!(world.reserve("parent"), None);
    // The parent stores no jobs itself. So the client waits for the outcome of the child's job.
    world.gearman.send(SUBMIT_JOB, &["parent", "", "five"]);
    let handle = world.gearman.expect(JOB_CREATED).remove(0);
    assert_eq!(world.memcache.ask("GET parent+child\r\n"), "VALUE parent+child 0 4");
    assert_eq!(world.gearman.expect(WORK_COMPLETE), [handle, String::new()]);
}

#[test]
fn a_job_that_expires() {
    let mut world = World::start();
    world.gearman.send(SUBMIT_JOB, &["short", "", "x"]);
    world.gearman.expect(JOB_CREATED);
    world.gearman.expect(WORK_FAIL);
    assert_eq!(world.put("short", "y"), "INSERTED");
    let is_gone = || (crate::ask(&world.beanstalk, "peek 2\r\n") == "NOT_FOUND\r\n").then_some(());
    wait_for("its end", is_gone);
    assert_eq!(world.memcache.ask("GET short\r\n"), "END");
}

#[test]
fn a_status_that_blocks_writes_or_reads() {
    let mut world = World::start();
    assert_eq!(world.put("any", "one"), "INSERTED");
    assert_eq!(world.memcache.ask("STATUS readonly\r\n"), "END");
    assert_eq!(world.put("any", "two"), "DRAINING");
    assert_eq!(world.submit_refused("any", "two")[0], "QUEUE_ERROR");
    assert_eq!(world.put_by_text("any", "two"), "-Server not available for operation setItem");
    assert_eq!(world.text.ask("status quiescent\n"), "+0");
    assert_eq!(world.reserve("any"), None);
    world.gearman.send(CAN_DO, &["any"]);
    world.gearman.send(GRAB_JOB, &[]);
    world.gearman.expect(NO_JOB);
    assert_eq!(world.text.ask("get any\n"), "-Server not available for operation getItem");
    assert_eq!(world.memcache.set("any", "two"), "SERVER_ERROR");
    assert!(world.memcache.is_closed());
    assert_eq!(world.text.ask("status up\n"), "+0");
    assert_eq!(world.reserve("any").as_deref(), Some("one"));
}
