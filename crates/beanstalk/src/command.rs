//! The commands, and how the server recognises the command in a line.

use broker::{JobId, NewJob, Patience};
use memchr::memchr;

use crate::name::{is_tube_name, name_prefix_len};
use crate::number::{kick_bound, only_u64, take_u32, take_u64, timeout};

/// A well-formed command.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Command<'a> {
    Put(PutHeader),
    Use(&'a [u8]),
    Watch(&'a [u8]),
    Ignore(&'a [u8]),
    Reserve,
    ReserveWithTimeout(Patience),
    ReserveJob(JobId),
    Delete(JobId),
    Release { id: JobId, priority: u32, delay_s: u32 },
    Bury { id: JobId, priority: u32 },
    Touch(JobId),
    Peek(JobId),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Kick { bound: u32 },
    KickJob(JobId),
    Stats,
    StatsJob(JobId),
    StatsTube(&'a [u8]),
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube(Pause<'a>),
    Quit,
}

/// The line of a put. Its four numbers are valid. The session makes the other checks, and first
/// checks the size of the body.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct PutHeader {
    pub(crate) job: NewJob,
    pub(crate) body_bytes: u32,
    /// Whether the line continues after the fourth number.
    pub(crate) trailing_garbage: bool,
}

/// A pause. The name has only valid bytes. The session checks its length and its first byte,
/// because the statistics count a command with a wrong name.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Pause<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) seconds: u32,
}

/// Why a line is not a command.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Malformed {
    /// No verb matches.
    UnknownCommand,
    /// The verb is known, but its arguments are wrong.
    BadFormat,
}

type Recognised<'a> = Result<Command<'a>, Malformed>;

/// Recognises the command in a line. The line has no CR LF.
///
/// COMPAT(beanstalkd): a line has a verb if it begins with the verb, and longer verbs come first.
/// So `quitter` means `quit`. `statsx` means `stats` with an argument, which `stats` must not have,
/// so the reply is `BAD_FORMAT`; cases frame-missing-separator-is-unknown,
/// frame-missing-separator-prefix-collisions, frame-peek-dash-unknown.
pub(crate) fn recognise(line: &[u8]) -> Recognised<'_> {
    if memchr(0, line).is_some() {
        return Err(Malformed::BadFormat);
    }
    // After the first byte, only a few verbs are possible.
    match line.first() {
        Some(b'p') => recognise_p(line),
        Some(b'r') => recognise_r(line),
        Some(b'd' | b'b' | b't' | b'k') => recognise_by_id(line),
        Some(b's') => recognise_s(line),
        Some(b'u' | b'w' | b'i') => recognise_by_name(line),
        Some(b'l') => recognise_l(line),
        Some(b'q') if line.starts_with(b"quit") => Ok(Command::Quit),
        Some(_) | None => Err(Malformed::UnknownCommand),
    }
}

fn recognise_p(line: &[u8]) -> Recognised<'_> {
    if let Some(arguments) = line.strip_prefix(b"put ") {
        put(arguments)
    } else if let Some(arguments) = line.strip_prefix(b"peek ") {
        job_id(arguments).map(Command::Peek)
    } else if let Some(rest) = line.strip_prefix(b"peek-ready") {
        without_argument(rest, Command::PeekReady)
    } else if let Some(rest) = line.strip_prefix(b"peek-delayed") {
        without_argument(rest, Command::PeekDelayed)
    } else if let Some(rest) = line.strip_prefix(b"peek-buried") {
        without_argument(rest, Command::PeekBuried)
    } else if let Some(arguments) = line.strip_prefix(b"pause-tube") {
        pause_tube(arguments)
    } else {
        Err(Malformed::UnknownCommand)
    }
}

fn recognise_r(line: &[u8]) -> Recognised<'_> {
    if let Some(argument) = line.strip_prefix(b"reserve-with-timeout ") {
        timeout(argument).map(Command::ReserveWithTimeout).ok_or(Malformed::BadFormat)
    } else if let Some(argument) = line.strip_prefix(b"reserve-job ") {
        job_id(argument).map(Command::ReserveJob)
    } else if let Some(rest) = line.strip_prefix(b"reserve") {
        without_argument(rest, Command::Reserve)
    } else if let Some(arguments) = line.strip_prefix(b"release ") {
        release(arguments).ok_or(Malformed::BadFormat)
    } else {
        Err(Malformed::UnknownCommand)
    }
}

