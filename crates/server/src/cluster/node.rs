//! The thread of the node. It owns the state machine and the driver of the stream. It passes
//! requests to the driver, and acts for the state machine: it applies groups, makes the broker the
//! leader, and lets it send replies.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as StdReceiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use broker::{Broker, Millis, Since, Stream};
use histogram::Histogram;
use http_api::ClusterFacts;
use nats::driver::Driver;
use nats::hints::{Hint, Order, Role};
use replica::chain::Mix;
use replica::claim;
use replica::group::At;
use replica::node::{
    Act, Answer, CLAIM_IDS, Counts, End, Fault, Input, Node, Output, Request, Setting,
};
use replica::reader::ReadError;
use replica::{Epoch, NodeId, Seq};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot, watch};

use crate::cluster::ClusterFailure;
use crate::cluster::apply::Applier;
use crate::cluster::copy::Progress;
use crate::cluster::copy::fetch::{Discarding, Fetch};
use crate::cluster::handover::Handover;
use crate::cluster::join::Joined;
use crate::cluster::keys::Keys;
use crate::cluster::peers::Identity;
use crate::cluster::status::{Leader, Leaving, Status};
use crate::cluster::{guards, hints};
use crate::config::{Cluster, Durability};
use crate::process::clock::{Clock, wall};
use crate::process::messages;

/// Time between two looks at the broker.
const BEAT_MS: u64 = 1000;
/// Nodes that could claim at the same moment wait for different times, up to this one.
const JITTER_MS: u64 = 200;
/// A leader that yields ends after this time, even if it could not resign.
const YIELD_MAX_MS: u64 = 3000;
/// A disk that takes longer hangs.
const FOLDER_MS: u64 = 10_000;
/// How long the end of a leader waits for its last message, if its folder hangs.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);
/// How long a stop waits for the stream.
const RESIGN_MAX: Duration = Duration::from_secs(5);

/// What other threads tell the thread of the node.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something for the state machine.
    Input(Input),
    /// This node cannot go on.
    Failed(ClusterFailure),
    /// The operator's newest order, and what the node that it is about told last.
    Ordered(Order, Box<Hint>),
    /// The server stops. The answer comes when the node has resigned.
    Stop(SyncSender<()>),
}

/// The handle of the thread.
#[derive(Debug)]
pub(crate) struct NodeThread {
    pub(crate) events: UnboundedSender<Event>,
    /// Gets the end of the time as a follower: the node leads, or it cannot go on.
    pub(crate) leads: oneshot::Receiver<Result<(), ClusterFailure>>,
    pub(crate) status: Arc<Status>,
    pub(crate) identity: Identity,
}

/// How long the folder may take until something is durable.
fn folder_ms(sync: Durability) -> u64 {
    match sync {
        Durability::Every(period) => FOLDER_MS + 2 * period.as_millis() as u64,
        Durability::Always | Durability::Never | Durability::Memory => FOLDER_MS,
    }
}

/// The number of a node, from its name. So a node keeps its number when its folder is replaced.
pub(crate) fn node_id(name: &str) -> NodeId {
    Mix::new().bytes(name.as_bytes()).value().max(1)
}

