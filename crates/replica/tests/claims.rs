//! Walks all states of a small cluster: two nodes and a stream with faults.
//!
//! The nodes are the real ones. The stream answers late, twice or never, and a late append can come
//! into it at any time, also from a process that has ended. Silence is abstracted to an order to
//! claim, which can come at any time: no promise depends on the moment of a claim.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{OURS, Writer, origin};
use replica::Seq;
use replica::chain::Chain;
use replica::claim::{Claim, Leader};
use replica::group::At;
use replica::node::{Act, Answer, Expect, Input, Node, Output, Request, Setting, Subject};
use replica::reader::{Meaning, Reader};
use replica::record::{Header, Kind};
use replica::report::Report;
use stateright::{Checker, HasDiscoveries, Model, Property};

/// How often each event can happen in one history.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
struct Budget {
    claims: u8,
    groups: u8,
    lost_answers: u8,
    early_refusals: u8,
    busy: u8,
    strays: u8,
    restarts: u8,
    trims: u8,
}

/// What the driver or the stream does wrong on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sabotage {
    Nothing,
    /// The driver takes a lost answer for a success.
    LostIsAppended,
    /// The stream ignores all conditions.
    NoConditions,
    /// A renewal comes into the stream whatever its conditions.
    RenewalsAlways,
    /// A trim removes the last claim, too.
    TrimsClaims,
}

#[derive(Clone, Debug)]
struct Cluster {
    budget: Budget,
    sabotage: Sabotage,
}

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
struct State {
    /// All records. A trim hides those before `first`.
    stream: Vec<(Subject, Arc<[u8]>)>,
    first: Seq,
    flights: Vec<Flight>,
    processes: [Process; 2],
    acknowledged: BTreeMap<u64, Chain>,
    left: Budget,
    has_failed: bool,
}

/// An append on its way to the stream.
#[derive(Clone, Debug, Eq, PartialEq, Hash)]
struct Flight {
    sender: usize,
    id: u64,
    subject: Subject,
    expect: Expect,
    record: Arc<[u8]>,
    /// The sender has its answer already, or does not exist any more.
    is_answered: bool,
}

#[derive(Clone, Debug, Eq, PartialEq, Hash)]
struct Process {
    node: Node,
    now_ms: u64,
    /// The folder: it survives a restart.
    folder: At,
    follows: Option<Seq>,
    /// The last group that this leader has gathered.
    gathered: Option<Writer>,
    /// Gathered groups that are not acknowledged.
    open: Vec<At>,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
enum Step {
    /// The append arrives. It succeeds if its conditions are right. The sender gets its answer,
    /// unless it has one.
    Arrive(usize),
    /// The sender gets `Unknown`. The append can still arrive.
    LoseAnswer(usize),
    /// The sender gets `Refused`, because an earlier attempt is undecided.
    RefuseEarly(usize),
    /// The sender gets `Busy`.
    Busy(usize),
    /// After a power failure, a late append comes into the stream although its conditions are wrong.
    Stray(usize),
    Deliver(usize),
    Wait(usize),
    Claim(usize),
    Gather(usize),
    /// The leader considers a trim: it gets a report of the other node, and learns how large the
    /// stream is.
    Trim(usize),
    /// The process ends at any point, or has ended. It starts again from its folder.
    Restart(usize),
}

fn start(number: usize, folder: At, incarnation: u64) -> Process {
    let setting = Setting {
        lineage: OURS,
        node: number as u64 + 1,
        incarnation,
        leader: Leader::default(),
        can_lead: true,
        has_place: true,
        // So the nodes never act because of the time.
        lease_ms: 1 << 40,
        jitter_ms: 0,
        folder_ms: 10_000,
        // So every trim is worth it.
        keep_bytes: 0,
        max_bytes: 1,
    };
    Process {
        node: Node::new(setting, folder, 1),
        now_ms: 1000,
        folder,
        follows: None,
        gathered: None,
        open: Vec::new(),
        has_ended: false,
    }
}

impl State {
    fn tail(&self) -> Seq {
        self.stream.len() as Seq
    }

