//! A small blocking client of the beanstalkd protocol.
//!
//! It speaks to any server of that protocol, not only to Lineshaft: names in statistics may be bare
//! or quoted, and a reply it does not expect becomes an error that names the command and the reply.

mod reply;
mod stats;

pub(crate) use reply::{Job, Reply};
pub(crate) use stats::Stats;

use std::time::Duration;

use super::stream::{self, Requests};
use super::{Address, ClientError, PATIENCE, no_answer};
use stats::parse_list;

/// The receiving half of a connection.
pub(crate) type Replies = stream::Replies<Reply>;

/// Which job of a queue `peek` shows, and which jobs a count is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WaitingState {
    /// Waits for a worker.
    Ready,
    /// Waits for its time.
    Delayed,
    /// Set aside after failing, until somebody kicks it.
    Buried,
}

impl WaitingState {
    /// The protocol's word, which is also the word shown to people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            WaitingState::Ready => "ready",
            WaitingState::Delayed => "delayed",
            WaitingState::Buried => "buried",
        }
    }
}

/// How urgent a job is and when it may run; the numbers of the protocol's `put` and `release`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// 0 is the most urgent.
    pub priority: u32,
    /// How long the job is held back first.
    pub delay_seconds: u32,
}

/// One connection that asks one thing at a time.
#[derive(Debug)]
pub(crate) struct Client {
    requests: Requests,
    replies: Replies,
    /// How long an answer may take before the server counts as gone; `None` = any time.
    patience: Option<Duration>,
}

impl Client {
    /// Connects within the time the system allows, and waits for answers as long as they take.
    pub(crate) fn connect(address: &Address) -> Result<Client, ClientError> {
        Client::join(address, None)
    }

    /// Connects, or gives up after `timeout` (TCP only; a UNIX socket answers at once). Answers
    /// that take longer than [`PATIENCE`] count as a broken connection.
    pub(crate) fn connect_within(
        address: &Address,
        timeout: Duration,
    ) -> Result<Client, ClientError> {
        Client::join(address, Some(timeout))
    }

    fn join(address: &Address, timeout: Option<Duration>) -> Result<Client, ClientError> {
        let (requests, replies) = stream::open(address, timeout)?;
        Ok(Client { requests, replies, patience: timeout.map(|_| PATIENCE) })
    }

    /// Gives the two halves to a caller that sends ahead of the replies.
    pub(crate) fn into_halves(self) -> (Requests, Replies) {
        (self.requests, self.replies)
    }

