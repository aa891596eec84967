//! Parses lines of the memcache dialect (spec kestrel 1.1 to 1.4).

use crate::line::{number, words};

/// A parsed request. Its queue names are not checked yet.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Request<'a> {
    /// A set. Its data follows the line.
    Set(Set<'a>),
    /// A memcached command that Kestrel does not support. Its data follows the line.
    Refused {
        data_bytes: u32,
    },
    Get(Get<'a>),
    Monitor {
        queue: &'a [u8],
        seconds: i32,
        /// Limit of items. `None` means the queue's limit of open reads. A negative number means
        /// that the request sets no limit.
        max: Option<i32>,
    },
    Confirm {
        queue: &'a [u8],
        count: i32,
    },
    Delete(&'a [u8]),
    Flush(&'a [u8]),
    FlushAll,
    FlushExpired(&'a [u8]),
    FlushAllExpired,
    Stats,
    /// The named queues. An empty list means all queues.
    DumpStats(Vec<&'a [u8]>),
    DumpConfig(Vec<&'a [u8]>),
    Version,
    /// `None` requests the status; `Some` sets it.
    Status(Option<&'a [u8]>),
    Reload,
    Shutdown,
    Quit,
}

/// The first line of a `SET`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Set<'a> {
    pub(crate) queue: &'a [u8],
    /// The expiry, or the mistake in the line. The session reports the mistake after the data.
    pub(crate) verdict: Result<i32, Malformed>,
    pub(crate) data_bytes: u32,
}

/// A queue name with its options.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Get<'a> {
    pub(crate) queue: &'a [u8],
    /// Milliseconds to wait. The request does not wait if this is 0 or negative.
    pub(crate) timeout_ms: i32,
    pub(crate) open: bool,
    pub(crate) close: bool,
    pub(crate) abort: bool,
    pub(crate) peek: bool,
}

/// A malformed line. The reply to it is always `CLIENT_ERROR`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Malformed {
    /// The connection stays open after the error.
    Harmless,
    /// The error closes the connection. In some of these cases, the original closes the connection
    /// without a reply. Here the reply helps users to find the reason, and no known client is
    /// confused by it.
    Fatal,
}

/// The limit of queues that one `DUMP_STATS` or `DUMP_CONFIG` names. The session sorts and copies
/// their names at once.
const DUMPED_NAMES_MAX: usize = 1000;

/// The commands with data after the line.
const WITH_DATA: [&[u8]; 6] = [b"set", b"add", b"replace", b"append", b"prepend", b"cas"];

impl<'a> Request<'a> {
    /// Parses a line without its end.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, Malformed> {
        let words = words(line);
        let Some((command, arguments)) = words.split_first() else { return Err(Malformed::Fatal) };
        let command = &command.to_ascii_lowercase()[..];
        if WITH_DATA.contains(&command) {
            return with_data(command, arguments);
        }
        // COMPAT(kestrel): further words of the line are ignored. So only the first of several keys
        // counts, and `noreply` has no effect; cases mc-extra-keys-ignored, mc-noreply-ignored,
        // mc-delete-extra-word.
        let name = arguments.first().copied().ok_or(Malformed::Harmless);
        Ok(match command {
            b"get" | b"gets" => Self::Get(Get::parse(name?)?),
            b"monitor" => monitor(arguments)?,
            b"confirm" => confirm(arguments)?,
            b"delete" => Self::Delete(name?),
            b"flush" => Self::Flush(name?),
            b"flush_all" => Self::FlushAll,
            b"flush_expired" => Self::FlushExpired(name?),
            b"flush_all_expired" => Self::FlushAllExpired,
            b"stats" => Self::Stats,
            b"dump_stats" => Self::DumpStats(dumped(arguments)?),
            b"dump_config" => Self::DumpConfig(dumped(arguments)?),
            b"version" => Self::Version,
            b"status" => Self::Status(name.ok()),
            b"reload" => Self::Reload,
            b"shutdown" => Self::Shutdown,
            b"quit" => Self::Quit,
            _ => return Err(Malformed::Fatal),
        })
    }
}

fn with_data<'a>(command: &[u8], arguments: &[&'a [u8]]) -> Result<Request<'a>, Malformed> {
    let [queue, flags, expiry, length, ..] = *arguments else { return Err(Malformed::Fatal) };
    let length = number(length).and_then(|length| u32::try_from(length).ok());
    let data_bytes = length.ok_or(Malformed::Fatal)?;
    if command != b"set" {
        return Ok(Request::Refused { data_bytes });
    }
    // Check the flags first, because a mistake in the flags does not close the connection, even if
    // the expiry has a mistake, too.
    let verdict = number(flags)
        .ok_or(Malformed::Harmless)
        .and_then(|_| number(expiry).ok_or(Malformed::Fatal));
    Ok(Request::Set(Set { queue, verdict, data_bytes }))
}