    /// The last claim, also if it does not count.
    fn claim(&self) -> Seq {
        let claims = self.stream.iter().rposition(|(subject, _)| *subject == Subject::Claims);
        let last = claims.map_or(0, |at| at as Seq + 1);
        if last < self.first { 0 } else { last }
    }

    fn record(&self, seq: Seq) -> Option<Arc<[u8]>> {
        let at = usize::try_from(seq).ok()?.checked_sub(1)?;
        self.stream.get(at).filter(|_| seq >= self.first).map(|(_, record)| record.clone())
    }

    /// The size of the stream, as nodes count it.
    fn bytes(&self) -> u64 {
        let kept = &self.stream[self.first as usize - 1..];
        kept.iter().map(|(_, record)| record.len() as u64 + 200).sum()
    }

    /// Passes an input to a node, and does what it asks for.
    fn input(&mut self, who: usize, input: Input) {
        let process = &mut self.processes[who];
        if process.has_ended {
            return;
        }
        let mut out = Vec::new();
        process.node.handle(process.now_ms, input, &mut out);
        for output in out {
            match output {
                Output::Request(request) => self.request(who, request),
                Output::Act(act) => self.act(who, act),
            }
        }
    }

    fn answer(&mut self, who: usize, answer: Answer) {
        self.input(who, Input::Answer(answer));
    }

    fn request(&mut self, who: usize, request: Request) {
        match request {
            Request::Append { id, subject, expect, record } => {
                let is_open = |flight: &Flight| flight.sender == who && !flight.is_answered;
                assert!(!self.flights.iter().any(is_open), "one append at a time");
                let flight =
                    Flight { sender: who, id, subject, expect, record, is_answered: false };
                self.flights.push(flight);
            }
            Request::Tail => {
                let (first, last, bytes) = (self.first, self.tail(), self.bytes());
                self.answer(who, Answer::Tail { first, last, bytes });
            }
            Request::Read { seq } => {
                let answer = self
                    .record(seq)
                    .map_or(Answer::NoRecord { seq }, |bytes| Answer::Read { seq, bytes });
                self.answer(who, answer);
            }
            Request::LastClaim => {
                let seq = self.claim();
                let answer = self
                    .record(seq)
                    .map_or(Answer::NoClaim, |bytes| Answer::LastClaim { seq, bytes });
                self.answer(who, answer);
            }
            Request::Follow { from } => self.processes[who].follows = from,
            Request::Trim { below } => self.first = self.first.max(below),
        }
    }

    fn act(&mut self, who: usize, act: Act) {
        match act {
            Act::Apply(group) => {
                self.processes[who].folder = group.at();
                self.input(who, Input::Applied { number: group.number, next_id: 1 });
            }
            Act::Lead { epoch, at, .. } => {
                assert_eq!(at, self.processes[who].folder, "a leader has applied everything");
                self.processes[who].gathered = Some(Writer { node: who as u64, epoch, at });
            }
            Act::Acknowledged(number) => {
                let process = &mut self.processes[who];
                let at = process.open.remove(0);
                assert_eq!(at.number, number);
                process.folder = at;
                let other = self.acknowledged.insert(number, at.chain);
                self.has_failed |= other.is_some_and(|chain| chain != at.chain);
            }
            Act::End(_) => self.processes[who].has_ended = true,
            Act::Fault(_) | Act::Fetch => self.has_failed = true,
            Act::Follows(..) | Act::MayAnswerUntil(_) => (),
            Act::Cut | Act::Yield => unreachable!("the stream is too small, and the folders work"),
        }
    }

    /// What every reader of the stream accepts. `None`: it cannot be read.
    fn accepted(&self) -> Option<Vec<Chain>> {
        let mut reader = Reader::new(OURS, origin(), 0, 0);
        let mut chains = vec![origin().chain];
        for (_, record) in &self.stream {
            if let Meaning::Group(group) = reader.read(reader.tail() + 1, record).ok()? {
                chains.push(group.after);
            }
        }
        Some(chains)
    }

