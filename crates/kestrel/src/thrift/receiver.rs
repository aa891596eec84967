//! Splits received bytes into messages, with or without frames.

use std::borrow::Cow;

use broker::BodyBuffer;

use super::reader::{Broken, COMPACT_FIRST_BYTE, STRICT_FIRST_BYTE};
use super::walker::Walker;

/// Size of the length field that precedes each frame.
const FRAME_HEAD_BYTES: usize = 4;

/// Number of bytes that always show whether a message has a frame.
const TELLTALE_BYTES: usize = FRAME_HEAD_BYTES + 1;

/// The result of receiving bytes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Received<'a> {
    /// A complete message.
    Message {
        message: Cow<'a, [u8]>,
        /// True if the message was in a frame. The reply then has a frame, too.
        framed: bool,
        /// Number of bytes that the message used.
        used: usize,
    },
    /// This number of bytes was used. The message is incomplete.
    More(usize),
    /// The bytes are invalid, so no further message can be read.
    Broken,
}

/// The state of receiving a message.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Length of the longest message.
    bytes_max: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// At the beginning of a message.
    Start,
    /// In a frame.
    Frame(BodyBuffer),
    /// In a message without a frame. The buffer is at most as long as the longest message.
    Bare(Walker, BodyBuffer),
}

impl Receiver {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, stage: Stage::Start }
    }

    /// Number of bytes of memory for an incomplete message.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match &self.stage {
            Stage::Start => 0,
            Stage::Frame(message) | Stage::Bare(_, message) => message.buffered_bytes(),
        }
    }

    /// True if a part of a message has arrived.
    pub(crate) fn is_mid_message(&self) -> bool {
        match self.stage {
            Stage::Frame(_) | Stage::Bare(..) => true,
            Stage::Start => false,
        }
    }

    /// Receives a message or a part of it.
    pub(crate) fn receive<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        match &mut self.stage {
            Stage::Start => self.start(bytes),
            Stage::Frame(frame) => {
                let (used, message) = frame.complete(bytes);
                let Some(message) = message else { return Received::More(used) };
                self.stage = Stage::Start;
                Received::Message { message, framed: true, used }
            }
            Stage::Bare(walker, buffer) => {
                let before = buffer.received().len();
                let used = buffer.push(bytes);
                match walker.walk(buffer.received()) {
                    Ok(end) => {
                        let mut message = buffer.take();
                        message.truncate(end);
                        self.stage = Stage::Start;
                        let message = Cow::Owned(message);
                        Received::Message { message, framed: false, used: end - before }
                    }
                    Err(Broken::Incomplete) if buffer.received().len() < self.bytes_max => {
                        Received::More(used)
                    }
                    Err(Broken::Incomplete | Broken::Malformed) => Received::Broken,
                }
            }
        }
    }

    /// Decides whether the message has a frame, and begins to read it. A message without a frame
    /// usually begins with a byte that shows its protocol. No valid length of a frame begins with
    /// such a byte. But an old-style message without a frame begins with the length of the method's
    /// name. In this case, the fifth byte decides: it is a letter of the name, or the first byte of
    /// the message in a frame.
    fn start<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        match bytes {
            [STRICT_FIRST_BYTE | COMPACT_FIRST_BYTE, ..] => self.start_bare(bytes),
            [_, _, _, _, 0 | STRICT_FIRST_BYTE | COMPACT_FIRST_BYTE, ..] => self.start_frame(bytes),
            _ if bytes.len() < TELLTALE_BYTES => Received::More(0),
            _ => self.start_bare(bytes),
        }
    }

    fn start_frame<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEAD_BYTES>() else {
            return Received::More(0);
        };
        let frame_bytes = u32::from_be_bytes(*head) as usize;
        if frame_bytes == 0 || frame_bytes > self.bytes_max {
            return Received::Broken;
        }
        if let Some(message) = rest.get(..frame_bytes) {
            let used = FRAME_HEAD_BYTES + frame_bytes;
            return Received::Message { message: Cow::Borrowed(message), framed: true, used };
        }
        let mut frame = BodyBuffer::new(frame_bytes);
        frame.push(rest);
        self.stage = Stage::Frame(frame);
        Received::More(bytes.len())
    }

    fn start_bare<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let within = &bytes[..bytes.len().min(self.bytes_max)];
        let mut walker = Walker::of_message();
        match walker.walk(within) {
            Ok(used) => {
                let message = Cow::Borrowed(&bytes[..used]);
                Received::Message { message, framed: false, used }
            }
            Err(Broken::Incomplete) if within.len() < self.bytes_max => {
                let mut buffer = BodyBuffer::new(self.bytes_max);
                buffer.push(bytes);
                self.stage = Stage::Bare(walker, buffer);
                Received::More(bytes.len())
            }
            Err(Broken::Incomplete | Broken::Malformed) => Received::Broken,
        }
    }
}