impl NodeThread {
    /// Starts the thread. `clock` is the clock with which the broker was opened.
    pub(crate) fn spawn(
        settings: &Cluster,
        sync: Durability,
        joined: Joined,
        broker: Broker,
        clock: Clock,
        status: Arc<Status>,
        (keys, folder): (Keys, PathBuf),
    ) -> std::io::Result<NodeThread> {
        let (events, received) = unbounded_channel();
        let (lead, leads) = oneshot::channel();
        let applier = Applier::spawn(broker.clone(), events.clone())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let random = |number: u64| RandomState::new().hash_one(number);
        let stream = broker.stream().expect("the broker is that of a node").clone();
        let name = settings.node_name();
        let identity = Identity {
            node: node_id(&name),
            incarnation: random(0),
            lineage: joined.found.lineage,
        };
        let setting = Setting {
            lineage: identity.lineage,
            node: identity.node,
            incarnation: identity.incarnation,
            leader: claim::Leader {
                name,
                address: settings.advertised(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                settings: status.settings(),
            },
            can_lead: settings.lead,
            has_place: stream.has_place(),
            lease_ms: settings.lease.as_millis() as u64,
            jitter_ms: random(1) % JITTER_MS,
            folder_ms: folder_ms(sync),
            keep_bytes: settings.stream_keep_bytes,
            max_bytes: settings.stream_max_bytes,
        };
        let group_ready = Arc::new(Notify::new());
        let ready = group_ready.clone();
        stream.set_on_group(Arc::new(move || ready.notify_one()));
        let question = settings.question(joined.place.clone(), Some(setting.lineage));
        let guards = guards::run(question, status.clone(), events.clone());
        let is_unsafe_allowed = settings.unsafe_flush;
        let (own_hint, newest_hint) = watch::channel(Hint::default());
        let hints = hints::run(
            joined.place.clone(),
            setting.node,
            newest_hint,
            status.clone(),
            events.clone(),
        );
        let fetch = Fetch {
            keys,
            place: joined.place.clone(),
            lineage: identity.lineage,
            node: identity.node,
            folder,
            status: status.clone(),
            events: events.clone(),
        };
        let (own_status, place) = (status.clone(), joined.place);
        let run = move || {
            runtime.block_on(async move {
                tokio::spawn(guards);
                tokio::spawn(hints);
                let about = setting.clone();
                let (driver, answers) = Driver::start(place);
                let node = Node::new(setting, stream.at(), broker.next_number());
                let runner = Runner {
                    broker,
                    stream,
                    node,
                    about,
                    own_hint,
                    is_unsafe_allowed,
                    handover: Handover::default(),
                    driver,
                    append: None,
                    appends_us: Histogram::default(),
                    answers,
                    events: received,
                    group_ready,
                    applier,
                    fetch: Some(fetch),
                    discarding: None,
                    clock,
                    status: own_status,
                    lead: Some(lead),
                    stop: None,
                    has_resigned: false,
                    yields_until_ms: None,
                    beat_ms: 0,
                    backlog_end: None,
                    heard_ms: None,
                    is_over: false,
                };
                runner.run().await;
            });
        };
        std::thread::Builder::new().name("cluster".to_owned()).spawn(run)?;
        Ok(NodeThread { events, leads, status, identity })
    }

    /// Gives the leadership up, when the stream has everything that was acknowledged. Clients must be
    /// served no more. Returns true when another node can lead, and false after [`RESIGN_MAX`].
    pub(crate) fn resign(&self) -> bool {
        let (done, resigned): (_, StdReceiver<()>) = sync_channel(1);
        let is_sent = self.events.send(Event::Stop(done)).is_ok();
        let has_resigned = is_sent && resigned.recv_timeout(RESIGN_MAX).is_ok();
        if !has_resigned {
            tracing::warn!("this node stops without a resignation: the stream does not answer");
        }
        has_resigned
    }
}

struct Runner {
    broker: Broker,
    stream: Arc<Stream>,
    node: Node,
    /// What this node says about itself.
    about: Setting,
    own_hint: watch::Sender<Hint>,
    is_unsafe_allowed: bool,
    handover: Handover,
    driver: Driver,
    /// The number of the last append, and when it began.
    append: Option<(u64, Instant)>,
    /// How long appends took.
    appends_us: Histogram,
    answers: Receiver<Answer>,
    events: UnboundedReceiver<Event>,
    group_ready: Arc<Notify>,
    applier: Applier,
    /// `None`: this node fetches a copy of another node's folder.
    fetch: Option<Fetch>,
    /// Removes the rest of a copy that is not needed any more.
    discarding: Option<Discarding>,
    clock: Clock,
    status: Arc<Status>,
    /// `None`: this node leads, or its end is known.
    lead: Option<oneshot::Sender<Result<(), ClusterFailure>>>,
    /// The server stops, and waits for this answer.
    stop: Option<SyncSender<()>>,
    has_resigned: bool,
    /// The folder hangs, and another node can lead: this process ends at this moment at the latest.
    yields_until_ms: Option<u64>,
    /// When the thread looks at the broker again.
    beat_ms: u64,
    /// The last record of the stream when this node began to read. Nobody knows when the records up
    /// to this one were written.
    backlog_end: Option<Seq>,
    /// When a record after these arrived last.
    heard_ms: Option<u64>,
    is_over: bool,
}

impl Runner {
    async fn run(mut self) {
        self.handle(Input::Tick);
        while !self.is_over {
            let now_ms = self.now_ms();
            let wake_ms = self.node.wake_at(now_ms).min(self.beat_ms);
            // The state machine can name a moment that has passed, while an answer is under way.
            let wait = Duration::from_millis(wake_ms.saturating_sub(now_ms).max(1));
            tokio::select! {
                answer = self.answers.recv(), if self.applier.has_room() => {
                    self.answer(answer.expect("the driver lives as long as this thread"));
                }
                event = self.events.recv() => match event {
                    Some(event) => self.event(event),
                    None => return,
                },
                () = self.group_ready.notified() => self.gather(),
                () = tokio::time::sleep(wait) => self.handle(Input::Tick),
            }
            if self.now_ms() >= self.beat_ms {
                self.beat();
            }
            self.applier.hurry(self.node.hurries(self.now_ms()));
            self.hand_over_if_ready();
            self.resign_if_settled();
            if self.yields_until_ms.is_some_and(|until_ms| self.now_ms() >= until_ms) {
                self.end(ClusterFailure::FolderHangs);
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().0
    }

    /// A moment of this thread's clock, as a moment of the leading engine.
    fn engine_time(&self, at_ms: u64) -> Millis {
        Millis(at_ms.saturating_add_signed(self.broker.clock_step_ms()))
    }

    fn answer(&mut self, answer: Answer) {
        match &answer {
            Answer::Tail { first, last, bytes } => {
                self.backlog_end.get_or_insert(*last);
                self.status.view().saw_stream(*first, *bytes);
            }
            Answer::Appended { id, .. } => {
                let append = self.append.take_if(|(last, _)| last == id);
                if let Some((_, begun)) = append.filter(|_| self.node.leads()) {
                    self.appends_us.add(begun.elapsed().as_micros() as u64);
                }
            }
            Answer::Record { seq, .. } if self.backlog_end.is_some_and(|end| *seq > end) => {
                self.heard_ms = Some(self.now_ms());
            }
            _ => {}
        }
        self.handle(Input::Answer(answer));
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Input(input) => self.handle(input),
            Event::Failed(failure) => self.end(failure),
            Event::Ordered(order, hint) if self.node.leads() => {
                let (now_ms, epoch) = (self.now_ms(), self.node.reader().epoch());
                let acknowledged = self.stream.acknowledged();
                self.handover.order(now_ms, order, &hint, epoch, acknowledged);
                self.log_refusal();
            }
            // Only a leader reads orders. It can have ended since then.
            Event::Ordered(..) => {}
            Event::Stop(done) => self.stop = Some(done),
        }
    }

    fn handle(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        let mut outputs = Vec::new();
        while let Some(input) = inputs.pop_front() {
            self.node.handle(self.now_ms(), input, &mut outputs);
            for output in outputs.drain(..) {
                match output {
                    Output::Request(request) => self.request(request),
                    Output::Act(act) => inputs.extend(self.act(act)),
                }
            }
        }
        self.status.set_epoch(self.node.reader().epoch());
        self.status.set_can_lead(self.node.can_lead(self.now_ms()));
    }

    fn request(&mut self, request: Request) {
        if let Request::Append { id, .. } = &request
            && self.append.is_none_or(|(last, _)| last != *id)
        {
            self.append = Some((*id, Instant::now()));
        }
        self.driver.request(request);
    }

    /// Does what the state machine asks for. Returns what follows from it.
    fn act(&mut self, act: Act) -> Option<Input> {
        match act {
            Act::Apply(group) => self.applier.apply(group),
            Act::Follows(node, claim) => {
                let claim::Leader { name, address, .. } = claim.leader;
                tracing::info!(node = name, "follows");
                self.status.say(format!("follows {name}"));
                let incarnation = claim.incarnation;
                let epoch = self.node.reader().epoch();
                self.status.led_by(Leader { node, name, address, incarnation, epoch });
                self.discard_copy();
            }
            Act::Lead { epoch, at, time_ms, id_limit } => {
                self.begin_to_lead(epoch, at, time_ms, id_limit);
                return self.next_group();
            }
            Act::Acknowledged(number) => {
                self.broker.accept(number);
                return self.next_group();
            }
            Act::MayAnswerUntil(until_ms) => {
                self.broker.answer_until(self.engine_time(until_ms));
            }
            Act::Cut => {
                self.broker.gather_nothing();
                return self.next_group();
            }
            Act::Yield => {
                self.yields_until_ms = Some(self.now_ms() + YIELD_MAX_MS);
                // When the clients are gone, the main thread lets this node resign.
                self.status.leave(Leaving::FolderHangs);
                messages::tell_aside(
                    "the data folder hangs: this node gives its lead away".to_owned(),
                );
            }
            Act::Fetch => self.fetch_copy(),
            // The end of the main thread would wait for the folder.
            Act::End(End::Resigned) if self.yields_until_ms.is_some() => {
                self.end(ClusterFailure::FolderHangs);
            }
            Act::End(End::Resigned) => {
                self.has_resigned = true;
                self.is_over = true;
                if let Some(done) = self.stop.take() {
                    let _ = done.send(());
                }
            }
            Act::End(End::Deposed(node)) => self.end(ClusterFailure::Deposed(self.name_of(node))),
            Act::End(End::Overtaken) => {
                let unknown = "whose claim the stream no longer has".to_owned();
                self.end(ClusterFailure::Deposed(unknown));
            }
            Act::End(End::LateClaim) => {
                let own = "whose claim came late: this one".to_owned();
                self.end(ClusterFailure::Deposed(own));
            }
            Act::Fault(Fault::Read(ReadError::Diverged { number: 0, .. }))
                if !self.stream.has_place() =>
            {
                // The cluster began with jobs, which this new folder does not have.
                self.fetch_copy();
            }
            Act::Fault(fault) => self.end(fault.into()),
        }
        None
    }

    /// The folder needs a copy of another node's folder. Meanwhile this thread goes on: it shows that
    /// the node is alive, and what it needs of the stream.
    fn fetch_copy(&mut self) {
        let Some(fetch) = self.fetch.take() else { return };
        let group = self.stream.at().number;
        tracing::warn!(
            group,
            "the stream does not have what comes after this data folder: this node fetches a copy of another \
             node's folder"
        );
        self.status.say("needs a copy of another node's folder".to_owned());
        self.status.copies(Progress { group, ..Progress::default() });
        if let Err(error) = fetch.spawn(group, self.discarding.take()) {
            self.end(ClusterFailure::Fetch(error));
        }
    }

    /// The folder has its place in the stream, so it needs no copy.
    fn discard_copy(&mut self) {
        if let Some(fetch) = &self.fetch
            && self.discarding.is_none()
        {
            match fetch.discard() {
                Ok(thread) => self.discarding = Some(thread),
                Err(error) => tracing::warn!(%error, "cannot start a thread"),
            }
        }
    }

    fn name_of(&self, node: NodeId) -> String {
        let leader = self.node.reader().leader().filter(|(leader, _)| *leader == node);
        leader.map_or_else(|| format!("{node:016x}"), |(_, claim)| claim.leader.name.clone())
    }

    fn begin_to_lead(&mut self, epoch: Epoch, at: At, time_ms: u64, id_limit: u64) {
        let since = self.heard_ms.map(|heard_ms| self.now_ms().saturating_sub(heard_ms));
        let since = since_last_group(&at, time_ms, since, self.status.last_leader_ms());
        let ids = id_limit - CLAIM_IDS..id_limit;
        match self.broker.lead(epoch, ids, since) {
            Ok(()) => {
                tracing::info!(epoch, group = at.number, "this node leads");
                self.status.say("begins to lead".to_owned());
                self.status.link_lost();
                if let Some((node, claim)) = self.node.reader().leader().cloned() {
                    let claim::Leader { name, address, .. } = claim.leader;
                    let incarnation = claim.incarnation;
                    self.status.led_by(Leader { node, name, address, incarnation, epoch });
                }
                if let Some(lead) = self.lead.take() {
                    let _ = lead.send(Ok(()));
                }
            }
            Err(error) => self.end(ClusterFailure::Ids(error.to_string())),
        }
    }

    fn next_group(&self) -> Option<Input> {
        self.stream.take_group().map(Input::Gathered)
    }

    /// The broker has a group for the stream.
    fn gather(&mut self) {
        if let Some(input) = self.next_group() {
            self.handle(input);
        }
    }

    /// Once a second.
    fn beat(&mut self) {
        self.beat_ms = self.now_ms() + BEAT_MS;
        self.status.beat();
        if self.stream.leads() {
            // Counters must not wait for the next client. If the broker is stuck, so is this thread:
            // then it appends nothing more, and another node leads.
            drop(self.broker.turn(self.engine_time(self.now_ms())));
        }
        let durable = self.stream.durable();
        self.handle(Input::Durable(durable));
        self.status.view().saw_record(self.node.reader().tail());
        let hint = self.hint(durable);
        let Counts { stale, refused, unknown, .. } = self.node.counts();
        let copying = self.status.copying().unwrap_or_default();
        self.status.count(ClusterFacts {
            leads: self.node.leads(),
            epoch: hint.epoch,
            number: hint.applied,
            durable,
            lag_ms: hint.lag_ms,
            is_safe: hint.refusal.is_empty(),
            is_unsafe_allowed: self.is_unsafe_allowed,
            appends_us: self.appends_us.clone(),
            stale,
            refused,
            unknown,
            copy_bytes: copying.bytes,
            copy_total_bytes: copying.total_bytes,
        });
        self.own_hint.send_replace(hint);
    }

    /// What this node tells people and other nodes.
    fn hint(&self, durable: u64) -> Hint {
        let Setting { incarnation, leader, lineage, .. } = &self.about;
        let at = self.stream.at();
        let applied = self.stream.acknowledged();
        let reader = self.node.reader();
        // The leader's own time counts, because this node may have stopped to read.
        let leader_ms = self.status.leader_ms().max(reader.time_ms());
        // A leader's last groups may not be accepted yet, so it has no chain for the last one.
        let is_settled = at.number == applied;
        let copying = self.status.copying();
        let reads = copying.is_none() && reader.epoch() > 0;
        let (refused_order, why) = self.handover.refusal().unwrap_or_default();
        let hangs = self.node.folder_hangs(self.now_ms());
        let (refusal, warning) = words_about_folder(hangs, self.node.leads());
        let or = |text: String, other: String| if text.is_empty() { other } else { text };
        Hint {
            name: leader.name.clone(),
            address: leader.address.clone(),
            version: leader.version.clone(),
            format: replica::record::FORMAT,
            incarnation: *incarnation,
            lineage: lineage.to_string(),
            role: if self.node.leads() {
                Role::Leads
            } else if reads {
                Role::Follows
            } else {
                Role::Starts
            },
            epoch: reader.epoch(),
            applied,
            chain: if is_settled { format!("{:016x}", at.chain.0) } else { String::new() },
            durable: if copying.is_some() { 0 } else { durable },
            needs: copying.map_or(durable, |copying| copying.group),
            lag_ms: self.applier.lag_ms(leader_ms),
            jobs: at.jobs,
            settings: self.status.settings(),
            refusal: or(self.status.refusal(), refusal),
            fault: if copying.is_some() { self.status.said() } else { String::new() },
            warning: or(warning, self.status.warning()),
            is_forgotten: false,
            never_leads: !self.about.can_lead,
            refused_order,
            order_refusal: why.to_owned(),
        }
    }

    /// Stops the server if the operator wants another node to lead, and that node is ready.
    fn hand_over_if_ready(&mut self) {
        let Some(node) = self.handover.waits_for() else { return };
        let report = self.node.folders().live(node, self.node.reader().epoch());
        if let Some(name) = self.handover.decide(self.now_ms(), report) {
            tracing::info!(node = name, "the operator wants this node to lead: handing over");
            self.status.leave(Leaving::For(name));
        } else {
            self.log_refusal();
        }
    }

    fn log_refusal(&mut self) {
        if let Some(why) = self.handover.new_refusal() {
            tracing::warn!("an order to hand the lead over is refused: {why}");
        }
    }

    fn resign_if_settled(&mut self) {
        if self.stop.is_none() || self.has_resigned || !self.stream.is_settled() {
            return;
        }
        self.has_resigned = true;
        let best = self.node.folders().successor(self.node.reader().epoch());
        let successor = self.handover.successor().or(best).unwrap_or(0);
        self.handle(Input::Resign { successor, next_id: self.broker.next_number() });
    }

    /// Ends the process. A node that does not lead yet lets the main thread end it.
    fn end(&mut self, failure: ClusterFailure) {
        self.is_over = true;
        if let Some(lead) = self.lead.take() {
            drop(lead.send(Err(failure)));
        } else {
            let told = messages::tell_aside(failure.to_string());
            if self.yields_until_ms.is_some() {
                let _ = told.recv_timeout(LAST_WORDS_MAX);
            } else {
                let _ = told.recv();
            }
            // No reply may be sent from now on, so the other threads must not run on.
            exit(failure.exit_code().into());
        }
    }
}

/// What a node says about a folder that hangs: why it does not begin to lead, and, if it leads already,
/// what an operator should mend.
fn words_about_folder(hangs: bool, leads: bool) -> (String, String) {
    if !hangs {
        return (String::new(), String::new());
    }
    let words = "the data folder hangs: nothing becomes durable".to_owned();
    if leads { (String::new(), words) } else { (words, String::new()) }
}

/// How the time of a new leader goes on after the last group. `record_ms` is the time of the last
/// record, and `silent_ms` how long ago it arrived. `None`: nobody knows. But the record can have waited
/// for this node: the process was stopped, or its folder had no room. `leader_ms` shows this: the time of
/// the old leader now, as it has told it. 0: it has not.
fn since_last_group(at: &At, record_ms: u64, silent_ms: Option<u64>, leader_ms: u64) -> Since {
    match silent_ms {
        // The last record shows how far the old leader's time was ahead of the last group.
        Some(silent_ms) if at.time_ms > 0 => {
            let shown_ms = record_ms.saturating_sub(at.time_ms) + silent_ms;
            Since::Elapsed(shown_ms.max(leader_ms.saturating_sub(at.time_ms)))
        }
        // The first group sets the time of the cluster.
        Some(_) | None => Since::Wall { now: wall(), record: Millis(record_ms.max(leader_ms)) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_seldom_synced_does_not_hang() {
        assert_eq!(folder_ms(Durability::Always), 10_000);
        assert_eq!(folder_ms(Durability::Every(Duration::from_mins(1))), 130_000);
    }

    #[test]
    fn a_leader_whose_folder_hangs_does_not_say_that_it_follows() {
        let none = String::new;
        assert_eq!(words_about_folder(false, true), (none(), none()));
        let (refusal, warning) = words_about_folder(true, true);
        assert!(refusal.is_empty() && warning.starts_with("the data folder hangs"));
        assert_eq!(words_about_folder(true, false), (warning, none()));
    }

    #[test]
    fn time_goes_on_after_the_last_record() {
        let at = At { number: 3, time_ms: 1000, ..At::default() };
        assert_eq!(since_last_group(&at, 1500, Some(20), 0), Since::Elapsed(520));
        let wall = |silent_ms, leader_ms| match since_last_group(&at, 1500, silent_ms, leader_ms) {
            Since::Wall { record, .. } => record.0,
            Since::Elapsed(_) => panic!("nobody knows when the record arrived"),
        };
        assert_eq!(wall(None, 0), 1500);
        let since = since_last_group(&At::default(), 500, Some(20), 0);
        assert!(matches!(since, Since::Wall { .. }));
        // The record has waited for this node.
        assert_eq!(since_last_group(&at, 1500, Some(20), 27_000), Since::Elapsed(26_000));
        assert_eq!(wall(None, 27_000), 27_000);
    }

    #[test]
    fn only_the_last_leader_shows_how_late_the_last_record_came() {
        let status = Status::default();
        let leader = |incarnation, epoch| Leader {
            node: incarnation,
            name: String::new(),
            address: String::new(),
            incarnation,
            epoch,
        };
        status.led_by(leader(7, 1));
        assert_eq!(status.last_leader_ms(), 0);
        status.leader_told_time(7, 1_000_000, Duration::ZERO);
        assert!(status.last_leader_ms() >= 1_000_000);
        status.led_by(leader(8, 2));
        assert_eq!(status.last_leader_ms(), 0);
        assert!(status.leader_ms() >= 1_000_000);
    }
}