    /// Whether no epoch has records of two processes that count.
    fn epochs_have_one_owner(&self) -> bool {
        let mut reader = Reader::new(OURS, origin(), 0, 0);
        let (mut claimants, mut writers) = (BTreeMap::new(), BTreeMap::new());
        self.stream.iter().all(|(_, record)| {
            let Ok((header, body)) = Header::decode(record) else { return false };
            let Ok(meaning) = reader.read(reader.tail() + 1, record) else { return false };
            if meaning == Meaning::Stale {
                return true;
            }
            let epoch = reader.epoch();
            let claim = Claim::decode(body).ok();
            claim.is_none_or(|claim| {
                *claimants.entry(epoch).or_insert(claim.incarnation) == claim.incarnation
            }) && *writers.entry(epoch).or_insert(header.writer) == header.writer
        })
    }

    /// How many renewals count.
    fn renewals(&self) -> usize {
        let mut reader = Reader::new(OURS, origin(), 0, 0);
        let meanings =
            self.stream.iter().map_while(|(_, record)| reader.read(reader.tail() + 1, record).ok());
        meanings.filter(|meaning| *meaning == Meaning::Renewal).count()
    }
}

impl Cluster {
    /// The append arrives. Returns whether it is in the stream.
    fn arrive(&self, state: &mut State, at: usize) {
        let flight = state.flights.remove(at);
        let expect = Expect { tail: state.tail(), claim: state.claim() };
        let is_renewal =
            || Header::decode(&flight.record).is_ok_and(|(header, _)| header.kind == Kind::Renewal);
        let is_let_in = match self.sabotage {
            Sabotage::NoConditions => true,
            Sabotage::RenewalsAlways => is_renewal(),
            Sabotage::Nothing | Sabotage::LostIsAppended | Sabotage::TrimsClaims => false,
        };
        let is_right = flight.expect == expect || is_let_in;
        if is_right {
            state.stream.push((flight.subject, flight.record));
        }
        if !flight.is_answered {
            let (id, seq) = (flight.id, state.tail());
            let answer =
                if is_right { Answer::Appended { id, seq } } else { Answer::Refused { id } };
            state.answer(flight.sender, answer);
        }
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            stream: Vec::new(),
            first: 1,
            flights: Vec::new(),
            processes: [start(0, origin(), 10), start(1, origin(), 20)],
            acknowledged: BTreeMap::new(),
            left: self.budget,
            has_failed: false,
        };
        for who in 0..2 {
            state.input(who, Input::Guards(true));
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let left = &state.left;
        for (at, flight) in state.flights.iter().enumerate() {
            steps.push(Step::Arrive(at));
            if flight.is_answered {
                steps.extend((left.strays > 0).then_some(Step::Stray(at)));
                continue;
            }
            steps.extend((left.lost_answers > 0).then_some(Step::LoseAnswer(at)));
            let others = state.flights.iter().any(|other| other.is_answered);
            steps.extend((others && left.early_refusals > 0).then_some(Step::RefuseEarly(at)));
            steps.extend((left.busy > 0).then_some(Step::Busy(at)));
        }
        for (who, process) in state.processes.iter().enumerate() {
            steps.extend((left.restarts > 0).then_some(Step::Restart(who)));
            if process.has_ended {
                continue;
            }
            if process.follows.is_some_and(|seq| seq <= state.tail()) {
                steps.push(Step::Deliver(who));
            }
            if process.node.wake_at(process.now_ms) <= process.now_ms + 1000 {
                steps.push(Step::Wait(who));
            }
            let leads = process.node.leads();
            steps.extend((!leads && left.claims > 0).then_some(Step::Claim(who)));
            steps.extend((leads && left.groups > 0).then_some(Step::Gather(who)));
            steps.extend((leads && left.trims > 0).then_some(Step::Trim(who)));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Arrive(at) => self.arrive(&mut state, at),
            Step::LoseAnswer(at) => {
                state.left.lost_answers -= 1;
                let flight = &mut state.flights[at];
                flight.is_answered = true;
                let (who, id, seq) = (flight.sender, flight.id, flight.expect.tail + 1);
                let is_trusted = self.sabotage == Sabotage::LostIsAppended;
                let answer =
                    if is_trusted { Answer::Appended { id, seq } } else { Answer::Unknown { id } };
                state.answer(who, answer);
            }
            Step::RefuseEarly(at) => {
                state.left.early_refusals -= 1;
                let flight = state.flights.remove(at);
                state.answer(flight.sender, Answer::Refused { id: flight.id });
            }
            Step::Busy(at) => {
                state.left.busy -= 1;
                let flight = state.flights.remove(at);
                state.answer(flight.sender, Answer::Busy { id: flight.id });
            }
            Step::Stray(at) => {
                state.left.strays -= 1;
                let flight = state.flights.remove(at);
                state.stream.push((flight.subject, flight.record));
            }
            Step::Deliver(who) => {
                let seq = state.processes[who].follows?;
                state.processes[who].follows = Some(seq + 1);
                let bytes = state.record(seq)?;
                state.answer(who, Answer::Record { seq, bytes });
            }
            Step::Wait(who) => {
                state.processes[who].now_ms += 250;
                state.input(who, Input::Tick);
            }
            Step::Claim(who) => {
                state.left.claims -= 1;
                state.input(who, Input::Promote);
            }
            Step::Gather(who) => {
                state.left.groups -= 1;
                let body = vec![who as u8, state.left.groups];
                let process = &mut state.processes[who];
                let group = process.gathered.as_mut()?.group(body);
                process.open.push(group.at());
                state.input(who, Input::Gathered(group));
            }
            Step::Trim(who) => {
                state.left.trims -= 1;
                let other = &state.processes[1 - who];
                let durable = other.folder.number;
                let epoch = other.node.reader().epoch();
                let node = 2 - who as u64;
                let report = Report { node, epoch, durable, needs: durable, ..Report::default() };
                let own = state.processes[who].folder.number;
                state.input(who, Input::Reported { report, is_live: true });
                state.input(who, Input::Durable(own));
                state.processes[who].now_ms += 20_000;
                state.input(who, Input::Tick);
                if self.sabotage == Sabotage::TrimsClaims {
                    state.first = state.first.max(state.claim() + 1);
                }
            }
            Step::Restart(who) => {
                state.left.restarts -= 1;
                for flight in state.flights.iter_mut().filter(|flight| flight.sender == who) {
                    flight.is_answered = true;
                }
                let incarnation = 100 + u64::from(state.left.restarts);
                let folder = state.processes[who].folder;
                state.processes[who] = start(who, folder, incarnation);
                state.input(who, Input::Guards(true));
            }
        }
        Some(state)
    }

