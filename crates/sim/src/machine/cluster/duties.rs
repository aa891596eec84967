//! What the owner of a node does: it starts and ends processes, applies and gathers groups, and
//! reports to the leader.

use broker::{Applied, ApplyError, Millis};
use replica::group::SealedGroup;
use replica::node::Input;

use super::{Cluster, Event, NOBODY, REPORT_MS, Replication};
use crate::machine::nodes::Member;
use crate::machine::storage::CrashKind;
use crate::trace::Trace;
use crate::{Checked, Sabotage};

/// A process that has ended starts again within this time.
const DOWN_MS_MAX: u64 = 3000;
/// A follower notices within this time that its leader's process is gone.
const GONE_MS: u64 = 100;
/// The threads of a broker that serves nobody work after at most this time.
const WORK_MS_MAX: u64 = 60;
/// The kinds of facts that change jobs: PUT, UPDATE and FINISH.
const CHANGES: [u8; 3] = [PUT, 3, FINISH];
const PUT: u8 = 2;
const FINISH: u8 = 5;
/// A group that cannot be applied now is tried again after this time.
const RETRY_MS: u64 = 5;

impl Cluster {
    // --- Processes ---

    pub(super) fn start(&mut self, trace: &mut Trace, number: usize) -> Checked {
        let options = self.options_of(number);
        let has_one_history = self.has_one_history();
        let member = &mut self.members[number];
        if member.process.is_some() || member.needs_copy {
            return Ok(());
        }
        let accepted = has_one_history.then(|| self.stream.accepted());
        if !member.start(options, &self.plan, accepted, &mut self.rng, self.real)? {
            self.end(trace, number, CrashKind::PowerLoss);
            return Ok(());
        }
        self.counts.starts += 1;
        trace.note(format_args!("node {number} starts"));
        self.add_to(number, 1, Event::Work);
        self.add_to(number, REPORT_MS, Event::Report);
        self.judge_jobs(number)?;
        self.check_servers(trace, number)
    }

    /// Ends the node's process. It starts again later.
    pub(crate) fn end(&mut self, trace: &mut Trace, number: usize, kind: CrashKind) {
        trace.note(format_args!("node {number} ends: {kind:?}"));
        if self.serving == Some(number) {
            self.serving = None;
        }
        self.members[number].end(kind);
        let after = self.rng.below(DOWN_MS_MAX);
        self.add(after, number, NOBODY, Event::Start);
        for other in 0..self.members.len() {
            if self.rng.coin() {
                let after = self.rng.below(GONE_MS);
                self.add_to(other, after, Event::Look);
            }
        }
    }

    /// Lets the node that serves resign in favour of some follower.
    pub(crate) fn resign(&mut self, trace: &mut Trace, next_id: u64) -> Checked {
        let Some(number) = self.serving else { return Ok(()) };
        let Some(process) = &mut self.members[number].process else { return Ok(()) };
        process.resigns = true;
        let epoch = process.node.reader().epoch();
        let successor = process.node.folders().successor(epoch).unwrap_or(0);
        trace.note(format_args!("node {number} resigns for {successor}"));
        self.input(trace, number, Input::Resign { successor, next_id })
    }

    // --- Groups ---

    pub(super) fn apply(&mut self, trace: &mut Trace, number: usize) -> Checked {
        let shown = self.members[number].clock.at(self.real);
        let Some(process) = &mut self.members[number].process else { return Ok(()) };
        let Some(group) = process.groups.front() else {
            process.is_applying = false;
            return Ok(());
        };
        let group = sabotaged(group, self.sabotage);
        let applied = process.broker.apply(&group);
        match applied {
            // The work of its threads comes at moments of its own, so a rest would give it nothing.
            Ok(Applied { at, .. }) => {
                trace.note(format_args!("node {number} applies group {}", at.number));
                process.groups.pop_front();
                process.timed = shown;
                let next_id = process.broker.next_number();
                if self.sabotage == Sabotage::TimersOnFollower {
                    self.fire_timers(number, at.time_ms)?;
                }
                self.judge_applied(number)?;
                let input = Input::Applied { number: at.number, next_id };
                let way = self.way();
                self.add_to(number, way, Event::Apply);
                self.input(trace, number, input)
            }
            Err(ApplyError::Full(_) | ApplyError::Unread(_)) => {
                self.add_to(number, RETRY_MS, Event::Apply);
                self.lose_power_if_planned(trace, number);
                Ok(())
            }
            Err(error) => Err(format!("node {number}: {error}")),
        }
    }

    /// Sabotage: all delayed jobs of a follower become ready.
    fn fire_timers(&mut self, number: usize, time_ms: u64) -> Checked {
        let group = self.stream.number();
        self.pass_contents(number, group)?;
        let Some(process) = &self.members[number].process else { return Ok(()) };
        let mut turn = process.broker.turn(Millis(0));
        let session = turn.open_session(0);
        for id in self.members[number].contents.delayed_after(time_ms) {
            // The group may not have the job yet.
            let _ = turn.caller(session).kick_job(broker::JobId(id));
        }
        turn.close_session(session);
        Ok(())
    }

