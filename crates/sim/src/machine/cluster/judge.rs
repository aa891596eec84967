//! Judges the nodes by what the stream contains. The judgements use neither the state hash nor the
//! folders' own checks.

use std::sync::Arc;

use broker::{Broker, Millis};
use replica::Epoch;
use replica::node::{Input, Request, Subject};

use super::{Cluster, Event};
use crate::machine::contents::Contents;
use crate::trace::Trace;
use crate::{Checked, Sabotage};

/// A node checks the stream's servers again after this time.
const GUARDS_MS: u64 = 20_000;
/// The jobs of a follower are compared after one of this many groups.
const GROUPS_BETWEEN_COMPARISONS: u64 = 4;

impl Cluster {
    /// Whether the history is that of one stream. If the stream loses its end, other groups get the
    /// same numbers.
    pub(super) fn has_one_history(&self) -> bool {
        self.sabotage != Sabotage::UnflushedStream
    }

    /// A leader yields. Another folder must have more than its own.
    pub(super) fn judge_yields(&self, number: usize) -> Checked {
        let durable = self.members[number].durable();
        if self.members.iter().any(|member| member.durable() > durable) {
            return Ok(());
        }
        Err(format!("node {number} yields, but no folder has more than its {durable} groups"))
    }

    /// A follower has applied a group. The group must be in the accepted history, and the node must
    /// have what the leader had.
    pub(super) fn judge_applied(&mut self, number: usize) -> Checked {
        if !self.has_one_history() {
            return Ok(());
        }
        let Some(process) = &self.members[number].process else { return Ok(()) };
        let Some(stream) = process.broker.stream() else { return Ok(()) };
        let at = stream.at();
        let expected = self.stream.accepted().get(at.number as usize);
        if expected != Some(&at) {
            return Err(format!(
                "node {number} applied {at:?}, which is no part of the history: {expected:?}"
            ));
        }
        self.counts.compared += 1;
        if at.number.is_multiple_of(GROUPS_BETWEEN_COMPARISONS) {
            return self.judge_jobs(number);
        }
        Ok(())
    }

    /// All jobs of a node that does not lead must be those that the groups of the stream make.
    pub(super) fn judge_jobs(&mut self, number: usize) -> Checked {
        if !self.has_one_history() {
            return Ok(());
        }
        let Some(process) = &self.members[number].process else { return Ok(()) };
        let Some(stream) = process.broker.stream().filter(|stream| !stream.leads()) else {
            return Ok(());
        };
        let at = stream.at();
        let broker = process.broker.clone();
        self.pass_contents(number, at.number)?;
        if self.options.jobs_bytes_max.is_some() || self.members[number].disk.has_crashed() {
            // Cold jobs cannot be compared. The folder is compared at the end of the run.
            return Ok(());
        }
        self.members[number]
            .contents
            .check(&broker.turn(Millis(0)), at.time_ms)
            .map_err(|what| format!("node {number} at group {} {what}", at.number))
    }

    /// Computes what a node must have after this group.
    pub(super) fn pass_contents(&mut self, number: usize, group: u64) -> Checked {
        let contents = &mut self.members[number].contents;
        if contents.number() > group {
            // The node lost groups that were not durable.
            *contents = Contents::default();
        }
        let missing = (group - contents.number()) as usize;
        let groups = self.stream.groups_after(contents.number());
        groups.iter().take(missing).try_for_each(|group| contents.add(group))
    }

