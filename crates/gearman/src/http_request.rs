//! Parses an HTTP request: its first line, and the headers that the server uses (spec gearman 7).

use httparse::Status;
use origin::{Claims, Gate};

use crate::clients::{HIGH, LOW, NORMAL};

/// Length of the longest head in bytes: first line, headers, and the empty line after them. The
/// limit of a packet's arguments is the same, so the name of a function is never longer than in a
/// packet.
pub(crate) const HEAD_BYTES_MAX: usize = 8192;

/// Limit of the number of headers.
const HEADERS_MAX: usize = 64;

/// The HTTP method. PUT means the same as POST. GET means the same as POST without a workload.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    /// The workload comes after the head.
    Post,
    /// There is no workload.
    Get,
    /// There is no workload, and the response does not show the outcome.
    Head,
}

/// The head of a request.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path without the slashes at its front. It is not decoded. It is empty if the request
    /// names no function.
    pub(crate) function: Vec<u8>,
    pub(crate) unique: Vec<u8>,
    pub(crate) priority: Option<u32>,
    pub(crate) background: bool,
    /// Length of the workload. If the number in the request is too large for this type, it becomes
    /// `u64::MAX`.
    pub(crate) body_bytes: u64,
    /// Whether the client waits for permission to send the workload (`100 Continue`).
    pub(crate) asks_leave: bool,
    /// Whether the request has a workload of unknown length.
    pub(crate) has_no_length: bool,
}

/// Why the server refuses a head.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// The head is not HTTP/1, or it is ambiguous, so that a proxy could understand it differently.
    Malformed,
    /// The head has too many headers.
    TooManyHeaders,
    /// The original does not know the method, or the method is TRACE, to which the original never
    /// replies.
    UnknownMethod,
    /// A page of another site may have caused the request.
    Rejected,
}

impl Refusal {
    /// The status of the response.
    pub(crate) fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::TooManyHeaders => "431 Request Header Fields Too Large",
            Self::UnknownMethod => "501 Not Implemented",
            Self::Rejected => "403 Forbidden",
        }
    }
}

/// The index of the first byte after the head and its empty line. `None` if the head is not
/// complete.
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
    /// Parses a complete head with its empty line. Also checks whether a page of another site may
    /// have caused the request.
    pub(crate) fn parse(head: &[u8], gate: &Gate) -> Result<Self, Refusal> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(head) {
            Ok(Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooManyHeaders),
            Ok(Status::Partial) | Err(_) => return Err(Refusal::Malformed),
        }
        let (Some(method), Some(path), Some(version)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Refusal::Malformed);
        };
        let method = match method {
            "POST" | "PUT" => Method::Post,
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => return Err(Refusal::UnknownMethod),
        };
        let claims = Claims::of(parsed.headers.iter().map(|header| (header.name, header.value)));
        let is_get = matches!(method, Method::Get | Method::Head);
        gate.may_submit(&claims, is_get).map_err(|_| Refusal::Rejected)?;
        let mut request = Self {
            method,
            function: path.trim_start_matches('/').into(),
            // By default, the workload is the key, as in the original.
            unique: b"-".to_vec(),
            priority: NORMAL,
            background: false,
            body_bytes: 0,
            asks_leave: false,
            has_no_length: false,
        };
        let mut once = SingleHeaders::default();
        for header in &*parsed.headers {
            request.take_header(header, version == 1, &mut once)?;
        }
        if once.length.is_some() && once.has_encoding {
            return Err(Refusal::Malformed);
        }
        if request.method == Method::Post {
            request.body_bytes = once.length.unwrap_or(0);
            request.has_no_length = once.has_encoding;
        }
        Ok(request)
    }

    /// Number of bytes of the function's name and the key.
    pub(crate) fn names_bytes(&self) -> usize {
        self.function.len() + self.unique.len()
    }

    fn take_header(
        &mut self,
        header: &httparse::Header<'_>,
        is_newer: bool,
        once: &mut SingleHeaders,
    ) -> Result<(), Refusal> {
        let value = header.value.trim_ascii();
        let is = |wanted: &str| header.name.eq_ignore_ascii_case(wanted);
        if is("content-length") {
            // Refuse a second length. A proxy could use one length and this server the other.
            let length = content_length(value).filter(|_| once.length.is_none());
            once.length = Some(length.ok_or(Refusal::Malformed)?);
        } else if is("host") {
            if std::mem::replace(&mut once.has_host, true) {
                return Err(Refusal::Malformed);
            }
        } else if is("transfer-encoding") {
            once.has_encoding = true;
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
        Ok(())
    }
}

/// Headers that can occur only once, or that exclude each other.
#[derive(Debug, Default)]
struct SingleHeaders {
    length: Option<u64>,
    has_encoding: bool,
    has_host: bool,
}

fn content_length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit) && !value.is_empty();
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use origin::Reach;

    use super::*;

    fn parse(head: &str) -> Result<Request, Refusal> {
        let gate = Gate { names: Arc::default(), reach: Reach::Loopback };
        Request::parse(head.as_bytes(), &gate)
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
    fn a_malformed_head_is_no_request() {
        for head in [
            "",
            "GET",
            "GET /f",
            "GET /f\r\n\r\n",
            "GET /f HTTP/2\r\n\r\n",
            "GET /f HTTP/1.1 x\r\n\r\n",
            "GET  /f HTTP/1.1\r\n\r\n",
            "GET /f\0g HTTP/1.1\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: 1x\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length : 5\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 6\r\n\r\n",
            "POST /f HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /f HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "POST /f HTTP/1.1\r\nX-Folded: a\r\n Content-Length: 5\r\n\r\n",
            "POST /f HTTP/1.1\r\nX-Gearman-Unique: a\0b\r\n\r\n",
            "POST /f HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
            "POST /f HTTP/1.1\r\nno header\r\n\r\n",
        ] {
            assert_eq!(parse(head), Err(Refusal::Malformed), "{head:?}");
        }
        for head in
            ["get /f HTTP/1.1\r\n\r\n", "TRACE /f HTTP/1.1\r\n\r\n", "DELETE /f HTTP/1.1\r\n\r\n"]
        {
            assert_eq!(parse(head), Err(Refusal::UnknownMethod), "{head:?}");
        }
        let many = format!("GET /f HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(parse(&many), Err(Refusal::TooManyHeaders));
        let foreign =
            "POST /f HTTP/1.1\r\nHost: 127.0.0.1:80\r\nOrigin: http://evil.example\r\n\r\n";
        assert_eq!(parse(foreign), Err(Refusal::Rejected));
    }

    #[test]
    fn headers_are_read_whatever_their_case() {
        let request = parse(
            "PUT //a/b?c=%20 HTTP/1.1\r\ncontent-LENGTH: 12\r\nx-gearman-unique: A key\r\n\
             X-GEARMAN-BACKGROUND: True\r\nX-Gearman-Priority: HIGH\r\nExpect: 100-Continue\r\n\
             Host: localhost:1\r\n\r\n",
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
        assert_eq!(request, Ok(wanted));
        let request = parse("GET /f HTTP/1.0\nContent-Length: 12\nX-Gearman-Priority:low\n\n");
        let request = request.unwrap();
        assert_eq!((request.method, request.body_bytes), (Method::Get, 0));
        assert_eq!((request.priority, &request.unique[..]), (LOW, &b"-"[..]));
        assert!(!request.background && !request.asks_leave);
        let endless = parse("POST /f HTTP/1.0\nContent-Length: 99999999999999999999\n\n").unwrap();
        assert_eq!(endless.body_bytes, u64::MAX);
    }
}
