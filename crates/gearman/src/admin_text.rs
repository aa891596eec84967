//! The text commands of administrators and monitoring (spec gearman 5). As in the original, some
//! replies end with LF, and others with CR LF.

use broker::{Answer, Clearing, JobCursor, NotFound, Outbox, Position, QueueCursor, Refusal, Turn};

use crate::listings::{self, Listing, Workers};
use crate::number::leading_integer;
use crate::reply::visible;
use crate::session::{Postponed, Session};

/// Limit of words in a line. A line with more words ends the connection.
const WORDS_MAX: usize = 5;

const OK: &[u8] = b"OK\r\n";
const UNKNOWN_JOB: &[u8] = b"ERR UNKNOWN_JOB\r\n";
const UNKNOWN_ERROR: &[u8] = b"ERR UNKNOWN_ERROR\r\n";
const UNKNOWN_SHOW_ARGUMENTS: &[u8] = b"ERR UNKNOWN_SHOW_ARGUMENTS\r\n";
const FUNCTION_IN_USE: &[u8] = b"ERR there are still connected workers or executing clients\r\n";
const NO_NEW_FUNCTION: &[u8] = b"ERR QUEUE_ERROR There+is+no+room+for+another+function\r\n";
const LOG_FULL: &[u8] = b"ERR QUEUE_ERROR The+log+has+no+room\r\n";
const FUNCTION_NOT_FOUND: &[u8] = b"ERR function not found\r\n";

impl Session {
    /// Executes a line. `line` does not contain the line end.
    pub(crate) fn execute_line(&mut self, line: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let words = words(line);
        if words.len() > WORDS_MAX {
            return self.end(turn);
        }
        if let [command, what, name] = words[..]
            && is(command, "drop")
            && is(what, "function")
        {
            return self.drop_function(name, turn, outbox);
        }
        if let [command, what, handle] = words[..]
            && is(command, "cancel")
            && is(what, "job")
        {
            return self.cancel(handle, turn, outbox);
        }
        if let Some(listing) = listing(&words) {
            return self.list(listing);
        }
        let Answer { value: text, after } = self.answer(&words, turn);
        outbox.reply(after, &text);
    }

    fn answer(&self, words: &[&[u8]], turn: &mut Turn<'_>) -> Answer<Vec<u8>> {
        let [command, arguments @ ..] = words else {
            return Answer::at_once(unknown_command(b""));
        };
        let options = &self.server.options;
        let text = match (&command.to_ascii_lowercase()[..], arguments) {
            (b"version", _) => format!("OK {}\n", options.version).into_bytes(),
            (b"getpid", _) => format!("OK {}\n", options.pid).into_bytes(),
            (b"verbose", _) => format!("OK {}\n", options.verbosity).into_bytes(),
            (b"show", [_, ..]) => UNKNOWN_SHOW_ARGUMENTS.to_vec(),
            (b"maxqueue", [function, limits @ ..]) => {
                return self.max_queue(function, limits, turn);
            }
            (b"create", [what, name]) if is(what, "function") => {
                if !turn.admits_queue(name) {
                    return Answer::at_once(NO_NEW_FUNCTION.to_vec());
                }
                let created = turn.caller(self.id).create_queue(name);
                return created.map(|created| created.map_or(LOG_FULL, |()| OK).to_vec());
            }
            (b"maxqueue" | b"create" | b"drop", _) => incomplete(command),
            (b"cancel", [_, _, ..]) => UNKNOWN_ERROR.to_vec(),
            _ => unknown_command(command),
        };
        Answer::at_once(text)
    }

    /// Drops the function and its queued jobs. The clients that wait for these jobs get a failure.
    /// In the original, such jobs stay, but no client can find them. The server replies when all
    /// these jobs have ended.
    fn drop_function(&mut self, name: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let Some(found) = listings::find_function(name, turn) else {
            return outbox.reply(turn.after_named(name), FUNCTION_NOT_FOUND);
        };
        let Answer { value, after } = turn.caller(self.id).drop_queue(&found);
        match value {
            Ok(Some(Clearing::Done)) => outbox.reply(after, OK),
            Ok(Some(Clearing::Waiting)) => self.is_dropping = true,
            Ok(None) => outbox.reply(after, FUNCTION_IN_USE),
            Err(NotFound) => outbox.reply(after, FUNCTION_NOT_FOUND),
        }
    }

