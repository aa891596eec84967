//! Plays one sequence against both servers at the same time, and stops at the first difference.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use testkit::differential::{Outcome, Transcript};

use super::side::{Holders, PATIENCE_MS, Side};
use super::steps::{Action, JobReference, Step};

/// An id that no server uses.
const UNKNOWN_ID: u64 = 1 << 60;

/// Two servers that get the same requests.
pub(crate) struct Pair {
    original: Side,
    subject: Side,
    holders: Holders,
    /// Connections that wait for a job.
    waiting: BTreeSet<usize>,
    /// The tubes that each connection watches.
    watched: BTreeMap<usize, BTreeSet<String>>,
    transcript: Transcript,
}

impl Pair {
    pub(crate) fn new(original: Side, subject: Side) -> Pair {
        Pair {
            original,
            subject,
            holders: Holders::default(),
            waiting: BTreeSet::new(),
            watched: BTreeMap::new(),
            transcript: Transcript::default(),
        }
    }

    /// Plays the steps. An error means that the harness failed. A difference between the servers is
    /// not an error.
    pub(crate) fn play(mut self, steps: &[Step]) -> Result<Outcome> {
        let mut rest = steps;
        while !rest.is_empty() {
            let length = packet_length(rest);
            let (packet, later) = rest.split_at(length);
            rest = later;
            let difference = self.packet(packet).with_context(|| format!("at {packet:?}"))?;
            if difference.is_some() {
                return Ok(Outcome { difference, transcript: self.transcript });
            }
        }
        Ok(Outcome { difference: None, transcript: self.transcript })
    }

    /// Sends several steps of one connection in one packet. Steps that would show an intended
    /// difference between the servers are left out.
    fn packet(&mut self, steps: &[Step]) -> Result<Option<String>> {
        let connection = steps[0].connection;
        if let Action::Reconnect = steps[0].action {
            self.transcript.say(&format!("{connection}: {}", steps[0].action));
            self.reconnect(connection)?;
            return self.compare_waiters();
        }
        // A waiting connection sends nothing until it gets a job.
        if self.waiting.contains(&connection) {
            return Ok(None);
        }
        let (mut to_original, mut to_subject) = (Vec::new(), Vec::new());
        let mut answered = Vec::new();
        for step in steps {
            let waits = matches!(step.action, Action::Wait);
            if waits && self.would_share_a_tube(connection) {
                continue;
            }
            let order_number = self.resolve(connection, &step.action);
            let job = order_number.map_or_else(|| "unknown".to_owned(), |n| format!("#{n}"));
            let line = step.action.to_string().replace("{job}", &job);
            self.transcript.say(&format!("{connection}: {line}"));
            to_original.extend(bytes(&step.action, &self.original, order_number));
            to_subject.extend(bytes(&step.action, &self.subject, order_number));
            if waits {
                self.waiting.insert(connection);
            } else {
                answered.push((step, order_number));
            }
        }
        self.original.send(connection, &to_original)?;
        self.subject.send(connection, &to_subject)?;
        for (step, order_number) in answered {
            if let Some(difference) = self.compare_replies(connection)? {
                return Ok(Some(difference));
            }
            if let Action::Line { text, .. } = &step.action {
                self.learn_from_line(connection, text, order_number);
            }
        }
        self.compare_waiters()
    }

    /// Updates the harness's record of the state after a line to which both servers gave the same
    /// reply. An error in this record only reduces the variety of the test.
    fn learn_from_line(&mut self, connection: usize, text: &str, order_number: Option<usize>) {
        let watched = self.watched.entry(connection).or_default();
        match text.split(' ').collect::<Vec<_>>().as_slice() {
            // An `ignore` does not change this record. So the record can contain a tube that the
            // connection no longer watches. The only effect is that the test leaves out more steps.
            ["watch", tube] => drop(watched.insert((*tube).to_owned())),
            ["release" | "bury" | "delete", ..] => {
                if let Some(order_number) = order_number {
                    self.holders.forget(connection, order_number);
                }
            }
            _ => {}
        }
    }

