//! Requests and replies of Kestrel's memcache protocol, parsed according to its documents.

use std::fmt;

/// The parts of a request that the oracle looks at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Request {
    Set {
        queue: String,
        expiry: i64,
        body: Vec<u8>,
    },
    Get(Get),
    Monitor(String),
    Confirm {
        queue: String,
        count: usize,
    },
    /// `DELETE`, `FLUSH`.
    Empty(String),
    FlushAll,
    /// The request changes nothing, or the oracle does not check its effect.
    Other,
}

/// A `GET` with its options.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Get {
    pub(super) queue: String,
    pub(super) opens: bool,
    pub(super) closes: bool,
    pub(super) aborts: bool,
    pub(super) peeks: bool,
}

impl Get {
    /// True if the `GET` requests an item.
    pub(super) fn fetches(&self) -> bool {
        !self.aborts && (self.opens || !self.closes)
    }
}

#[derive(Clone)]
pub(super) enum Reply {
    Item { queue: String, body: Vec<u8> },
    Line(String),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item { queue, body } => write!(f, "an item of {queue}, {} bytes", body.len()),
            Self::Line(line) => write!(f, "{line:?}"),
        }
    }
}

/// Takes the first request, if it is complete.
pub(super) fn request(input: &mut Vec<u8>) -> Option<Request> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8_lossy(&input[..end]).into_owned();
    let line = line.strip_suffix('\r').unwrap_or(&line).trim_end_matches(' ');
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    let name = |word: &&str| (*word).to_owned();
    let mut len = end + 1;
    let request = match (verb.to_ascii_lowercase().as_str(), &words[..]) {
        ("set", [queue, flags, expiry, size, ..]) => {
            let numbers = (flags.parse::<i32>(), expiry.parse::<i32>(), size.parse::<u32>());
            let size = numbers.2.as_ref().map_or(0, |size| *size as usize + 2);
            let body = input.get(len..len + size)?;
            len += size;
            match numbers {
                (Ok(_), Ok(expiry), Ok(_)) => Request::Set {
                    queue: name(queue),
                    expiry: i64::from(expiry),
                    body: body[..size - 2].to_vec(),
                },
                _ => Request::Other,
            }
        }
        ("get" | "gets", [key, ..]) => get(key),
        ("monitor", [queue, _, ..]) => Request::Monitor(name(queue)),
        ("confirm", [queue, count, ..]) => {
            Request::Confirm { queue: name(queue), count: count.parse().unwrap_or(0) }
        }
        ("delete" | "flush", [queue, ..]) if !queue.is_empty() => Request::Empty(name(queue)),
        ("flush_all", _) => Request::FlushAll,
        _ => Request::Other,
    };
    input.drain(..len);
    Some(request)
}

fn get(key: &str) -> Request {
    let mut pieces = key.split('/');
    let queue = pieces.next().unwrap_or_default().to_owned();
    let options: Vec<&str> = pieces.collect();
    let has = |option| options.contains(&option);
    let (opens, closes) = (has("open"), has("close"));
    Request::Get(Get { queue, opens, closes, aborts: has("abort"), peeks: has("peek") })
}

/// Takes the first whole reply.
pub(super) fn reply(output: &mut Vec<u8>) -> Result<Option<Reply>, String> {
    let Some(end) = output.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&output[..end]).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    let ["VALUE", queue, _, len] = words[..] else {
        output.drain(..end + 2);
        return Ok(Some(Reply::Line(line)));
    };
    let len: usize = len.parse().map_err(|_| format!("{line:?} has no length"))?;
    let rest = b"\r\nEND\r\n";
    let body_end = end + 2 + len;
    if output.len() < body_end + rest.len() {
        return Ok(None);
    }
    if !output[body_end..].starts_with(rest) {
        return Err(format!("what {line:?} begins has another length"));
    }
    let body = output[end + 2..body_end].to_vec();
    let queue = queue.to_owned();
    output.drain(..body_end + rest.len());
    Ok(Some(Reply::Item { queue, body }))
}