    /// What is durable in a node's folder must be a prefix of the history. Opens a copy of the folder,
    /// as it would be after a power failure.
    pub(super) fn judge_folder(&mut self, number: usize) -> Result<Option<Broker>, String> {
        let disk = self.members[number].disk.fork();
        disk.crash();
        disk.plan_nothing();
        let options = broker::Options {
            disk: Arc::new(disk),
            jobs_bytes_max: None,
            ..self.options_of(number)
        };
        let (broker, _) = Broker::open(options, Millis(0))
            .map_err(|error| format!("the folder of node {number} is refused: {error}"))?;
        if !self.has_one_history() {
            return Ok(Some(broker));
        }
        let Some(stream) = broker.stream() else { return Ok(None) };
        let at = stream.at();
        let expected = self.stream.accepted().get(at.number as usize);
        let is_at = expected
            .is_some_and(|it| (it.number, it.chain, it.state) == (at.number, at.chain, at.state));
        if !is_at || at.number < self.members[number].durable() {
            return Err(format!(
                "the folder of node {number} has durably {at:?}, which is no prefix of the history"
            ));
        }
        self.pass_contents(number, at.number)?;
        let turn = broker.turn(Millis(0));
        turn.check_invariants();
        self.members[number]
            .contents
            .check(&turn, at.time_ms)
            .map_err(|what| format!("the folder of node {number} {what}"))?;
        drop(turn);
        self.counts.folders += 1;
        Ok(Some(broker))
    }

    /// Compares all nodes and folders with the history.
    pub(crate) fn judge_all(&mut self) -> Checked {
        for number in 0..self.members.len() {
            self.judge_jobs(number)?;
            self.judge_folder(number)?;
        }
        Ok(())
    }

    /// A node says that it leads. Its claim must count, and it must have everything before it.
    pub(super) fn judge_leads(&self, number: usize, epoch: Epoch) -> Checked {
        let member = &self.members[number];
        let at = member.process.as_ref().and_then(|process| process.broker.stream());
        let at = at.map_or(0, |stream| stream.at().number);
        let found = self.stream.claim(epoch);
        if found == Some((member.id, at)) || !self.has_one_history() {
            return Ok(());
        }
        Err(format!(
            "node {number} leads in epoch {epoch} after group {at}, but the claim: {found:?}"
        ))
    }

    /// Replies leave the node that serves. Everything that they rest on must be in the stream, from
    /// this node or from a leader before it.
    pub(crate) fn judge_replies(&self) -> Checked {
        let Some(number) = self.serving else { return Ok(()) };
        // With the gate off, replies still wait for the stream.
        if self.sabotage == Sabotage::GateOff || !self.has_one_history() {
            return Ok(());
        }
        let Some(process) = self.process(number) else { return Ok(()) };
        let Some(stream) = process.broker.stream() else { return Ok(()) };
        let group = stream.acknowledged();
        let accepted = self.stream.accepted().get(group as usize);
        let Some(accepted) = accepted else {
            return Err(format!(
                "node {number} sends replies about group {group} before the stream has it"
            ));
        };
        match process.written.get(&group) {
            Some(written) if written != accepted => Err(format!(
                "node {number} sends replies about {written:?}, but the stream has {accepted:?}"
            )),
            _ => Ok(()),
        }
    }

    // --- Checks of the stream's servers ---

    /// A node gets the result of a check of the stream's servers, again and again.
    pub(super) fn check_servers(&mut self, trace: &mut Trace, number: usize) -> Checked {
        self.add_to(number, GUARDS_MS, Event::Guards);
        let is_safe = self.unsafe_until <= self.real;
        if let Some(process) = &mut self.members[number].process {
            process.is_safe = is_safe;
        }
        let is_trusted = is_safe || self.sabotage == Sabotage::GuardsIgnored;
        self.input(trace, number, Input::Guards(is_trusted))
    }

    /// A follower must not claim if its last check of the servers failed.
    pub(super) fn judge_request(&self, number: usize, request: &Request) -> Checked {
        let Some(process) = self.process(number) else { return Ok(()) };
        let claims = matches!(request, Request::Append { subject: Subject::Claims, .. });
        let is_again = matches!(request, Request::Append { id, .. } if *id == process.last_append);
        if claims && !is_again && !process.node.leads() && !process.is_safe {
            return Err(format!("node {number} claims although the servers may lose records"));
        }
        Ok(())
    }
}
