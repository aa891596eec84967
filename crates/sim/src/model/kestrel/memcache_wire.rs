//! Parses the memcache dialect for the model (spec kestrel 1.1 to 1.4). This code uses only the
//! spec, and is independent of the dialect.

/// The longest line.
const LINE_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Set {
        queue: String,
        expiry: i32,
        body: Vec<u8>,
    },
    Get(Get),
    Monitor {
        queue: String,
        seconds: i32,
        max: Option<i32>,
    },
    Confirm {
        queue: String,
        count: i32,
    },
    Delete(String),
    Flush(String),
    FlushAll,
    FlushExpired(String),
    FlushAllExpired,
    Version,
    Status(Option<String>),
    Quit,
    /// The server answers with an error. `ends` is true if the connection then closes.
    Wrong {
        ends: bool,
    },
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Get {
    pub(super) queue: String,
    pub(super) timeout_ms: i32,
    pub(super) open: bool,
    pub(super) close: bool,
    pub(super) abort: bool,
    pub(super) peek: bool,
}

/// Reads the first request. Returns it with its length, or `None` if it has not arrived completely.
pub(super) fn read(bytes: &[u8], item_bytes_max: u32) -> Option<(Request, usize)> {
    let fatal = Request::Wrong { ends: true };
    let Some(end) = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return (bytes.len() >= LINE_BYTES_MAX).then_some((fatal, 0));
    };
    if bytes[0] == 0x80 {
        return Some((fatal, 0));
    }
    let line = &bytes[..end];
    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
    let mut words: Vec<&str> = line.split(' ').collect();
    while words.last().is_some_and(|word| word.is_empty()) {
        words.pop();
    }
    let Some(command) = words.first().map(|word| word.to_ascii_lowercase()) else {
        return Some((fatal, end + 1));
    };
    if command != "set" {
        return Some((plain(&command, &words[1..]).unwrap_or(fatal), end + 1));
    }
    let [_, queue, flags, expiry, length, ..] = words[..] else { return Some((fatal, end + 1)) };
    let length = length.parse::<i32>().ok().and_then(|length| u32::try_from(length).ok());
    let Some(length) = length.filter(|length| *length <= item_bytes_max) else {
        return Some((fatal, end + 1));
    };
    let whole = end + 1 + length as usize + 2;
    let data = bytes.get(end + 1..whole)?;
    let request = match (flags.parse::<i32>(), expiry.parse()) {
        (Err(_), _) => Request::Wrong { ends: false },
        (_, Err(_)) => fatal,
        (Ok(_), Ok(expiry)) => {
            let body = data[..length as usize].to_vec();
            Request::Set { queue: queue.to_owned(), expiry, body }
        }
    };
    Some((request, whole))
}

/// Parses a command without a body. Returns `None` if the connection closes.
fn plain(command: &str, arguments: &[&str]) -> Option<Request> {
    let name = arguments.first().map(|name| (*name).to_owned());
    let harmless = Request::Wrong { ends: false };
    let named = |request: fn(String) -> Request| name.clone().map_or(harmless.clone(), request);
    Some(match (command, arguments) {
        ("get" | "gets", [key, ..]) => return get(key),
        ("monitor", [queue, seconds, rest @ ..]) => Request::Monitor {
            queue: (*queue).to_owned(),
            seconds: seconds.parse().ok()?,
            max: rest.first().map(|max| max.parse()).transpose().ok()?,
        },
        ("confirm", [queue, count, ..]) => {
            Request::Confirm { queue: (*queue).to_owned(), count: count.parse().ok()? }
        }
        ("get" | "gets" | "confirm", _) => harmless,
        ("delete", _) => named(Request::Delete),
        ("flush", _) => named(Request::Flush),
        ("flush_all", _) => Request::FlushAll,
        ("flush_expired", _) => named(Request::FlushExpired),
        ("flush_all_expired", _) => Request::FlushAllExpired,
        ("version", _) => Request::Version,
        ("status", _) => Request::Status(name),
        ("quit", _) => Request::Quit,
        _ => return None,
    })
}

fn get(key: &str) -> Option<Request> {
    if !key.is_empty() && key.bytes().all(|byte| byte == b'/') {
        return Some(Request::Wrong { ends: false });
    }
    let mut pieces = key.split('/');
    let mut get = Get { queue: pieces.next()?.to_owned(), ..Get::default() };
    for piece in pieces {
        match piece {
            "open" => get.open = true,
            "close" => get.close = true,
            "abort" => get.abort = true,
            "peek" => get.peek = true,
            _ => {
                if let Some(timeout) = piece.strip_prefix("t=") {
                    get.timeout_ms = timeout.parse().ok()?;
                }
            }
        }
    }
    let contradicts = (get.peek || get.abort) && (get.open || get.close);
    if get.queue.is_empty() || contradicts || (get.peek && get.abort) {
        return None;
    }
    Some(Request::Get(get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_with_its_data() {
        let (request, len) = read(b"SET q 0 5 3\r\nabcxxrest", 100).expect("it is whole");
        let wanted = Request::Set { queue: "q".into(), expiry: 5, body: b"abc".to_vec() };
        assert_eq!((request, len), (wanted, 18));
        assert_eq!(read(b"SET q 0 5 3\r\nabcx", 100), None);
        let get = Get { queue: "q".into(), timeout_ms: 7, open: true, ..Get::default() };
        assert_eq!(read(b"get q/open/t=7\n", 100), Some((Request::Get(get), 15)));
    }
}
