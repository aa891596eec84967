//! A small blocking client of Kestrel's memcache protocol.

use std::time::Duration;

use memchr::memchr;

use super::error::{ClientError, PATIENCE, TLS_ALERT, no_answer};
use super::stream::{self, Message, Requests};
use super::target::Target;

/// The half of a connection that receives.
pub(crate) type Replies = stream::Replies<Reply>;

/// Limit of the first line of a reply. A queue's name can have 8 KiB.
const LINE_BYTES_MAX: usize = 9 << 10;

/// The bytes behind an item.
const TAIL: &[u8] = b"\r\nEND\r\n";

/// One reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Stored,
    /// The server has refused the item, and gives no reason.
    NotStored,
    /// An item.
    Value(Vec<u8>),
    /// No item, or the end of an open read.
    End,
    /// The first word of an error, and the reason if the server gives one.
    Error(String),
}

impl Message for Reply {
    fn parse(input: &[u8]) -> Result<Option<(Reply, usize)>, ClientError> {
        let Some(line_end) = memchr(b'\n', input) else {
            // A TLS alert may have no line end.
            if input.len() > LINE_BYTES_MAX || input.starts_with(&TLS_ALERT) {
                return Err(garbled(input));
            }
            return Ok(None);
        };
        let line = &input[..line_end];
        let line = line.strip_suffix(b"\r").ok_or_else(|| garbled(line))?;
        let body_start = line_end + 1;
        if !line.starts_with(b"VALUE ") {
            let reply = match line {
                b"STORED" => Reply::Stored,
                b"NOT_STORED" => Reply::NotStored,
                b"END" => Reply::End,
                line => {
                    let text = str::from_utf8(line).map_err(|_| garbled(line))?;
                    let word = text.split(' ').next().unwrap_or("");
                    if !["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].contains(&word) {
                        return Err(garbled(line));
                    }
                    Reply::Error(text.to_owned())
                }
            };
            return Ok(Some((reply, body_start)));
        }
        // `VALUE name flags length`, then the item, then `END`.
        let length = line.rsplit(|byte| *byte == b' ').next();
        let length = length.and_then(|word| str::from_utf8(word).ok()?.parse::<usize>().ok());
        let length = length.ok_or_else(|| garbled(line))?;
        let body_end = body_start.checked_add(length).ok_or_else(|| garbled(line))?;
        let Some(tail) = input.get(body_end..).and_then(|rest| rest.get(..TAIL.len())) else {
            return Ok(None);
        };
        if tail != TAIL {
            return Err(garbled(tail));
        }
        Ok(Some((Reply::Value(input[body_start..body_end].to_vec()), body_end + TAIL.len())))
    }
}

fn garbled(line: &[u8]) -> ClientError {
    ClientError::NotKestrel(line[..line.len().min(80)].escape_ascii().to_string())
}

/// One connection to a Kestrel server.
#[derive(Debug)]
pub(crate) struct Client {
    requests: Requests,
    replies: Replies,
}

impl Client {
    /// Connects. `timeout` limits the time to connect.
    pub(crate) fn connect(
        target: &Target,
        timeout: Option<Duration>,
    ) -> Result<Client, ClientError> {
        let (requests, replies) = stream::open(target, timeout)?;
        Ok(Client { requests, replies })
    }

    /// Returns the two halves, so that the caller can send requests before it has read the earlier
    /// replies.
    pub(crate) fn into_halves(self) -> (Requests, Replies) {
        (self.requests, self.replies)
    }

    /// Sends `get NAME/OPTIONS`, and does not wait for the reply.
    pub(crate) fn send_get(&mut self, queue: &str, options: &str) -> Result<(), ClientError> {
        let line = get(queue, options);
        self.requests.add(&[line.as_bytes()])?;
        self.requests.flush()
    }

    /// Waits at most `timeout` for the next reply.
    pub(crate) fn reply_within(&mut self, timeout: Duration) -> Result<Option<Reply>, ClientError> {
        self.replies.next_within(timeout)
    }

