//! Who leads the cluster, and who serves its clients.

use broker::Broker;

use super::{Cluster, Event, NODES};
use crate::Sabotage;
use crate::machine::nodes::Process;
use crate::trace::Trace;

/// If no node leads for this long, all faults end.
const PATIENCE_MS: u64 = 30_000;
/// Without faults, a node must lead within this time. A server that was cut off can delay it.
const ELECTION_MS_MAX: u64 = 60_000;

impl Cluster {
    /// The node that has claimed last, if it knows of its claim, and does not serve yet.
    pub(crate) fn successor(&self) -> Option<usize> {
        let epoch = self.stream.epoch();
        (0..NODES).find(|number| {
            self.process(*number).is_some_and(|process| {
                process.claimed.is_some_and(|(claimed, _)| claimed == epoch)
                    && process.end.is_none()
                    && process.broker.stream().is_some_and(|stream| !stream.leads())
            })
        })
    }

    /// Lets time pass until some node has claimed.
    pub(crate) fn elect(&mut self, trace: &mut Trace) -> Result<usize, String> {
        let since = self.real;
        loop {
            if let Some(number) = self.successor() {
                return Ok(number);
            }
            let waited = self.real - since;
            if waited > PATIENCE_MS {
                self.end_trouble();
            } else if self.plan.is_faulty && self.rng.one_in(100) {
                self.trouble(trace)?;
            }
            if waited > PATIENCE_MS + ELECTION_MS_MAX {
                let nodes = self.members.iter().map(|member| &member.process);
                let nodes: Vec<_> = nodes.flatten().map(|process| &process.node).collect();
                return Err(format!("no node leads after {waited} ms: {nodes:#?}"));
            }
            self.pass(trace, 10)?;
        }
    }

    /// Lets a node serve clients that has claimed. Returns its broker, and its first id.
    pub(crate) fn serve(&mut self, number: usize) -> Result<(Broker, u64), String> {
        let wall = self.wall + self.real;
        let ignores_limit = self.sabotage == Sabotage::IdsAnew;
        let member = &mut self.members[number];
        let first = member.lead(self.real, wall, ignores_limit)?;
        let broker = member.process.as_ref().map(|process| process.broker.clone());
        let broker = broker.ok_or("a leader has a process")?;
        self.serving = Some(number);
        self.counts.takeovers += 1;
        self.add_to(number, 0, Event::Gather);
        Ok((broker, first.start))
    }

    pub(crate) fn process(&self, number: usize) -> Option<&Process> {
        self.members[number].process.as_ref()
    }

    /// Whether the node that serves may answer now. Fails if another node may answer, too.
    pub(crate) fn may_answer(&self) -> Result<bool, String> {
        let Some(number) = self.serving else { return Ok(false) };
        let may = self.members[number].may_answer(self.real);
        let may = may || self.sabotage == Sabotage::LeaseOff && !self.is_stopped();
        let other =
            (0..NODES).find(|other| *other != number && self.members[*other].may_answer(self.real));
        match other {
            Some(other) if may => {
                Err(format!("nodes {number} and {other} both answer at {}", self.real))
            }
            _ => Ok(may),
        }
    }

    /// Whether the node that serves cannot act now: it has ended, or it is paused.
    pub(crate) fn is_stopped(&self) -> bool {
        self.serving.and_then(|number| self.process(number)).is_none_or(|process| {
            process.end.is_some() || process.resigns || process.paused > self.real
        })
    }

    /// Whether the folder of the node that serves hangs, so that nothing is written now.
    pub(crate) fn is_disk_slow(&self) -> bool {
        self.serving.is_some_and(|number| self.members[number].slow > self.real)
    }

    /// Whether the node that serves gives its lead away, because its folder hangs. The end of all faults
    /// ends this, too.
    pub(crate) fn yields(&self) -> bool {
        let process = self.serving.and_then(|number| self.process(number));
        self.plan.is_faulty && !self.is_stopped() && process.is_some_and(|process| process.yields)
    }

    /// Whether the process that serves has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let process = self.serving.and_then(|number| self.process(number));
        process.is_none_or(|process| process.end.is_some())
    }
}
