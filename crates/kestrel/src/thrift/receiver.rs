//! Splits received bytes into messages, with or without frames.

use std::borrow::Cow;

use broker::BodyBuffer;

use super::reader::{Broken, COMPACT_FIRST_BYTE, STRICT_FIRST_BYTE};
use super::walker::Walker;

/// Bytes of the length before a frame.
const FRAME_HEAD_BYTES: usize = 4;

/// Number of bytes that show whether there are frames.
const TELLTALE_BYTES: usize = FRAME_HEAD_BYTES + 1;

/// The result of receiving bytes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Received<'a> {
    /// Handles a complete message.
    Message {
        message: Cow<'a, [u8]>,
        /// Whether it was in a frame; the reply then has a frame, too.
        framed: bool,
        /// Number of bytes used.
        used: usize,
    },
    /// This many bytes were used; more must arrive.
    More(usize),
    /// No further message is possible.
    Broken,
}

/// The state of receiving a message.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Longest message.
    bytes_max: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// At the beginning of a message.
    Start,
    /// In a frame.
    Frame(BodyBuffer),
    /// In a message without a frame, up to the longest message.
    Bare(Walker, BodyBuffer),
}

impl Receiver {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, stage: Stage::Start }
    }

    /// Bytes of memory for an incomplete message.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match &self.stage {
            Stage::Start => 0,
            Stage::Frame(message) | Stage::Bare(_, message) => message.buffered_bytes(),
        }
    }

    /// Whether part of a message has arrived.
    pub(crate) fn is_mid_message(&self) -> bool {
        match self.stage {
            Stage::Frame(_) | Stage::Bare(..) => true,
            Stage::Start => false,
        }
    }

    /// Handles a message or a part of it.
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

    /// The first byte of a message names its protocol, and no acceptable frame length begins with
    /// that byte. Old-style messages also begin with a length, that of the name. There the next
    /// byte decides: it is a letter, or the beginning of the message in the frame.
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
