//! Finds the end of a line, splits the line into words, and parses numbers. The memcache and the
//! text dialect have the same rules.

/// Longest line in bytes, including the line feed. The original has no limit. This limit is enough
/// for a `get` with thousands of keys.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;

/// The line at the front of the received bytes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line<'a> {
    /// A whole line. `text` is the line without its end.
    Complete {
        text: &'a [u8],
        /// Length of the line including its end.
        bytes: usize,
    },
    /// The beginning of a line.
    Incomplete,
    /// The beginning of a line that is longer than the limit.
    TooLong,
}

/// Looks for a line at the front of `bytes`. A line feed ends the line. A carriage return right
/// before the line feed is not part of the text.
pub(crate) fn first_line(bytes: &[u8]) -> Line<'_> {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match memchr::memchr(b'\n', window) {
        Some(end) => Line::Complete { text: without_cr(&window[..end]), bytes: end + 1 },
        None if window.len() == LINE_BYTES_MAX => Line::TooLong,
        None => Line::Incomplete,
    }
}

/// Removes the carriage return at the end of a line, if there is one.
pub(crate) fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Splits a line at each space. An empty word counts as a word, except at the end. So after a
/// double space, each word has the next higher index. Spaces at the end are ignored.
pub(crate) fn words(line: &[u8]) -> Vec<&[u8]> {
    let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    while words.last().is_some_and(|word| word.is_empty()) {
        words.pop();
    }
    words
}

/// Parses a signed decimal number of 32 bits.
pub(crate) fn number(word: &[u8]) -> Option<i32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_ends_a_line_and_takes_one_carriage_return_with_it() {
        let line = |bytes| match first_line(bytes) {
            Line::Complete { text, bytes } => Some((text.to_vec(), bytes)),
            Line::Incomplete | Line::TooLong => None,
        };
        assert_eq!(line(b"get q\r\nx"), Some((b"get q".to_vec(), 7)));
        assert_eq!(line(b"get q\nx\n"), Some((b"get q".to_vec(), 6)));
        assert_eq!(line(b"a\r\r\n"), Some((b"a\r".to_vec(), 4)));
        assert_eq!(line(b"\n"), Some((Vec::new(), 1)));
        for incomplete in [&b""[..], b"get", b"get\r"] {
            assert_eq!(first_line(incomplete), Line::Incomplete);
        }
    }

    #[test]
    fn a_line_has_a_longest_length() {
        let mut bytes = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(first_line(&bytes), Line::TooLong);
        assert_eq!(first_line(&bytes[1..]), Line::Incomplete);
        bytes[LINE_BYTES_MAX - 1] = b'\n';
        assert!(matches!(first_line(&bytes), Line::Complete { bytes: LINE_BYTES_MAX, .. }));
    }

    #[test]
    fn only_trailing_empty_words_are_dropped() {
        let shown = |line: &str| {
            let words = words(line.as_bytes());
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown("set k 16 0 5 "), ["set", "k", "16", "0", "5"]);
        assert_eq!(shown("get  q"), ["get", "", "q"]);
        assert_eq!(shown(" get q  "), ["", "get", "q"]);
        assert_eq!(shown("a\tb"), ["a\tb"]);
        assert!(shown("").is_empty() && shown("   ").is_empty());
    }

    #[test]
    fn numbers_are_signed_and_have_32_bits() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"-5"), Some(-5));
        assert_eq!(number(b"+5"), Some(5));
        assert_eq!(number(b"2147483647"), Some(i32::MAX));
        assert_eq!(number(b"-2147483648"), Some(i32::MIN));
        for wrong in ["", "-", "2147483648", "4102444800", "abc", "1x", " 1", "0x1", "1.5"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
