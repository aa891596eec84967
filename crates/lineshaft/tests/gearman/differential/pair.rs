//! Plays one sequence against both servers, step by step, and stops at the first difference.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::conformance::gearman::packet::Packet;
use testkit::conformance::text::latin1_bytes;
use testkit::differential::{Outcome, Transcript};
use testkit::wait;

use super::message::{Message, kind};
use super::side::Side;
use super::steps::{Action, CONNECTIONS, JobReference, Step};

/// A handle that no server uses.
const UNKNOWN_HANDLE: &str = "H:nobody:1";

/// The maximum delay of one server's message after the other server's message.
const PATIENCE: Duration = Duration::from_millis(500);

/// Two servers that get the same requests.
pub(crate) struct Pair {
    original: Side,
    subject: Side,
    /// The record of each connection.
    known: Vec<Known>,
    transcript: Transcript,
}

/// The harness's record of a connection, from its requests and replies.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The jobs that the connection works on. The list can also contain jobs that the connection
    /// has lost, which only reduces the variety of the test.
    held: Vec<usize>,
    /// The jobs whose outcome the connection waits for.
    waits_for: BTreeSet<usize>,
    /// The connection has sent `PRE_SLEEP`, and no grab since then.
    asleep: bool,
    /// The connection has received `NOOP`, and has sent no grab since then.
    woken: bool,
    /// The functions that the connection is registered for.
    functions: BTreeSet<String>,
}

/// The effect of one step on one connection.
enum Comparison {
    /// Both servers sent the same messages, which are these.
    Same(Vec<Message>),
    Different(String),
}

impl Pair {
    pub(crate) fn new(original: Side, subject: Side) -> Pair {
        let known = vec![Known::default(); CONNECTIONS];
        Pair { original, subject, known, transcript: Transcript::default() }
    }

    /// Plays the steps. An error means that the harness failed. A difference between the servers is
    /// not an error.
    pub(crate) fn play(mut self, steps: &[Step]) -> Result<Outcome> {
        for step in steps {
            if self.leads_where_they_differ_on_purpose(step) {
                continue;
            }
            let difference = self
                .step(step)
                .with_context(|| format!("at {} of\n{}", step.action, self.transcript.text()))?;
            if difference.is_some() {
                return Ok(Outcome { difference, transcript: self.transcript });
            }
        }
        Ok(Outcome { difference: None, transcript: self.transcript })
    }

    /// True if the step would show a known defect of the original.
    fn leads_where_they_differ_on_purpose(&self, step: &Step) -> bool {
        let known = &self.known[step.connection];
        match &step.action {
            // The original still lists foreground jobs without a waiting client. Submits with the
            // same key join these jobs.
            Action::Reconnect => !known.waits_for.is_empty(),
            // The original does not wake a sleeping worker that registers for a function with
            // waiting jobs. If a worker registers twice for a function, the original keeps two
            // registrations.
            Action::Packet { kind: kind::CAN_DO | kind::CAN_DO_TIMEOUT, arguments, .. } => {
                known.asleep || known.functions.contains(&arguments[0])
            }
            // If a worker was woken and goes back to sleep without a grab, the original does not
            // wake it again.
            Action::Packet { kind: kind::PRE_SLEEP, .. } => known.woken,
            // If a sleeping worker unregisters from a function, the original takes away the
            // worker's jobs of the function. Then it wakes the same worker for these jobs.
            Action::Packet { kind: kind::CANT_DO | kind::RESET_ABILITIES, .. } => {
                known.asleep && !known.held.is_empty()
            }
            Action::Packet { .. } | Action::Line { .. } => false,
        }
    }

    fn step(&mut self, step: &Step) -> Result<Option<String>> {
        let connection = step.connection;
        let order_number = self.resolve(connection, &step.action);
        let job = order_number.map_or_else(|| "unknown".to_owned(), |n| format!("#{n}"));
        let shown = step.action.to_string().replace("{job}", &job).replace('\0', "|");
        self.transcript.say(&format!("{connection}: {shown}"));
        let (mut to_original, mut to_subject) = (Vec::new(), Vec::new());
        if let Action::Reconnect = step.action {
            self.known[connection] = Known::default();
            self.original.reconnect(connection)?;
            self.subject.reconnect(connection)?;
        } else {
            to_original = bytes(&step.action, &self.original, order_number);
            to_subject = bytes(&step.action, &self.subject, order_number);
        }
        self.learn_from_action(connection, &step.action, order_number);
        let original = self.original.exchange(connection, &to_original)?;
        let subject = self.subject.exchange(connection, &to_subject)?;
        let original = match self.compare(connection, original, subject)? {
            Comparison::Same(heard) => heard,
            Comparison::Different(difference) => return Ok(Some(difference)),
        };
        if let Action::Packet { kind, .. } = step.action {
            self.learn_from_replies(connection, kind, &original);
        }
        self.compare_the_others(connection)
    }

