//! The part of NATS' protocol that a load of JetStream needs: publishes with an acknowledgement of
//! the stream, and takes of a pull consumer. A stream and its subject have the name of the queue.

use super::scanner::{LineScanner, last_number};
use super::{Driver, Progress};

/// The consumer of each stream.
const CONSUMER: &str = "work";

/// One connection that speaks NATS' protocol.
#[derive(Debug)]
pub(crate) struct Nats {
    work: Work,
    scanner: LineScanner,
    /// The subject of all replies to this connection.
    inbox: String,
    /// The requests before the first operation. They have no replies.
    opening: Vec<u8>,
}

#[derive(Debug)]
enum Work {
    /// Publishes. The bytes are one request.
    Put(Vec<u8>),
    /// Requests messages, and acknowledges each of them.
    Take {
        queue: String,
        /// Messages that were requested and have not arrived.
        requested: u32,
    },
}

impl Nats {
    /// Publishes bodies. Each operation ends when the stream has stored the message.
    pub(crate) fn put(queue: &str, body_bytes: usize, index: usize) -> Self {
        let inbox = inbox(index);
        let mut request = format!("PUB {queue} {inbox} {body_bytes}\r\n").into_bytes();
        request.resize(request.len() + body_bytes, b'x');
        request.extend_from_slice(b"\r\n");
        Self::new(Work::Put(request), inbox)
    }

    /// Takes messages. Each operation ends when the server has confirmed the acknowledgement.
    pub(crate) fn take(queue: &str, index: usize) -> Self {
        Self::new(Work::Take { queue: queue.to_owned(), requested: 0 }, inbox(index))
    }

    fn new(work: Work, inbox: String) -> Self {
        let opening = opening(&inbox);
        Self { work, scanner: LineScanner::default(), inbox, opening }
    }
}

fn inbox(index: usize) -> String {
    format!("_INBOX.{index}")
}

fn opening(inbox: &str) -> Vec<u8> {
    const CONNECT: &str =
        r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
    format!("CONNECT {CONNECT}\r\nSUB {inbox} 1\r\n").into_bytes()
}

/// The requests that make a stream of a queue, in a file, and its consumer. Each has a reply of two
/// lines.
pub(crate) fn stream_requests(queue: &str) -> [Vec<u8>; 2] {
    let inbox = inbox(0);
    let stream = format!(
        r#"{{"name":"{queue}","subjects":["{queue}"],"storage":"file","retention":"workqueue","num_replicas":1}}"#
    );
    let consumer = format!(
        r#"{{"stream_name":"{queue}","config":{{"durable_name":"{CONSUMER}","ack_policy":"explicit","max_ack_pending":100000}}}}"#
    );
    let create = |what: &str, body: &str| {
        format!("PUB $JS.API.{what} {inbox} {}\r\n{body}\r\n", body.len()).into_bytes()
    };
    let mut first = opening(&inbox);
    first.extend(create(&format!("STREAM.CREATE.{queue}"), &stream));
    [first, create(&format!("CONSUMER.DURABLE.CREATE.{queue}.{CONSUMER}"), &consumer)]
}

impl Driver for Nats {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        output.append(&mut self.opening);
        match &mut self.work {
            Work::Put(request) => {
                for _ in 0..count {
                    output.extend_from_slice(request);
                }
            }
            Work::Take { queue, requested } => {
                let body = format!(r#"{{"batch":{count},"no_wait":true}}"#);
                let (inbox, length) = (&self.inbox, body.len());
                let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{queue}.{CONSUMER}");
                let request = format!("PUB {subject} {inbox} {length}\r\n{body}\r\n");
                output.extend_from_slice(request.as_bytes());
                *requested += count as u32;
            }
        }
        count
    }

    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        let (work, inbox) = (&mut self.work, self.inbox.as_bytes());
        self.scanner.scan(input, |line| {
            match (line, &mut *work) {
                ([b'{', b'"', b's', ..], Work::Put(_)) => progress.finished += 1,
                ([b'M', b'S', b'G', ..], Work::Take { requested, .. }) => {
                    let mut words = line.split(|&byte| byte == b' ').skip(1);
                    let (subject, reply) = (words.next(), words.nth(1));
                    match (subject, reply, last_number(line)) {
                        (Some(subject), _, Some(bytes)) if subject == inbox => {
                            progress.finished += 1;
                            return bytes + 2;
                        }
                        (_, Some(reply), Some(bytes)) => {
                            *requested = requested.saturating_sub(1);
                            output.extend_from_slice(b"PUB ");
                            output.extend_from_slice(reply);
                            output.push(b' ');
                            output.extend_from_slice(inbox);
                            output.extend_from_slice(b" 0\r\n\r\n");
                            return bytes + 2;
                        }
                        _ => progress.fail(line),
                    }
                }
                // The stream has no more messages: the rest of the request ends without one.
                (
                    b"NATS/1.0 404 No Messages" | b"NATS/1.0 408 Requests Pending",
                    Work::Take { requested, .. },
                ) => progress.missed += std::mem::take(requested),
                // The line before the stream's answer.
                ([b'M', b'S', b'G', ..], Work::Put(_))
                // The lines of an answer with headers, or of the server's greeting.
                | (b"" | [b'H', b'M', b'S', b'G', ..] | [b'I', b'N', b'F', b'O', ..], _) => {}
                (b"PING", _) => output.extend_from_slice(b"PONG\r\n"),
                _ => progress.fail(line),
            }
            0
        })?;
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishes_are_counted_at_any_split() {
        let input =
            b"INFO {\"port\":1}\r\nPING\r\nMSG _INBOX.7 1 26\r\n{\"stream\":\"q\",\"seq\":1}\r\n\
                      MSG _INBOX.7 1 40\r\n{\"error\":{\"code\":503}}\r\n";
        for split in 0..input.len() {
            let mut driver = Nats::put("q", 3, 7);
            let mut output = Vec::new();
            assert_eq!(driver.begin(1, &mut output), 1);
            let text = String::from_utf8_lossy(&output).into_owned();
            assert!(text.starts_with("CONNECT {"), "{text}");
            assert!(text.ends_with("SUB _INBOX.7 1\r\nPUB q _INBOX.7 3\r\nxxx\r\n"), "{text}");
            output.clear();
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(first.finished + second.finished, 1);
            assert_eq!(first.failed + second.failed, 1);
            assert_eq!(output, b"PONG\r\n");
        }
    }

    #[test]
    fn a_take_ends_when_its_acknowledgement_is_confirmed() {
        let input = b"MSG q 1 $JS.ACK.q.work.1.1.1.5.0 4\r\n\r\nMS\r\nMSG _INBOX.7 1 0\r\n\r\n\
                      HMSG _INBOX.7 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n";
        for split in 0..input.len() {
            let mut driver = Nats::take("q", 7);
            let mut output = Vec::new();
            assert_eq!(driver.begin(3, &mut output), 3);
            assert!(output.ends_with(b" _INBOX.7 26\r\n{\"batch\":3,\"no_wait\":true}\r\n"));
            output.clear();
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(output, b"PUB $JS.ACK.q.work.1.1.1.5.0 _INBOX.7 0\r\n\r\n");
            assert_eq!(first.finished + second.finished, 1);
            assert_eq!(first.missed + second.missed, 2);
            assert_eq!(first.failed + second.failed, 0);
        }
    }
}
