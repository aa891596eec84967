//! The part of AMQP 0-9-1 that a load of RabbitMQ needs: persistent messages with confirms, and a
//! consumer that acknowledges each message. The queue is a quorum queue.

use super::script::{Cursor, Script};
use super::{Driver, Progress};

/// Types of frames.
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const FRAME_END: u8 = 0xce;
/// The largest frame. Both sides agree on it.
const FRAME_BYTES_MAX: u32 = 131_072;
/// The channel of all requests. Channel 0 is for the connection itself.
const CHANNEL: u16 = 1;

/// Methods: the class, and the method of the class.
const START_OK: u32 = method(10, 11);
const TUNE_OK: u32 = method(10, 31);
const OPEN: u32 = method(10, 40);
const CONNECTION_CLOSE: u32 = method(10, 50);
const CHANNEL_OPEN: u32 = method(20, 10);
const CHANNEL_CLOSE: u32 = method(20, 40);
const QUEUE_DECLARE: u32 = method(50, 10);
const QOS: u32 = method(60, 10);
const CONSUME: u32 = method(60, 20);
const PUBLISH: u32 = method(60, 40);
const DELIVER: u32 = method(60, 60);
const ACK: u32 = method(60, 80);
const NACK: u32 = method(60, 120);
const CONFIRM_SELECT: u32 = method(85, 10);

const fn method(class: u32, method: u32) -> u32 {
    class << 16 | method
}

/// One connection that speaks AMQP.
#[derive(Debug)]
pub(crate) struct Amqp {
    work: Work,
    /// The beginning of a frame that has not arrived completely.
    partial: Vec<u8>,
    /// The requests before the first operation.
    opening: Vec<u8>,
}

#[derive(Debug)]
enum Work {
    /// Publishes the units of a script.
    Put { cursor: Cursor, confirms: Confirms },
    /// Acknowledges the messages that the server delivers.
    Take {
        queue: String,
        /// The number of the last message that has begun to arrive, and the bytes of its body that
        /// have not arrived.
        delivery: Option<(u64, u64)>,
    },
}

/// The messages that the server has confirmed.
#[derive(Debug, Default)]
struct Confirms {
    /// All messages up to this number.
    floor: u64,
    /// Single messages above it.
    others: Vec<u64>,
}

impl Confirms {
    /// Notes a confirm of one message, or of all messages up to it. Returns the number of messages
    /// that were not confirmed before.
    fn note(&mut self, tag: u64, is_multiple: bool) -> u32 {
        let before = self.floor + self.others.len() as u64;
        if is_multiple || tag == self.floor + 1 {
            self.floor = self.floor.max(tag);
        } else if tag > self.floor && !self.others.contains(&tag) {
            self.others.push(tag);
        }
        let floor = self.floor;
        self.others.retain(|other| *other > floor);
        (self.floor + self.others.len() as u64 - before) as u32
    }
}

impl Amqp {
    /// Publishes persistent messages. Each operation ends with the server's confirm.
    pub(crate) fn put(cursor: Cursor) -> Self {
        let mut opening = opening();
        request(CONFIRM_SELECT, &[&[0]], &mut opening);
        Self {
            work: Work::Put { cursor, confirms: Confirms::default() },
            partial: Vec::new(),
            opening,
        }
    }

    /// Takes messages. Each operation ends with an acknowledgement, which has no reply. The server
    /// sends the next messages only after it has read acknowledgements, so their cost is measured.
    pub(crate) fn take(queue: &str) -> Self {
        let opening = opening();
        let work = Work::Take { queue: queue.to_owned(), delivery: None };
        Self { work, partial: Vec::new(), opening }
    }

    /// A script for [`put`](Self::put).
    pub(crate) fn publishes(queue: &str, body_bytes: usize) -> Script {
        // The default exchange passes a message to the queue with the name of its key.
        let mut unit = Vec::new();
        request(PUBLISH, &[&[0, 0], &short(""), &short(queue), &[0]], &mut unit);
        // The only property is the delivery mode: persistent.
        let mut header = vec![0, 60, 0, 0];
        header.extend_from_slice(&(body_bytes as u64).to_be_bytes());
        header.extend_from_slice(&[0x10, 0, 2]);
        frame(HEADER, CHANNEL, &header, &mut unit);
        frame(BODY, CHANNEL, &vec![b'x'; body_bytes], &mut unit);
        Script::repeated(&unit)
    }

