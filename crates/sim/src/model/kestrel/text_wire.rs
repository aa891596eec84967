//! Parses the text dialect for the model (spec kestrel 6). This code uses only the spec, and is
//! independent of the dialect.

/// The longest line.
const LINE_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Put {
        queue: String,
        expiry_ms: Option<i32>,
        items: Vec<Vec<u8>>,
    },
    Get {
        queue: String,
        timeout_ms: i32,
    },
    Peek {
        queue: String,
        timeout_ms: i32,
    },
    Monitor {
        queue: String,
        timeout_ms: i32,
    },
    Confirm {
        queue: String,
        count: i32,
    },
    Delete(String),
    Flush(String),
    Version,
    Status(Option<String>),
    Quit,
    /// The server replies with this error.
    Wrong(String),
    /// The server replies with this error, and closes the connection.
    TooLong(&'static str),
}

/// Reads the first request. Returns it with its length, or `None` if it has not arrived completely.
pub(super) fn read(bytes: &[u8], list_bytes_max: u32) -> Option<(Request, usize)> {
    let Some(end) = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        let is_too_long = bytes.len() >= LINE_BYTES_MAX;
        return is_too_long.then_some((Request::TooLong("Line too long."), 0));
    };
    let line = without_cr(&bytes[..end]);
    let Some(line) = line.strip_suffix(b":") else {
        return Some((request(line, Vec::new()), end + 1));
    };
    match list(&bytes[end + 1..], list_bytes_max as usize) {
        Ok((items, len)) => Some((request(line, items), end + 1 + len)),
        Err(NoList::Incomplete) => None,
        Err(NoList::TooLong) => Some((Request::TooLong("Too many bytes in one list."), 0)),
    }
}

enum NoList {
    Incomplete,
    TooLong,
}

/// The lines before an empty line, and the number of bytes up to the end of that empty line.
/// `bytes_max` limits the bytes of the lines with their line feeds.
fn list(mut bytes: &[u8], bytes_max: usize) -> Result<(Vec<Vec<u8>>, usize), NoList> {
    let (mut items, mut len, mut counted) = (Vec::new(), 0, 0);
    loop {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = without_cr(&bytes[..end.unwrap_or(bytes.len())]);
        let is_last = end.is_some() && line.is_empty();
        counted += line.len() + usize::from(end.is_some() && !is_last);
        if counted > bytes_max {
            return Err(NoList::TooLong);
        }
        let end = end.ok_or(NoList::Incomplete)?;
        len += end + 1;
        if is_last {
            return Ok((items, len));
        }
        items.push(line.to_vec());
        bytes = &bytes[end + 1..];
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn request(line: &[u8], items: Vec<Vec<u8>>) -> Request {
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words: Vec<&str> = line.split(' ').collect();
    while words.last().is_some_and(|word| word.is_empty()) {
        words.pop();
    }
    let command = words.first().map_or(String::new(), |word| word.to_ascii_lowercase());
    let arguments = words.get(1..).unwrap_or_default();
    let wanted = match &command[..] {
        "put" | "get" | "peek" | "flush" | "delete" => "Queue name required.",
        "monitor" => "Queue name & timeout required.",
        "confirm" => "Queue name & count required.",
        "version" => return Request::Version,
        "status" => return Request::Status(arguments.first().map(|word| (*word).to_owned())),
        "quit" => return Request::Quit,
        _ => return Request::Wrong(format!("Unknown command: {command}")),
    };
    let (name, number) = match arguments {
        [name, rest @ ..] if !name.is_empty() => ((*name).to_owned(), rest.first()),
        _ => return Request::Wrong(wanted.to_owned()),
    };
    let number = number.map(|word| word.parse::<i32>());
    let wrong = |text: &str| Request::Wrong(text.to_owned());
    match (&command[..], name, number) {
        ("flush", queue, _) => Request::Flush(queue),
        ("delete", queue, _) => Request::Delete(queue),
        ("monitor" | "confirm", _, None) => wrong(wanted),
        ("put", _, Some(Err(_))) => wrong("Error parsing expiration time."),
        ("confirm", _, Some(Err(_))) => wrong("Error parsing count."),
        (_, _, Some(Err(_))) => wrong("Error parsing timeout."),
        ("put", queue, None) => Request::Put { queue, expiry_ms: None, items },
        ("put", queue, Some(Ok(expiry))) => Request::Put { queue, expiry_ms: Some(expiry), items },
        ("confirm", queue, Some(Ok(count))) => Request::Confirm { queue, count },
        ("monitor", queue, Some(Ok(timeout_ms))) => Request::Monitor { queue, timeout_ms },
        ("peek", queue, timeout) => {
            Request::Peek { queue, timeout_ms: timeout.and_then(Result::ok).unwrap_or(0) }
        }
        (_, queue, timeout) => {
            Request::Get { queue, timeout_ms: timeout.and_then(Result::ok).unwrap_or(0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_read_with_its_items() {
        let (request, len) = read(b"PUT q 5:\r\nab\n c\r\n\nrest", 100).expect("it is whole");
        let items = vec![b"ab".to_vec(), b" c".to_vec()];
        assert_eq!(request, Request::Put { queue: "q".into(), expiry_ms: Some(5), items });
        assert_eq!(len, 18);
        assert_eq!(read(b"put q:\nab\n", 100), None);
        let is_too_long = |bytes| matches!(read(bytes, 3), Some((Request::TooLong(_), _)));
        assert!(!is_too_long(b"put q:\nab\n\r\n") && is_too_long(b"put q:\nabc\n"));
        assert_eq!(
            read(b"get q\n", 9),
            Some((Request::Get { queue: "q".into(), timeout_ms: 0 }, 6))
        );
    }
}
