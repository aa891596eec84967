//! What the threads of a node and its health checks know about it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_api::{ClusterFacts, StartState};
use replica::{Epoch, Incarnation, NodeId};
use tokio::sync::{Notify, watch};

use crate::cluster::copy::Progress;
use crate::cluster::view::View;

/// The node that leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Leader {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    /// Its address for other nodes.
    pub(crate) address: String,
    pub(crate) incarnation: Incarnation,
    /// The epoch in which it leads.
    pub(crate) epoch: Epoch,
}

/// Why a leader gives its lead away.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Leaving {
    /// The operator wants the node with this name to lead.
    For(String),
    /// The folder hangs, and another node can lead.
    FolderHangs,
}

/// The link of a follower to the leader.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct Link {
    /// The groups that this node has not applied yet.
    lag: u64,
    may_answer: bool,
}

/// The time that a leader has told.
#[derive(Copy, Clone, Debug)]
struct ToldTime {
    process: Incarnation,
    /// Milliseconds of log time.
    time_ms: u64,
    /// When the answer came.
    at: Instant,
}

impl ToldTime {
    fn now_ms(self) -> u64 {
        self.time_ms.saturating_add(self.at.elapsed().as_millis() as u64)
    }
}

/// The status of this node.
#[derive(Debug)]
pub(crate) struct Status {
    said: Mutex<String>,
    /// Why the node does not begin to lead. Empty: it can.
    refusal: Mutex<String>,
    /// What an operator should mend. Empty: nothing.
    warning: Mutex<String>,
    /// The settings that all nodes should have in common.
    settings: Mutex<String>,
    facts: Mutex<Option<ClusterFacts>>,
    view: Mutex<View>,
    link: Mutex<Option<Link>>,
    leader_time: Mutex<Option<ToldTime>>,
    copying: Mutex<Option<Progress>>,
    leader: watch::Sender<Option<Leader>>,
    leaving: Mutex<Option<Leaving>>,
    must_leave: Notify,
    epoch: AtomicU64,
    can_lead: AtomicBool,
    beats: AtomicU64,
}

impl Default for Status {
    fn default() -> Status {
        Status {
            said: Mutex::default(),
            refusal: Mutex::default(),
            warning: Mutex::default(),
            settings: Mutex::default(),
            facts: Mutex::default(),
            view: Mutex::default(),
            link: Mutex::default(),
            leader_time: Mutex::default(),
            copying: Mutex::default(),
            leader: watch::channel(None).0,
            leaving: Mutex::default(),
            must_leave: Notify::new(),
            epoch: AtomicU64::new(0),
            can_lead: AtomicBool::new(false),
            beats: AtomicU64::new(0),
        }
    }
}