fn monitor<'a>(arguments: &[&'a [u8]]) -> Result<Request<'a>, Malformed> {
    let [queue, seconds, ref rest @ ..] = *arguments else { return Err(Malformed::Fatal) };
    let max = rest.first().map(|max| number(max).ok_or(Malformed::Fatal)).transpose()?;
    Ok(Request::Monitor { queue, seconds: number(seconds).ok_or(Malformed::Fatal)?, max })
}

fn confirm<'a>(arguments: &[&'a [u8]]) -> Result<Request<'a>, Malformed> {
    let [queue, count, ..] = *arguments else { return Err(Malformed::Harmless) };
    Ok(Request::Confirm { queue, count: number(count).ok_or(Malformed::Fatal)? })
}

fn dumped<'a>(names: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, Malformed> {
    if names.len() > DUMPED_NAMES_MAX { Err(Malformed::Harmless) } else { Ok(names.to_vec()) }
}

impl<'a> Get<'a> {
    /// Parses `name/option/…`. Unknown options are ignored. If there are several `t=`, the last
    /// counts.
    fn parse(key: &'a [u8]) -> Result<Self, Malformed> {
        let mut pieces = key.split(|byte| *byte == b'/');
        let queue = pieces.next().unwrap_or_default();
        // COMPAT(kestrel): a key that consists only of slashes does not close the connection; case
        // mc-get-slash-only.
        if !key.is_empty() && key.iter().all(|byte| *byte == b'/') {
            return Err(Malformed::Harmless);
        }
        let mut get = Self { queue, ..Self::default() };
        for piece in pieces {
            match piece {
                b"open" => get.open = true,
                b"close" => get.close = true,
                b"abort" => get.abort = true,
                b"peek" => get.peek = true,
                [b't', b'=', timeout @ ..] => {
                    get.timeout_ms = number(timeout).ok_or(Malformed::Fatal)?;
                }
                _ => {}
            }
        }
        let contradicts = (get.peek || get.abort) && (get.open || get.close);
        if queue.is_empty() || contradicts || (get.peek && get.abort) {
            return Err(Malformed::Fatal);
        }
        Ok(get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request<'_>, Malformed> {
        Request::parse(line.as_bytes())
    }

    fn get(line: &str) -> Get<'_> {
        match parse(line) {
            Ok(Request::Get(get)) => get,
            other => panic!("{line} is {other:?}"),
        }
    }

    #[test]
    fn options_come_in_any_order_and_unknown_ones_are_ignored() {
        let plain = Get { queue: b"q", ..Get::default() };
        assert_eq!(get("get q"), plain);
        assert_eq!(get("GETS q other keys "), plain);
        assert_eq!(get("get q/"), plain);
        assert_eq!(get("get q/OPEN/T=5/wat/t"), plain);
        assert_eq!(get("get q//open"), Get { open: true, ..plain });
        assert_eq!(get("get q/peek/t=-1"), Get { peek: true, timeout_ms: -1, ..plain });
        assert_eq!(get("get q/t=9/t=07"), Get { timeout_ms: 7, ..plain });
        let reopening = Get { open: true, close: true, timeout_ms: 500, ..plain };
        assert_eq!(get("get q/close/open/t=500"), reopening);
        assert_eq!(get("get q/t=500/open/close"), reopening);
        assert_eq!(get("get q/abort"), Get { abort: true, ..plain });
        assert_eq!(get("get q+c/open").queue, b"q+c");
    }

