//! Parses command lines for the model, with a table of prefixes in the order of the spec (spec
//! beanstalkd 1.3 and 1.4). This code uses only the spec, and is independent of the dialect.

/// A parsed line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Command {
    Unknown,
    Bad,
    Put {
        pri: u32,
        delay: u32,
        ttr: u32,
        size: u32,
        garbage: bool,
    },
    Use(String),
    Watch(String),
    Ignore(String),
    Reserve,
    /// In seconds. A negative number means no time limit.
    ReserveWithTimeout(i64),
    ReserveJob(u64),
    Delete(u64),
    Release {
        id: u64,
        pri: u32,
        delay: u32,
    },
    Bury {
        id: u64,
        pri: u32,
    },
    Touch(u64),
    Peek(u64),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Kick(u32),
    KickJob(u64),
    StatsJob(u64),
    StatsTube(String),
    Stats,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube {
        name: String,
        seconds: u32,
    },
    Quit,
}

/// A prefix, and the function that parses lines with this prefix. In the table, a longer prefix
/// comes before each shorter prefix that it begins with.
type Row = (&'static str, fn(&str) -> Option<Command>);

const TABLE: [Row; 25] = [
    ("put ", put),
    ("peek-ready", |rest| alone(rest, Command::PeekReady)),
    ("peek-delayed", |rest| alone(rest, Command::PeekDelayed)),
    ("peek-buried", |rest| alone(rest, Command::PeekBuried)),
    ("peek ", |rest| id(rest).map(Command::Peek)),
    ("reserve-with-timeout ", |rest| c_number(rest, true).map(Command::ReserveWithTimeout)),
    ("reserve-job ", |rest| id(rest).map(Command::ReserveJob)),
    ("reserve", |rest| alone(rest, Command::Reserve)),
    ("delete ", |rest| id(rest).map(Command::Delete)),
    ("release ", release),
    ("bury ", bury),
    ("kick-job ", |rest| id(rest).map(Command::KickJob)),
    ("kick ", |rest| c_number(rest, false).map(|bound| Command::Kick(bound as u32))),
    ("touch ", |rest| id(rest).map(Command::Touch)),
    ("stats-job ", |rest| id(rest).map(Command::StatsJob)),
    ("stats-tube ", |rest| name(rest).map(Command::StatsTube)),
    ("stats", |rest| alone(rest, Command::Stats)),
    ("use ", |rest| name(rest).map(Command::Use)),
    ("watch ", |rest| name(rest).map(Command::Watch)),
    ("ignore ", |rest| name(rest).map(Command::Ignore)),
    ("list-tubes-watched", |rest| alone(rest, Command::ListTubesWatched)),
    ("list-tube-used", |rest| alone(rest, Command::ListTubeUsed)),
    ("list-tubes", |rest| alone(rest, Command::ListTubes)),
    ("quit", |_| Some(Command::Quit)),
    ("pause-tube", pause),
];

/// Parses a line without its CR LF.
pub(crate) fn parse(line: &[u8]) -> Command {
    if line.contains(&0) {
        return Command::Bad;
    }
    let line = String::from_utf8_lossy(line);
    for (prefix, read) in TABLE {
        if let Some(rest) = line.strip_prefix(prefix) {
            return read(rest).unwrap_or(Command::Bad);
        }
    }
    Command::Unknown
}

fn alone(rest: &str, command: Command) -> Option<Command> {
    rest.is_empty().then_some(command)
}

/// Parses spaces and digits. Returns the number and the remaining text.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start_matches(' ');
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    digits.parse().ok().map(|value| (value, rest))
}

fn number_u32(text: &str) -> Option<(u32, &str)> {
    let (value, rest) = number(text)?;
    u32::try_from(value).ok().map(|value| (value, rest))
}

fn id(text: &str) -> Option<u64> {
    let (value, rest) = number(text)?;
    rest.is_empty().then_some(value)
}

fn put(text: &str) -> Option<Command> {
    let (pri, text) = number_u32(text)?;
    let (delay, text) = number_u32(text)?;
    let (ttr, text) = number_u32(text)?;
    let (size, text) = number_u32(text)?;
    Some(Command::Put { pri, delay, ttr: ttr.max(1), size, garbage: !text.is_empty() })
}

fn release(text: &str) -> Option<Command> {
    let (id, text) = number(text)?;
    let (pri, text) = number_u32(text)?;
    let (delay, text) = number_u32(text)?;
    text.is_empty().then_some(Command::Release { id, pri, delay })
}

fn bury(text: &str) -> Option<Command> {
    let (id, text) = number(text)?;
    let (pri, text) = number_u32(text)?;
    text.is_empty().then_some(Command::Bury { id, pri })
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-+/;.$_()".contains(letter)
}

pub(in crate::model) fn is_name(text: &str) -> bool {
    (1..=200).contains(&text.len()) && !text.starts_with('-') && text.chars().all(is_name_letter)
}

fn name(text: &str) -> Option<String> {
    is_name(text).then(|| text.to_owned())
}

/// Parses `pause-tube`. Does not check the name, because the server counts the command before it
/// checks the name.
fn pause(text: &str) -> Option<Command> {
    let text = text.trim_start_matches(' ');
    let end = text.find(|letter| !is_name_letter(letter)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() || !rest.starts_with(' ') {
        return None;
    }
    let (seconds, rest) = number_u32(rest)?;
    rest.is_empty().then(|| Command::PauseTube { name: name.to_owned(), seconds })
}

/// Parses a number like C's `strtol` if `signed`, otherwise like `strtoul`, and cuts it to 32 bits.
/// Text without digits is 0 for `strtol`, and invalid for `strtoul`.
fn c_number(text: &str, signed: bool) -> Option<i64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let digits = &text[..end];
    if digits.is_empty() {
        return signed.then_some(0);
    }
    let magnitude = i128::from(digits.parse::<u64>().ok()?);
    let value = if negative { -magnitude } else { magnitude };
    if signed {
        i64::try_from(value).ok().map(|value| i64::from(value as i32))
    } else {
        Some(i64::from(value as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_tried_longest_first() {
        assert_eq!(parse(b"peek-readyx"), Command::Bad);
        assert_eq!(parse(b"peek-"), Command::Unknown);
        assert_eq!(parse(b"kick-job 4"), Command::KickJob(4));
        assert_eq!(parse(b"kick -1"), Command::Kick(u32::MAX));
        assert_eq!(parse(b"reserve-with-timeout abc"), Command::ReserveWithTimeout(0));
        assert_eq!(parse(b"quitx"), Command::Quit);
        assert_eq!(parse(b"quit\0"), Command::Bad);
        assert_eq!(parse(b"pause-tubea 5"), Command::PauseTube { name: "a".into(), seconds: 5 });
    }
}