    /// Passes the groups of a leader's broker to its node.
    pub(super) fn gather(&mut self, trace: &mut Trace, number: usize) -> Checked {
        loop {
            let Some(process) = &mut self.members[number].process else { return Ok(()) };
            let Some(stream) = process.broker.stream().filter(|stream| stream.leads()) else {
                return Ok(());
            };
            let Some(group) = stream.take_group() else { return Ok(()) };
            trace.note(format_args!(
                "node {number} gathers group {} of {} bytes",
                group.number,
                group.body.len()
            ));
            if matches!(self.sabotage, Sabotage::HastyAcks | Sabotage::GateOff) {
                process.broker.accept(group.number);
            }
            let released = process.broker.released();
            process.gathered.insert(group.number, (group.at(), released));
            process.written.insert(group.number, group.at());
            self.input(trace, number, Input::Gathered(group))?;
        }
    }

    // --- Threads of a broker that serves nobody ---

    pub(super) fn work(&mut self, trace: &mut Trace, number: usize) -> Checked {
        let after = self.rng.between(1, WORK_MS_MAX);
        self.add_to(number, after, Event::Work);
        // Sabotage: only the folder of the leader has the groups.
        let is_idle = self.sabotage == Sabotage::TrimOne || self.members[number].slow > self.real;
        if self.serving == Some(number) || is_idle {
            return Ok(());
        }
        let kind = self.rng.below(8);
        let Some(process) = &self.members[number].process else { return Ok(()) };
        let broker = process.broker.clone();
        let now = self.members[number].thread_time(self.real);
        let disturbed = |failed: &dyn std::fmt::Display| format!("node {number}: {failed}");
        let mut problem = broker.commit_step(now).err().map(|failed| disturbed(&failed));
        if let Err(failed) = broker.prepare_step() {
            problem = Some(disturbed(&failed));
        }
        match kind {
            0 | 1 => {
                broker.load_step(now);
                if let Err(failed) = broker.reclaim_step(now) {
                    problem = Some(disturbed(&failed));
                }
            }
            2 if self.options.jobs_bytes_max.is_some() => work_at_cold_jobs(&broker, now),
            _ => {}
        }
        if self.lose_power_if_planned(trace, number) {
            return Ok(());
        }
        let member = &self.members[number];
        match problem {
            // A log without room tries again, unless it has failed for good.
            Some(_) if member.full > self.real => {
                if broker.failure().is_some() {
                    self.end(trace, number, CrashKind::Killed);
                }
                Ok(())
            }
            Some(problem) => Err(problem),
            None => self.note_durable(trace, number),
        }
    }

    /// Tells the node which groups are durable in its folder.
    pub(crate) fn note_durable(&mut self, trace: &mut Trace, number: usize) -> Checked {
        match self.members[number].note_durable() {
            Some(_) if self.sabotage == Sabotage::TrimOne => {
                self.input(trace, number, Input::Durable(u64::MAX))
            }
            Some(durable) => self.input(trace, number, Input::Durable(durable)),
            None => Ok(()),
        }
    }

    /// Whether the power of this node has failed during a call of its disk.
    fn lose_power_if_planned(&mut self, trace: &mut Trace, number: usize) -> bool {
        let has_crashed = self.members[number].disk.has_crashed();
        if has_crashed {
            self.end(trace, number, CrashKind::PowerLoss);
        }
        has_crashed
    }

    // --- Agreement ---

    /// Whether one node serves, no other one has claimed after it, and the effects of all faults
    /// have ended.
    pub(crate) fn is_in_order(&self) -> bool {
        let epoch = |member: &Member| {
            let process = member.process.as_ref().filter(|process| process.end.is_none());
            process.and_then(|process| process.claimed).map_or(0, |(epoch, _)| epoch)
        };
        let serving = self.serving.map_or(0, |number| epoch(&self.members[number]));
        self.real >= self.quiet_at
            && serving > 0
            && self.members.iter().map(epoch).max() == Some(serving)
    }

    /// Whether all nodes run, except those that need a copy, and all have the same groups durably.
    pub(crate) fn agrees(&self) -> bool {
        let place = |member: &Member| {
            let at = member.process.as_ref()?.broker.stream()?.at();
            // Before the first group, nodes may have different limits of ids.
            Some((at.number, at.chain, at.state, at.jobs))
        };
        let served = self.serving.and_then(|number| place(&self.members[number]));
        self.members.iter().all(|member| {
            let found = place(member);
            let is_durable = found.is_some_and(|(number, ..)| number <= member.durable());
            is_durable && found == served || member.needs_copy
        })
    }

