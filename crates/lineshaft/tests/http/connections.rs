//! Connections over HTTP: what the server's own threads report, and how one is closed.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::client::Client;

use crate::Site;
use crate::request::Peer;
use crate::running::wait_for;

fn get(site: &Site, path: &str) -> Value {
    let answer = site.get(&format!("/api/v1{path}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn connect(site: &Site) -> Client {
    Client::connect(site.beanstalk.parse().unwrap()).unwrap()
}

#[test]
fn a_closed_connection_gives_its_jobs_back() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("LINESHAFT_HTTP_ANONYMOUS", "admin")];
    let site = Site::start_with(folder.path(), &["--memory"], &environment);
    let (mut producer, mut worker) = (connect(&site), connect(&site));
    producer.expect("use mail", "USING mail").unwrap();
    for _ in 0..2 {
        producer.put(0, 0, 600, b"x").unwrap();
    }
    worker.expect("watch mail", "WATCHING 2").unwrap();
    for _ in 0..2 {
        assert!(worker.reserve(0).unwrap().is_some());
    }
    let listed = get(&site, "/connections?protocol=beanstalk");
    let rows = listed["items"].as_array().unwrap();
    assert_eq!((rows.len(), &listed["open"]), (2, &Value::from(2)));
    let holder = rows.iter().find(|row| row["holds"] == 2).unwrap();
    assert!(holder["address"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(holder["received_bytes"], "watch mail\r\nreserve-with-timeout 0\r\n".len() + 24);
    assert!(holder["sent_bytes"].as_u64().unwrap() > 20, "{holder}");
    let leased = get(&site, "/queues/mail/jobs?state=leased");
    assert_eq!(leased["items"].as_array().unwrap().len(), 2);
    assert_eq!(leased["items"][0]["holder"]["connection"], holder["id"]);
    let id = holder["id"].as_str().unwrap();
    let path = format!("/api/v1/connections/{id}");
    assert_eq!(Peer::connect(&site.http).ask("DELETE", &path).status, 204);
    wait_for("the jobs", || (get(&site, "/queues/mail")["ready"] == 2).then_some(()));
    wait_for("the end", || (site.get(&path).status == 404).then_some(()));
    assert!(worker.reserve(0).is_err(), "the connection is closed");
    assert_eq!(producer.stats("stats-tube mail").unwrap()["current-jobs-ready"], "2");
}

#[test]
fn all_connections_of_all_threads_are_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("LINESHAFT_IO_THREADS", "3")];
    let site = Site::start_with(folder.path(), &["--memory"], &environment);
    let clients: Vec<Client> = (0..300).map(|_| connect(&site)).collect();
    let pages = || {
        let (mut ids, mut count, mut cursor) = (BTreeSet::new(), 0, String::new());
        loop {
            let page = get(&site, &format!("/connections?limit=90{cursor}"));
            for row in page["items"].as_array().unwrap() {
                ids.insert(row["id"].as_str()?.to_owned());
                count += 1;
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return (count == clients.len()).then_some(ids),
            }
        }
    };
    // The threads may still be accepting the last connections.
    let ids = wait_for("all connections", pages);
    assert_eq!(ids.len(), 300);
}
