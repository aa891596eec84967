//! The requests of the screens and of the actions, to a server on loopback.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use notation::address::{Address, ServerName};
use notation::port;
use serde_json::{Value, json};

use super::super::ask::Update;
use super::super::fetch::{self, Ask, Source, Watcher};
use super::super::model::Model;
use super::fake::{Request, serve, serve_on};
use super::fixture::{
    connection, history, job, jobs, lines, model, operation, press, queue, queue_row, queues,
    server, why,
};
use crate::client::{ApiClient, Target};

const LIMIT: Duration = Duration::from_secs(30);

/// The program without its terminal.
struct Top {
    model: Model,
    asks: Sender<Ask>,
    updates: Receiver<Update>,
}

impl Top {
    fn at(address: SocketAddr) -> Top {
        let name: ServerName = address.to_string().parse().unwrap();
        let address: Address = name.address(port::HTTP);
        let client = ApiClient::new(Target::plain(address), None).unwrap();
        let source = Source::Api(Box::new(Watcher::new(client)));
        let (asks, received) = channel();
        let (sender, updates) = channel();
        thread::spawn(move || fetch::run(source, Duration::from_mins(1), &received, &sender));
        Top { model: model(), asks, updates }
    }

    /// Asks the question of the present screen, and shows the answer.
    fn look(&mut self) -> Vec<String> {
        self.asks.send(Ask::Show(self.model.question())).unwrap();
        let asked = self.model.question();
        self.wait_for(|update| match update {
            Update::Answer { question, .. } => *question == asked,
            Update::Trouble(_) => true,
            Update::Done(_) => false,
        });
        lines(&mut self.model, 100, 30)
    }

    /// Does what the user has confirmed, and shows the result.
    fn act(&mut self) -> Vec<String> {
        let action = self.model.take_action().expect("an action was confirmed");
        self.asks.send(Ask::Do(action)).unwrap();
        // Answers that the thread has sent before come first.
        self.wait_for(|update| matches!(update, Update::Done(_)));
        lines(&mut self.model, 100, 30)
    }

    fn wait_for(&mut self, is_last: impl Fn(&Update) -> bool) {
        loop {
            let update = self.updates.recv_timeout(LIMIT).unwrap();
            let is_done = is_last(&update);
            self.model.update(update, Instant::now());
            if is_done {
                return;
            }
        }
    }
}

fn answer(request: &Request) -> (u16, Value) {
    let path = request.path.strip_prefix("/api/v1").unwrap();
    let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
    match (request.method.as_str(), path) {
        ("GET", "/server") => (200, server()),
        ("GET", "/server/history") => (200, history()),
        ("GET", "/queues") if parameters.contains("search=a%2fb") => {
            (200, queues(&[queue_row("a/b", 3)], 1, None))
        }
        ("GET", "/queues") => (200, queues(&[queue_row("mail", 3)], 1, None)),
        ("GET", "/queues/mail") => (200, queue("mail")),
        ("GET", "/queues/mail/why") => (200, why()),
        ("GET", "/queues/mail/jobs") => {
            assert!(parameters.contains("body=text"), "{parameters}");
            (200, jobs(&[job(42, "mail", "buried", "x")], None))
        }
        ("GET", "/jobs/42") => (200, job(42, "mail", "leased", "[1]")),
        ("GET", "/jobs/42/body") => (200, json!([1])),
        ("GET", "/connections") => {
            (200, json!({ "items": [connection("2a", "10.0.0.7:51000")], "next": null, "open": 1 }))
        }
        ("GET", "/operations") => (200, json!({ "items": [operation(2, "running")] })),
        ("POST", "/operations") => (202, operation(3, "running")),
        ("POST", "/queues/mail/pause") => {
            (200, json!({ "seconds": 300, "survives_restart": false }))
        }
        ("DELETE", "/jobs/42") if parameters.is_empty() => (
            409,
            json!({ "type": "/console/help#job-leased", "title": "", "status": 409,
                    "detail": "a worker has the job" }),
        ),
        ("GET", _) => (
            404,
            json!({ "type": "/console/help#not-found", "title": "", "status": 404,
                    "detail": "not found" }),
        ),
        _ => (204, Value::Null),
    }
}

/// A server that was restarted: it knows no cursor from before.
fn answer_after_restart(request: &Request) -> (u16, Value) {
    let (path, parameters) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match path {
        "/api/v1/queues" if parameters.contains("cursor=") => (
            400,
            json!({ "type": "/console/help#bad-cursor", "title": "", "status": 400,
                    "detail": "the cursor belongs to another list" }),
        ),
        "/api/v1/queues" => (200, queues(&[queue_row("mail", 3)], 2, Some("old"))),
        _ => answer(request),
    }
}

