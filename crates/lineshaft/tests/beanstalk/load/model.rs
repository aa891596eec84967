//! The state of one job in its client's ledger, and the effect of each command on this state.

use std::fmt;

/// A state that survives a restart. A leased job counts as ready, because its lease ends with the
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Delayed,
    Buried,
}

impl State {
    /// The word in `stats-job`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Buried => "buried",
        }
    }
}

/// The acknowledged state of a job.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) pri: u32,
    pub(crate) state: State,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES_MAX: usize = 40;
        let start = &self.body[..self.body.len().min(SHOWN_BYTES_MAX)];
        let (state, start) = (self.state.word(), start.escape_ascii());
        write!(formatter, "{state} with priority {} and body {start}…", self.pri)
    }
}

/// A command that has no reply yet.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Put {
        job: Job,
    },
    /// Takes a ready job. The next command of the batch ends the lease.
    Take {
        id: u64,
    },
    Delete {
        id: u64,
    },
    Release {
        id: u64,
        pri: u32,
        delayed: bool,
    },
    Bury {
        id: u64,
        pri: u32,
    },
    KickJob {
        id: u64,
    },
}

/// This delay is so long that no job becomes ready during a test.
const DELAY_S: u32 = 100_000;
const TTR_S: u32 = 100_000;

impl Command {
    /// The bytes of the command, as sent.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let delay_s = |delayed: bool| if delayed { DELAY_S } else { 0 };
        match self {
            Command::Put { job } => {
                let delay_s = delay_s(job.state == State::Delayed);
                let length = job.body.len();
                let mut bytes =
                    format!("put {} {delay_s} {TTR_S} {length}\r\n", job.pri).into_bytes();
                bytes.extend_from_slice(&job.body);
                bytes.extend_from_slice(b"\r\n");
                bytes
            }
            Command::Take { id } => format!("reserve-job {id}\r\n").into_bytes(),
            Command::Delete { id } => format!("delete {id}\r\n").into_bytes(),
            Command::Release { id, pri, delayed } => {
                format!("release {id} {pri} {}\r\n", delay_s(*delayed)).into_bytes()
            }
            Command::Bury { id, pri } => format!("bury {id} {pri}\r\n").into_bytes(),
            Command::KickJob { id } => format!("kick-job {id}\r\n").into_bytes(),
        }
    }

    /// The first word of the only valid reply.
    pub(crate) fn reply(&self) -> &'static str {
        match self {
            Command::Put { .. } => "INSERTED",
            Command::Take { .. } => "RESERVED",
            Command::Delete { .. } => "DELETED",
            Command::Release { .. } => "RELEASED",
            Command::Bury { .. } => "BURIED",
            Command::KickJob { .. } => "KICKED",
        }
    }

    /// The id of the job that the command names. A put has no id yet.
    pub(crate) fn id(&self) -> Option<u64> {
        match self {
            Command::Put { .. } => None,
            Command::Take { id }
            | Command::Delete { id }
            | Command::Release { id, .. }
            | Command::Bury { id, .. }
            | Command::KickJob { id } => Some(*id),
        }
    }

    /// The state of the job after this command. `None` if the job has ended.
    pub(crate) fn applied_to(&self, job: &Job) -> Option<Job> {
        let mut job = job.clone();
        match self {
            Command::Put { .. } => {}
            Command::Take { .. } | Command::KickJob { .. } => job.state = State::Ready,
            Command::Delete { .. } => return None,
            Command::Release { pri, delayed, .. } => {
                job.pri = *pri;
                job.state = if *delayed { State::Delayed } else { State::Ready };
            }
            Command::Bury { pri, .. } => {
                job.pri = *pri;
                job.state = State::Buried;
            }
        }
        Some(job)
    }
}
