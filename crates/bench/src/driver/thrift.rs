//! The part of Kestrel's thrift protocol that a load needs: `put` of one item, and `get` of one
//! item without an open read. Messages are frames of the strict binary protocol (spec kestrel 8).

use super::script::{Cursor, Script};
use super::{Driver, Progress};

/// Limit of a reply's frame.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The version of the protocol, together with the type of the message.
const CALL: u32 = 0x8001_0001;
const REPLY: u32 = 0x8001_0002;

const TYPE_I32: u8 = 8;
const TYPE_STRING: u8 = 11;
const TYPE_LIST: u8 = 15;

/// One connection that speaks the thrift protocol.
#[derive(Debug)]
pub(crate) struct Thrift {
    cursor: Cursor,
    /// The beginning of a frame that has not arrived completely.
    partial: Vec<u8>,
}

/// The content of a reply.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// The number of items that were stored or taken.
    Items(u32),
    Other,
}

impl Thrift {
    /// Sends a script. Each call is one operation.
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self { cursor, partial: Vec::new() }
    }

    /// A script of `put(queue, [body])`.
    pub(crate) fn puts(queue: &str, body_bytes: usize) -> Script {
        let mut arguments = string_field(1, queue.as_bytes());
        arguments.extend_from_slice(&[TYPE_LIST, 0, 2, TYPE_STRING, 0, 0, 0, 1]);
        arguments.extend_from_slice(&counted(&vec![b'x'; body_bytes]));
        Script::repeated(&call("put", &arguments))
    }

    /// A script of `get(queue, 1)`.
    pub(crate) fn gets(queue: &str) -> Script {
        let mut arguments = string_field(1, queue.as_bytes());
        arguments.extend_from_slice(&[TYPE_I32, 0, 2, 0, 0, 0, 1]);
        Script::repeated(&call("get", &arguments))
    }

    fn take_frame(&mut self, progress: &mut Progress) -> anyhow::Result<bool> {
        let Some((length, rest)) = self.partial.split_first_chunk::<4>() else { return Ok(false) };
        let length = u32::from_be_bytes(*length) as usize;
        anyhow::ensure!(
            length <= FRAME_BYTES_MAX,
            "the server's reply is not a thrift frame; does it speak another protocol on this port?"
        );
        let Some(frame) = rest.get(..length) else { return Ok(false) };
        match parse(frame) {
            Some(Reply::Items(0)) => progress.missed += 1,
            Some(Reply::Items(_)) => progress.finished += 1,
            Some(Reply::Other) | None => progress.fail(&frame[..frame.len().min(200)]),
        }
        self.partial.drain(..4 + length);
        Ok(true)
    }
}

/// Parses a reply. Returns `None` if the frame is not a reply of the strict binary protocol.
fn parse(frame: &[u8]) -> Option<Reply> {
    let (kind, rest) = frame.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*kind) != REPLY {
        return Some(Reply::Other);
    }
    let (name_bytes, rest) = rest.split_first_chunk::<4>()?;
    let result = rest.get(u32::from_be_bytes(*name_bytes) as usize + 4..)?;
    match result {
        [TYPE_I32, 0, 0, count @ ..] | [TYPE_LIST, 0, 0, _, count @ ..] => {
            Some(Reply::Items(u32::from_be_bytes(*count.first_chunk()?)))
        }
        _ => Some(Reply::Other),
    }
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("names and bodies here are short");
    [&length.to_be_bytes(), bytes].concat()
}

fn string_field(id: u8, bytes: &[u8]) -> Vec<u8> {
    [&[TYPE_STRING, 0, id][..], &counted(bytes)].concat()
}

fn call(method: &str, arguments: &[u8]) -> Vec<u8> {
    let sequence = 1_u32.to_be_bytes();
    let name = counted(method.as_bytes());
    counted(&[&CALL.to_be_bytes()[..], &name, &sequence, arguments, &[0]].concat())
}

impl Driver for Thrift {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        self.cursor.append(count, output)
    }

    fn receive(&mut self, input: &[u8], _output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        self.partial.extend_from_slice(input);
        while self.take_frame(&mut progress)? {}
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn thrift(script: Script) -> Thrift {
        Thrift::new(Cursor::cycling(Rc::new(script), 0, 1))
    }

    #[test]
    fn calls_are_as_generated_clients_send_them() {
        let mut output = Vec::new();
        assert_eq!(thrift(Thrift::puts("q", 1)).begin(1, &mut output), 1);
        let put = b"\0\0\0\x25\x80\x01\0\x01\0\0\0\x03put\0\0\0\x01\
                    \x0b\0\x01\0\0\0\x01q\x0f\0\x02\x0b\0\0\0\x01\0\0\0\x01x\0";
        assert_eq!(output, put);
        output.clear();
        assert_eq!(thrift(Thrift::gets("q")).begin(1, &mut output), 1);
        let get = b"\0\0\0\x1f\x80\x01\0\x01\0\0\0\x03get\0\0\0\x01\
                    \x0b\0\x01\0\0\0\x01q\x08\0\x02\0\0\0\x01\0";
        assert_eq!(output, get);
    }

    #[test]
    fn replies_are_counted_at_any_split() {
        let stored = b"\0\0\0\x17\x80\x01\0\x02\0\0\0\x03put\0\0\0\x01\x08\0\0\0\0\0\x01\0";
        let item = b"\0\0\0\x2c\x80\x01\0\x02\0\0\0\x03get\0\0\0\x01\x0f\0\0\x0c\0\0\0\x01\
                     \x0b\0\x01\0\0\0\x01x\x0a\0\x02\0\0\0\0\0\0\0\x07\0\0";
        let nothing = b"\0\0\0\x18\x80\x01\0\x02\0\0\0\x03get\0\0\0\x01\x0f\0\0\x0c\0\0\0\0\0";
        let error = b"\0\0\0\x1f\x80\x01\0\x03\0\0\0\x02zz\0\0\0\x01\x0b\0\x01\0\0\0\x02no\
                      \x08\0\x02\0\0\0\x01\0";
        let input = [&stored[..], item, nothing, error].concat();
        for split in 0..input.len() {
            let mut driver = thrift(Thrift::gets("q"));
            let first = driver.receive(&input[..split], &mut Vec::new()).expect("frames");
            let second = driver.receive(&input[split..], &mut Vec::new()).expect("frames");
            assert_eq!(first.finished + second.finished, 2, "split at {split}");
            assert_eq!(first.missed + second.missed, 1);
            assert_eq!(first.failed + second.failed, 1);
        }
        assert!(thrift(Thrift::gets("q")).receive(b"HTTP", &mut Vec::new()).is_err());
    }
}