    /// Sends one command line and does not wait.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), ClientError> {
        self.requests.line(line)?;
        self.requests.flush()
    }

    /// Waits at most `timeout` for the next reply; `None` says that the time is over.
    pub(crate) fn reply_within(&mut self, timeout: Duration) -> Result<Option<Reply>, ClientError> {
        self.replies.next_within(timeout)
    }

    /// Fails when the server has gone, without waiting and without sending anything.
    pub(crate) fn check_open(&mut self) -> Result<(), ClientError> {
        self.replies.check_open()
    }

    /// Sends one command line and waits for its reply.
    pub(crate) fn ask(&mut self, line: &str) -> Result<Reply, ClientError> {
        self.send(line)?;
        let Some(patience) = self.patience else { return self.replies.next_reply() };
        self.replies.next_within(patience)?.ok_or_else(no_answer)
    }

    /// Makes `queue` the one that `put`, `kick` and `peek` speak of.
    pub(crate) fn use_queue(&mut self, queue: &str) -> Result<(), ClientError> {
        let command = format!("use {}", sendable_name(queue)?);
        match self.ask(&command)? {
            Reply::Using(_) => Ok(()),
            Reply::BadFormat => Err(ClientError::NameRefused(queue.to_owned())),
            reply => Err(unexpected(&command, &reply)),
        }
    }

    /// Takes jobs from `queues` and no others.
    pub(crate) fn watch_only(&mut self, queues: &[String]) -> Result<(), ClientError> {
        for queue in queues {
            let command = format!("watch {}", sendable_name(queue)?);
            match self.ask(&command)? {
                Reply::Watching(_) => {}
                Reply::BadFormat => return Err(ClientError::NameRefused(queue.clone())),
                reply => return Err(unexpected(&command, &reply)),
            }
        }
        if !queues.iter().any(|queue| queue == "default") {
            self.ask("ignore default")?;
        }
        Ok(())
    }

    /// The statistics of the whole server.
    pub(crate) fn stats(&mut self) -> Result<Stats, ClientError> {
        match self.ask("stats")? {
            Reply::Data(data) => Ok(Stats::parse(&data)),
            reply => Err(unexpected("stats", &reply)),
        }
    }

    /// The statistics of one job, or `None` when the server does not know it.
    pub(crate) fn stats_job(&mut self, id: u64) -> Result<Option<Stats>, ClientError> {
        let command = format!("stats-job {id}");
        let reply = self.ask(&command)?;
        stats_reply(&command, reply)
    }

    /// The statistics of one queue, or `None` when the server does not know it.
    pub(crate) fn stats_queue(&mut self, queue: &str) -> Result<Option<Stats>, ClientError> {
        let command = format!("stats-tube {}", sendable_name(queue)?);
        match self.ask(&command)? {
            Reply::BadFormat => Err(ClientError::NameRefused(queue.to_owned())),
            reply => stats_reply(&command, reply),
        }
    }

    /// The statistics of all queues, by name. Queues that vanish meanwhile are left out.
    pub(crate) fn stats_of_all_queues(&mut self) -> Result<Vec<Stats>, ClientError> {
        /// Commands sent before their replies are read: few enough that neither side's socket
        /// buffer fills while the other is still writing.
        const QUEUES_IN_FLIGHT: usize = 100;
        let mut names = match self.ask("list-tubes")? {
            Reply::Data(data) => parse_list(&data),
            reply => return Err(unexpected("list-tubes", &reply)),
        };
        names.sort_unstable();
        let mut all = Vec::with_capacity(names.len());
        for chunk in names.chunks(QUEUES_IN_FLIGHT) {
            for name in chunk {
                self.requests.line(&format!("stats-tube {name}"))?;
            }
            self.requests.flush()?;
            for name in chunk {
                let reply = self.replies.next_reply()?;
                all.extend(stats_reply(&format!("stats-tube {name}"), reply)?);
            }
        }
        Ok(all)
    }

    /// The job with this id, left where it is.
    pub(crate) fn peek(&mut self, id: u64) -> Result<Option<Job>, ClientError> {
        self.peek_command(&format!("peek {id}"))
    }

    /// The job of the used queue that is next in this state, left where it is.
    pub(crate) fn peek_next(&mut self, state: WaitingState) -> Result<Option<Job>, ClientError> {
        self.peek_command(&format!("peek-{}", state.word()))
    }

    fn peek_command(&mut self, command: &str) -> Result<Option<Job>, ClientError> {
        match self.ask(command)? {
            Reply::Found(job) => Ok(Some(job)),
            Reply::NotFound => Ok(None),
            reply => Err(unexpected(command, &reply)),
        }
    }

    /// Takes a certain job; `None` when it cannot be taken (gone, or another worker has it).
    pub(crate) fn reserve_job(&mut self, id: u64) -> Result<Option<Job>, ClientError> {
        let command = format!("reserve-job {id}");
        match self.ask(&command)? {
            Reply::Reserved(job) => Ok(Some(job)),
            Reply::NotFound => Ok(None),
            reply => Err(unexpected(&command, &reply)),
        }
    }

    /// Finishes a job. `false`: the server does not know it, or another connection holds it.
    pub(crate) fn delete(&mut self, id: u64) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("delete {id}"), Reply::Deleted)
    }

    /// Gives a held job back. `false`: this connection does not hold it.
    pub(crate) fn release(&mut self, id: u64, schedule: Schedule) -> Result<bool, ClientError> {
        let Schedule { priority, delay_seconds } = schedule;
        self.yes_or_not_found(&format!("release {id} {priority} {delay_seconds}"), Reply::Released)
    }

    /// Sets a held job aside. `false`: this connection does not hold it.
    pub(crate) fn bury(&mut self, id: u64, priority: u32) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("bury {id} {priority}"), Reply::Buried(None))
    }

    /// Starts the lease of a held job anew. `false`: this connection does not hold it.
    pub(crate) fn touch(&mut self, id: u64) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("touch {id}"), Reply::Touched)
    }

    /// Makes one buried or delayed job ready. `false`: it is neither.
    pub(crate) fn kick_job(&mut self, id: u64) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("kick-job {id}"), Reply::Kicked(None))
    }

    /// Makes up to `count` buried jobs of the used queue ready or, when none is buried, delayed
    /// ones. Says how many.
    pub(crate) fn kick(&mut self, count: u32) -> Result<u64, ClientError> {
        let command = format!("kick {count}");
        match self.ask(&command)? {
            Reply::Kicked(Some(kicked)) => Ok(kicked),
            reply => Err(unexpected(&command, &reply)),
        }
    }

    fn yes_or_not_found(&mut self, command: &str, yes: Reply) -> Result<bool, ClientError> {
        match self.ask(command)? {
            reply if reply == yes => Ok(true),
            Reply::NotFound => Ok(false),
            reply => Err(unexpected(command, &reply)),
        }
    }
}

impl Requests {
    /// Adds one command line; the line end is added here.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), ClientError> {
        self.add(&[line.as_bytes(), b"\r\n"])
    }

    /// Adds a `put` with its body.
    pub(crate) fn put(
        &mut self,
        schedule: Schedule,
        ttr_seconds: u32,
        body: &[u8],
    ) -> Result<(), ClientError> {
        let Schedule { priority, delay_seconds } = schedule;
        let line = format!("put {priority} {delay_seconds} {ttr_seconds} {}\r\n", body.len());
        self.add(&[line.as_bytes(), body, b"\r\n"])
    }
}

/// The error for a reply that the command does not have.
pub(crate) fn unexpected(command: &str, reply: &Reply) -> ClientError {
    ClientError::Unexpected { command: command.to_owned(), reply: reply.to_string() }
}

fn stats_reply(command: &str, reply: Reply) -> Result<Option<Stats>, ClientError> {
    match reply {
        Reply::Data(data) => Ok(Some(Stats::parse(&data))),
        Reply::NotFound => Ok(None),
        reply => Err(unexpected(command, &reply)),
    }
}

/// Keeps out what would break the command line; all other judgement of names is the server's.
fn sendable_name(name: &str) -> Result<&str, ClientError> {
    let breaks_the_line = |byte: u8| byte == b' ' || byte.is_ascii_control();
    if name.is_empty() || name.bytes().any(breaks_the_line) {
        return Err(ClientError::Name(name.to_owned()));
    }
    Ok(name)
}
