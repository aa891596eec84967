//! The simulated cluster: its nodes, the stream, and the messages between them. All events happen
//! in the order of true time, which only [`Cluster::pass`] lets pass.

mod driver;
mod duties;
mod judge;
mod leading;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker::Millis;
use replica::chain::Chain;
use replica::group::At;
use replica::node::{Act, Answer, End, Input, Output, Request};
use replica::{Epoch, Incarnation, Seq};

use super::nodes::Member;
use super::storage::{CrashKind, DISK_BYTES};
use super::stream::{Append, LINEAGE, Stream};
use crate::plan::Replicated;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::{Checked, Sabotage};

pub(crate) const NODES: usize = 3;

/// Time between two reports.
const REPORT_MS: u64 = 500;
/// The longest usual way of a message.
const WAY_MS_MAX: u64 = 3;

/// What happens at some moment.
#[derive(Debug)]
enum Event {
    /// The wake-up of a node.
    Tick,
    /// An append reaches the stream.
    Arrive { id: u64, append: Append, fate: Fate },
    /// Another request reaches the stream.
    Ask(Request),
    /// An answer reaches the node.
    Answer(Answer),
    /// The driver gives up an append.
    TimeOut(u64),
    /// The consumer brings the next record.
    Deliver,
    /// The next group is applied.
    Apply,
    /// The broker may have a group for the stream.
    Gather,
    /// The threads of a broker that serves nobody work.
    Work,
    /// A follower reports to its leader, again and again.
    Report,
    /// A follower looks whether its leader's process is gone.
    Look,
    /// A process starts.
    Start,
    /// The stream's servers are checked.
    Guards,
    /// The disk has room again.
    Room,
    /// A request to trim reaches the stream.
    Trim(Seq),
    /// The servers of the stream agree about a proposal.
    Decide { lands: bool },
}

/// What happens to an append.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Fate {
    Plain,
    /// Nobody hears of its success.
    Silent,
    /// The servers do not agree about it for some time.
    Undecided,
    /// It is refused, although its conditions are right.
    Refused,
    /// An earlier append seems to be undecided.
    Busy,
    /// A power failure of the servers lets it in, whatever its conditions.
    Stray,
}

/// Counts what happened in the cluster.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Replication {
    /// Nodes that began to lead.
    pub takeovers: u64,
    /// Groups that the stream accepted.
    pub groups: u64,
    /// Appends with an unknown outcome at first.
    pub unknown: u64,
    /// Appends that were refused.
    pub refused: u64,
    /// Records of the stream that did not count.
    pub stale: u64,
    /// Leaders that another node deposed while they lived.
    pub deposed: u64,
    /// Leaders that resigned.
    pub resigned: u64,
    /// Leaders that gave their lead away, because their folder hung.
    pub yields: u64,
    /// Instants of schedules that have a job.
    pub fired: u64,
    /// Claims that leaders renewed.
    pub renewals: u64,
    /// Trims that removed records of the stream.
    pub trims: u64,
    /// Nodes that needed a copy of another folder.
    pub copies_needed: u64,
    /// Starts of processes.
    pub starts: u64,
    /// Groups of followers that were compared with the history.
    pub compared: u64,
    /// Folders that were compared with the history, as after a power failure.
    pub folders: u64,
    /// Times at which all nodes lost their power.
    pub blackouts: u64,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    rng: Rng,
    plan: Replicated,
    sabotage: Sabotage,
    /// True time in milliseconds since the beginning of the run.
    pub(crate) real: u64,
    /// The wall clock at the beginning of the run.
    wall: u64,
    pub(crate) stream: Stream,
    pub(crate) members: Vec<Member>,
    /// By their moments, each with a number, its node, and the process that it belongs to.
    events: BTreeMap<(u64, u64), (usize, Incarnation, Event)>,
    events_made: u64,
    /// The options of each broker, except its disk.
    options: broker::Options,
    /// The node that serves clients.
    pub(crate) serving: Option<usize>,
    /// What leaders have acknowledged.
    acknowledged: BTreeMap<u64, (Epoch, Chain)>,
    /// After the end of all faults: when their effects have ended, too.
    quiet_at: u64,
    /// Until when the stream has no leader.
    leaderless: u64,
    /// Until when the stream's servers do not flush, or do not say whether they do.
    unsafe_until: u64,
    /// Until when the links between two nodes are cut.
    links_cut: [[u64; NODES]; NODES],
    pub(crate) counts: Replication,
}

/// Events that belong to no process.
const NOBODY: Incarnation = 0;

