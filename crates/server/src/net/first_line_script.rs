//! Checks the verdict for any first bytes of a connection. The verdict must not depend on how the
//! bytes are split, or on the bytes after the first line. The verdict of an HTTP request must be
//! `WrongProtocol`. The tests and the fuzz target use this file.

use super::first_line::{FirstLine, Verdict};

/// The verdict if the bytes arrive in pieces of this length.
pub(crate) fn verdict(bytes: &[u8], piece: usize) -> Verdict {
    let mut line = FirstLine::default();
    let mut verdicts = bytes.chunks(piece).map(|piece| line.scan(piece));
    verdicts.find(|verdict| *verdict != Verdict::Open).unwrap_or(Verdict::Open)
}

pub(crate) fn check(bytes: &[u8]) {
    let whole = verdict(bytes, bytes.len().max(1));
    for piece in [1, 2, 3, 7] {
        assert_eq!(verdict(bytes, piece), whole, "by {piece}");
    }
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    assert_ne!(whole, Verdict::Open);
    assert_eq!(verdict(&bytes[..=end], end + 1), whole, "what follows the line has a say");
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, _, .., version] = &words[..] else { return };
    let is_method = !method.is_empty() && method.iter().all(u8::is_ascii_alphabetic);
    let is_version = version.len() == 8
        && version.starts_with(b"HTTP/")
        && version[5].is_ascii_digit()
        && version[6] == b'.'
        && version[7].is_ascii_digit();
    if is_method && is_version {
        assert_eq!(whole, Verdict::WrongProtocol);
    }
}
