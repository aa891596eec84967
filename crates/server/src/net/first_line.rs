//! Protects the line protocols from web pages. A web page can make a browser send an HTTP request
//! to any port, and the page chooses the body. A line protocol would answer each header with an
//! error, and then execute the body line by line. So the server closes a connection if its first
//! line is an HTTP request. This applies to every port that does not speak HTTP.
//!
//! The check delays no client, because it scans the bytes as they arrive. So the dialect can get a
//! part of the first line before the verdict. But the dialect executes nothing before the end of
//! the line.

/// Length of the end of an HTTP request line: a space, the version, and the carriage return.
const TAIL_BYTES: usize = b" HTTP/1.1\r".len();

/// The first two bytes of a TLS client are the type and the major version of a handshake record. A
/// TLS client at a plain port is dangerous, too. The handshake can contain a session ticket from a
/// server that the web page chose, and the ticket can contain lines with commands.
const TLS_HANDSHAKE: u8 = 22;
const TLS_VERSION: u8 = 3;

/// The state of the check of a connection's first line.
#[derive(Debug, Default)]
pub(crate) struct FirstLine {
    /// The last bytes of the line. The newest byte is at the end.
    tail: [u8; TAIL_BYTES],
    seen_bytes: u64,
    space_count: u64,
}

/// What the first line says about the client.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The line is not complete, so the client may speak HTTP.
    Open,
    /// The client does not speak HTTP.
    Other,
    /// The client speaks HTTP, or TLS on a plain port.
    WrongProtocol,
}

impl FirstLine {
    /// Scans the next bytes.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Verdict {
        let line_end = memchr::memchr(b'\n', bytes);
        let line = &bytes[..line_end.unwrap_or(bytes.len())];
        if self.seen_bytes < 2 {
            let before = self.tail[TAIL_BYTES - 1..].iter().take(self.seen_bytes as usize);
            let mut first = before.chain(line);
            match (first.next(), first.next()) {
                (Some(&TLS_HANDSHAKE), None) => {}
                (Some(&TLS_HANDSHAKE), Some(&TLS_VERSION)) => return Verdict::WrongProtocol,
                // An HTTP method begins with a letter. Binary protocols begin with another byte, so
                // they end the check here.
                (Some(first), _) if !first.is_ascii_alphabetic() => return Verdict::Other,
                _ => {}
            }
        }
        self.note(line);
        match line_end {
            None => Verdict::Open,
            Some(_) if self.names_http() => Verdict::WrongProtocol,
            Some(_) => Verdict::Other,
        }
    }

    fn note(&mut self, line: &[u8]) {
        self.seen_bytes += line.len() as u64;
        self.space_count += memchr::memchr_iter(b' ', line).count() as u64;
        let newest = &line[line.len().saturating_sub(TAIL_BYTES)..];
        self.tail.rotate_left(newest.len());
        self.tail[TAIL_BYTES - newest.len()..].copy_from_slice(newest);
    }

    /// Whether the complete line looks like `GET / HTTP/1.1`. The first line of HTTP/2 is `PRI *
    /// HTTP/2.0`.
    fn names_http(&self) -> bool {
        let line = self.tail.strip_suffix(b"\r").unwrap_or(&self.tail);
        let [.., major, b'.', minor] = line else { return false };
        self.space_count >= 2
            && major.is_ascii_digit()
            && minor.is_ascii_digit()
            && line[..line.len() - 3].ends_with(b" HTTP/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::first_line_script::{check, verdict};

    fn assert_verdict(bytes: &[u8], wanted: Verdict) {
        for piece in [1, 2, 3, 7, 4096] {
            let found = verdict(bytes, piece);
            assert_eq!(found, wanted, "{} by {piece}", String::from_utf8_lossy(bytes));
        }
        check(bytes);
    }

    #[test]
    fn the_requests_of_browsers_are_foreign_however_they_are_cut() {
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(100_000));
        for line in [
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "POST /%0Aput HTTP/1.1\r\n\r\nput 0 0 60 5\r\nhello\r\n",
            "OPTIONS * HTTP/1.0\r\n",
            "GET / HTTP/1.1\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\x16\x03\x01\x02\0\x01\0\x01",
            &long,
        ] {
            assert_verdict(line.as_bytes(), Verdict::WrongProtocol);
        }
    }

    #[test]
    fn commands_of_line_protocols_are_not_taken_for_browsers() {
        for line in [
            "put 0 0 60 5\r\nGET / HTTP/1.1\r\n",
            "GET queue/t=500\r\n",
            "GET HTTP/1.1\r\n",
            "use HTTP/1.1\r\n",
            "put HTTP/1.1:\n",
            "get jobs HTTP/1.\n",
            "\r\nGET / HTTP/1.1\r\n",
            "\n",
            " HTTP/1.1\r\n",
            "\0REQ\0\0\0\x07\0\0\0\0",
            "\0\0\0\x16\x03",
            "\u{80}\x01\0\x01",
            "\x16\x02",
        ] {
            assert_verdict(line.as_bytes(), Verdict::Other);
        }
    }

    #[test]
    fn a_line_without_an_end_is_open() {
        for line in ["", "p", "GET / HTTP/1.1\r", "\x16", "quit"] {
            assert_verdict(line.as_bytes(), Verdict::Open);
        }
    }

    #[test]
    fn the_fuzz_corpus_gets_the_same_verdict_in_any_pieces() {
        for file in testkit::fuzz_corpus("http_requests", 5) {
            check(&file);
        }
    }
}