    /// Without conditions, a stream could grow for ever.
    fn within_boundary(&self, state: &State) -> bool {
        state.stream.len() <= 10
    }

    fn properties(&self) -> Vec<Property<Cluster>> {
        vec![
            Property::always("the stream can be read", |_, state: &State| {
                state.accepted().is_some()
            }),
            Property::always("no acknowledged group is lost", |_, state: &State| {
                let accepted = state.accepted().unwrap_or_default();
                let has =
                    |(number, chain): (&u64, &Chain)| accepted.get(*number as usize) == Some(chain);
                state.acknowledged.iter().all(has)
            }),
            Property::always("every folder is a part of the history", |_, state: &State| {
                let accepted = state.accepted().unwrap_or_default();
                state.processes.iter().all(|process| {
                    let folder = process.folder;
                    accepted.get(folder.number as usize) == Some(&folder.chain)
                })
            }),
            Property::always("no node fails", |_, state: &State| !state.has_failed),
            Property::always("an epoch has one owner", |_, state: &State| {
                state.epochs_have_one_owner()
            }),
            Property::always("the last claim is in the stream", |_, state: &State| {
                let has_claims =
                    state.stream.iter().any(|(subject, _)| *subject == Subject::Claims);
                !has_claims || state.claim() > 0
            }),
            Property::sometimes("two nodes believe that they lead", |_, state: &State| {
                state.processes.iter().all(|process| process.node.leads())
            }),
            Property::sometimes("a second leader acknowledges", |_, state: &State| {
                let last = state.processes.iter().map(|process| process.folder.epoch).max();
                last > Some(1)
            }),
            Property::sometimes(
                "all groups are acknowledged after lost answers",
                |model, state: &State| {
                    (model.budget.lost_answers == 0
                        || state.left.lost_answers < model.budget.lost_answers)
                        && state.acknowledged.len() == usize::from(model.budget.groups)
                },
            ),
            Property::sometimes(
                "the old claim is trimmed, and its leader acknowledges",
                |model, state: &State| {
                    let last = state.acknowledged.keys().last();
                    let is_led = |process: &Process| {
                        process.node.leads()
                            && process.folder.epoch < state.first
                            && Some(&process.folder.number) == last
                    };
                    model.budget.trims < 2
                        || state.renewals() > 0 && state.processes.iter().any(is_led)
                },
            ),
        ]
    }
}

const ALWAYS: [&str; 6] = [
    "the stream can be read",
    "no acknowledged group is lost",
    "every folder is a part of the history",
    "no node fails",
    "an epoch has one owner",
    "the last claim is in the stream",
];

fn walk(budget: Budget) {
    check(budget).assert_properties();
}

/// Like [`walk`], with a budget that is too small for some events.
fn walk_always(budget: Budget) {
    let checker = check(budget);
    for property in ALWAYS {
        checker.assert_no_discovery(property);
    }
}

fn check(budget: Budget) -> impl Checker<Cluster> {
    let checker = Cluster { budget, sabotage: Sabotage::Nothing }.checker().threads(2);
    let checker = checker.spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker
}

/// A stream that does this must not go unnoticed.
fn is_noticed(sabotage: Sabotage, budget: Budget) -> bool {
    let checker = Cluster { budget, sabotage }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    ALWAYS.iter().any(|property| checker.discovery(property).is_some())
}

const NOTHING: Budget = Budget {
    claims: 2,
    groups: 2,
    lost_answers: 0,
    early_refusals: 0,
    busy: 0,
    strays: 0,
    restarts: 0,
    trims: 0,
};

#[test]
fn lost_answers_and_late_appends() {
    walk(Budget { lost_answers: 2, early_refusals: 1, ..NOTHING });
}

#[test]
fn restarts() {
    walk(Budget { lost_answers: 1, restarts: 1, ..NOTHING });
}

#[test]
fn strays_after_a_power_failure() {
    walk(Budget { lost_answers: 2, strays: 1, groups: 1, ..NOTHING });
    walk(Budget { lost_answers: 1, strays: 1, ..NOTHING });
    walk(Budget { lost_answers: 1, restarts: 1, strays: 1, groups: 1, ..NOTHING });
}

#[test]
fn trims_and_renewals() {
    walk(Budget { trims: 2, ..NOTHING });
    walk_always(Budget { claims: 1, lost_answers: 1, trims: 2, ..NOTHING });
    walk_always(Budget { lost_answers: 1, trims: 2, groups: 1, ..NOTHING });
    walk_always(Budget { restarts: 1, trims: 2, groups: 1, ..NOTHING });
    walk_always(Budget { claims: 1, lost_answers: 1, strays: 1, trims: 2, ..NOTHING });
    walk_always(Budget { strays: 1, lost_answers: 1, trims: 1, groups: 1, ..NOTHING });
}

#[test]
fn busy_streams() {
    walk(Budget { lost_answers: 1, busy: 1, ..NOTHING });
}

#[test]
fn sabotage_is_noticed() {
    let budget = Budget { lost_answers: 1, ..NOTHING };
    assert!(!is_noticed(Sabotage::Nothing, budget));
    assert!(is_noticed(Sabotage::LostIsAppended, budget));
    assert!(is_noticed(Sabotage::NoConditions, budget));
    let budget = Budget { trims: 2, ..NOTHING };
    assert!(!is_noticed(Sabotage::Nothing, budget));
    assert!(is_noticed(Sabotage::RenewalsAlways, budget));
    assert!(is_noticed(Sabotage::TrimsClaims, budget));
}
