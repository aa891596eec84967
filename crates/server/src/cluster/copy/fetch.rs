//! The thread that fetches a copy of another node's folder. It tries until it has one.
//!
//! It asks a follower if one is there, so that the leader has no extra work. The nodes find each
//! other by their hints: this node has no place in the stream, so the stream does not tell it who
//! leads.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use log::{IncomingCopy, PosixDisk};
use nats::Place;
use nats::hints::{EVERY, Hints, Role, Seen};
use notation::size;
use replica::{Lineage, NodeId};
use tokio::io::BufReader;
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::PIECE_BYTES;
use super::receive::{Need, Progress, ReceiveError, receive};
use crate::cluster::ClusterFailure;
use crate::cluster::hints::{is_live, leader};
use crate::cluster::keys::Keys;
use crate::cluster::node::Event;
use crate::cluster::status::Status;

/// A follower has this time to show up, before the leader is asked.
const LEADER_AFTER: Duration = Duration::from_secs(4);
/// A node whose copy failed is not asked again before this time.
const FAILED_FOR: Duration = Duration::from_secs(10);
/// Time before the next attempt, if no other node failed.
const RETRY: Duration = Duration::from_secs(2);
/// The same if the disk is full, or fails. Each attempt reads again what is there already.
const RETRY_DISK: Duration = Duration::from_mins(1);
/// Time between two messages about the progress, and about waits.
const MESSAGE_PERIOD: Duration = Duration::from_secs(5);
/// Time between two updates of the status.
const STATUS_PERIOD: Duration = Duration::from_millis(200);

/// What the thread needs.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) keys: Keys,
    pub(crate) place: Place,
    pub(crate) lineage: Lineage,
    pub(crate) node: NodeId,
    /// The data folder.
    pub(crate) folder: PathBuf,
    pub(crate) status: Arc<Status>,
    pub(crate) events: UnboundedSender<Event>,
}

/// A thread that removes what an earlier attempt has left.
pub(crate) type Discarding = JoinHandle<()>;

impl Fetch {
    /// Removes what an earlier attempt has left, because the folder needs no copy any more.
    pub(crate) fn discard(&self) -> io::Result<Discarding> {
        let folder = self.folder.clone();
        std::thread::Builder::new().name("discard".to_owned()).spawn(move || {
            let discarded = PosixDisk::new(folder).and_then(|disk| IncomingCopy::discard(&disk));
            if let Err(error) = discarded {
                tracing::warn!(%error, "cannot remove the rest of a copy of another node's folder");
            }
        })
    }

    /// Starts the thread. `group` is the last one of the folder. When the copy is whole, an event
    /// ends this process, because only a start can adopt it.
    pub(crate) fn spawn(self, group: u64, discarding: Option<Discarding>) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            if let Some(thread) = discarding {
                // Its errors were told.
                let _ = thread.join();
            }
            runtime.block_on(self.run(group));
        };
        std::thread::Builder::new().name("copy".to_owned()).spawn(run).map(drop)
    }

    async fn run(self, group: u64) {
        let (sender, seen) = watch::channel(Vec::new());
        let hints = Hints::new(self.place.clone());
        tokio::spawn(look(hints, self.lineage.to_string(), self.status.clone(), sender));
        let begun = Instant::now();
        let mut failed: BTreeMap<NodeId, Instant> = BTreeMap::new();
        let mut last = None;
        let mut told: Option<Instant> = None;
        loop {
            failed.retain(|_, at| at.elapsed() < FAILED_FOR);
            let wanted = Wanted {
                own: self.node,
                lineage: self.lineage.to_string(),
                last,
                may_ask_leader: begun.elapsed() >= LEADER_AFTER,
            };
            let chosen = wanted.choose(&seen.borrow(), &failed).cloned();
            let Some(Seen { node, hint, .. }) = chosen else {
                self.status.say("needs a copy, and no node can send one yet".to_owned());
                if begun.elapsed() >= LEADER_AFTER && is_due(&mut told) {
                    tracing::warn!(
                        "this node needs a copy of another node's folder, and waits for a node"
                    );
                }
                sleep(EVERY).await;
                continue;
            };
            last = Some(node);
            match self.attempt(group, &hint.name, &hint.address).await {
                Ok(()) => {
                    // If nobody gets it, this process ends anyway.
                    let _ = self.events.send(Event::Failed(ClusterFailure::Copied(hint.name)));
                    return;
                }
                Err(error) => {
                    self.status
                        .say(format!("needs a copy, and got none from {}: {error}", hint.name));
                    if is_due(&mut told) {
                        let node = hint.name;
                        tracing::warn!(node, "cannot fetch a copy of this node's folder: {error}");
                    }
                    if error.is_of_sender() {
                        failed.insert(node, Instant::now());
                    } else if error.is_of_disk() {
                        sleep(RETRY_DISK).await;
                    } else {
                        sleep(RETRY).await;
                    }
                }
            }
        }
    }

    async fn attempt(&self, group: u64, name: &str, address: &str) -> Result<(), ReceiveError> {
        let link = self.keys.connect(address).await?;
        let mut link = BufReader::with_capacity(PIECE_BYTES, link);
        let disk = PosixDisk::new(&self.folder).map_err(ReceiveError::Disk)?;
        tracing::info!(node = name, "fetches a copy of this node's folder");
        let mut told = Some(Instant::now());
        let mut said: Option<Instant> = None;
        let mut tell = |progress: Progress| {
            self.status.copies(progress);
            let is_whole = progress.bytes >= progress.total_bytes;
            if said.is_some_and(|at| at.elapsed() < STATUS_PERIOD) && !is_whole {
                return;
            }
            said = Some(Instant::now());
            let (bytes, total) =
                (size::rounded(progress.bytes), size::rounded(progress.total_bytes));
            let text = format!("fetches a copy of {name}: {bytes} of {total}");
            if is_due(&mut told) {
                tracing::info!("{text}");
            }
            self.status.say(text);
        };
        let need = Need { lineage: self.lineage, group };
        receive(&mut link, Arc::new(disk), need, &mut tell).await
    }
}

