//! A small blocking client of the beanstalkd protocol.
//!
//! This client works with any server of this protocol, not only Lineshaft. So it accepts names in
//! statistics with or without quotes. An unexpected reply becomes an error that names the command
//! and the reply.

mod reply;
mod stats;

pub(crate) use reply::{Job, Reply};
pub(crate) use stats::Stats;

use std::time::Duration;

use super::error::{ClientError, PATIENCE, no_answer};
use super::stream::{self, Requests};
use super::target::Target;
use stats::parse_list;

/// The half of a connection that receives.
pub(crate) type Replies = stream::Replies<Reply>;

/// A state of waiting jobs. The user of a tool names a state to choose jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WaitingState {
    /// Waits for a worker.
    Ready,
    /// Waits for its time.
    Delayed,
    /// Buried after a failure, until a kick.
    Buried,
}

impl WaitingState {
    /// The protocol's word for the state. The tools print it, too.
    pub(crate) fn word(self) -> &'static str {
        match self {
            WaitingState::Ready => "ready",
            WaitingState::Delayed => "delayed",
            WaitingState::Buried => "buried",
        }
    }
}

impl From<WaitingState> for api::types::JobState {
    fn from(state: WaitingState) -> Self {
        match state {
            WaitingState::Ready => Self::Ready,
            WaitingState::Delayed => Self::Delayed,
            WaitingState::Buried => Self::Buried,
        }
    }
}

/// Priority and delay of a job, as in the protocol's `put` and `release`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// 0 is the most urgent.
    pub priority: u32,
    /// The delay of the job.
    pub delay_seconds: u32,
}

/// A job to put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Put<'a> {
    /// Priority and delay.
    pub schedule: Schedule,
    /// The ttr.
    pub ttr_seconds: u32,
    /// The body.
    pub body: &'a [u8],
}

/// The server and its queues at one moment.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The statistics of the whole server.
    pub server: Stats,
    /// The statistics of each queue whose name is a valid tube name, sorted by name.
    pub queues: Vec<Stats>,
    /// The number of queues that are missing in `queues`. Their names are invalid in this protocol,
    /// because clients of Lineshaft's other protocols created them.
    pub unnamed_count: u64,
}

/// A connection that sends one command and waits for its reply.
#[derive(Debug)]
pub(crate) struct Client {
    requests: Requests,
    replies: Replies,
    /// Time limit for a reply. If a reply takes longer, the connection counts as broken. `None`
    /// means no limit.
    patience: Option<Duration>,
}

impl Client {
    /// Connects. The client then waits for replies without a time limit.
    pub(crate) fn connect(target: &Target) -> Result<Client, ClientError> {
        Client::join(target, None)
    }

    /// Connects, or gives up after `timeout`. The timeout applies only to TCP, because a UNIX
    /// socket connects at once. If a reply takes longer than [`PATIENCE`], the connection counts as
    /// broken.
    pub(crate) fn connect_within(
        target: &Target,
        timeout: Duration,
    ) -> Result<Client, ClientError> {
        Client::join(target, Some(timeout))
    }

    fn join(target: &Target, timeout: Option<Duration>) -> Result<Client, ClientError> {
        let (requests, replies) = stream::open(target, timeout)?;
        Ok(Client { requests, replies, patience: timeout.map(|_| PATIENCE) })
    }

    /// Returns the two halves, so that the caller can send requests before it has read the earlier
    /// replies.
    pub(crate) fn into_halves(self) -> (Requests, Replies) {
        (self.requests, self.replies)
    }

    /// The own address of the connection, as the server sees it. `None` at a unix socket.
    pub(crate) fn local_address(&self) -> Option<String> {
        self.requests.local_address()
    }