    /// Handles a frame. Returns false if the input does not have all of it.
    fn take_frame(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        progress: &mut Progress,
    ) -> anyhow::Result<bool> {
        let Some((head, rest)) = input.split_first_chunk::<7>() else { return Ok(false) };
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        anyhow::ensure!(
            length <= FRAME_BYTES_MAX as usize,
            "the server's reply is no frame of AMQP"
        );
        let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(false) };
        let Some((end, rest)) = rest.split_first() else { return Ok(false) };
        anyhow::ensure!(*end == FRAME_END, "a frame of the server has no end");
        *input = rest;
        self.handle(head[0], payload, output, progress);
        Ok(true)
    }

    fn handle(&mut self, kind: u8, payload: &[u8], output: &mut Vec<u8>, progress: &mut Progress) {
        match (kind, &mut self.work) {
            (METHOD, work) => match (number(payload, 0), work) {
                (ACK, Work::Put { confirms, .. }) => {
                    progress.finished +=
                        confirms.note(long(payload, 4), payload.get(12) == Some(&1));
                }
                (DELIVER, Work::Take { delivery, .. }) => {
                    let name = usize::from(payload.get(4).copied().unwrap_or(0));
                    *delivery = Some((long(payload, 5 + name), 0));
                }
                (NACK | CONNECTION_CLOSE | CHANNEL_CLOSE, _) => progress.fail(payload),
                // Replies to the opening.
                _ => {}
            },
            (HEADER, Work::Take { delivery: Some((_, left)), .. }) => *left = long(payload, 4),
            (BODY, Work::Take { delivery, .. }) => {
                if let Some((tag, left)) = delivery {
                    *left = left.saturating_sub(payload.len() as u64);
                    if *left == 0 {
                        request(ACK, &[&tag.to_be_bytes(), &[0]], output);
                        progress.finished += 1;
                        *delivery = None;
                    }
                }
            }
            (HEARTBEAT, _) => frame(HEARTBEAT, 0, &[], output),
            _ => {}
        }
    }
}

impl Driver for Amqp {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        let is_first = !self.opening.is_empty();
        output.append(&mut self.opening);
        match &mut self.work {
            Work::Put { cursor, .. } => cursor.append(count, output),
            Work::Take { queue, .. } => {
                if is_first {
                    // At most this many messages are delivered and not acknowledged.
                    let most = (count as u16).to_be_bytes();
                    request(QOS, &[&[0; 4], &most, &[0]], output);
                    let words = [&[0, 0], &short(queue)[..], &short(""), &[0], &[0; 4]];
                    request(CONSUME, &words, output);
                }
                count
            }
        }
    }

    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        let mut joined = std::mem::take(&mut self.partial);
        let mut left = if joined.is_empty() {
            input
        } else {
            joined.extend_from_slice(input);
            &joined[..]
        };
        while self.take_frame(&mut left, output, &mut progress)? {}
        self.partial = left.to_vec();
        Ok(progress)
    }
}

/// The requests that make a quorum queue. The last reply is [`DECLARED`].
pub(crate) fn declare(queue: &str) -> Vec<u8> {
    let mut bytes = opening();
    // The flag 2 means durable.
    let kind = [&short("x-queue-type")[..], b"S", &text("quorum")].concat();
    let arguments = [&(kind.len() as u32).to_be_bytes()[..], &kind].concat();
    request(QUEUE_DECLARE, &[&[0, 0], &short(queue), &[2], &arguments], &mut bytes);
    bytes
}

/// The end of the reply to [`declare`], for a new queue: no messages and no consumers.
pub(crate) const DECLARED: &[u8] = b"\0\0\0\0\0\0\0\0\xce";

