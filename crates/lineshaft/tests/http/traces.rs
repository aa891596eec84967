//! Tests the export of spans, with a small collector that speaks OTLP over HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use testkit::client::Client;

use crate::Site;
use crate::exposition::Page;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// A test fails if a span takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// A collector on a free port. It answers each request with this status.
struct Collector {
    endpoint: String,
    spans: Receiver<Value>,
}

impl Collector {
    fn start(status: &'static str) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let (sender, spans) = channel();
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                receive(socket.unwrap(), status, &sender);
            }
        });
        Collector { endpoint, spans }
    }

    fn next(&self) -> Value {
        self.spans.recv_timeout(LIMIT).expect("a span comes")
    }
}

/// Reads one request, and passes its spans on.
fn receive(mut socket: TcpStream, status: &str, sender: &Sender<Value>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "the request ends early: {head}");
    }
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    write!(socket, "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}").unwrap();
    let request: Value = serde_json::from_slice(&body).unwrap();
    let of_server = &request["resourceSpans"][0];
    assert_eq!(attribute(&of_server["resource"], "service.name"), "lineshaft");
    for span in of_server["scopeSpans"][0]["spans"].as_array().unwrap() {
        // Nobody listens if the test has ended.
        let _ = sender.send(span.clone());
    }
}

/// The text or the number of an attribute.
fn attribute<'a>(of: &'a Value, key: &str) -> &'a str {
    let all = of["attributes"].as_array().unwrap();
    let value = &all.iter().find(|one| one["key"] == key).unwrap()["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap()
}

fn body(flags: &str) -> Vec<u8> {
    format!(r#"{{"to":"ann","meta":{{"traceparent":"00-{TRACE}-{PARENT}-{flags}"}}}}"#).into_bytes()
}

fn site(folder: &tempfile::TempDir, endpoint: &str) -> Site {
    let environment = [
        ("LINESHAFT_TRACES_POINTER", "/meta/traceparent"),
        ("LINESHAFT_TRACES_ENDPOINT", endpoint),
    ];
    Site::start_with(folder.path(), &["--data", "d"], &environment)
}

fn count(site: &Site, result: &str) -> u64 {
    let page = Page::read(&site.get("/metrics").body);
    page.value(&format!("lineshaft_spans_total{{result=\"{result}\"}}")) as u64
}

#[test]
fn a_collector_gets_the_spans_of_sampled_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start("200 OK");
    let site = site(&folder, &collector.endpoint);
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    client.expect("use mail", "USING mail").unwrap();
    client.expect("watch mail", "WATCHING 2").unwrap();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    // Three jobs without spans: not sampled, no context, no JSON.
    for quiet in [&body("00")[..], b"{}", b"meta traceparent"] {
        let id = client.put(0, 0, 60, quiet).unwrap();
        assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
        client.expect(&format!("delete {id}"), "DELETED").unwrap();
    }
    let id = client.put(0, 0, 60, &body("01")).unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
    client.expect(&format!("release {id} 0 0"), "RELEASED").unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
    client.expect(&format!("delete {id}"), "DELETED").unwrap();
    let spans: Vec<Value> = (0..4).map(|_| collector.next()).collect();
    let shown: Vec<String> = spans
        .iter()
        .map(|span| {
            let kind = span["name"].as_str().unwrap();
            let end = if kind == "wait mail" { "" } else { attribute(span, "lineshaft.end") };
            format!("{kind} {} {end}", attribute(span, "lineshaft.takes")).trim().to_owned()
        })
        .collect();
    assert_eq!(
        shown,
        ["wait mail 1", "lease mail 1 given_back", "wait mail 2", "lease mail 2 job_ended"]
    );
    let mut ids: Vec<&str> = Vec::new();
    for span in &spans {
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
        assert_eq!(attribute(span, "messaging.message.id"), id.to_string());
        assert_eq!(attribute(span, "messaging.destination.name"), "mail");
        let moment = |key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
        let (start, end) = (moment("startTimeUnixNano"), moment("endTimeUnixNano"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        // The server's time has milliseconds.
        let tolerance = 1_000_000_000;
        assert!(before - tolerance < start && start <= end && end < now + tolerance, "{span}");
        ids.push(span["spanId"].as_str().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == 4 && ids.iter().all(|id| id.len() == 16), "{ids:?}");
    testkit::wait::until("the spans are counted", || count(&site, "sent") >= 4);
    assert_eq!(count(&site, "failed"), 0);
    // A lost lease is an error.
    let lost = client.put(0, 0, 60, &body("01")).unwrap();
    assert_eq!(client.reserve(0).unwrap().unwrap().id, lost);
    drop(client);
    assert_eq!(collector.next()["name"], "wait mail");
    let span = collector.next();
    assert_eq!((attribute(&span, "lineshaft.end"), &span["status"]["code"]), ("lost", &2.into()));
}

#[test]
fn a_collector_that_fails_or_is_gone_disturbs_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let broken = Collector::start("500 Internal Server Error");
    for endpoint in [broken.endpoint.as_str(), &format!("http://{gone}/v1/traces")] {
        let folder = tempfile::tempdir().unwrap();
        let site = site(&folder, endpoint);
        let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
        let id = client.put(0, 0, 60, &body("01")).unwrap();
        assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
        client.expect(&format!("delete {id}"), "DELETED").unwrap();
        testkit::wait::until("the failure is counted", || count(&site, "failed") >= 2);
        assert_eq!(count(&site, "sent"), 0);
        assert_eq!(site.get("/health/ready").status, 200);
    }
}

#[test]
fn a_collector_that_never_answers_does_not_delay_the_stop() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    let mut site = site(&folder, &endpoint);
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    for _ in 0..20 {
        let id = client.put(0, 0, 60, &body("01")).unwrap();
        assert_eq!(client.reserve(0).unwrap().unwrap().id, id);
        client.expect(&format!("delete {id}"), "DELETED").unwrap();
    }
    let (mut request, _) = silent.accept().unwrap();
    request.read_exact(&mut [0; 100]).unwrap();
    let before = Instant::now();
    site.server.signal(rustix::process::Signal::TERM);
    assert!(site.server.wait().success());
    // The server waits 10 seconds for the answer to a request, but not when it stops.
    assert!(before.elapsed() < Duration::from_secs(7), "{:?}", before.elapsed());
}

#[test]
fn without_a_collector_there_are_no_spans() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    let page = site.get("/metrics").body;
    assert!(page.contains("lineshaft_puts_total") && !page.contains("lineshaft_spans"), "{page}");
}
