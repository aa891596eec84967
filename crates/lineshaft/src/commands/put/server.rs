//! The connection of `put` to a server, for all protocols: sends jobs and reads the replies.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use super::tally::Refusal;
use crate::cli::{PutArguments, refuse};
use crate::client::gearman::{self, Handle, Packet, Request};
use crate::client::kestrel;
use crate::client::{
    Client, ClientError, Protocol, Replies, Reply, Requests, Schedule, unexpected,
};

/// The default ttr of a job in the beanstalkd protocol.
const TTR_SECONDS: u32 = 60;

/// The largest priority number of beanstalkd that `put` submits with Gearman's normal priority.
/// Larger numbers are low priority.
const NORMAL_PRIORITY_MAX: u32 = 1 << 31;
/// The smallest priority number of beanstalkd that `put` submits with Gearman's normal priority.
/// Smaller numbers are high priority.
const NORMAL_PRIORITY_MIN: u32 = 1024;

/// A connection that puts jobs into the queue.
pub(super) struct Connection {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) facts: Facts,
}

/// What the server reports about itself before the first put.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// The largest body that the server accepts.
    pub(super) body_bytes_max: Option<u64>,
    /// True if the server is in drain mode.
    pub(super) is_draining: bool,
}

/// Sends jobs.
pub(super) enum Sender {
    Beanstalk { requests: Requests, schedule: Schedule, ttr_seconds: u32 },
    Gearman { requests: Requests, submission: Submission },
    Kestrel { requests: Requests, queue: String },
}

/// Receives a reply for each job.
pub(super) enum Receiver {
    Beanstalk(Replies),
    Gearman(gearman::Replies),
    Kestrel(kestrel::Replies),
}

/// How Gearman jobs are submitted.
pub(super) struct Submission {
    request: Request,
    function: String,
    unique: String,
    delay_seconds: u32,
}

/// The server's reply about a job.
#[derive(Debug)]
pub(super) enum Answer {
    In(JobName),
    /// The server accepted the job, but buried it at once.
    Buried(u64),
    Refused(Refusal),
}

/// The server's name for a job.
#[derive(Debug)]
pub(super) enum JobName {
    Id(u64),
    Handle(Handle),
    /// Kestrel's items have no names.
    None,
}

/// Connects with the protocol that the arguments require.
pub(super) fn connect(arguments: &PutArguments) -> Result<Connection> {
    let protocol = arguments.protocol()?;
    let target = arguments.server.target(protocol.default_port())?;
    match protocol {
        Protocol::Beanstalk => {
            let mut client = Client::connect(&target)?;
            client.use_queue(&arguments.queue)?;
            let facts = facts(&mut client)?;
            let (requests, replies) = client.into_halves();
            let schedule =
                Schedule { priority: arguments.priority, delay_seconds: arguments.delay };
            let ttr_seconds = arguments.ttr.unwrap_or(TTR_SECONDS);
            Ok(Connection {
                sender: Sender::Beanstalk { requests, schedule, ttr_seconds },
                receiver: Receiver::Beanstalk(replies),
                facts,
            })
        }
        Protocol::Gearman => {
            let submission = Submission::new(arguments)?;
            let mut client = gearman::Client::connect(&target, None)?;
            if arguments.wait {
                // Without this option, a server reports only that a job failed, and not why.
                client.add(Request::OptionReq, &[b"exceptions"])?;
                client.errors_so_far()?;
            }
            let (requests, replies) = client.into_halves();
            Ok(Connection {
                sender: Sender::Gearman { requests, submission },
                receiver: Receiver::Gearman(replies),
                facts: Facts::default(),
            })
        }
        Protocol::Kestrel => {
            kestrel::check_name(&arguments.queue)?;
            let (requests, replies) = kestrel::Client::connect(&target, None)?.into_halves();
            Ok(Connection {
                sender: Sender::Kestrel { requests, queue: arguments.queue.clone() },
                receiver: Receiver::Kestrel(replies),
                facts: Facts::default(),
            })
        }
    }
}

/// Asks for the facts. They are unknown if the server does not report them.
fn facts(client: &mut Client) -> Result<Facts, ClientError> {
    match client.stats() {
        Ok(stats) => Ok(Facts {
            body_bytes_max: Some(stats.number("max-job-size")).filter(|bytes| *bytes > 0),
            is_draining: stats.get("draining") == Some("true"),
        }),
        Err(error) if error.is_disconnect() => Err(error),
        Err(_) => Ok(Facts::default()),
    }
}