#[test]
fn a_list_begins_again_if_its_page_is_gone() {
    let (address, _changes) = serve(answer_after_restart);
    let mut top = Top::at(address);
    press(&mut top.model, "2");
    top.look();
    let first = top.model.question();
    top.model.list().expect("the screen has a list").next_page();
    assert_ne!(top.model.question(), first);
    top.look();
    assert_eq!(top.model.question(), first);
    assert!(top.look().join("\n").contains("mail"));
}

/// Presses the keys, and compares the request that they lead to. Returns the screen.
fn check(
    top: &mut Top,
    changes: &Receiver<Request>,
    keys: &str,
    (method, path): (&str, &str),
    body: Value,
) -> String {
    press(&mut top.model, keys);
    let shown = top.act();
    let expected = Request { method: method.to_owned(), path: format!("/api/v1{path}"), body };
    assert_eq!(changes.recv_timeout(LIMIT).unwrap(), expected);
    shown.join("\n")
}

#[test]
fn actions_send_their_requests() {
    let (address, changes) = serve(answer);
    let mut top = Top::at(address);
    press(&mut top.model, "2");
    top.look();
    // The prompt begins with ten minutes.
    let pause = ("POST", "/queues/mail/pause");
    let shown = check(&mut top, &changes, "P\n", pause, json!({ "seconds": 600 }));
    assert!(shown.contains("✓ mail is paused for 10 m"), "{shown}");
    let body = json!({ "kind": "kick", "queue": "mail", "state": "buried" });
    let shown = check(&mut top, &changes, "K\n", ("POST", "/operations"), body);
    assert!(shown.contains("operation 3 has begun, with 1,000 jobs"), "{shown}");
    let body = json!({ "kind": "clear", "queue": "mail", "state": "buried", "confirm": "mail" });
    check(&mut top, &changes, "Cmail\n", ("POST", "/operations"), body);
    // All states.
    press(&mut top.model, "\n");
    top.look();
    let body = json!({ "kind": "clear", "queue": "mail", "confirm": "mail" });
    check(&mut top, &changes, "C\tmail\n", ("POST", "/operations"), body);
    // The queue is paused now.
    check(&mut top, &changes, "Py", ("DELETE", "/queues/mail/pause"), Value::Null);
    // The job is buried in the list, but a worker has it meanwhile: the server refuses.
    let shown = check(&mut top, &changes, "Dy", ("DELETE", "/jobs/42"), Value::Null);
    assert!(shown.contains("✗ a worker has the job"), "{shown}");
    press(&mut top.model, "\n");
    top.look();
    check(&mut top, &changes, "Ky", ("POST", "/jobs/42/kick"), Value::Null);
    let shown = check(&mut top, &changes, "Dy", ("DELETE", "/jobs/42?force=true"), Value::Null);
    assert!(shown.contains("✓ job 42 is deleted"), "{shown}");
    press(&mut top.model, "5");
    top.look();
    let shown = check(&mut top, &changes, "X\n", ("DELETE", "/connections/2a"), Value::Null);
    assert!(shown.contains("✓ connection 2a is closed"), "{shown}");
    press(&mut top.model, "6");
    top.look();
    check(&mut top, &changes, "Xy", ("DELETE", "/operations/2"), Value::Null);
    assert!(changes.try_recv().is_err(), "nothing else changed");
}

#[test]
fn screens_read_the_api() {
    let (address, _) = serve(answer);
    let mut top = Top::at(address);
    let contains = |lines: Vec<String>, text: &str| {
        assert!(lines.iter().any(|line| line.contains(text)), "{text}:\n{}", lines.join("\n"));
    };
    contains(top.look(), "mail");
    press(&mut top.model, "/a/b\n");
    contains(top.look(), "a/b ");
    press(&mut top.model, "\x1b");
    top.look();
    press(&mut top.model, "\n");
    contains(top.look(), "the queue is paused; end the pause");
    press(&mut top.model, "\n");
    contains(top.look(), "JSON");
    top.model.open_job(7);
    contains(top.look(), "not found");
    top.model.open_queue("a b/ü\\xff");
    contains(top.look(), "not found");
}

#[test]
fn a_server_that_comes_back_is_noticed() {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut top = Top::at(address);
    let shown = top.look().join("\n");
    assert!(shown.contains("cannot connect") && shown.contains("trying again"), "{shown}");
    let Ok(listener) = std::net::TcpListener::bind(address) else { return };
    let _changes = serve_on(listener, answer);
    let shown = top.look().join("\n");
    assert!(!shown.contains("trying again") && shown.contains("12,345"), "{shown}");
}