    #[test]
    fn wrong_gets_differ_in_whether_the_connection_survives() {
        for harmless in ["get", "get ", "get  ", "get /", "gets //"] {
            assert_eq!(parse(harmless), Err(Malformed::Harmless), "{harmless}");
        }
        let fatal = [
            "get  q",
            "get /open",
            " get q",
            "",
            "   ",
            "die",
            "get q/t=abc",
            "get q/t=",
            "get q/t=2147483648",
            "get q/peek/open",
            "get q/close/peek",
            "get q/abort/open",
            "get q/abort/close",
            "get q/abort/peek",
            "get q/abort/close/open",
            "monitor",
            "monitor q",
            "monitor q x",
            "monitor q 1 x",
            "confirm q x",
            "set q 0 0",
            "set q",
            "add q",
            "set q 0 0 abc",
            "set q 0 0 -1",
            "set q 0 0 2147483648",
            "incr q 1",
        ];
        for fatal in fatal {
            assert_eq!(parse(fatal), Err(Malformed::Fatal), "{fatal}");
        }
    }

    #[test]
    fn a_set_is_judged_when_its_data_has_come() {
        let set = |line| match parse(line) {
            Ok(Request::Set(set)) => (set.queue.to_vec(), set.verdict, set.data_bytes),
            other => panic!("{line} is {other:?}"),
        };
        let queue = || b"q".to_vec();
        assert_eq!(set("SET q 0 0 5"), (queue(), Ok(0), 5));
        assert_eq!(set("set q -1 -7 5 noreply "), (queue(), Ok(-7), 5));
        assert_eq!(set("set q 4294967295 abc 3"), (queue(), Err(Malformed::Harmless), 3));
        assert_eq!(set("set q 0 4102444800 3"), (queue(), Err(Malformed::Fatal), 3));
        // After a double space, each word has the next higher index.
        assert_eq!(set("set  q 0 0 5"), (Vec::new(), Err(Malformed::Harmless), 0));
        assert_eq!(parse("cas q 0 0 5 1"), Ok(Request::Refused { data_bytes: 5 }));
    }

    #[test]
    fn other_commands_read_as_many_words_as_they_need() {
        let monitor = |seconds, max| Ok(Request::Monitor { queue: b"q", seconds, max });
        assert_eq!(parse("monitor q 5"), monitor(5, None));
        assert_eq!(parse("MONITOR q -1 -2 x"), monitor(-1, Some(-2)));
        assert_eq!(parse("confirm q -1"), Ok(Request::Confirm { queue: b"q", count: -1 }));
        for harmless in ["confirm", "confirm q", "delete", "flush", "flush_expired"] {
            assert_eq!(parse(harmless), Err(Malformed::Harmless), "{harmless}");
        }
        assert_eq!(parse("delete q 0"), Ok(Request::Delete(b"q")));
        assert_eq!(parse("STATS items"), Ok(Request::Stats));
        assert_eq!(parse("status"), Ok(Request::Status(None)));
        assert_eq!(parse("status UP"), Ok(Request::Status(Some(b"UP"))));
        assert_eq!(parse("dump_stats a b"), Ok(Request::DumpStats(vec![b"a", b"b"])));
        assert_eq!(parse("dump_config"), Ok(Request::DumpConfig(vec![])));
        let dump = |names| parse(&format!("dump_stats{}", " q".repeat(names))).map(|_| ());
        assert_eq!(dump(DUMPED_NAMES_MAX), Ok(()));
        assert_eq!(dump(DUMPED_NAMES_MAX + 1), Err(Malformed::Harmless));
        assert_eq!(parse("quit now"), Ok(Request::Quit));
    }
}