/// The handshake. The server reads its parts in order, so they can be sent at once.
fn opening() -> Vec<u8> {
    let mut bytes = b"AMQP\0\0\x09\x01".to_vec();
    let connection = |method: u32, words: &[&[u8]], bytes: &mut Vec<u8>| {
        frame(METHOD, 0, &[&method.to_be_bytes(), &words.concat()[..]].concat(), bytes);
    };
    let words = [&[0; 4], &short("PLAIN")[..], &text("\0guest\0guest"), &short("en_US")];
    connection(START_OK, &words, &mut bytes);
    let frame_max = FRAME_BYTES_MAX.to_be_bytes();
    connection(TUNE_OK, &[&CHANNEL.to_be_bytes(), &frame_max, &[0, 0]], &mut bytes);
    connection(OPEN, &[&short("/"), &[0, 0]], &mut bytes);
    request(CHANNEL_OPEN, &[&[0]], &mut bytes);
    bytes
}

fn request(method: u32, words: &[&[u8]], bytes: &mut Vec<u8>) {
    let words = words.iter().copied().flatten().copied();
    let payload: Vec<u8> = method.to_be_bytes().into_iter().chain(words).collect();
    frame(METHOD, CHANNEL, &payload, bytes);
}

fn frame(kind: u8, channel: u16, payload: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(kind);
    bytes.extend_from_slice(&channel.to_be_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes.push(FRAME_END);
}

/// A string with a length of one byte.
fn short(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

/// A string with a length of four bytes.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// The four bytes at an offset, or 0.
fn number(payload: &[u8], at: usize) -> u32 {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk::<4>);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The eight bytes at an offset, or 0.
fn long(payload: &[u8], at: usize) -> u64 {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk::<8>);
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn reply(method: u32, words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        request(method, words, &mut bytes);
        bytes
    }

    #[test]
    fn confirms_are_counted_at_any_split() {
        let mut input = reply(method(10, 10), &[&[0; 30]]);
        input.extend(reply(ACK, &[&1_u64.to_be_bytes(), &[0]]));
        input.extend(reply(ACK, &[&4_u64.to_be_bytes(), &[1]]));
        input.extend(reply(NACK, &[&5_u64.to_be_bytes(), &[0]]));
        for split in 0..input.len() {
            let script = Rc::new(Amqp::publishes("q", 3));
            let mut driver = Amqp::put(Cursor::cycling(script, 0, 1));
            let mut output = Vec::new();
            assert_eq!(driver.begin(1, &mut output), 1);
            assert!(output.starts_with(b"AMQP\0\0\x09\x01\x01\0\0"));
            assert!(output.ends_with(b"\x03\0\x01\0\0\0\x03xxx\xce"));
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(first.finished + second.finished, 4, "split at {split}");
            assert_eq!(first.failed + second.failed, 1);
        }
    }

    #[test]
    fn confirms_in_any_order_count_once() {
        let mut confirms = Confirms::default();
        assert_eq!(confirms.note(3, false), 1);
        assert_eq!(confirms.note(1, false), 1);
        assert_eq!(confirms.note(4, true), 2);
        assert_eq!(confirms.note(2, true), 0);
        assert_eq!(confirms.note(7, false), 1);
        assert_eq!(confirms.note(8, true), 3);
    }

    #[test]
    fn each_delivered_message_is_acknowledged() {
        let words = [&short("tag")[..], &9_u64.to_be_bytes(), &[0], &short(""), &short("q")];
        let mut input = reply(DELIVER, &words);
        let header = [&[0, 60, 0, 0][..], &5_u64.to_be_bytes(), &[0, 0]].concat();
        frame(HEADER, CHANNEL, &header, &mut input);
        frame(BODY, CHANNEL, b"ab", &mut input);
        frame(BODY, CHANNEL, b"cde", &mut input);
        for split in 0..input.len() {
            let mut driver = Amqp::take("q");
            let mut output = Vec::new();
            assert_eq!(driver.begin(2, &mut output), 2);
            output.clear();
            assert_eq!(driver.begin(2, &mut output), 2);
            assert_eq!(output, b"", "the consumer exists");
            let first = driver.receive(&input[..split], &mut output).expect("valid replies");
            let second = driver.receive(&input[split..], &mut output).expect("valid replies");
            assert_eq!(first.finished + second.finished, 1);
            assert_eq!(output, reply(ACK, &[&9_u64.to_be_bytes(), &[0]]));
        }
    }
}
