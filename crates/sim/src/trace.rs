//! The trace of a run. Each run computes a hash of its trace, so that two runs can be compared. A
//! run prints its trace only on request.

use std::fmt::{self, Write};

/// The trace shows this many bytes of a message. The hash is over all bytes.
const SHOWN_BYTES_MAX: usize = 160;

#[derive(Debug)]
pub(crate) struct Trace {
    is_printed: bool,
    hash: u64,
    line: String,
    pub(crate) now: u64,
}

impl Trace {
    pub(crate) fn new(is_printed: bool) -> Self {
        Self { is_printed, hash: 0xCBF2_9CE4_8422_2325, line: String::new(), now: 0 }
    }

    /// Adds an event to the trace.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.line.clear();
        self.line.write_fmt(what).expect("strings take all");
        if self.is_printed {
            println!("{:>10} {}", self.now, self.line);
        }
        let line = std::mem::take(&mut self.line);
        self.mix(line.as_bytes());
        self.line = line;
    }

    /// Adds to the trace that bytes were sent.
    pub(crate) fn bytes(&mut self, what: fmt::Arguments<'_>, bytes: &[u8]) {
        if self.is_printed {
            let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
            let more = if shown.len() < bytes.len() { "..." } else { "" };
            self.note(format_args!("{what} {} {}{more}", bytes.len(), shown.escape_ascii()));
        } else {
            self.note(format_args!("{what} {}", bytes.len()));
        }
        self.mix(bytes);
    }

    fn mix(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix_word(u64::from_le_bytes(chunk.try_into().expect("chunks of eight")));
        }
        for byte in chunks.remainder() {
            self.mix_word(u64::from(*byte));
        }
    }

    fn mix_word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.hash ^= self.hash >> 29;
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
