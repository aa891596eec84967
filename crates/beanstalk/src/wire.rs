//! Framing: finds the end of a command line, and skips a line that is too long.

use memchr::{memchr, memmem};

/// Length of the longest command line in bytes, with CR LF. The longest command is `pause-tube`
/// with a name of 200 bytes and a pause of ten digits.
pub(crate) const LINE_BYTES_MAX: usize = 224;

/// The line at the front of the received bytes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line<'a> {
    /// A complete line. The text has no CR LF.
    Complete(&'a [u8]),
    /// The beginning of a line.
    Incomplete,
    /// The beginning of a line that is longer than any command.
    TooLong,
}

/// Looks for a line at the front of `bytes`. Only CR LF ends a line. A CR or an LF alone is an
/// ordinary byte.
pub(crate) fn first_line(bytes: &[u8]) -> Line<'_> {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let mut searched = 0;
    while let Some(found) = memchr(b'\n', &window[searched..]) {
        let line_feed = searched + found;
        if line_feed > 0 && window[line_feed - 1] == b'\r' {
            return Line::Complete(&window[..line_feed - 1]);
        }
        searched = line_feed + 1;
    }
    if window.len() == LINE_BYTES_MAX { Line::TooLong } else { Line::Incomplete }
}

/// The number of bytes that belong to a line that is too long.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Excess {
    /// The line ends after this many bytes, including CR LF.
    Ends(usize),
    /// The line continues after this many bytes. If the last byte is a CR, the number does not
    /// include it, because an LF may follow. Then the caller must pass the CR again.
    GoesOn(usize),
}

/// Counts the bytes that the caller must skip, because they belong to a line that is too long.
pub(crate) fn excess(bytes: &[u8]) -> Excess {
    match memmem::find(bytes, b"\r\n") {
        Some(carriage_return) => Excess::Ends(carriage_return + 2),
        None => Excess::GoesOn(bytes.len() - usize::from(bytes.ends_with(b"\r"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cr_lf_ends_a_line() {
        assert_eq!(first_line(b"stats\r\nquit\r\n"), Line::Complete(b"stats"));
        assert_eq!(first_line(b"\r\n"), Line::Complete(b""));
        assert_eq!(first_line(b"a\nb\rc\r\r\n"), Line::Complete(b"a\nb\rc\r"));
        assert_eq!(first_line(b"\n\r\n"), Line::Complete(b"\n"));
        for incomplete in [&b""[..], b"\n", b"\r", b"stats\n", b"stats\r", b"\n\r"] {
            assert_eq!(first_line(incomplete), Line::Incomplete, "{incomplete:?}");
        }
    }

    #[test]
    fn a_line_of_224_bytes_is_the_longest() {
        for text_len in 0..500 {
            let text = vec![b'x'; text_len];
            let line = [&text[..], b"\r\nstats\r\n"].concat();
            let wanted = if text_len <= 222 { Line::Complete(&text[..]) } else { Line::TooLong };
            assert_eq!(first_line(&line), wanted, "{text_len}");
        }
    }

    #[test]
    fn a_line_is_too_long_as_soon_as_its_224th_byte_is_no_line_feed() {
        assert_eq!(first_line(&[b'x'; 223]), Line::Incomplete);
        assert_eq!(first_line(&[b'x'; 224]), Line::TooLong);
        let mut cr_last = [b'x'; 224];
        cr_last[223] = b'\r';
        assert_eq!(first_line(&cr_last), Line::TooLong);
        assert_eq!(first_line(&cr_last[1..]), Line::Incomplete);
    }

    #[test]
    fn excess_keeps_a_cr_that_may_be_half_of_the_end() {
        assert_eq!(excess(b"xxx\r\nstats"), Excess::Ends(5));
        assert_eq!(excess(b"xxx\r"), Excess::GoesOn(3));
        assert_eq!(excess(b"\r"), Excess::GoesOn(0));
        assert_eq!(excess(b"\r\n"), Excess::Ends(2));
        assert_eq!(excess(b"x\r\rx\n"), Excess::GoesOn(5));
        assert_eq!(excess(b""), Excess::GoesOn(0));
    }
}
