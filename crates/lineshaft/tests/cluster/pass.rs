//! Clients connect to any node.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use testkit::client::Client;
use testkit::wait;

use crate::rig::{PATIENCE, Rig, Special, drain, put};

const START_MAX: Duration = Duration::from_secs(20);

#[test]
fn a_follower_passes_its_clients_on() {
    let Some(mut rig) = Rig::new(2) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    wait::until("the follower reaches the leader", || {
        rig.ask(1, "/health/ready").is_some_and(|(code, _)| code == 200)
    });
    let (code, text) = rig.ask(1, "/health/leader").unwrap();
    assert_eq!(code, 503, "{text}");

    let mut client = rig.client(1);
    put(&mut client, 0..20);
    // A large job goes through in both directions.
    let body = vec![b'x'; 60_000];
    let id = client.put(9, 0, 600, &body).unwrap();
    assert_eq!(client.peek(&format!("peek {id}")).unwrap().unwrap().body, body);
    client.expect(&format!("delete {id}"), "DELETED").unwrap();
    // A client that waits at the follower gets a job that comes at the leader.
    let mut taker = rig.client(1);
    taker.expect("watch other", "WATCHING 2").unwrap();
    taker.expect("ignore default", "WATCHING 1").unwrap();
    taker.send(b"reserve-with-timeout 20\r\n").unwrap();
    let mut producer = rig.client(0);
    producer.expect("use other", "USING other").unwrap();
    producer.put(0, 0, 60, b"found").unwrap();
    assert!(taker.read_line().unwrap().starts_with("RESERVED "));

    // The leader's process is gone: the follower notices at once. Its clients reconnect.
    rig.kill(0);
    let leader = rig.wait_for_leader(&[1], Duration::from_secs(2));
    assert!(client.command("stats").is_err(), "connections to the old leader end");
    assert_eq!(drain(&mut rig.client(leader)), (0..20).collect::<Vec<u32>>());
}

#[test]
fn a_follower_shows_its_metrics_to_viewers_only() {
    let http = "metrics = \"viewer\"\nanonymous = \"none\"\n";
    let Some(mut rig) = Rig::with(2, Special { http, ..Special::default() }) else { return };
    let token = rig.token("viewer");
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    for at in [0, 1] {
        let (code, page) = rig.request(at, "GET", "/metrics", "");
        assert!(code == 401 && !page.contains("lineshaft_"), "{at}: {page}");
        let (code, page) = rig.request(at, "GET", "/metrics", &token);
        assert!(code == 200 && page.contains("lineshaft_cluster_role"), "{at}: {page}");
    }
}

#[test]
fn a_follower_passes_http_on() {
    let Some(mut rig) = Rig::new(2) else { return };
    let token = rig.token("operator");
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    let role = |rig: &Rig, at, headers: &str| {
        let (_, me) = rig.request(at, "GET", "/api/v1/me", headers);
        let me: serde_json::Value = serde_json::from_str(&me).unwrap();
        Some(me["role"].as_str()?.to_owned())
    };
    // Who can reach the loopback address of a follower may have no account on the leader's machine.
    wait::until("the follower reaches the leader", || role(&rig, 1, "").is_some());
    assert_eq!(role(&rig, 1, "").unwrap(), "none");
    assert_eq!(role(&rig, 0, "").unwrap(), "viewer");
    let (code, why) = rig.request(1, "GET", "/api/v1/server", "");
    assert!(code == 401 && why.contains("another node of the cluster has passed"), "{why}");
    assert_eq!(role(&rig, 1, &token).unwrap(), "operator");
    assert_eq!(rig.request(1, "PUT", "/api/v1/queues/mail", &token).0, 201);
    let (code, queue) = rig.request(0, "GET", "/api/v1/queues/mail", "");
    assert_eq!(code, 200, "{queue}");
    let (code, page) = rig.request(1, "GET", "/console/queues", &token);
    assert!(code == 200 && page.contains("mail"), "{page}");
    // Pages of other sites get nothing here, either.
    let page = "Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example\r\n";
    let change = rig.request(1, "PUT", "/api/v1/queues/evil", &format!("{page}{token}"));
    assert_eq!(change.0, 403, "{}", change.1);

    // About itself, the follower answers, also on a connection that it has used for the leader.
    let mut one = BufReader::new(rig.connect_http(1).unwrap());
    one.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    for (path, found) in [
        ("/metrics", "lineshaft_cluster_role{role=\"follower\"} 1"),
        ("/api/v1/me", "\"anonymous\""),
        ("/health/leader", "follows node-0"),
        ("/metrics", "lineshaft_cluster_role{role=\"leader\"} 0"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        one.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            one.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        one.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains(found), "{path}: {body}");
    }

    // A response without an end arrives piece by piece, and ends with the leader.
    let mut events = BufReader::new(rig.connect_http(1).unwrap());
    events.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
    events.get_mut().write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    while !line.starts_with("data:") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "the leader sends events");
    }
    rig.kill(0);
    // It can also end with an error: the response was not complete.
    let _ = events.read_to_end(&mut Vec::new());
    rig.wait_for_leader(&[1], Duration::from_secs(5));
    let own = wait::for_some(PATIENCE, || role(&rig, 1, ""));
    assert_eq!(own.as_deref(), Some("viewer"), "now this is its own loopback address");
}

#[test]
fn admin_commands_of_kestrel_go_through_a_follower_under_its_name() {
    let Some(mut rig) = Rig::new(2) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    let ask = |at: usize, host: &str| {
        let mut socket = TcpStream::connect(rig.nodes[at].admin).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET /ping.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask(0, "node-0.test"), "200");
    assert_eq!(ask(0, "node-1.test"), "403", "it is no name of the leader");
    for (host, code) in [("node-1.test", "200"), ("localhost", "200"), ("evil.test", "403")] {
        assert_eq!(ask(1, host), code, "{host}");
    }
}

#[test]
fn a_client_reaches_the_leader_when_it_speaks() {
    let Some(mut rig) = Rig::new(2) else { return };
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    rig.start(1);
    rig.wait_for_follower(1);
    let mut silent: Vec<Client> = (0..50).map(|_| rig.client(1)).collect();
    // The follower accepts them in order, and serves this one last.
    let mut client = rig.client(1);
    let stats = client.stats("stats").unwrap();
    assert_eq!(stats["current-connections"], "1", "the leader does not know silent clients");
    // More clients speak at once than the follower lets connect at once.
    for client in &mut silent {
        client.send(b"use late\r\n").unwrap();
        client.half_close().unwrap();
    }
    for client in &mut silent {
        assert_eq!(client.read_to_end().unwrap(), b"USING late\r\n");
    }
}

#[test]
fn a_client_that_comes_while_nobody_leads_waits() {
    let Some(mut rig) = Rig::new(2) else { return };
    for at in [0, 1] {
        rig.start(at);
    }
    rig.wait_for_leader(&[0], START_MAX);
    rig.wait_for_follower(1);
    rig.kill(0);
    put(&mut rig.client(1), 0..5);
    assert_eq!(drain(&mut rig.client(1)), (0..5).collect::<Vec<u32>>());
}