fn recognise_by_id(line: &[u8]) -> Recognised<'_> {
    if let Some(argument) = line.strip_prefix(b"delete ") {
        job_id(argument).map(Command::Delete)
    } else if let Some(arguments) = line.strip_prefix(b"bury ") {
        bury(arguments).ok_or(Malformed::BadFormat)
    } else if let Some(argument) = line.strip_prefix(b"touch ") {
        job_id(argument).map(Command::Touch)
    } else if let Some(argument) = line.strip_prefix(b"kick ") {
        let bound = kick_bound(argument).ok_or(Malformed::BadFormat)?;
        Ok(Command::Kick { bound })
    } else if let Some(argument) = line.strip_prefix(b"kick-job ") {
        job_id(argument).map(Command::KickJob)
    } else {
        Err(Malformed::UnknownCommand)
    }
}

fn recognise_s(line: &[u8]) -> Recognised<'_> {
    if let Some(argument) = line.strip_prefix(b"stats-job ") {
        job_id(argument).map(Command::StatsJob)
    } else if let Some(argument) = line.strip_prefix(b"stats-tube ") {
        tube_name(argument).map(Command::StatsTube)
    } else if let Some(rest) = line.strip_prefix(b"stats") {
        without_argument(rest, Command::Stats)
    } else {
        Err(Malformed::UnknownCommand)
    }
}

fn recognise_by_name(line: &[u8]) -> Recognised<'_> {
    if let Some(argument) = line.strip_prefix(b"use ") {
        tube_name(argument).map(Command::Use)
    } else if let Some(argument) = line.strip_prefix(b"watch ") {
        tube_name(argument).map(Command::Watch)
    } else if let Some(argument) = line.strip_prefix(b"ignore ") {
        tube_name(argument).map(Command::Ignore)
    } else {
        Err(Malformed::UnknownCommand)
    }
}

fn recognise_l(line: &[u8]) -> Recognised<'_> {
    if let Some(rest) = line.strip_prefix(b"list-tubes-watched") {
        without_argument(rest, Command::ListTubesWatched)
    } else if let Some(rest) = line.strip_prefix(b"list-tube-used") {
        without_argument(rest, Command::ListTubeUsed)
    } else if let Some(rest) = line.strip_prefix(b"list-tubes") {
        without_argument(rest, Command::ListTubes)
    } else {
        Err(Malformed::UnknownCommand)
    }
}

fn without_argument<'a>(rest: &[u8], command: Command<'a>) -> Recognised<'a> {
    if rest.is_empty() { Ok(command) } else { Err(Malformed::BadFormat) }
}

fn job_id(argument: &[u8]) -> Result<JobId, Malformed> {
    only_u64(argument).map(JobId).ok_or(Malformed::BadFormat)
}

fn tube_name(argument: &[u8]) -> Result<&[u8], Malformed> {
    if is_tube_name(argument) { Ok(argument) } else { Err(Malformed::BadFormat) }
}

fn put(mut arguments: &[u8]) -> Recognised<'_> {
    let mut next = || take_u32(&mut arguments).ok_or(Malformed::BadFormat);
    let (priority, delay_s, ttr_s, body_bytes) = (next()?, next()?, next()?, next()?);
    // COMPAT(beanstalkd): a ttr of zero becomes one second, and the client gets no error; case
    // put-ttr-zero-becomes-one.
    let job = NewJob { priority, delay_s, ttr_s: ttr_s.max(1) };
    let trailing_garbage = !arguments.is_empty();
    Ok(Command::Put(PutHeader { job, body_bytes, trailing_garbage }))
}

fn release(mut arguments: &[u8]) -> Option<Command<'_>> {
    let id = JobId(take_u64(&mut arguments)?);
    let priority = take_u32(&mut arguments)?;
    let delay_s = take_u32(&mut arguments)?;
    arguments.is_empty().then_some(Command::Release { id, priority, delay_s })
}

fn bury(mut arguments: &[u8]) -> Option<Command<'_>> {
    let id = JobId(take_u64(&mut arguments)?);
    let priority = take_u32(&mut arguments)?;
    arguments.is_empty().then_some(Command::Bury { id, priority })
}

/// COMPAT(beanstalkd): the name can follow without a space, or after any number of spaces; cases
/// frame-missing-separator-prefix-collisions, pause-argument-errors.
fn pause_tube(arguments: &[u8]) -> Recognised<'_> {
    let spaces = arguments.iter().take_while(|&&byte| byte == b' ').count();
    let arguments = &arguments[spaces..];
    let (name, mut rest) = arguments.split_at(name_prefix_len(arguments));
    if name.is_empty() || rest.first() != Some(&b' ') {
        return Err(Malformed::BadFormat);
    }
    match take_u32(&mut rest) {
        Some(seconds) if rest.is_empty() => Ok(Command::PauseTube(Pause { name, seconds })),
        Some(_) | None => Err(Malformed::BadFormat),
    }
}

#[cfg(test)]
mod tests;
