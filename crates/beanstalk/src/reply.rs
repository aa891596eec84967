//! Replies: constants, and replies with numbers, which are built on the stack.

use broker::{Handout, Outbox, Position};

/// The position of a reply that does not wait for the log.
pub(crate) const AT_ONCE: Position = Position::NONE;

/// Replies that never change.
pub(crate) const BAD_FORMAT: &[u8] = b"BAD_FORMAT\r\n";
pub(crate) const BURIED: &[u8] = b"BURIED\r\n";
pub(crate) const DEADLINE_SOON: &[u8] = b"DEADLINE_SOON\r\n";
pub(crate) const DELETED: &[u8] = b"DELETED\r\n";
pub(crate) const DRAINING: &[u8] = b"DRAINING\r\n";
pub(crate) const EXPECTED_CRLF: &[u8] = b"EXPECTED_CRLF\r\n";
pub(crate) const INTERNAL_ERROR: &[u8] = b"INTERNAL_ERROR\r\n";
pub(crate) const JOB_TOO_BIG: &[u8] = b"JOB_TOO_BIG\r\n";
pub(crate) const KICKED: &[u8] = b"KICKED\r\n";
pub(crate) const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
pub(crate) const NOT_IGNORED: &[u8] = b"NOT_IGNORED\r\n";
pub(crate) const OUT_OF_MEMORY: &[u8] = b"OUT_OF_MEMORY\r\n";
pub(crate) const PAUSED: &[u8] = b"PAUSED\r\n";
pub(crate) const RELEASED: &[u8] = b"RELEASED\r\n";
pub(crate) const TIMED_OUT: &[u8] = b"TIMED_OUT\r\n";
pub(crate) const TOUCHED: &[u8] = b"TOUCHED\r\n";
pub(crate) const UNKNOWN_COMMAND: &[u8] = b"UNKNOWN_COMMAND\r\n";

/// The end of a line, and of a body.
pub(crate) const CR_LF: &[u8] = b"\r\n";

/// Number of digits of the largest number.
const DIGITS_MAX: usize = 20;

/// The decimal digits of a number.
pub(crate) struct Digits {
    bytes: [u8; DIGITS_MAX],
    start: usize,
}

impl Digits {
    pub(crate) fn of(mut value: u64) -> Self {
        let mut digits = Self { bytes: [b'0'; DIGITS_MAX], start: DIGITS_MAX };
        loop {
            digits.start -= 1;
            digits.bytes[digits.start] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return digits;
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Length of the longest line of [`Numbers`]: a word, two numbers with a space before each, and CR
/// LF.
const NUMBERS_BYTES_MAX: usize = 10 + 2 * (1 + DIGITS_MAX) + 2;

/// A line with a word and one or two numbers.
///
/// Nearly every command needs such a line. So this type does not use the standard library's
/// formatting, which would cost more than parsing the command.
pub(crate) struct Numbers {
    bytes: [u8; NUMBERS_BYTES_MAX],
    len: usize,
}

impl Numbers {
    pub(crate) fn one(word: &[u8], number: u64) -> Self {
        let mut line = Self { bytes: [0; NUMBERS_BYTES_MAX], len: 0 };
        line.append(word);
        line.append_number(number);
        line.append(CR_LF);
        line
    }

    pub(crate) fn two(word: &[u8], first: u64, second: u64) -> Self {
        let mut line = Self { bytes: [0; NUMBERS_BYTES_MAX], len: 0 };
        line.append(word);
        line.append_number(first);
        line.append_number(second);
        line.append(CR_LF);
        line
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn append_number(&mut self, number: u64) {
        self.append(b" ");
        self.append(Digits::of(number).bytes());
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Replies `RESERVED`, because the session got a job.
pub(crate) fn reserved(handout: &Handout, after: Position, outbox: &mut Outbox) {
    let head = Numbers::two(b"RESERVED", handout.id.0, handout.body.len() as u64);
    outbox.reply_with_body(after, head.bytes(), &handout.body, CR_LF);
}

/// Replies `KICKED` with the number of jobs.
pub(crate) fn kicked(count: u64, after: Position, outbox: &mut Outbox) {
    outbox.reply(after, Numbers::one(b"KICKED", count).bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for shift in 0..64 {
            for value in [u64::MAX >> shift, 1 << shift, 10_u64.wrapping_pow(shift)] {
                assert_eq!(Digits::of(value).bytes(), value.to_string().as_bytes());
            }
        }
        assert_eq!(Digits::of(0).bytes(), b"0");
    }

    #[test]
    fn the_longest_lines_fit() {
        let largest = u64::MAX;
        let reserved = Numbers::two(b"RESERVED", largest, largest);
        assert_eq!(reserved.bytes(), format!("RESERVED {largest} {largest}\r\n").as_bytes());
        assert_eq!(Numbers::one(b"WATCHING", 1).bytes(), b"WATCHING 1\r\n");
    }
}