    /// Finds the job that an action refers to. Returns its order number.
    fn resolve(&self, connection: usize, action: &Action) -> Option<usize> {
        let Action::Line { job, .. } = action else { return None };
        match *job {
            JobReference::Held(choice) => {
                self.holders.held(connection, choice).or_else(|| self.recent(choice))
            }
            JobReference::Recent(back) => self.recent(back),
            JobReference::Unknown => None,
        }
    }

    fn recent(&self, back: usize) -> Option<usize> {
        self.original.jobs_put().checked_sub(back + 1)
    }

    /// True if another connection waits on a tube that this connection watches. Then the test
    /// leaves out a reserve that waits, because the original serves several waiters of a tube in no
    /// particular order.
    fn would_share_a_tube(&self, connection: usize) -> bool {
        let tubes = |connection: &usize| {
            let mut tubes = self.watched.get(connection).cloned().unwrap_or_default();
            tubes.insert("default".to_owned());
            tubes
        };
        let own = tubes(&connection);
        self.waiting.iter().any(|other| tubes(other).intersection(&own).next().is_some())
    }

    fn reconnect(&mut self, connection: usize) -> Result<()> {
        self.waiting.remove(&connection);
        self.watched.remove(&connection);
        self.holders.forget_all(connection);
        self.original.reconnect(connection)?;
        self.subject.reconnect(connection)
    }

    /// Compares both servers' next replies to a connection.
    fn compare_replies(&mut self, connection: usize) -> Result<Option<String>> {
        let original = self.original.reply(connection, PATIENCE_MS)?;
        let subject = self.subject.reply(connection, PATIENCE_MS)?;
        let shown = |reply: &Option<String>| reply.clone().unwrap_or_else(|| "nothing".to_owned());
        if original != subject {
            let (original, subject) = (shown(&original), shown(&subject));
            self.transcript.say(&format!("   {connection} hears\n     original: {original}"));
            self.transcript.say(&format!("     subject:  {subject}"));
            return Ok(Some(format!("connection {connection}: {original} / {subject}")));
        }
        self.transcript.say(&format!("   {connection} hears {}", shown(&original)));
        self.holders.learn(connection, &shown(&original));
        Ok(None)
    }

    /// Finds the waiting connections that got a job. They must be the same on both servers.
    fn compare_waiters(&mut self) -> Result<Option<String>> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        self.original.settle()?;
        self.subject.settle()?;
        for connection in self.waiting.clone() {
            let served =
                self.original.has_reply(connection)? || self.subject.has_reply(connection)?;
            if served {
                self.waiting.remove(&connection);
                if let Some(difference) = self.compare_replies(connection)? {
                    return Ok(Some(difference));
                }
            }
        }
        Ok(None)
    }
}

/// The number of steps, from the first step on, that are sent in one packet. It is at least 1.
fn packet_length(steps: &[Step]) -> usize {
    let joined = |pair: &[Step]| {
        let next_can_follow = !matches!(pair[1].action, Action::Reconnect);
        pair[0].goes_with_next() && pair[0].connection == pair[1].connection && next_can_follow
    };
    1 + steps.windows(2).take_while(|pair| joined(pair)).count()
}

/// The bytes that an action sends to one of the servers. The two servers have different ids for the
/// same job.
fn bytes(action: &Action, side: &Side, order_number: Option<usize>) -> Vec<u8> {
    let id = || order_number.map_or(UNKNOWN_ID, |number| side.id(number)).to_string();
    let text = match action {
        Action::Line { text, .. } => format!("{}\r\n", text.replace("{job}", &id())),
        Action::Put { pri, delay_s, ttr_s, body } => {
            format!("put {pri} {delay_s} {ttr_s} {}\r\n{body}\r\n", body.len())
        }
        Action::Wait => "reserve\r\n".to_owned(),
        Action::Reconnect => String::new(),
    };
    text.into_bytes()
}
