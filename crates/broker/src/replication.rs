//! The node of a cluster: how it starts, and how a follower becomes the leader.
//!
//! `journal/stream.rs` writes the groups of a leader, and `follow.rs` applies them.

use std::ops::Range;
use std::sync::Arc;

use engine::{JobId, Millis, RestoreError};
use log::{Begin, Log};
use replica::chain::Chain;
use replica::group::At;
use replica::{Epoch, Lineage};

use crate::core::Core;
use crate::journal::state_hash::StateHash;
use crate::journal::stream::{Stream, decode_place};
use crate::ledger::meta;
use crate::wall::Start;
use crate::{Broker, BrokerError};

/// Why a server cannot use a data folder.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClusterError {
    /// The folder is that of a cluster's node. A server that is alone would make it differ from the
    /// other nodes.
    #[error("the data folder belongs to a node of a cluster, and this server has no cluster")]
    Member,
    /// The folder has jobs or facts, but no place in the history of a cluster.
    #[error("the data folder has jobs or settings that are not those of the cluster")]
    NotAMember,
    /// The folder belongs to another cluster.
    #[error("the data folder belongs to another cluster")]
    OtherLineage,
    /// Only a folder outside of all clusters can become the origin of a cluster.
    #[error("the data folder belongs to a cluster already")]
    AlreadyAMember,
    /// The folder's place in the history is damaged, or a newer version wrote it.
    #[error("the data folder has a place in a cluster that this version cannot read")]
    Unknown,
    /// The folder does not have the jobs and facts that belong to its place. Another program changed
    /// it, or a repair has lost jobs.
    #[error(
        "the data folder does not have the jobs of its place in the cluster; use a copy of another node"
    )]
    Incomplete,
}

/// When the last group of the old leader came.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Since {
    /// The number of milliseconds since this node got it. So delays do not depend on any wall clock.
    Elapsed(u64),
    /// This node was not there.
    Wall {
        /// What the wall clock shows now.
        now: Millis,
        /// The time of the last record of the stream. An idle leader adds records without a group, so
        /// the leader's time came at least so far.
        record: Millis,
    },
}

/// What a start learns about the node from the log.
#[derive(Debug, Default)]
pub(crate) struct RestoredState {
    lineage: Lineage,
    place: Option<(Lineage, At)>,
    has_unknown_place: bool,
    last_time_ms: u64,
    has_facts: bool,
    /// The folder becomes the origin of the cluster.
    is_founded: bool,
    state: StateHash,
    /// Where the node continues. It is known when everything is restored.
    at: At,
}

impl RestoredState {
    pub(crate) fn new(lineage: Lineage) -> Self {
        Self { lineage, ..Self::default() }
    }

    /// For a folder that becomes the origin of this cluster.
    pub(crate) fn founding(lineage: Lineage) -> Self {
        Self { lineage, is_founded: true, ..Self::default() }
    }

    /// Reads the place, and returns the start of the engine's time.
    pub(crate) fn begin(&mut self, begin: &Begin<'_>) -> Start {
        let value = begin.fact(meta::CLUSTER_KEY);
        self.place = value.and_then(decode_place);
        self.has_unknown_place = value.is_some() && self.place.is_none();
        self.last_time_ms = begin.last_time_ms;
        // Without a place, only an origin has a past. The log of any other folder can have the time of
        // a leader whose groups the stream never accepted: jobs of the real history would come due by
        // this time.
        let past_ms = if self.is_founded { begin.last_time_ms } else { 0 };
        let time_ms = self.place.map_or(past_ms, |(_, at)| at.time_ms);
        let ahead_ms = begin.fact(meta::CLOCK_KEY).and_then(|value| value.try_into().ok());
        Start::of_follower(Millis(time_ms), ahead_ms.map_or(0, i64::from_le_bytes))
    }

    pub(crate) fn note_job(&mut self, id: JobId, hash: u64) {
        self.state.remember(id, hash);
    }

    pub(crate) fn note_fact(&mut self, key: &[u8], value: &[u8]) {
        if key != meta::CLUSTER_KEY && key != meta::CLOCK_KEY {
            self.has_facts = true;
            self.state.remember_fact(key, value);
        }
    }

    /// The place of the node. A new folder has the place before the first group.
    fn place(&self, has_jobs: bool, next_id: u64) -> Result<At, ClusterError> {
        match self.place {
            _ if self.has_unknown_place => Err(ClusterError::Unknown),
            Some(_) if self.is_founded => Err(ClusterError::AlreadyAMember),
            Some((lineage, _)) if lineage != self.lineage => Err(ClusterError::OtherLineage),
            Some((_, at)) => Ok(at),
            None if self.is_founded => {
                let (state, jobs) = self.state.found();
                let chain = Chain::origin(self.lineage, state, jobs);
                let (time_ms, id_limit) = (self.last_time_ms, next_id);
                Ok(At { chain, state, jobs, time_ms, id_limit, ..At::default() })
            }
            None if has_jobs || self.has_facts => Err(ClusterError::NotAMember),
            None => Ok(At { chain: Chain::origin(self.lineage, 0, 0), ..At::default() }),
        }
    }
}