    /// Compares the messages that a step of one connection caused on the other connections.
    fn compare_the_others(&mut self, acting: usize) -> Result<Option<String>> {
        for connection in (0..CONNECTIONS).filter(|connection| *connection != acting) {
            let original = self.original.exchange(connection, &[])?;
            let subject = self.subject.exchange(connection, &[])?;
            if let Comparison::Different(difference) =
                self.compare(connection, original, subject)?
            {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Compares the messages of a connection. If they differ, compares them again a moment later.
    /// The reason: a packet can cause messages on other connections, or on a worker that is its own
    /// client. A server can send such messages after the replies to later packets.
    fn compare(
        &mut self,
        connection: usize,
        mut original: Vec<Message>,
        mut subject: Vec<Message>,
    ) -> Result<Comparison> {
        let mut are_the_same = || -> Result<bool> {
            in_comparable_order(&mut original);
            in_comparable_order(&mut subject);
            if original == subject {
                return Ok(true);
            }
            original.extend(self.original.exchange(connection, &[])?);
            subject.extend(self.subject.exchange(connection, &[])?);
            Ok(false)
        };
        // The comparison below also covers a timeout of this wait.
        wait::for_some(PATIENCE, || are_the_same().map(|same| same.then_some(())).transpose())
            .transpose()?;
        let (original_shown, subject_shown) = (shown(&original), shown(&subject));
        if original != subject {
            let difference = format!(
                "{connection} hears\n     original: {original_shown}\n     subject:  {subject_shown}"
            );
            self.transcript.say(&format!("   {difference}"));
            return Ok(Comparison::Different(format!("connection {difference}")));
        }
        if !original.is_empty() {
            self.transcript.say(&format!("   {connection} hears {original_shown}"));
        }
        for message in &original {
            self.learn_from_news(connection, message);
        }
        Ok(Comparison::Same(original))
    }

    fn learn_from_action(&mut self, connection: usize, action: &Action, job: Option<usize>) {
        let known = &mut self.known[connection];
        let Action::Packet { kind, arguments, .. } = action else { return };
        match *kind {
            kind::CAN_DO | kind::CAN_DO_TIMEOUT => {
                known.functions.insert(arguments[0].clone());
            }
            kind::CANT_DO => {
                known.functions.remove(&arguments[0]);
            }
            kind::PRE_SLEEP => known.asleep = true,
            kind::GRAB_JOB | kind::GRAB_JOB_UNIQ | kind::GRAB_JOB_ALL => {
                (known.asleep, known.woken) = (false, false);
            }
            kind::WORK_COMPLETE | kind::WORK_FAIL | kind::WORK_EXCEPTION => {
                known.held.retain(|held| Some(*held) != job);
            }
            kind::RESET_ABILITIES => {
                known.held.clear();
                known.functions.clear();
            }
            _ => {}
        }
    }

    fn learn_from_replies(&mut self, connection: usize, asked: u32, replies: &[Message]) {
        let foreground = matches!(
            asked,
            kind::SUBMIT_JOB
                | kind::SUBMIT_JOB_HIGH
                | kind::SUBMIT_JOB_LOW
                | kind::SUBMIT_REDUCE_JOB
        );
        let created = replies.iter().filter(|reply| reply.kind == Some(kind::JOB_CREATED));
        if foreground {
            self.known[connection].waits_for.extend(created.filter_map(|reply| reply.job));
        }
    }

    fn learn_from_news(&mut self, connection: usize, message: &Message) {
        let known = &mut self.known[connection];
        match (message.kind, message.job) {
            (Some(kind::NOOP), _) => known.woken = true,
            (Some(kind::JOB_ASSIGN | kind::JOB_ASSIGN_UNIQ | kind::JOB_ASSIGN_ALL), Some(job)) => {
                known.held.push(job);
            }
            (Some(kind::WORK_COMPLETE | kind::WORK_FAIL | kind::WORK_EXCEPTION), Some(job)) => {
                known.waits_for.remove(&job);
            }
            _ => {}
        }
    }

    /// Finds the job that an action refers to. Returns its order number.
    fn resolve(&self, connection: usize, action: &Action) -> Option<usize> {
        let (Action::Packet { job, .. } | Action::Line { job, .. }) = action else { return None };
        let recent = |back: usize| self.original.handles.count().checked_sub(back + 1);
        let held = &self.known[connection].held;
        match *job {
            JobReference::Held(choice) => {
                held.get(choice % held.len().max(1)).copied().or_else(|| recent(choice))
            }
            JobReference::Recent(back) => recent(back),
            JobReference::Unknown => None,
        }
    }
}

/// Sorts wake-ups to the end, because a server can send a wake-up before or after a reply.
fn in_comparable_order(messages: &mut [Message]) {
    messages.sort_by_key(|message| message.kind == Some(kind::NOOP));
}

fn shown(messages: &[Message]) -> String {
    let texts: Vec<&str> = messages.iter().map(|message| message.text.as_str()).collect();
    if texts.is_empty() { "nothing".to_owned() } else { texts.join(" / ") }
}

/// The bytes that an action sends to one of the servers. The two servers have different handles for
/// the same job.
fn bytes(action: &Action, side: &Side, order_number: Option<usize>) -> Vec<u8> {
    let handle = order_number.map_or(UNKNOWN_HANDLE, |number| side.handles.handle(number));
    let fill = |text: &String| latin1_bytes(&text.replace("{job}", handle));
    match action {
        Action::Packet { kind, arguments, .. } => {
            let arguments: Vec<Vec<u8>> = arguments.iter().map(fill).collect();
            let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            Packet::request(*kind, &arguments).bytes()
        }
        // The line ends with a carriage return. Without it, the original cuts the name of a created
        // function.
        Action::Line { text, .. } => [fill(text), b"\r\n".to_vec()].concat(),
        Action::Reconnect => Vec::new(),
    }
}