    /// Fails if the server has closed the connection. Does not wait and sends nothing.
    pub(crate) fn check_open(&mut self) -> Result<(), ClientError> {
        self.replies.check_open()
    }

    /// Looks at the next item.
    pub(crate) fn peek(&mut self, queue: &str) -> Result<Option<Vec<u8>>, ClientError> {
        match self.ask(queue, "peek")? {
            Reply::Value(item) => Ok(Some(item)),
            Reply::End => Ok(None),
            reply => Err(unexpected(&get(queue, "peek"), &reply)),
        }
    }

    /// Ends the open read: the item has ended.
    pub(crate) fn close(&mut self, queue: &str) -> Result<(), ClientError> {
        self.end(queue, "close")
    }

    /// Ends the open read: the item goes back.
    pub(crate) fn abort(&mut self, queue: &str) -> Result<(), ClientError> {
        self.end(queue, "abort")
    }

    fn end(&mut self, queue: &str, option: &str) -> Result<(), ClientError> {
        match self.ask(queue, option)? {
            Reply::End => Ok(()),
            reply => Err(unexpected(&get(queue, option), &reply)),
        }
    }

    fn ask(&mut self, queue: &str, option: &str) -> Result<Reply, ClientError> {
        self.send_get(queue, option)?;
        self.reply_within(PATIENCE)?.ok_or_else(no_answer)
    }
}

impl Requests {
    /// Adds an item to the buffer.
    pub(crate) fn set(&mut self, queue: &str, body: &[u8]) -> Result<(), ClientError> {
        let line = format!("set {queue} 0 0 {}\r\n", body.len());
        self.add(&[line.as_bytes(), body, b"\r\n"])
    }
}

fn get(queue: &str, options: &str) -> String {
    format!("get {queue}/{options}\r\n")
}

/// Fails if the protocol cannot have this name. The part behind a slash would be options.
pub(crate) fn check_name(queue: &str) -> Result<(), ClientError> {
    let is_valid = |character: char| !character.is_whitespace() && !character.is_control();
    if queue.is_empty() || queue.contains('/') || !queue.chars().all(is_valid) {
        return Err(ClientError::KestrelName(queue.to_owned()));
    }
    Ok(())
}

/// The error for an unexpected reply.
pub(crate) fn unexpected(request: &str, reply: &Reply) -> ClientError {
    let reply = match reply {
        Reply::Stored => "STORED".to_owned(),
        Reply::NotStored => "NOT_STORED".to_owned(),
        Reply::Value(_) => "VALUE".to_owned(),
        Reply::End => "END".to_owned(),
        Reply::Error(text) => text.clone(),
    };
    ClientError::Unexpected { command: request.trim_end().to_owned(), reply }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_parsed_when_they_are_complete() {
        let value = b"VALUE mail 0 7\r\nto=\r\nEN\r\nEND\r\nSTORED\r\n";
        for length in 0..30 {
            assert_eq!(Reply::parse(&value[..length]).unwrap(), None, "{length}");
        }
        let reply = Reply::Value(b"to=\r\nEN".to_vec());
        assert_eq!(Reply::parse(value).unwrap(), Some((reply, 30)));
        assert_eq!(Reply::parse(b"END\r\n").unwrap(), Some((Reply::End, 5)));
        let (reply, _) = Reply::parse(b"SERVER_ERROR down\r\n").unwrap().unwrap();
        assert_eq!(
            unexpected("get q/open\r\n", &reply).to_string(),
            "the server answered `SERVER_ERROR down` to `get q/open`"
        );
        for wrong in
            [&b"UNKNOWN_COMMAND\r\n"[..], b"VALUE mail 0 x\r\n", b"VALUE q 0 0\r\nmore\r\nx\r\n"]
        {
            assert!(Reply::parse(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn names_have_no_options() {
        assert!(check_name("mail+copy").is_ok());
        for name in ["", "a/open", "a b", "a\n"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
