//! Splits a stream of text replies into lines, and skips their bodies. The stream can be split at
//! any byte.

use memchr::memchr;

/// Limit of a reply line. All lines of the supported protocols are much shorter.
const LINE_BYTES_MAX: usize = 8192;

/// The state of parsing one connection's stream of replies.
#[derive(Debug, Default)]
pub(crate) struct LineScanner {
    /// The beginning of a line that has not arrived completely.
    partial: Vec<u8>,
    /// The number of body bytes that have not arrived.
    skip: usize,
}

impl LineScanner {
    /// Calls `on_line` for each complete line, without its CR LF. `on_line` returns the number of
    /// body bytes that follow the line.
    pub(crate) fn scan(
        &mut self,
        mut input: &[u8],
        mut on_line: impl FnMut(&[u8]) -> usize,
    ) -> anyhow::Result<()> {
        while !input.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(input.len());
                self.skip -= skipped;
                input = &input[skipped..];
                continue;
            }
            let Some(end) = memchr(b'\n', input) else {
                self.partial.extend_from_slice(input);
                anyhow::ensure!(
                    self.partial.len() <= LINE_BYTES_MAX,
                    "the server sent a line without end"
                );
                return Ok(());
            };
            let line = &input[..end];
            if self.partial.is_empty() {
                self.skip = on_line(without_cr(line));
            } else {
                self.partial.extend_from_slice(line);
                self.skip = on_line(without_cr(&self.partial));
                self.partial.clear();
            }
            input = &input[end + 1..];
        }
        Ok(())
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The number at the end of a reply line, such as 100 in `RESERVED 17 100`.
pub(crate) fn last_number(line: &[u8]) -> Option<usize> {
    let start = memchr::memrchr(b' ', line)? + 1;
    number(&line[start..])
}

/// Parses a decimal number.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_usize, |value, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(usize::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut scanner = LineScanner::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            scanner
                .scan(chunk, |line| {
                    lines.push(String::from_utf8_lossy(line).into_owned());
                    if line.starts_with(b"RESERVED") {
                        last_number(line).unwrap_or(0) + 2
                    } else {
                        0
                    }
                })
                .expect("lines are short");
        }
        lines
    }

    #[test]
    fn every_split_of_the_input_gives_the_same_lines() {
        let input =
            b"INSERTED 1\r\nRESERVED 7 5\r\na\r\nb\n\r\nDELETED\r\nRESERVED 8 0\r\n\r\nDELETED\r\n";
        let expected = ["INSERTED 1", "RESERVED 7 5", "DELETED", "RESERVED 8 0", "DELETED"];
        assert_eq!(lines(&[input]), expected);
        for first in 0..input.len() {
            for second in first..input.len() {
                let chunks = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(lines(&chunks), expected, "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        let mut scanner = LineScanner::default();
        assert!(scanner.scan(&[b'x'; LINE_BYTES_MAX], |_| 0).is_ok());
        assert!(scanner.scan(b"x", |_| 0).is_err());
    }

    #[test]
    fn numbers_are_whole_and_decimal() {
        assert_eq!(last_number(b"RESERVED 7 100"), Some(100));
        assert_eq!(last_number(b"DELETED"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b"99999999999999999999999"), None);
    }
}