    /// Sends one command line and does not wait for the reply.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), ClientError> {
        self.requests.line(line)?;
        self.requests.flush()
    }

    /// Waits at most `timeout` for the next reply. Returns `None` on timeout.
    pub(crate) fn reply_within(&mut self, timeout: Duration) -> Result<Option<Reply>, ClientError> {
        self.replies.next_within(timeout)
    }

    /// Fails if the server has closed the connection. Does not wait and sends nothing.
    pub(crate) fn check_open(&mut self) -> Result<(), ClientError> {
        self.replies.check_open()
    }

    /// Sends one command line and waits for its reply.
    pub(crate) fn ask(&mut self, line: &str) -> Result<Reply, ClientError> {
        self.send(line)?;
        self.answer()
    }

    /// Sends all command lines, then reads their replies. The command lines, and the replies
    /// without their bodies, must fit into the buffers of the sockets.
    pub(crate) fn ask_all(&mut self, lines: &[String]) -> Result<Vec<Reply>, ClientError> {
        for line in lines {
            self.requests.line(line)?;
        }
        self.requests.flush()?;
        lines.iter().map(|_| self.answer()).collect()
    }

    /// Puts jobs into the used queue. Sends all of them before it reads the replies.
    pub(crate) fn put_all(&mut self, jobs: &[Put<'_>]) -> Result<Vec<Reply>, ClientError> {
        for Put { schedule, ttr_seconds, body } in jobs {
            self.requests.put(*schedule, *ttr_seconds, body)?;
        }
        self.requests.flush()?;
        jobs.iter().map(|_| self.answer()).collect()
    }

    /// Waits for the next reply within the time limit.
    fn answer(&mut self) -> Result<Reply, ClientError> {
        let Some(patience) = self.patience else { return self.replies.next_reply() };
        self.replies.next_within(patience)?.ok_or_else(no_answer)
    }

    /// Selects the queue for `put`, `kick` and `peek`.
    pub(crate) fn use_queue(&mut self, queue: &str) -> Result<(), ClientError> {
        let command = format!("use {}", sendable_name(queue)?);
        match self.ask(&command)? {
            Reply::Using(_) => Ok(()),
            Reply::BadFormat => Err(ClientError::NameRefused(queue.to_owned())),
            reply => Err(unexpected(&command, &reply)),
        }
    }

    /// Watches only `queues`.
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
        let reply = self.ask("stats")?;
        data("stats", reply).map(|data| Stats::parse(&data))
    }

    /// The statistics of a job, or `None` if the job does not exist.
    pub(crate) fn stats_job(&mut self, id: u64) -> Result<Option<Stats>, ClientError> {
        let command = format!("stats-job {id}");
        let reply = self.ask(&command)?;
        stats_reply(&command, reply)
    }

    /// The statistics of a queue, or `None` if the queue does not exist.
    pub(crate) fn stats_queue(&mut self, queue: &str) -> Result<Option<Stats>, ClientError> {
        let command = format!("stats-tube {}", sendable_name(queue)?);
        match self.ask(&command)? {
            Reply::BadFormat => Err(ClientError::NameRefused(queue.to_owned())),
            reply => stats_reply(&command, reply),
        }
    }

    /// Returns the statistics of the server and of all its queues. Leaves out queues that vanish
    /// meanwhile.
    pub(crate) fn survey(&mut self) -> Result<Survey, ClientError> {
        // The list of queues is requested between two counts of the queues, and all three commands
        // are sent at once. The smaller count is used. So a queue that appears or vanishes
        // meanwhile does not count as a queue with an invalid name.
        let commands = ["stats", "list-tubes", "stats"];
        for command in commands {
            self.requests.line(command)?;
        }
        self.requests.flush()?;
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let reply = self.answer()?;
            answers.push(data(command, reply)?);
        }
        let [before, after] = [&answers[0], &answers[2]].map(|answer| Stats::parse(answer));
        let names = parse_list(&answers[1]);
        let [first, second] = [&before, &after].map(|stats| stats.number("current-tubes"));
        let unnamed_count = first.min(second).saturating_sub(names.len() as u64);
        let queues = self.stats_of_queues(names)?;
        Ok(Survey { server: before, queues, unnamed_count })
    }

    fn stats_of_queues(&mut self, mut names: Vec<String>) -> Result<Vec<Stats>, ClientError> {
        /// Number of commands that are sent before their replies are read. It is small enough that
        /// all commands and replies fit into the buffers of the sockets. Otherwise client and
        /// server could wait for each other.
        const QUEUES_IN_FLIGHT: usize = 100;
        names.sort_unstable();
        let mut all = Vec::with_capacity(names.len());
        for chunk in names.chunks(QUEUES_IN_FLIGHT) {
            for name in chunk {
                self.requests.line(&format!("stats-tube {name}"))?;
            }
            self.requests.flush()?;
            for name in chunk {
                let reply = self.answer()?;
                all.extend(stats_reply(&format!("stats-tube {name}"), reply)?);
            }
        }
        Ok(all)
    }

    /// Reads the job with this id without taking it.
    pub(crate) fn peek(&mut self, id: u64) -> Result<Option<Job>, ClientError> {
        self.peek_command(&format!("peek {id}"))
    }

    /// Reads the next job of the used queue in this state without taking it.
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

    /// Takes the job with this id. Returns `None` if the job no longer exists, or another worker
    /// holds it.
    pub(crate) fn reserve_job(&mut self, id: u64) -> Result<Option<Job>, ClientError> {
        let command = format!("reserve-job {id}");
        match self.ask(&command)? {
            Reply::Reserved(job) => Ok(Some(job)),
            Reply::NotFound => Ok(None),
            reply => Err(unexpected(&command, &reply)),
        }
    }

    /// Deletes a job. Returns false if it does not exist, or another connection holds it.
    pub(crate) fn delete(&mut self, id: u64) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("delete {id}"), Reply::Deleted)
    }

    /// Releases a held job. Returns false if this connection does not hold it.
    pub(crate) fn release(&mut self, id: u64, schedule: Schedule) -> Result<bool, ClientError> {
        let Schedule { priority, delay_seconds } = schedule;
        self.yes_or_not_found(&format!("release {id} {priority} {delay_seconds}"), Reply::Released)
    }

    /// Buries a held job. Returns false if this connection does not hold it.
    pub(crate) fn bury(&mut self, id: u64, priority: u32) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("bury {id} {priority}"), Reply::Buried(None))
    }

    /// Restarts the ttr of a held job. Returns false if this connection does not hold it.
    pub(crate) fn touch(&mut self, id: u64) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("touch {id}"), Reply::Touched)
    }

    /// Makes a buried or delayed job ready. Returns false if the job is in another state.
    pub(crate) fn kick_job(&mut self, id: u64) -> Result<bool, ClientError> {
        self.yes_or_not_found(&format!("kick-job {id}"), Reply::Kicked(None))
    }

    /// Makes up to `count` buried jobs of the used queue ready, or delayed jobs if none is buried.
    /// Returns the number of these jobs.
    pub(crate) fn kick(&mut self, count: u32) -> Result<u64, ClientError> {
        let command = format!("kick {count}");
        match self.ask(&command)? {
            Reply::Kicked(Some(kicked)) => Ok(kicked),
            reply => Err(unexpected(&command, &reply)),
        }
    }

    /// Pauses a queue for this time; 0 ends a pause. Returns false if the queue does not exist.
    pub(crate) fn pause(&mut self, queue: &str, seconds: u32) -> Result<bool, ClientError> {
        let command = format!("pause-tube {} {seconds}", sendable_name(queue)?);
        match self.ask(&command)? {
            Reply::Paused => Ok(true),
            Reply::NotFound => Ok(false),
            Reply::BadFormat => Err(ClientError::NameRefused(queue.to_owned())),
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
    /// Adds a command line, with its line end.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), ClientError> {
        self.add(&[line.as_bytes(), b"\r\n"])
    }

    /// Adds a `put` command with its body.
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

/// The error for an unexpected reply.
pub(crate) fn unexpected(command: &str, reply: &Reply) -> ClientError {
    ClientError::Unexpected { command: command.to_owned(), reply: reply.to_string() }
}

fn data(command: &str, reply: Reply) -> Result<Vec<u8>, ClientError> {
    match reply {
        Reply::Data(data) => Ok(data),
        reply => Err(unexpected(command, &reply)),
    }
}

fn stats_reply(command: &str, reply: Reply) -> Result<Option<Stats>, ClientError> {
    match reply {
        Reply::Data(data) => Ok(Some(Stats::parse(&data))),
        Reply::NotFound => Ok(None),
        reply => Err(unexpected(command, &reply)),
    }
}

/// Refuses a name with a space or a control character, because the server would not read it as one
/// word of the command line. The server checks all other rules.
fn sendable_name(name: &str) -> Result<&str, ClientError> {
    let breaks_the_line = |byte: u8| byte == b' ' || byte.is_ascii_control();
    if name.is_empty() || name.bytes().any(breaks_the_line) {
        return Err(ClientError::Name(name.to_owned()));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    use notation::address::Address;

    use super::*;

    /// A client, connected to a server that sends `text` and then nothing more.
    fn client_of_silence(text: &'static [u8]) -> (Client, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(text).unwrap();
            // Wait until the client disconnects.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut client = Client::connect_within(&Target::plain(address), PATIENCE).unwrap();
        client.patience = Some(Duration::from_millis(20));
        (client, server)
    }

    #[test]
    fn a_server_that_hangs_is_not_waited_for_without_end() {
        let no_queues = b"OK 4\r\n---\n\r\nOK 14\r\n---\n- default\n\r\nOK 4\r\n---\n\r\n";
        for before_it_hangs in [&b""[..], no_queues] {
            let (mut client, server) = client_of_silence(before_it_hangs);
            let error = client.survey().unwrap_err().to_string();
            assert_eq!(
                error,
                "the connection to the server broke: the server did not answer in time"
            );
            drop(client);
            server.join().unwrap();
        }
    }
}
