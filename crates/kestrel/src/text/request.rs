//! Parses lines of the text dialect (spec kestrel 6).

use crate::line::{number, words};

/// A parsed request. Its queue names are not checked yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    Put {
        queue: Vec<u8>,
        /// Milliseconds from now.
        expiry_ms: Option<i32>,
    },
    Get {
        queue: Vec<u8>,
        timeout_ms: i32,
    },
    Peek {
        queue: Vec<u8>,
        timeout_ms: i32,
    },
    Monitor {
        queue: Vec<u8>,
        timeout_ms: i32,
    },
    Confirm {
        queue: Vec<u8>,
        count: i32,
    },
    Flush(Vec<u8>),
    Delete(Vec<u8>),
    /// `None` asks for the status; `Some` sets it.
    Status(Option<Vec<u8>>),
    Version,
    Shutdown,
    Quit,
    /// A mistake. This text is the error reply, and the connection stays open.
    Wrong(Vec<u8>),
}

impl Request {
    /// Number of bytes of the name or the text in the request.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Put { queue: text, .. }
            | Self::Get { queue: text, .. }
            | Self::Peek { queue: text, .. }
            | Self::Monitor { queue: text, .. }
            | Self::Confirm { queue: text, .. }
            | Self::Flush(text)
            | Self::Delete(text)
            | Self::Status(Some(text))
            | Self::Wrong(text) => text.len(),
            Self::Status(None) | Self::Version | Self::Shutdown | Self::Quit => 0,
        }
    }
}

const NAME_REQUIRED: &str = "Queue name required.";
const TIMEOUT_REQUIRED: &str = "Queue name & timeout required.";
const COUNT_REQUIRED: &str = "Queue name & count required.";
const WRONG_EXPIRY: &str = "Error parsing expiration time.";
const WRONG_TIMEOUT: &str = "Error parsing timeout.";
/// The reply to a wrong count. In this case, and after a monitor with a wrong timeout, the original
/// closes the connection without a reply.
const WRONG_COUNT: &str = "Error parsing count.";

/// Parses a line without its end, and without the colon that announces items.
pub(crate) fn parse(line: &[u8]) -> Request {
    let words = words(line);
    let (command, arguments) = words.split_first().map_or((&[][..], &[][..]), |(c, a)| (*c, a));
    let command = &command.to_ascii_lowercase()[..];
    let parsed = match command {
        b"put" => put(arguments),
        b"get" => look(arguments, |queue, timeout_ms| Request::Get { queue, timeout_ms }),
        b"peek" => look(arguments, |queue, timeout_ms| Request::Peek { queue, timeout_ms }),
        b"monitor" => two(arguments, TIMEOUT_REQUIRED, WRONG_TIMEOUT)
            .map(|(queue, timeout_ms)| Request::Monitor { queue, timeout_ms }),
        b"confirm" => two(arguments, COUNT_REQUIRED, WRONG_COUNT)
            .map(|(queue, count)| Request::Confirm { queue, count }),
        b"flush" => name(arguments).map(Request::Flush),
        b"delete" => name(arguments).map(Request::Delete),
        b"status" => Ok(Request::Status(arguments.first().map(|word| word.to_vec()))),
        b"version" => Ok(Request::Version),
        b"shutdown" => Ok(Request::Shutdown),
        b"quit" => Ok(Request::Quit),
        _ => return Request::Wrong([b"Unknown command: ", command].concat()),
    };
    parsed.unwrap_or_else(|text| Request::Wrong(text.as_bytes().to_vec()))
}

fn put(arguments: &[&[u8]]) -> Result<Request, &'static str> {
    let queue = name(arguments)?;
    let expiry_ms = optional(arguments, WRONG_EXPIRY)?;
    Ok(Request::Put { queue, expiry_ms })
}

fn look(
    arguments: &[&[u8]],
    request: impl FnOnce(Vec<u8>, i32) -> Request,
) -> Result<Request, &'static str> {
    let queue = name(arguments)?;
    Ok(request(queue, optional(arguments, WRONG_TIMEOUT)?.unwrap_or(0)))
}

fn name(arguments: &[&[u8]]) -> Result<Vec<u8>, &'static str> {
    match arguments {
        [name, ..] if !name.is_empty() => Ok(name.to_vec()),
        _ => Err(NAME_REQUIRED),
    }
}

/// Parses the optional number after the name.
fn optional(arguments: &[&[u8]], wrong: &'static str) -> Result<Option<i32>, &'static str> {
    arguments.get(1).map(|word| number(word).ok_or(wrong)).transpose()
}

fn two(
    arguments: &[&[u8]],
    missing: &'static str,
    wrong: &'static str,
) -> Result<(Vec<u8>, i32), &'static str> {
    match arguments {
        [name, word, ..] if !name.is_empty() => Ok((name.to_vec(), number(word).ok_or(wrong)?)),
        _ => Err(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> String {
        match parse(line.as_bytes()) {
            Request::Wrong(text) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("{line} is {other:?}"),
        }
    }

    #[test]
    fn errors_have_their_exact_texts() {
        for line in ["put", "put ", "get", "peek", "flush", "delete", "get  q"] {
            assert_eq!(wrong(line), "Queue name required.", "{line}");
        }
        assert_eq!(wrong("monitor"), "Queue name & timeout required.");
        assert_eq!(wrong("monitor q"), "Queue name & timeout required.");
        assert_eq!(wrong("confirm q"), "Queue name & count required.");
        assert_eq!(wrong("put q soon"), "Error parsing expiration time.");
        assert_eq!(wrong("get q soon"), "Error parsing timeout.");
        assert_eq!(wrong("peek q 2147483648"), "Error parsing timeout.");
        assert_eq!(wrong("monitor q x"), "Error parsing timeout.");
        assert_eq!(wrong("confirm q x"), "Error parsing count.");
        assert_eq!(wrong("Frobnicate a b"), "Unknown command: frobnicate");
        assert_eq!(wrong(""), "Unknown command: ");
        assert_eq!(wrong("flush_all"), "Unknown command: flush_all");
    }

    #[test]
    fn requests_are_read() {
        let queue = || b"q".to_vec();
        assert_eq!(parse(b"PUT q"), Request::Put { queue: queue(), expiry_ms: None });
        assert_eq!(parse(b"put q 0"), Request::Put { queue: queue(), expiry_ms: Some(0) });
        assert_eq!(parse(b"get q"), Request::Get { queue: queue(), timeout_ms: 0 });
        assert_eq!(parse(b"peek q 5 x"), Request::Peek { queue: queue(), timeout_ms: 5 });
        assert_eq!(parse(b"monitor q -5"), Request::Monitor { queue: queue(), timeout_ms: -5 });
        assert_eq!(parse(b"confirm q 2"), Request::Confirm { queue: queue(), count: 2 });
        assert_eq!(parse(b"status "), Request::Status(None));
        assert_eq!(parse(b"status up"), Request::Status(Some(b"up".to_vec())));
    }
}
