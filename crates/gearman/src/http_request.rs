//! What an HTTP request asks for: its first line and those headers that mean something here (spec
//! gearman 7).

use crate::clients::{HIGH, LOW, NORMAL};

/// Longest head: first line, headers and the empty line behind them. So a function is never longer
/// than one that a packet can name.
pub(crate) const HEAD_BYTES_MAX: usize = 8192;

/// How the client asks. PUT is POST, and GET a POST without a workload.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    /// The workload comes behind the head.
    Post,
    /// There is none.
    Get,
    /// There is none, and the outcome is not shown.
    Head,
}

/// The head of a request.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path without its leading slashes, taken literally. Empty: no function is named.
    pub(crate) function: Vec<u8>,
    pub(crate) unique: Vec<u8>,
    pub(crate) priority: u32,
    pub(crate) background: bool,
    /// Length of the workload; too large a number is as good as any other that is too large.
    pub(crate) body_bytes: u64,
    /// The client waits for leave to send the workload.
    pub(crate) asks_leave: bool,
    /// The workload comes without its length.
    pub(crate) has_no_length: bool,
}

/// Where the head ends, the empty line included. `None`: not within these bytes.
pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', window) {
        if matches!(&window[start..end], b"" | b"\r") {
            return Some(end + 1);
        }
        start = end + 1;
    }
    None
}

impl Request {
    /// Reads a head. `None`: it is none, or none that is understood.
    pub(crate) fn parse(head: &[u8]) -> Option<Self> {
        // In the packets that workers get, a NUL would end the name or the key.
        if head.contains(&0) {
            return None;
        }
        let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let mut words = lines.next()?.splitn(3, |byte| *byte == b' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        let method = match method {
            b"POST" | b"PUT" => Method::Post,
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            // The original knows TRACE and never answers it.
            _ => return None,
        };
        let is_newer = match version {
            b"HTTP/1.0" => false,
            b"HTTP/1.1" => true,
            _ => return None,
        };
        let slashes = path.iter().take_while(|byte| **byte == b'/').count();
        let mut request = Self {
            method,
            function: path[slashes..].to_vec(),
            // As in the original, the workload is the key unless another one is given.
            unique: b"-".to_vec(),
            priority: NORMAL,
            background: false,
            body_bytes: 0,
            asks_leave: false,
            has_no_length: false,
        };
        for line in lines {
            request.take_header(line, is_newer)?;
        }
        Some(request)
    }

    /// `None`: the header is one of those that mean something, and cannot be read.
    fn take_header(&mut self, line: &[u8], is_newer: bool) -> Option<()> {
        let Some(colon) = memchr::memchr(b':', line) else { return Some(()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        if is("content-length") {
            let bytes = content_length(value)?;
            if self.method == Method::Post {
                self.body_bytes = bytes;
            }
        } else if is("transfer-encoding") {
            self.has_no_length = self.method == Method::Post;
        } else if is("expect") {
            self.asks_leave = is_newer && value.eq_ignore_ascii_case(b"100-continue");
        } else if is("x-gearman-unique") {
            self.unique = value.to_vec();
        } else if is("x-gearman-background") {
            self.background = value.eq_ignore_ascii_case(b"true");
        } else if is("x-gearman-priority") {
            self.priority = match () {
                () if value.eq_ignore_ascii_case(b"high") => HIGH,
                () if value.eq_ignore_ascii_case(b"low") => LOW,
                () => NORMAL,
            };
        }
        Some(())
    }
}

fn content_length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit) && !value.is_empty();
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Option<Request> {
        Request::parse(head.as_bytes())
    }

    #[test]
    fn a_head_ends_at_its_first_empty_line() {
        for (bytes, wanted) in [
            ("GET / HTTP/1.0\r\n\r\nbody\r\n\r\n", Some(18)),
            ("GET / HTTP/1.0\n\nbody", Some(16)),
            ("GET / HTTP/1.0\na: b\r\n\n", Some(22)),
            ("GET / HTTP/1.0\r\n\r", None),
            ("GET / HTTP/1.0\r\n \r\n", None),
            ("", None),
            ("\r\n", Some(2)),
        ] {
            assert_eq!(head_end(bytes.as_bytes()), wanted, "{bytes:?}");
        }
        let fitting = |len: usize| [&vec![b'x'; len - 2][..], b"\n\n"].concat();
        assert_eq!(head_end(&fitting(HEAD_BYTES_MAX)), Some(HEAD_BYTES_MAX));
        assert_eq!(head_end(&fitting(HEAD_BYTES_MAX + 1)), None);
    }

    #[test]
    fn what_is_not_understood_is_no_request() {
        for head in [
            "",
            "GET",
            "GET /f",
            "GET /f\r\n",
            "GET /f HTTP/2",
            "GET /f HTTP/1.1 x",
            "GET  /f HTTP/1.1",
            "get /f HTTP/1.1",
            "TRACE /f HTTP/1.1",
            "DELETE /f HTTP/1.1",
            "GET /f\0g HTTP/1.1",
            "POST /f HTTP/1.1\r\nContent-Length: -1",
            "POST /f HTTP/1.1\r\nContent-Length: 1x",
            "POST /f HTTP/1.1\r\nContent-Length:",
            "POST /f HTTP/1.1\r\nX-Gearman-Unique: a\0b",
        ] {
            assert_eq!(parse(head), None, "{head:?}");
        }
    }

    #[test]
    fn headers_are_read_whatever_their_case() {
        let request = parse(
            "PUT //a/b?c=%20 HTTP/1.1\r\ncontent-LENGTH: 12\r\nx-gearman-unique: A key\r\n\
             X-GEARMAN-BACKGROUND: True\r\nX-Gearman-Priority: HIGH\r\nExpect: 100-Continue\r\n\
             no header\r\nHost: x:1\r\n\r\n",
        );
        let wanted = Request {
            method: Method::Post,
            function: b"a/b?c=%20".to_vec(),
            unique: b"A key".to_vec(),
            priority: HIGH,
            background: true,
            body_bytes: 12,
            asks_leave: true,
            has_no_length: false,
        };
        assert_eq!(request, Some(wanted));
        let request = parse("GET /f HTTP/1.0\nContent-Length: 12\nX-Gearman-Priority:low\n\n");
        let request = request.unwrap();
        assert_eq!((request.method, request.body_bytes), (Method::Get, 0));
        assert_eq!((request.priority, &request.unique[..]), (LOW, &b"-"[..]));
        assert!(!request.background && !request.asks_leave);
        let endless = parse("POST /f HTTP/1.0\nContent-Length: 99999999999999999999\n").unwrap();
        assert_eq!(endless.body_bytes, u64::MAX);
    }
}