fn lock<T>(content: &Mutex<T>) -> MutexGuard<'_, T> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Status {
    /// Why the node does not begin to lead. Empty: it can.
    pub(crate) fn refuse(&self, reason: String) {
        *lock(&self.refusal) = reason;
    }

    /// Why the node does not begin to lead. Empty: it can.
    pub(crate) fn refusal(&self) -> String {
        lock(&self.refusal).clone()
    }

    /// What an operator should mend, although this node serves. Empty: nothing.
    pub(crate) fn warn(&self, text: String) {
        *lock(&self.warning) = text;
    }

    /// What an operator should mend, although this node serves. Empty: nothing.
    pub(crate) fn warning(&self) -> String {
        lock(&self.warning).clone()
    }

    /// The settings that all nodes should have in common: see [`Config::common`].
    ///
    /// [`Config::common`]: crate::config::Config::common
    pub(crate) fn use_settings(&self, common: String) {
        *lock(&self.settings) = common;
    }

    /// The settings that all nodes should have in common.
    pub(crate) fn settings(&self) -> String {
        lock(&self.settings).clone()
    }

    /// The numbers for metrics.
    pub(crate) fn count(&self, facts: ClusterFacts) {
        *lock(&self.facts) = Some(facts);
    }

    /// The numbers for metrics. `None`: the server is alone, or has just started.
    pub(crate) fn facts(&self) -> Option<ClusterFacts> {
        lock(&self.facts).clone()
    }

    /// What this node has found out about others.
    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// What the node does now.
    pub(crate) fn say(&self, text: String) {
        *lock(&self.said) = text;
    }

    /// What the node does now.
    pub(crate) fn said(&self) -> String {
        lock(&self.said).clone()
    }

    /// Another node, or this one, leads now. A follower that is behind can have found a later leader
    /// already, and then reads the claims of earlier ones: they change nothing.
    pub(crate) fn led_by(&self, leader: Leader) {
        self.leader.send_if_modified(|now| {
            let is_newer =
                now.as_ref().is_none_or(|now| *now != leader && now.epoch <= leader.epoch);
            if is_newer {
                *now = Some(leader);
            }
            is_newer
        });
    }

    /// The node that leads, and its changes.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<Leader>> {
        self.leader.subscribe()
    }

    /// This leader gives its lead away, as soon as it serves no client.
    pub(crate) fn leave(&self, why: Leaving) {
        *lock(&self.leaving) = Some(why);
        self.must_leave.notify_one();
    }

    /// Waits until this leader must serve clients no more.
    pub(crate) async fn must_leave(&self) {
        self.must_leave.notified().await;
    }

    /// Why this leader gives its lead away. `None`: it does not.
    pub(crate) fn leaving(&self) -> Option<Leaving> {
        lock(&self.leaving).clone()
    }

    /// The leader has answered a report.
    pub(crate) fn linked(&self, lag: u64, may_answer: bool) {
        *lock(&self.link) = Some(Link { lag, may_answer });
    }

    /// This process, which leads, has told its time, in milliseconds of log time. `took`: the time since it
    /// was asked.
    ///
    /// The answer can have waited for this process, which was stopped. So the leader's time is now up to
    /// `took` later, and the last answer of the same process can know it better. But the clocks of two
    /// machines differ, so the last answer counts only as far as the new one allows it.
    pub(crate) fn leader_told_time(&self, process: Incarnation, time_ms: u64, took: Duration) {
        let mut told = lock(&self.leader_time);
        let known = told.filter(|told| told.process == process);
        let latest_ms = time_ms.saturating_add(took.as_millis() as u64);
        let time_ms = known.map_or(0, ToldTime::now_ms).clamp(time_ms, latest_ms);
        *told = Some(ToldTime { process, time_ms, at: Instant::now() });
    }

    /// The leader's time now, in milliseconds of log time. It goes on while the leader does not answer,
    /// and with the next leader. 0: no leader has told its time.
    pub(crate) fn leader_ms(&self) -> u64 {
        let told = *lock(&self.leader_time);
        told.map_or(0, ToldTime::now_ms)
    }

    /// The same, if the last leader that told its time is the leader as this node knows it. Otherwise 0:
    /// the time of an earlier leader says little about that of the next one.
    pub(crate) fn last_leader_ms(&self) -> u64 {
        let last = self.leader.borrow().as_ref().map(|leader| leader.incarnation);
        let told = *lock(&self.leader_time);
        told.filter(|told| last == Some(told.process)).map_or(0, ToldTime::now_ms)
    }

    /// Whether the leader has answered the last report, and may answer its clients.
    pub(crate) fn reaches_leader(&self) -> bool {
        lock(&self.link).is_some_and(|link| link.may_answer)
    }

    /// The leader does not answer.
    pub(crate) fn link_lost(&self) {
        *lock(&self.link) = None;
    }

    /// The node fetches a copy of another node's folder, and has come this far.
    pub(crate) fn copies(&self, progress: Progress) {
        *lock(&self.copying) = Some(progress);
    }

    /// How far the copy is that the node fetches. `None`: it fetches none.
    pub(crate) fn copying(&self) -> Option<Progress> {
        *lock(&self.copying)
    }

    /// The state of a node that does not lead yet. `None`: the start has not come that far.
    pub(crate) fn state(&self) -> Option<StartState> {
        let text = lock(&self.said).clone();
        let link = *lock(&self.link);
        let (text, is_ready) = match link {
            _ if text.is_empty() => return None,
            Some(Link { lag, may_answer }) => (format!("{text}, lag {lag} groups"), may_answer),
            None => (text, false),
        };
        Some(StartState { text, is_ready })
    }

    /// The epoch in which the node is.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn set_epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Whether the node would claim if there was no leader.
    pub(crate) fn can_lead(&self) -> bool {
        self.can_lead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_can_lead(&self, can_lead: bool) {
        self.can_lead.store(can_lead, Ordering::Relaxed);
    }

    /// The thread of the node is alive.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the thread has been alive.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_has_waited_does_not_set_the_leaders_time_back() {
        let status = Status::default();
        let told = |process, time_ms, took_s| {
            status.leader_told_time(process, time_ms, Duration::from_secs(took_s));
            status.leader_ms()
        };
        told(7, 1_000_000, 0);
        // This process was stopped between its question and its look at the answer.
        assert!(told(7, 900_000, 200) >= 1_000_000);
        // The clock of this machine is ahead of the leader's.
        assert!(told(7, 800_000, 0) < 900_000);
        assert!(told(7, 600_000, 100) < 800_000);
        // The time of another leader says nothing.
        assert!(told(8, 100_000, 1_000) < 600_000);
    }
}
