//! The folder of a cluster's node, while no server uses it.

use std::sync::Arc;

use engine::Millis;
use log::{Disk, OpenError, Restored, Settings};
use replica::Lineage;
use replica::group::At;

use super::OriginError;
use crate::journal::state_hash::{fact_hash, job_hash};
use crate::journal::stream::decode_place;
use crate::ledger::meta;
use crate::replication::ClusterError;
use crate::{Broker, BrokerError, Options};

/// What a folder has, computed again from its jobs and facts.
#[derive(Debug, Default)]
pub struct Audited {
    /// The place that the folder says it has. `None`: it belongs to no cluster.
    pub place: Option<(Lineage, At)>,
    /// The state hash of its jobs and facts.
    pub state: u64,
    /// The number of its jobs.
    pub jobs: u64,
    /// Why a server would not start with this folder.
    pub refusal: Option<OpenError>,
}

impl Audited {
    /// Whether the folder has exactly the jobs and facts of its place.
    pub fn is_right(&self) -> bool {
        let is_at = |at: At| (at.state, at.jobs) == (self.state, self.jobs);
        self.refusal.is_none() && self.place.is_some_and(|(_, at)| is_at(at))
    }
}

/// Reads a whole folder, and computes its state hash. Changes nothing. Fails if a server uses the
/// folder.
pub fn audit(disk: &dyn Disk) -> Result<Audited, BrokerError> {
    let mut audited = Audited::default();
    let mut broken: Option<BrokerError> = None;
    let salvage = log::salvage(disk, &mut |restored| match restored {
        Restored::Job { queue, meta, counters, body, .. } => match meta::facts(&meta, counters) {
            Ok((facts, tags)) => {
                let hash = job_hash(queue, &facts, tags, body.len());
                audited.state = audited.state.wrapping_add(hash);
                audited.jobs += 1;
            }
            Err(error) => broken = Some(error.into()),
        },
        Restored::Block { .. } => unreachable!("a salvage uses no index files"),
        Restored::Fact { key: meta::CLUSTER_KEY, value, .. } => {
            audited.place = decode_place(value);
            if audited.place.is_none() {
                broken = Some(ClusterError::Unknown.into());
            }
        }
        Restored::Fact { key: meta::CLOCK_KEY, .. } => (),
        Restored::Fact { key, value, .. } => {
            audited.state = audited.state.wrapping_add(fact_hash(key, value));
        }
    })?;
    match broken {
        Some(error) => Err(error),
        None => Ok(Audited { refusal: salvage.refusal, ..audited }),
    }
}

/// Takes the folder of a node out of its cluster. A server that is alone can use it then. Returns
/// the place that it had, when the change is durable.
///
/// # Errors
///
/// The folder is not that of a node of this cluster, or does not have the jobs of its place.
pub fn leave(disk: Arc<dyn Disk>, log: Settings, lineage: Lineage) -> Result<At, OriginError> {
    let options = Options { cluster: Some(lineage), ..Options::without_threads(disk, log) };
    let (broker, _) = Broker::open(options, Millis(0))?;
    let at = broker.stream().expect("it is the node of a cluster").at();
    let now = broker.last_time();
    let log = broker.shared.log.as_ref().expect("a node has a log");
    let mut turn = broker.turn(now);
    // The leader may have used these ids.
    log.reserve_ids(now.0, at.id_limit);
    log.fact(now.0, meta::CLUSTER_KEY, b"");
    turn.core.ledger.appended = true;
    drop(turn);
    while broker.commit_step(now)?.wrote {}
    broker.close(now)?;
    Ok(at)
}