impl Cluster {
    pub(crate) fn new(
        seed: u64,
        plan: Replicated,
        options: broker::Options,
        wall: u64,
        sabotage: Sabotage,
    ) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let members =
            (0..NODES).map(|number| Member::new(number, &mut rng, DISK_BYTES, plan.skewed));
        let origin = At { chain: Chain::origin(LINEAGE, 0, 0), ..At::default() };
        let mut stream = Stream::new(origin);
        stream.ignores_conditions = sabotage == Sabotage::FenceOff;
        stream.trusts_claims = sabotage == Sabotage::StaleTailTrusted;
        let mut cluster = Self {
            members: members.collect(),
            rng,
            plan,
            sabotage,
            real: 0,
            wall,
            stream,
            events: BTreeMap::new(),
            events_made: 0,
            options,
            serving: None,
            acknowledged: BTreeMap::new(),
            quiet_at: 0,
            leaderless: 0,
            unsafe_until: 0,
            links_cut: [[0; NODES]; NODES],
            counts: Replication::default(),
        };
        // The empty folder of the first node is the origin. The others are new.
        let disk = Arc::new(cluster.members[0].disk.clone());
        let log = cluster.options.log.clone();
        broker::offline::make_origin(disk, log, LINEAGE)
            .map_err(|error| format!("an empty folder is no origin: {error}"))?;
        cluster.members[0].disk.restart();
        for number in 0..NODES {
            let after = cluster.rng.below(100);
            cluster.add(after, number, NOBODY, Event::Start);
        }
        Ok(cluster)
    }

    // --- Events ---

    fn add(&mut self, after: u64, number: usize, incarnation: Incarnation, event: Event) {
        self.events_made += 1;
        let key = (self.real + after, self.events_made);
        self.events.insert(key, (number, incarnation, event));
    }

    /// Adds an event of the node's process, if it has one.
    fn add_to(&mut self, number: usize, after: u64, event: Event) {
        if let Some(process) = &self.members[number].process {
            let incarnation = process.incarnation;
            self.add(after, number, incarnation, event);
        }
    }

    fn way(&mut self) -> u64 {
        match self.rng.below(60) {
            0 if self.plan.is_faulty => self.rng.below(300),
            _ => self.rng.below(WAY_MS_MAX),
        }
    }

    /// Lets time pass. Everything that is due happens.
    pub(crate) fn pass(&mut self, trace: &mut Trace, ms: u64) -> Checked {
        let end = self.real + ms;
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), (number, incarnation, event)) = entry.remove_entry();
            self.real = self.real.max(at);
            self.happen(trace, number, incarnation, event)?;
        }
        self.real = end;
        Ok(())
    }

    fn happen(
        &mut self,
        trace: &mut Trace,
        number: usize,
        incarnation: Incarnation,
        event: Event,
    ) -> Checked {
        match event {
            // These happen at the stream, or without a process.
            Event::Start => return self.start(trace, number),
            Event::Arrive { id, append, fate } => {
                return self.arrive(trace, number, incarnation, id, append, fate);
            }
            Event::Ask(request) => {
                self.ask(number, incarnation, &request);
                return Ok(());
            }
            Event::Trim(below) => return self.trim(trace, below),
            Event::Room => {
                if self.members[number].full <= self.real {
                    self.members[number].has_room();
                }
                return Ok(());
            }
            Event::Decide { lands } => {
                trace.note(format_args!("the stream decides: {lands}"));
                self.stream.decide(lands)?;
                self.wake_consumers();
                return Ok(());
            }
            _ => {}
        }
        let Some(process) = &mut self.members[number].process else { return Ok(()) };
        if process.incarnation != incarnation || process.end.is_some() {
            return Ok(());
        }
        if process.paused > self.real {
            let after = process.paused - self.real;
            self.add(after, number, incarnation, event);
            return Ok(());
        }
        match event {
            Event::Tick if process.tick_at <= self.real => {
                process.tick_at = u64::MAX;
                self.input(trace, number, Input::Tick)
            }
            Event::Answer(answer) => self.answered(trace, number, answer),
            Event::TimeOut(id) => self.answered(trace, number, Answer::Unknown { id }),
            Event::Deliver => self.deliver(trace, number),
            Event::Apply => self.apply(trace, number),
            Event::Gather => self.gather(trace, number),
            Event::Work => self.work(trace, number),
            Event::Report => {
                self.add_to(number, REPORT_MS, Event::Report);
                self.report(trace, number, false)
            }
            Event::Look => self.report(trace, number, true),
            Event::Guards => self.check_servers(trace, number),
            _ => Ok(()),
        }
    }

    /// Passes an input to a node, and does what it asks for.
    fn input(&mut self, trace: &mut Trace, number: usize, input: Input) -> Checked {
        let member = &mut self.members[number];
        let Some(process) = &mut member.process else { return Ok(()) };
        if process.end.is_some() {
            return Ok(());
        }
        let mut out = Vec::new();
        process.node.handle(member.clock.at(self.real), input, &mut out);
        for output in out {
            match output {
                Output::Request(request) => {
                    self.judge_request(number, &request)?;
                    self.request(number, request);
                }
                Output::Act(act) => self.act(trace, number, act)?,
            }
        }
        let member = &mut self.members[number];
        let Some(process) = &mut member.process else { return Ok(()) };
        let wake = process.node.wake_at(member.clock.at(self.real));
        if wake < u64::MAX {
            let at = member.clock.when(wake).max(self.real + 1);
            if at != process.tick_at {
                process.tick_at = at;
                let after = at - self.real;
                self.add_to(number, after, Event::Tick);
            }
        }
        Ok(())
    }

    fn act(&mut self, trace: &mut Trace, number: usize, act: Act) -> Checked {
        let shown = self.members[number].clock.at(self.real);
        let Some(process) = &mut self.members[number].process else { return Ok(()) };
        match act {
            Act::Apply(group) => {
                process.heard = Some(shown);
                process.groups.push_back(group);
                if !std::mem::replace(&mut process.is_applying, true) {
                    let after = self.way();
                    self.add_to(number, after, Event::Apply);
                }
                if self.sabotage == Sabotage::ClaimUnapplied {
                    let last = self.members[number].process.as_ref();
                    let reached = last.map_or(0, |process| process.node.reader().at().number);
                    let input = Input::Applied { number: reached, next_id: 0 };
                    return self.input(trace, number, input);
                }
            }
            Act::Follows(leader, _) => {
                trace.note(format_args!("node {number} follows node {}", leader - 1));
            }
            Act::Lead { epoch, id_limit, .. } => {
                trace.note(format_args!("node {number} leads in epoch {epoch}"));
                process.claimed = Some((epoch, id_limit));
                return self.judge_leads(number, epoch);
            }
            Act::MayAnswerUntil(until) => {
                process.broker.answer_until(Millis(until));
            }
            Act::Acknowledged(group) => return self.acknowledge(trace, number, group),
            Act::Yield => {
                trace.note(format_args!("node {number} yields"));
                process.yields = true;
                self.counts.yields += 1;
                return self.judge_yields(number);
            }
            Act::Cut => {
                if process.broker.stream().is_some_and(|stream| stream.leads()) {
                    process.broker.gather_nothing();
                    self.add_to(number, 0, Event::Gather);
                }
            }
            Act::Fetch => {
                let at = process.node.reader().at().number;
                trace.note(format_args!("node {number} at {at} needs a copy"));
                if self.stream.is_whole_from(at) {
                    return Err(format!("node {number} at {at} needs a copy, but nothing is gone"));
                }
                self.counts.copies_needed += 1;
                self.members[number].needs_copy = true;
                self.members[number].end(CrashKind::Killed);
            }
            Act::End(end) => {
                trace.note(format_args!("node {number} ends: {end:?}"));
                let led = process.claimed.is_some();
                self.counts.deposed +=
                    u64::from(led && matches!(end, End::Deposed(_) | End::Overtaken));
                self.counts.resigned += u64::from(end == End::Resigned);
                process.end = Some(end);
                if self.serving != Some(number) {
                    self.end(trace, number, CrashKind::Killed);
                }
            }
            Act::Fault(fault) => return Err(format!("node {number} has a fault: {fault}")),
        }
        Ok(())
    }

    /// The stream has accepted a group of this leader.
    fn acknowledge(&mut self, trace: &mut Trace, number: usize, group: u64) -> Checked {
        let Some(process) = &mut self.members[number].process else { return Ok(()) };
        trace.note(format_args!("node {number}: group {group} is accepted"));
        let at = process.gathered.remove(&group);
        let (at, early) =
            at.ok_or_else(|| format!("node {number} never gathered group {group}"))?;
        let found = self.stream.accepted().get(group as usize);
        // A stream that loses its end has other groups later, with the same numbers.
        let is_flushed = self.sabotage != Sabotage::UnflushedStream;
        if found != Some(&at) {
            return Err(format!("node {number} acknowledges {at:?}, but the stream has {found:?}"));
        }
        let other = self.acknowledged.insert(group, (at.epoch, at.chain));
        let differs = |other: &(Epoch, Chain)| is_flushed && *other != (at.epoch, at.chain);
        if let Some(other) = other.filter(differs) {
            return Err(format!("group {group} is acknowledged twice: {at:?} and {other:?}"));
        }
        process.broker.accept(group);
        let is_early = self.sabotage == Sabotage::GateOff;
        process.released = if is_early { early } else { process.broker.released() };
        self.add_to(number, 0, Event::Gather);
        Ok(())
    }

    /// Called after each turn of the broker that serves clients.
    pub(crate) fn turned(&mut self) {
        let Some(number) = self.serving else { return };
        let flag = self.members[number].process.as_ref().map(|process| process.has_group.clone());
        if flag.is_some_and(|flag| flag.swap(false, Ordering::Relaxed)) {
            let after = self.rng.below(2);
            self.add_to(number, after, Event::Gather);
        }
    }

    /// The options of a broker for a node's folder.
    fn options_of(&self, number: usize) -> broker::Options {
        let disk = self.members[number].disk.clone();
        let disk: Arc<dyn log::Disk> = match self.sabotage {
            Sabotage::LyingSync => Arc::new(crate::sabotage::LyingDisk(disk)),
            _ => Arc::new(disk),
        };
        broker::Options { disk, cluster: Some(LINEAGE), ..self.options.clone() }
    }
}