impl Sender {
    /// Adds a job to the buffer. The next flush, or a full buffer, sends it.
    pub(super) fn put(&mut self, body: &[u8]) -> Result<(), ClientError> {
        match self {
            Sender::Beanstalk { requests, schedule, ttr_seconds } => {
                requests.put(*schedule, *ttr_seconds, body)
            }
            Sender::Gearman { requests, submission } => submission.submit(requests, body),
            Sender::Kestrel { requests, queue } => requests.set(queue, body),
        }
    }

    /// Sends all buffered jobs.
    pub(super) fn flush(&mut self) -> Result<(), ClientError> {
        match self {
            Sender::Beanstalk { requests, .. }
            | Sender::Gearman { requests, .. }
            | Sender::Kestrel { requests, .. } => requests.flush(),
        }
    }
}

impl Submission {
    fn new(arguments: &PutArguments) -> Result<Submission> {
        if arguments.ttr.is_some() {
            return Err(refuse("--ttr: a Gearman job has none; its worker sets a limit").into());
        }
        let priority = arguments.priority;
        let is_normal = (NORMAL_PRIORITY_MIN..=NORMAL_PRIORITY_MAX).contains(&priority);
        let request = match (arguments.wait, priority) {
            (_, _) if arguments.delay > 0 && is_normal => Request::SubmitJobEpoch,
            (_, _) if arguments.delay > 0 => {
                let why = "--delay: a delayed Gearman job has normal priority";
                return Err(refuse(why).into());
            }
            (true, _) if is_normal => Request::SubmitJob,
            (false, _) if is_normal => Request::SubmitJobBg,
            (true, ..NORMAL_PRIORITY_MIN) => Request::SubmitJobHigh,
            (false, ..NORMAL_PRIORITY_MIN) => Request::SubmitJobHighBg,
            (true, _) => Request::SubmitJobLow,
            (false, _) => Request::SubmitJobLowBg,
        };
        Ok(Submission {
            request,
            function: arguments.queue.clone(),
            unique: arguments.unique.clone().unwrap_or_default(),
            delay_seconds: arguments.delay,
        })
    }

    fn submit(&self, requests: &mut Requests, body: &[u8]) -> Result<(), ClientError> {
        let (function, unique) = (self.function.as_bytes(), self.unique.as_bytes());
        if self.delay_seconds == 0 {
            return requests.packet(self.request, &[function, unique, body]);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let due = (now.as_secs() + u64::from(self.delay_seconds)).to_string();
        requests.packet(self.request, &[function, unique, due.as_bytes(), body])
    }
}

impl Receiver {
    /// Waits for the next reply. It is for the oldest job that has no reply yet.
    pub(super) fn next_answer(&mut self) -> Result<Answer, ClientError> {
        match self {
            Receiver::Beanstalk(replies) => {
                let refusal = match replies.next_reply()? {
                    Reply::Inserted(id) => return Ok(Answer::In(JobName::Id(id))),
                    Reply::Buried(Some(id)) => return Ok(Answer::Buried(id)),
                    Reply::JobTooBig => Refusal::TooBig { bytes: None },
                    Reply::Draining => Refusal::Draining,
                    Reply::OutOfMemory => Refusal::OutOfMemory,
                    Reply::InternalError => Refusal::InternalError,
                    // After any other reply, the server may read the bodies that follow as
                    // commands. So stop.
                    reply => return Err(unexpected("put", &reply)),
                };
                Ok(Answer::Refused(refusal))
            }
            Receiver::Gearman(replies) => match replies.next_reply()? {
                Packet::Created(handle) => Ok(Answer::In(JobName::Handle(handle))),
                packet => refusal(&packet).map(Answer::Refused),
            },
            Receiver::Kestrel(replies) => match replies.next_reply()? {
                kestrel::Reply::Stored => Ok(Answer::In(JobName::None)),
                kestrel::Reply::NotStored => Ok(Answer::Refused(Refusal::NotStored)),
                reply => Err(kestrel::unexpected("set", &reply)),
            },
        }
    }
}

/// Returns the reason why a Gearman server refused a job. Fails if the packet is not a refusal.
pub(super) fn refusal(packet: &Packet) -> Result<Refusal, ClientError> {
    match packet {
        Packet::Error { code, text } if code == "QUEUE_ERROR" => {
            let is_full = text == "Job queue is full";
            Ok(if is_full { Refusal::QueueFull } else { Refusal::QueueError })
        }
        packet => Err(gearman::unexpected("SUBMIT_JOB", packet)),
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobName::Id(id) => id.fmt(formatter),
            JobName::Handle(handle) => handle.fmt(formatter),
            JobName::None => Ok(()),
        }
    }
}
