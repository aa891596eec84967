//! A server that answers each request from a function, and records it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::Value;

/// A request: the method, the path with parameters, and the body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) body: Value,
}

/// The status and the body of a response.
pub(super) type Answer = fn(&Request) -> (u16, Value);

/// Serves each connection in a thread of its own. Returns the address, and the requests other than
/// GET. Nothing stops the threads; they end with the process.
pub(super) fn serve(answer: Answer) -> (SocketAddr, Receiver<Request>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    (listener.local_addr().unwrap(), serve_on(listener, answer))
}

/// Like [`serve`], on a listener that exists.
pub(super) fn serve_on(listener: TcpListener, answer: Answer) -> Receiver<Request> {
    let (changes, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let changes = changes.clone();
            thread::spawn(move || serve_connection(stream.unwrap(), answer, &changes));
        }
    });
    received
}

fn serve_connection(stream: TcpStream, answer: Answer, changes: &Sender<Request>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push(line.to_lowercase());
        }
        let mut words = head[0].split(' ');
        let (method, path) = (words.next().unwrap().to_uppercase(), words.next().unwrap());
        let length = head.iter().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(0, |length| length.trim().parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let request = Request { method, path: path.to_owned(), body };
        let (status, reply) = answer(&request);
        let reply = if status == 204 { String::new() } else { reply.to_string() };
        let length = if status == 204 {
            String::new()
        } else {
            format!("content-length: {}\r\n", reply.len())
        };
        let text = format!("HTTP/1.1 {status} x\r\n{length}\r\n{reply}");
        if request.method != "GET" {
            let _ = changes.send(request);
        }
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}
