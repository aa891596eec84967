//! Splits received bytes into messages, with or without frames.

use std::borrow::Cow;

use broker::BodyBuffer;

use super::reader::{Broken, COMPACT_FIRST_BYTE, STRICT_FIRST_BYTE};
use super::request::Places;
use super::walker::Walker;

/// The number of bytes that the receiver handles at once. Each byte of a message can be a value of
/// its own, so a long message takes many turns. The server's pieces of input have this size, too.
const PIECE_BYTES: usize = 4 << 10;

/// The number of a walk's steps that cost about as much as a unit of the engine's work.
const STEPS_PER_UNIT: usize = 64;

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
        /// Where the arguments are, if they are complete and valid.
        places: Result<Places, Broken>,
        /// Number of bytes that the message used.
        used: usize,
    },
    /// This number of bytes was used. The message is incomplete. The given bytes can have more of
    /// it.
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
    /// Steps of walks that are not counted as work yet.
    steps: usize,
}

#[derive(Debug)]
enum Stage {
    /// At the beginning of a message.
    Start,
    /// In a frame. The boxes keep sessions small.
    Frame(Box<Walker>, BodyBuffer),
    /// In a message without a frame. The buffer is at most as long as the longest message.
    Bare(Box<Walker>, BodyBuffer),
}

impl Receiver {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, stage: Stage::Start, steps: 0 }
    }

    /// Takes the work of all walks since the last call, in units of the engine's work.
    pub(crate) fn take_units(&mut self) -> usize {
        let units = self.steps / STEPS_PER_UNIT;
        self.steps %= STEPS_PER_UNIT;
        units
    }

    /// Number of bytes of memory for an incomplete message.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match &self.stage {
            Stage::Start => 0,
            Stage::Frame(_, message) | Stage::Bare(_, message) => message.buffered_bytes(),
        }
    }

    /// True if a part of a message has arrived.
    pub(crate) fn is_mid_message(&self) -> bool {
        match self.stage {
            Stage::Frame(..) | Stage::Bare(..) => true,
            Stage::Start => false,
        }
    }

    /// Receives a message or a part of it. One call uses a bounded number of bytes.
    pub(crate) fn receive<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let bytes = &bytes[..bytes.len().min(PIECE_BYTES)];
        match &mut self.stage {
            Stage::Start => self.start(bytes),
            Stage::Frame(walker, frame) => {
                let (used, message) = frame.complete(bytes);
                let walked = walker.walk(message.as_deref().unwrap_or_else(|| frame.received()));
                self.steps += walker.take_steps();
                let Some(message) = message else { return Received::More(used) };
                let places = walked.map(|_| walker.places());
                self.stage = Stage::Start;
                Received::Message { message, framed: true, places, used }
            }
            Stage::Bare(walker, buffer) => {
                let before = buffer.received().len();
                let used = buffer.push(bytes);
                let walked = walker.walk(buffer.received());
                self.steps += walker.take_steps();
                match walked {
                    Ok(end) => {
                        let mut message = buffer.take();
                        message.truncate(end);
                        let message = Cow::Owned(message);
                        let places = Ok(walker.places());
                        self.stage = Stage::Start;
                        Received::Message { message, framed: false, places, used: end - before }
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
        let within = &rest[..rest.len().min(frame_bytes)];
        let mut walker = Walker::of_message();
        let walked = walker.walk(within);
        self.steps += walker.take_steps();
        if within.len() == frame_bytes {
            let message = Cow::Borrowed(within);
            let places = walked.map(|_| walker.places());
            let used = FRAME_HEAD_BYTES + frame_bytes;
            return Received::Message { message, framed: true, places, used };
        }
        let mut frame = BodyBuffer::new(frame_bytes);
        frame.push(rest);
        self.stage = Stage::Frame(Box::new(walker), frame);
        Received::More(bytes.len())
    }

    fn start_bare<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let within = &bytes[..bytes.len().min(self.bytes_max)];
        let mut walker = Walker::of_message();
        let walked = walker.walk(within);
        self.steps += walker.take_steps();
        match walked {
            Ok(used) => {
                let message = Cow::Borrowed(&bytes[..used]);
                let places = Ok(walker.places());
                Received::Message { message, framed: false, places, used }
            }
            Err(Broken::Incomplete) if within.len() < self.bytes_max => {
                let mut buffer = BodyBuffer::new(self.bytes_max);
                buffer.push(bytes);
                self.stage = Stage::Bare(Box::new(walker), buffer);
                Received::More(bytes.len())
            }
            Err(Broken::Incomplete | Broken::Malformed) => Received::Broken,
        }
    }
}