impl Core {
    /// Checks whether this server may use what it has restored. The start has changed no file yet. `next_id`
    /// is the lowest id above all ids that the log has used.
    pub(crate) fn check_restored(&mut self, next_id: u64) -> Result<(), BrokerError> {
        self.engine.raise_numbers(next_id)?;
        let Some(restored) = &mut self.restored else { return Ok(()) };
        let has_jobs = self.ledger.locations.count() > 0 || self.engine.cold_jobs() > 0;
        let at = restored.place(has_jobs, self.engine.next_number())?;
        restored.at = at;
        restored.state.set(at.state, at.jobs);
        // The hashes of cold jobs are not known.
        if self.engine.cold_jobs() == 0 && !restored.state.is_complete() {
            return Err(ClusterError::Incomplete.into());
        }
        Ok(())
    }

    /// Ends a start: from now on, changes go to the log, or also to the stream of the cluster.
    pub(crate) fn open_journal(&mut self, log: &Arc<Log>) -> Option<Arc<Stream>> {
        let Some(restored) = self.restored.take() else {
            self.ledger.set_log(log.clone());
            self.log_wall_clock();
            return None;
        };
        let has_place = restored.place.is_some() || restored.is_founded;
        let at = (restored.at, has_place);
        let stream = Arc::new(Stream::new(log.clone(), restored.lineage, at, restored.state));
        self.ledger.set_stream(stream.clone());
        Some(stream)
    }
}

impl Broker {
    /// What the node shares with the thread that speaks to the stream. `None`: the server is alone.
    pub fn stream(&self) -> Option<&Arc<Stream>> {
        self.shared.stream.as_ref()
    }

    /// The stream has accepted the group with this number, and all before it. Replies that wait for
    /// them can be sent.
    pub fn accept(&self, number: u64) {
        if let Some(stream) = &self.shared.stream {
            stream.accept(number);
            self.shared.notify_mailboxes();
        }
    }

    /// Lets the leader answer until this moment of its time. Until the first call, it may not.
    pub fn answer_until(&self, until: Millis) {
        if let Some(stream) = &self.shared.stream {
            stream.answer_until(until.0);
            // Also if the lease has not ended: it can end between any check here and the store, and a
            // thread that has seen its end waits for this call.
            self.shared.notify_mailboxes();
        }
    }

    /// Whether replies can be sent, also those that wait for nothing. A leader that the stream does
    /// not answer may have a successor, which hands out the same jobs. After the next call of
    /// [`Mailbox::released`](crate::Mailbox::released), the owner must ask again. `now` is called
    /// only on the node of a cluster.
    pub fn may_answer(&self, now: impl FnOnce() -> Millis) -> bool {
        self.shared.stream.as_ref().is_none_or(|stream| stream.may_answer(now().0))
    }

    /// Gathers a fact that changes nothing, so that there is a group. Otherwise nothing of an idle
    /// stream could be trimmed.
    pub fn gather_nothing(&self) {
        // Without the lock, the fact could end a part while reclaim writes its copies into it.
        let _turn = self.turn(Millis(0));
        if let Some(stream) = &self.shared.stream {
            stream.gather_nothing();
        }
    }

    /// The number that the engine assigns next.
    pub fn next_number(&self) -> u64 {
        self.turn(Millis(0)).core.engine.next_number()
    }

    /// Makes a follower the leader. It must have applied all groups of the leaders before it.
    /// `epoch` is the sequence number of its claim, and `ids` the ids that this claim reserves.
    ///
    /// # Errors
    ///
    /// The limit of ids is too high.
    pub fn lead(&self, epoch: Epoch, ids: Range<u64>, since: Since) -> Result<(), RestoreError> {
        let Some(stream) = &self.shared.stream else { return Ok(()) };
        {
            let mut turn = self.turn(Millis(0));
            let core = &mut *turn.core;
            let last = Millis(stream.at().time_ms);
            let start = match since {
                Since::Elapsed(ms) => {
                    let now = Millis(last.0.saturating_add(ms));
                    Start::of_follower(now, core.logged_ahead_ms)
                }
                Since::Wall { now, record } => {
                    // The first group sets the time. Records before it count from 0.
                    let last = if last.0 > 0 { last.max(record) } else { last };
                    Start::new(now, last, Some(&core.logged_ahead_ms.to_le_bytes()))
                }
            };
            core.engine.raise_numbers(ids.start.max(core.engine.next_number()))?;
            core.engine.set_time(start.now);
            core.engine.set_wall_ahead(start.ahead_ms);
            // The old leader may have handed out jobs until now.
            core.engine.empty_buckets();
            stream.lead(epoch, ids.end);
            core.log_wall_clock();
        }
        if let Some(log) = &self.shared.log {
            log.can_refuse();
        }
        self.set_clock_step();
        Ok(())
    }
}