    /// Replies to a drop after the function was removed.
    pub(crate) fn dropped(&mut self, after: Position, outbox: &mut Outbox) {
        self.is_dropping = false;
        outbox.reply(after, OK);
    }

    /// Cancels the job at once, even if a worker holds it. Its clients stop waiting. In the
    /// original, the job stays until a worker takes or ends it.
    pub(crate) fn cancel(&mut self, handle: &[u8], turn: &mut Turn<'_>, outbox: &mut Outbox) {
        let cancelled = match self.server.prefix.parse(handle) {
            Some(id) if !turn.caller(self.id).is_job_at_hand(id) => {
                self.postponed = Some(Postponed::Cancel(handle.into()));
                return;
            }
            Some(id) => turn.caller(self.id).cancel(id),
            None => Answer::at_once(Err(NotFound)),
        };
        outbox.reply(cancelled.after, cancelled.value.map_or(UNKNOWN_JOB, |()| OK));
    }

    /// Sets the limits of a function. A single number limits all priorities. If there are two
    /// numbers, the third priority has no limit.
    fn max_queue(&self, function: &[u8], limits: &[&[u8]], turn: &mut Turn<'_>) -> Answer<Vec<u8>> {
        let limit = |text: &&[u8]| u32::try_from(leading_integer(text).max(0)).unwrap_or(u32::MAX);
        let limits = match limits {
            [] => [0; 3],
            [all] => [limit(all); 3],
            [high, normal] => [limit(high), limit(normal), 0],
            [high, normal, low, ..] => [limit(high), limit(normal), limit(low)],
        };
        turn.caller(self.id).limit_queue(function, limits).map(|limited| match limited {
            // COMPAT(gearmand): a limit of an unknown function has no effect, but the reply is
            // `OK`; case text-maxqueue-unknown-function-ok.
            Ok(()) | Err(Refusal::NotFound) => OK.to_vec(),
            Err(Refusal::LogFull | Refusal::MemoryFull) => LOG_FULL.to_vec(),
        })
    }
}

/// The list that a line requests.
fn listing(words: &[&[u8]]) -> Option<Listing> {
    match words {
        [command, ..] if is(command, "workers") => Some(Listing::Workers(Workers::default())),
        [command, ..] if is(command, "status") => Some(Listing::Status(QueueCursor::default())),
        [command, ..] if is(command, "prioritystatus") => {
            Some(Listing::PriorityStatus(QueueCursor::default()))
        }
        [command, jobs] if is(command, "show") && is(jobs, "jobs") => {
            Some(Listing::Jobs(JobCursor::default()))
        }
        [command, unique, jobs]
            if is(command, "show") && is(unique, "unique") && is(jobs, "jobs") =>
        {
            Some(Listing::UniqueJobs(JobCursor::default()))
        }
        _ => None,
    }
}

fn is(word: &[u8], wanted: &str) -> bool {
    word.eq_ignore_ascii_case(wanted.as_bytes())
}

/// Splits a line at spaces. If a line begins with a space, its first word is empty.
fn words(line: &[u8]) -> Vec<&[u8]> {
    let mut parts = line.split(|byte| *byte == b' ');
    let first = parts.next().unwrap_or_default();
    let others = parts.filter(|word| !word.is_empty());
    // One word more than the limit is enough to see that there are too many.
    [first].into_iter().chain(others).map(visible).take(WORDS_MAX + 1).collect()
}

fn unknown_command(command: &[u8]) -> Vec<u8> {
    [&b"ERR UNKNOWN_COMMAND Unknown+server+command"[..], command, b"\r\n"].concat()
}

fn incomplete(command: &[u8]) -> Vec<u8> {
    let text = b"ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+";
    [&text[..], command, b"\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_spaces_only() {
        let shown = |line: &str| {
            let words = words(line.as_bytes());
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown("status"), ["status"]);
        assert_eq!(shown("a  b\tc  "), ["a", "b\tc"]);
        assert_eq!(shown(" status"), ["", "status"]);
        assert_eq!(shown(""), [""]);
        assert_eq!(shown("a\0b c\0"), ["a", "c"]);
        assert_eq!(shown("1 2 3 4 5 6 7").len(), 6);
    }
}
