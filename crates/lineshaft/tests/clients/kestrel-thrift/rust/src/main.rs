//! Plays the cases of `corpus/kestrel-thrift` with the generated Rust client: `client CASES PORT`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
    TInputProtocol, TOutputProtocol,
};
use thrift::transport::{
    ReadHalf, TBufferedReadTransport, TBufferedWriteTransport, TFramedReadTransport,
    TFramedWriteTransport, TIoChannel, TReadTransport, TTcpChannel, TWriteTransport, WriteHalf,
};

use kestrel::{KestrelSyncClient, TKestrelSyncClient};

#[allow(
    clippy::all,
    dead_code,
    deprecated,
    non_snake_case,
    non_camel_case_types,
    unused_extern_crates,
    unused_imports,
    unused_variables
)]
mod kestrel {
    include!(concat!(env!("OUT_DIR"), "/kestrel.rs"));
}

type Input = Box<dyn TInputProtocol + Send>;
type Output = Box<dyn TOutputProtocol + Send>;
type Client = KestrelSyncClient<Input, Output>;
type Outcome = thrift::Result<Returned>;

const CASES_AT_ONCE: usize = 24;
const LIMIT: Duration = Duration::from_secs(10);
const SILENCE_MS: u64 = 50;
/// The server notices within this time that a client has closed its connection.
const CLOSE_GRACE: Duration = Duration::from_millis(20);

/// How a client encodes its messages.
#[derive(Copy, Clone, Debug)]
struct Kind {
    framed: bool,
    protocol: &'static str,
}

/// The result of a call.
#[derive(Debug)]
enum Returned {
    Nothing,
    Number(i64),
    Text(String),
    Items(Vec<kestrel::Item>),
    Info(kestrel::QueueInfo),
}

/// A connection. Its calls run on a thread of their own, because the generated client waits for
/// each reply.
struct Connection {
    calls: Sender<Call>,
    outcomes: Receiver<Outcome>,
    stream: TcpStream,
    called_at: Instant,
}

/// A call with its arguments. A method ignores the arguments that it does not have.
struct Call {
    method: String,
    queue: String,
    items: Vec<Vec<u8>>,
    ids: BTreeSet<i64>,
    numbers: BTreeMap<String, i32>,
}

impl Call {
    fn make(self, client: &mut Client) -> Outcome {
        let number = |name: &str| self.numbers.get(name).copied().unwrap_or_default();
        let queue = self.queue;
        Ok(match &self.method[..] {
            "put" => {
                Returned::Number(client.put(queue, self.items, number("expiration_msec"))?.into())
            }
            "get" => Returned::Items(client.get(
                queue,
                number("max_items"),
                number("timeout_msec"),
                number("auto_abort_msec"),
            )?),
            "confirm" => Returned::Number(client.confirm(queue, self.ids)?.into()),
            "abort" => Returned::Number(client.abort(queue, self.ids)?.into()),
            "peek" => Returned::Info(client.peek(queue)?),
            "flush_queue" => done(client.flush_queue(queue)?),
            "flush_all_queues" => done(client.flush_all_queues()?),
            "delete_queue" => done(client.delete_queue(queue)?),
            "current_status" => Returned::Number(client.current_status()?.0.into()),
            "set_status" => done(client.set_status(kestrel::Status(number("status")))?),
            "get_version" => Returned::Text(client.get_version()?),
            other => panic!("there is no method {other}"),
        })
    }
}

fn done((): ()) -> Returned {
    Returned::Nothing
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn client(stream: TcpStream, kind: Kind) -> thrift::Result<Client> {
    let (read, write): (ReadHalf<TTcpChannel>, WriteHalf<TTcpChannel>) =
        TTcpChannel::with_stream(stream).split()?;
    let (read, write): (Box<dyn TReadTransport + Send>, Box<dyn TWriteTransport + Send>) =
        if kind.framed {
            (Box::new(TFramedReadTransport::new(read)), Box::new(TFramedWriteTransport::new(write)))
        } else {
            let write = TBufferedWriteTransport::new(write);
            (Box::new(TBufferedReadTransport::new(read)), Box::new(write))
        };
    let (input, output): (Input, Output) = match kind.protocol {
        "compact" => {
            let input = TCompactInputProtocol::new(read);
            (Box::new(input), Box::new(TCompactOutputProtocol::new(write)))
        }
        protocol => {
            // Replies always contain the version, even if the calls do not contain it.
            let input = TBinaryInputProtocol::new(read, true);
            (Box::new(input), Box::new(TBinaryOutputProtocol::new(write, protocol == "binary")))
        }
    };
    Ok(KestrelSyncClient::new(input, output))
}

impl Connection {
    fn open(port: u16, kind: Kind) -> Connection {
        let (calls, to_make) = channel::<Call>();
        let (made, outcomes) = channel();
        let stream = connect(port).expect("the server listens");
        let shared = stream.try_clone().expect("there are descriptors");
        let mut client = client(shared, kind).expect("the stream can be split");
        thread::spawn(move || {
            while let Ok(call) = to_make.recv() {
                if made.send(call.make(&mut client)).is_err() {
                    return;
                }
            }
        });
        Connection { calls, outcomes, stream, called_at: Instant::now() }
    }

    fn outcome(&self) -> Result<Outcome, String> {
        self.outcomes.recv_timeout(LIMIT).map_err(|error| error.to_string())
    }

    fn expect_silence(&self, ms: u64) -> Result<(), String> {
        match self.outcomes.recv_timeout(Duration::from_millis(ms)) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            other => Err(format!("{other:?} came")),
        }
    }
}