    /// Opens a copy of each folder. It must have what its node has.
    pub(crate) fn check_folders(&mut self) -> Checked {
        for number in 0..self.members.len() {
            if self.members[number].process.is_none() {
                continue;
            }
            let Some(broker) = self.judge_folder(number)? else { continue };
            let served = self.process(number).and_then(|process| process.broker.stream());
            let served = served.map(|stream| stream.at());
            let totals = broker.turn(Millis(0)).totals();
            let jobs = totals.ready + totals.delayed + totals.buried;
            let found = broker.stream().map(|stream| stream.at());
            if found != served || found.is_none_or(|at| at.jobs != jobs) {
                return Err(format!(
                    "the folder of node {number} has {jobs} jobs at {found:?}, not {served:?}"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn counted(&self) -> Replication {
        let (groups, stale) = (self.stream.number(), self.stream.stale);
        let fired = self.members.iter().map(|member| member.contents.fired()).max().unwrap_or(0);
        Replication { groups, stale, fired, renewals: self.stream.renewals, ..self.counts }
    }

    // --- Links between the nodes ---

    /// A follower reports to its leader, or notices that the leader's process is gone.
    pub(super) fn report(&mut self, trace: &mut Trace, number: usize, looks: bool) -> Checked {
        let member = &self.members[number];
        let Some(process) = &member.process else { return Ok(()) };
        let Some((leader, claim)) = process.node.reader().leader() else { return Ok(()) };
        let (leader, incarnation) = (*leader as usize - 1, claim.incarnation);
        if process.node.leads() || leader == number {
            return Ok(());
        }
        let cut = self.links_cut[number][leader].max(self.links_cut[leader][number]);
        let (id, is_linked) = (member.id, process.linked == Some(leader));
        let runs = self.members[leader].process.as_ref();
        let runs = runs.filter(|process| process.end.is_none());
        let is_gone = runs.is_none_or(|process| process.incarnation != incarnation);
        let is_paused = runs.is_some_and(|process| process.paused > self.real);
        let report = member.report(self.real);
        let link = |cluster: &mut Self, linked| {
            if let Some(process) = &mut cluster.members[number].process {
                process.linked = linked;
            }
        };
        if cut > self.real || is_paused {
            link(self, None);
            return if is_linked { self.input(trace, leader, Input::Lost(id)) } else { Ok(()) };
        }
        if is_gone {
            link(self, None);
            if looks {
                self.add_to(number, GONE_MS, Event::Look);
            }
            return self.input(trace, number, Input::LeaderGone(incarnation));
        }
        link(self, Some(leader));
        let Some(mut report) = report else { return Ok(()) };
        if self.sabotage == Sabotage::TrimOne {
            (report.durable, report.needs) = (report.applied, report.applied);
        }
        self.input(trace, leader, Input::Reported { report, is_live: true })
    }
}

fn work_at_cold_jobs(broker: &broker::Broker, now: Millis) {
    broker.seal_step(now);
    // A disk that fails is noticed by the committer.
    let _ = broker.commit_step(now);
    let _ = broker.index_step();
    while broker.cool_step(now) {}
}

/// Changes the last byte of the first put, which is mostly a byte of the body. The length stays the
/// same, and so does the checksum that came with the group.
fn with_other_body(mut group: SealedGroup) -> SealedGroup {
    let facts = super::trouble::facts(&group.body);
    if let Some(at) = facts.iter().position(|fact| is_put_with_body(fact)) {
        let end: usize = facts[..=at].iter().map(|fact| fact.len()).sum();
        group.body[end - 1] ^= 1;
    }
    group
}

/// Whether the fact is a PUT of one job without options, and with a body.
fn is_put_with_body(fact: &[u8]) -> bool {
    let n = u16::from_le_bytes([fact[2], fact[3]]);
    let has_options = fact.get(8 + 38..8 + 40) != Some(&[0, 0]);
    fact[0] == PUT && n == 1 && !has_options && fact.len() > 8 + 40
}

/// Changes a group before it is applied, if the run asks for it.
fn sabotaged(group: &SealedGroup, sabotage: Sabotage) -> SealedGroup {
    let mut group = group.clone();
    let mut facts = super::trouble::facts(&group.body);
    let last = facts.iter().rposition(|fact| CHANGES.contains(&fact[0]));
    match (sabotage, last) {
        (Sabotage::DisorderedApply, Some(last))
            if last > 0 && CHANGES.contains(&facts[last - 1][0]) =>
        {
            facts.swap(last - 1, last);
        }
        (Sabotage::SkippedFact, Some(last)) => drop(facts.remove(last)),
        (Sabotage::ForgottenEnds, _) => facts.retain(|fact| fact[0] != FINISH),
        (Sabotage::OtherBodies, _) => return with_other_body(group),
        _ => return group,
    }
    group.body = facts.concat();
    group
}