/// Whether it is time for the next message.
fn is_due(told: &mut Option<Instant>) -> bool {
    let is_due = told.is_none_or(|at| at.elapsed() >= MESSAGE_PERIOD);
    if is_due {
        *told = Some(Instant::now());
    }
    is_due
}

impl ReceiveError {
    /// Whether another node can have a better copy. Otherwise the same one is asked again.
    fn is_of_sender(&self) -> bool {
        match self {
            ReceiveError::Link(_)
            | ReceiveError::Refused(_)
            | ReceiveError::OtherLineage
            | ReceiveError::Behind { .. }
            | ReceiveError::Wrong(_) => true,
            ReceiveError::Busy | ReceiveError::NoRoom { .. } | ReceiveError::Disk(_) => false,
        }
    }

    /// Whether the disk of this node is the reason.
    fn is_of_disk(&self) -> bool {
        matches!(self, ReceiveError::NoRoom { .. } | ReceiveError::Disk(_))
    }
}

/// Reads the hints again and again. Clients of this node are passed on to the leader that they name.
async fn look(
    mut hints: Hints,
    lineage: String,
    status: Arc<Status>,
    found: watch::Sender<Vec<Seen>>,
) {
    while !found.is_closed() {
        match hints.read().await {
            Ok(seen) => {
                if let Some(leader) = leader(&seen, &lineage) {
                    status.led_by(leader);
                }
                found.send_replace(seen);
            }
            Err(error) => tracing::debug!("cannot read the hints of other nodes: {error}"),
        }
        sleep(EVERY).await;
    }
}

/// Which node is asked.
struct Wanted {
    own: NodeId,
    lineage: String,
    /// The node of the last attempt. The segments that it has sent need not be sent again.
    last: Option<NodeId>,
    may_ask_leader: bool,
}

impl Wanted {
    fn choose<'a>(&self, seen: &'a [Seen], failed: &BTreeMap<NodeId, Instant>) -> Option<&'a Seen> {
        let others = || {
            seen.iter().filter(|one| {
                one.node != self.own
                    && is_live(one, &self.lineage)
                    && !failed.contains_key(&one.node)
            })
        };
        let followers = others().filter(|one| one.hint.role == Role::Follows);
        let best = followers.max_by_key(|one| (self.last == Some(one.node), one.hint.durable));
        if best.is_some() || !self.may_ask_leader {
            return best;
        }
        others().filter(|one| one.hint.role == Role::Leads).max_by_key(|one| one.hint.epoch)
    }
}

#[cfg(test)]
mod tests {
    use nats::hints::Hint;

    use super::*;
    use crate::cluster::hints::LIVE_MAX;

    fn seen(node: NodeId, role: Role, durable: u64) -> Seen {
        let hint = Hint { lineage: "7".into(), role, durable, epoch: 9, ..Hint::default() };
        Seen { node, hint, changes: 3, age: Duration::ZERO }
    }

    fn chosen(seen: &[Seen], last: Option<NodeId>, failed: &[NodeId]) -> Option<NodeId> {
        let failed = failed.iter().map(|node| (*node, Instant::now())).collect();
        let wanted = Wanted { own: 1, lineage: "7".to_owned(), last, may_ask_leader: true };
        wanted.choose(seen, &failed).map(|one| one.node)
    }

    #[test]
    fn a_follower_is_asked_before_the_leader() {
        let all = [
            seen(1, Role::Follows, 99),
            seen(2, Role::Leads, 50),
            seen(3, Role::Follows, 40),
            seen(4, Role::Follows, 45),
            seen(5, Role::Starts, 60),
        ];
        assert_eq!(chosen(&all, None, &[]), Some(4), "the newest follower, and not this node");
        assert_eq!(chosen(&all, Some(3), &[]), Some(3), "it has sent a part already");
        assert_eq!(chosen(&all, Some(3), &[3]), Some(4));
        assert_eq!(chosen(&all, None, &[3, 4]), Some(2), "the leader is the last choice");
        assert_eq!(chosen(&all, None, &[2, 3, 4]), None);
        let wanted = Wanted { own: 1, lineage: "7".to_owned(), last: None, may_ask_leader: false };
        assert!(wanted.choose(&all[..2], &BTreeMap::new()).is_none(), "a follower can show up");
    }

    #[test]
    fn nodes_that_are_away_or_of_another_cluster_are_not_asked() {
        let usual = seen(2, Role::Follows, 5);
        assert_eq!(chosen(std::slice::from_ref(&usual), None, &[]), Some(2));
        let quiet = Seen { changes: 0, ..usual.clone() };
        let old = Seen { age: LIVE_MAX, ..usual.clone() };
        let hint = |change: fn(&mut Hint)| {
            let mut one = usual.clone();
            change(&mut one.hint);
            one
        };
        let other = hint(|hint| hint.lineage = "8".to_owned());
        let forgotten = hint(|hint| hint.is_forgotten = true);
        for one in [quiet, old, other, forgotten] {
            assert_eq!(chosen(std::slice::from_ref(&one), None, &[]), None, "{one:?}");
        }
    }
}