struct Play {
    port: u16,
    kind: Kind,
    queue: String,
    connections: BTreeMap<String, Connection>,
    ids: BTreeMap<String, i64>,
}

impl Play {
    fn run(case: &Value, port: u16, kind: Kind) -> Result<(), String> {
        let name = case["name"].as_str().expect("a case has a name");
        let Kind { framed, protocol } = kind;
        let queue = format!("rs-{framed}-{}-{name}-", protocol.replace(' ', "-"));
        let (connections, ids) = (BTreeMap::new(), BTreeMap::new());
        let mut play = Play { port, kind, queue, connections, ids };
        for step in case["steps"].as_array().expect("a case has steps") {
            play.step(step).map_err(|error| format!("{}: {step}: {error}", play.queue))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        // Sleeps: the case requires that time passes.
        thread::sleep(Duration::from_millis(step["sleep_ms"].as_u64().unwrap_or_default()));
        if let Some(name) = step["close"].as_str() {
            let connection = self.connections.remove(name).expect("it was opened");
            // This also ends a call that waits in its thread.
            connection.stream.shutdown(Shutdown::Both).map_err(|error| error.to_string())?;
            // Sleeps: the server sends no reply when it has noticed the close.
            thread::sleep(CLOSE_GRACE);
        }
        let Some(name) = step["on"].as_str() else { return Ok(()) };
        if let Some(method) = step["call"].as_str() {
            let call = self.call(method, &step["with"]);
            let (port, kind) = (self.port, self.kind);
            let connection = self.connections.entry(name.to_owned());
            let connection = connection.or_insert_with(|| Connection::open(port, kind));
            connection.called_at = Instant::now();
            connection.calls.send(call).expect("the thread lives as long as the connection");
        }
        let connection = self.connections.get_mut(name).expect("it was opened");
        if step["waits"] == true {
            connection.expect_silence(SILENCE_MS)?;
        }
        if let Some(ms) = step["silent_ms"].as_u64() {
            connection.expect_silence(ms)?;
        }
        let wanted = step.get("returns").or_else(|| step.get("answers"));
        if wanted.is_none() && step.get("fails").is_none() {
            return Ok(());
        }
        let outcome = connection.outcome()?;
        let took_ms = connection.called_at.elapsed().as_millis() as u64;
        if took_ms + 5 < step["takes_ms_min"].as_u64().unwrap_or_default() {
            return Err(format!("it took {took_ms} ms"));
        }
        match (outcome, wanted) {
            (Ok(returned), Some(wanted)) => {
                let shown = format!("{returned:.200?} came");
                if self.fits(returned, wanted) { Ok(()) } else { Err(shown) }
            }
            (Err(thrift::Error::Application(error)), None) => {
                let fits = step["fails"].as_i64() == Some(error.kind as i64);
                if fits { Ok(()) } else { Err(format!("{error:?} came")) }
            }
            (other, _) => Err(format!("{other:?} came")),
        }
    }

    fn call(&self, method: &str, arguments: &Value) -> Call {
        let list = |name: &str| arguments[name].as_array().cloned().unwrap_or_default();
        let id =
            |id: &Value| id.as_str().map_or_else(|| id.as_i64(), |id| self.ids.get(id).copied());
        let arguments = arguments.as_object().expect("a call has arguments");
        let number = |(name, value): (&String, &Value)| {
            Some((name.clone(), i32::try_from(value.as_i64()?).expect("it has 32 bits")))
        };
        let queue = arguments.get("queue_name").map(|name| self.text(name)).unwrap_or_default();
        Call {
            method: method.to_owned(),
            queue: String::from_utf8(queue).expect("names are ASCII"),
            items: list("items").iter().map(|item| self.text(item)).collect(),
            ids: list("ids").iter().map(|one| id(one).expect("it has a number")).collect(),
            numbers: arguments.iter().filter_map(number).collect(),
        }
    }

    fn text(&self, text: &Value) -> Vec<u8> {
        let text = text.as_str().expect("it is a text").replace("{q}", &self.queue);
        let repeated = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let text = match repeated.and_then(|inner| inner.split_once('*')) {
            Some((one, count)) => one.repeat(count.parse().expect("it is a number")),
            None => text,
        };
        text.chars().map(|one| u8::try_from(one).expect("it is Latin-1")).collect()
    }

    fn fits(&mut self, returned: Returned, wanted: &Value) -> bool {
        match returned {
            Returned::Nothing => wanted.is_null(),
            Returned::Number(number) => wanted.as_i64() == Some(number),
            Returned::Text(text) => {
                wanted["prefix"].as_str().is_some_and(|prefix| text.starts_with(prefix))
            }
            Returned::Items(items) => {
                let wanted = wanted.as_array().expect("a list is wanted");
                items.len() == wanted.len()
                    && items.iter().zip(wanted).all(|(item, wanted)| self.item_fits(item, wanted))
            }
            Returned::Info(info) => {
                let wanted = wanted.as_object().expect("keys are wanted");
                wanted.iter().all(|(key, wanted)| {
                    if key == "head_item" {
                        let head = if wanted.is_null() { None } else { Some(self.text(wanted)) };
                        return info.head_item == head;
                    }
                    let number = match &key[..] {
                        "items" => info.items,
                        "journal_bytes" => info.journal_bytes,
                        "bytes" => info.bytes,
                        "age" => info.age,
                        "waiters" => info.waiters.map(i64::from),
                        "open_transactions" => info.open_transactions.map(i64::from),
                        other => panic!("there is no key {other}"),
                    };
                    wanted.as_i64() == number
                })
            }
        }
    }

    fn item_fits(&mut self, item: &kestrel::Item, wanted: &Value) -> bool {
        let (data, id) = (item.data.as_deref().unwrap_or_default(), item.id.unwrap_or_default());
        let number_fits = match wanted[1].as_str() {
            Some(name) => {
                let is_new = id > 0 && self.ids.values().all(|other| *other != id);
                self.ids.insert(name.to_owned(), id);
                is_new
            }
            None => wanted[1].as_i64() == Some(id),
        };
        number_fits && data == self.text(&wanted[0])
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cases = std::fs::read_to_string(&arguments[1]).expect("the cases are there");
    let port = arguments[2].parse().expect("the port is a number");
    let case = |line: &str| serde_json::from_str(line).expect("a case is JSON");
    let mut cases: Vec<Value> = cases.lines().map(case).collect();
    let has_tag = |case: &Value, tag: &str| {
        case["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| one == tag))
    };
    // Some cases test bytes that a generated client does not send.
    cases.retain(|case| !has_tag(case, "raw"));
    let kinds = [true, false].into_iter().flat_map(|framed| {
        ["binary", "old binary", "compact"].map(|protocol| Kind { framed, protocol })
    });
    let plays: Vec<(&Value, Kind)> =
        kinds.flat_map(|kind| cases.iter().map(move |case| (case, kind))).collect();
    // Cases with a tag change state that other cases use, too. So cases with a tag run one at a
    // time. They wait for seconds, so they run with two kinds only.
    let (mut shared, own): (Vec<_>, Vec<_>) =
        plays.into_iter().partition(|(case, _)| case.get("tags").is_some());
    shared.retain(|(_, kind)| {
        matches!((kind.framed, kind.protocol), (true, "binary") | (false, "compact"))
    });
    let failures = [play_all(&own, port, CASES_AT_ONCE), play_all(&shared, port, 1)].concat();
    for failure in &failures {
        eprintln!("{failure}");
    }
    eprintln!("{} plays, {} failed", own.len() + shared.len(), failures.len());
    std::process::exit(i32::from(!failures.is_empty() || own.is_empty()));
}

fn play_all(plays: &[(&Value, Kind)], port: u16, at_once: usize) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((case, kind)) = plays.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = Play::run(case, port, *kind) {
                        failures.lock().expect("no holder panics").push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no holder panicked")
}
