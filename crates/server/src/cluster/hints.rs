//! Tells people and the other nodes about this node once a second, and reads what the others tell.
//! The leader also reads the operator's order. A follower without a leader looks who leads: if it has
//! much to read, or its folder has no room, it has not read the last claim yet.
//!
//! No promise depends on this. A leader trims less while a node that is away needs more. Nodes that
//! are not away report over their own link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nats::Place;
use nats::hints::{EVERY, Hint, Hints, Role, Seen};
use replica::node::Input;
use replica::{Incarnation, NodeId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::cluster::node::Event;
use crate::cluster::status::{Leader, Status};

/// A hint that has not changed for this long is that of a node that is away.
pub(super) const LIVE_MAX: Duration = Duration::from_secs(4);

/// Writes the newest hint of this node, until nobody listens.
pub(super) async fn run(
    place: Place,
    node: NodeId,
    newest: watch::Receiver<Hint>,
    status: Arc<Status>,
    events: UnboundedSender<Event>,
) {
    let mut hints = Hints::new(place);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = BTreeMap::new();
    let mut name_watch = NameWatch::default();
    while !events.is_closed() {
        ticks.tick().await;
        let hint = newest.borrow().clone();
        if hint.name.is_empty() {
            continue;
        }
        if let Some(text) = name_watch.look(hint.incarnation, hints.newest_of(node).await) {
            if !text.is_empty() {
                tracing::error!("{text}");
            }
            status.warn(text);
        }
        let leads = hint.role == Role::Leads;
        let written = hints.write(node, &hint).await;
        name_watch.has_written |= written.is_ok();
        if let Err(error) = written {
            tracing::debug!("cannot write the hint of this node: {error}");
        } else if leads && let Ok(seen) = hints.read().await {
            report(node, &seen, &mut known, &events);
            status.view().saw_nodes(seen.clone());
            if let Some(order) = hints.newest_order().await {
                let successor = seen.into_iter().find(|seen| seen.node == order.successor);
                let hint = successor.map(|seen| seen.hint).unwrap_or_default();
                // The thread of the node ends only with this task.
                let _ = events.send(Event::Ordered(order, Box::new(hint)));
            }
        } else if !leads
            && !status.reaches_leader()
            && let Ok(seen) = hints.read().await
        {
            look_for_leader(node, &hint.lineage, &seen, &status);
        }
    }
}

/// Lets the clients of a follower reach a leader whose claim the follower has not read.
fn look_for_leader(own: NodeId, lineage: &str, seen: &[Seen], status: &Status) {
    if let Some(leader) = leader(seen, lineage)
        && leader.node != own
        && leader.epoch > status.epoch()
    {
        status.led_by(leader);
    }
}

/// The node that leads this lineage, as far as the nodes that are there say so.
pub(super) fn leader(seen: &[Seen], lineage: &str) -> Option<Leader> {
    let leads = |one: &&Seen| is_live(one, lineage) && one.hint.role == Role::Leads;
    let Seen { node, hint, .. } = seen.iter().filter(leads).max_by_key(|one| one.hint.epoch)?;
    Some(Leader {
        node: *node,
        name: hint.name.clone(),
        address: hint.address.clone(),
        incarnation: hint.incarnation,
        epoch: hint.epoch,
    })
}

/// Whether the hint is that of a node of this lineage that is there.
pub(super) fn is_live(one: &Seen, lineage: &str) -> bool {
    let Seen { hint, changes, age, .. } = one;
    *changes > 0 && *age < LIVE_MAX && hint.lineage == lineage && !hint.is_forgotten
}

/// After so many looks without another process, the name is this node's own again.
const ALONE_LOOKS: u32 = 10;

/// Notices another process with the name of this node: it writes its hint in the same place.
#[derive(Debug, Default)]
struct NameWatch {
    /// The hint of an earlier process of this node stays until the first one of this process.
    has_written: bool,
    is_shared: bool,
    alone: u32,
}

impl NameWatch {
    /// `found`: the hint of this node in the bucket. Returns the new warning, if it has changed.
    fn look(&mut self, own: Incarnation, found: Option<Hint>) -> Option<String> {
        let found = found.filter(|_| self.has_written)?;
        if found.incarnation == own {
            self.alone += 1;
            let is_over = self.is_shared && self.alone >= ALONE_LOOKS;
            self.is_shared &= !is_over;
            return is_over.then(String::new);
        }
        self.alone = 0;
        let is_new = !std::mem::replace(&mut self.is_shared, true);
        is_new.then(|| {
            format!(
                "another process, at {}, also has the node name {}: change cluster.node of one of them",
                found.address, found.name
            )
        })
    }
}

/// Passes the hints of other nodes on. A hint that does not change is no sign of life.
fn report(
    own: NodeId,
    seen: &[Seen],
    known: &mut BTreeMap<NodeId, u64>,
    events: &UnboundedSender<Event>,
) {
    for Seen { node, hint, changes, .. } in seen {
        if *node == own || known.insert(*node, *changes) == Some(*changes) {
            continue;
        }
        let input = if hint.is_forgotten {
            Some(Input::Forget(*node))
        } else {
            hint.report(*node).map(|report| Input::Reported { report, is_live: false })
        };
        if let Some(input) = input {
            // The thread of the node ends only with this task.
            let _ = events.send(Event::Input(input));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn a_hint_counts_when_it_changes() {
        let (events, mut received) = unbounded_channel();
        let mut known = BTreeMap::new();
        let mut inputs = |node, changes, is_forgotten| {
            let hint = Hint { lineage: "0".repeat(32), is_forgotten, ..Hint::default() };
            let seen = [Seen { node, hint, changes, age: Duration::ZERO }];
            report(1, &seen, &mut known, &events);
            received.try_recv().ok().map(|event| match event {
                Event::Input(Input::Reported { is_live: false, .. }) => "last words",
                Event::Input(Input::Forget(2)) => "forget",
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(inputs(1, 0, false), None, "its own hint");
        assert_eq!(inputs(2, 0, false), Some("last words"));
        assert_eq!(inputs(2, 0, false), None);
        assert_eq!(inputs(2, 1, false), Some("last words"));
        assert_eq!(inputs(2, 2, true), Some("forget"));
    }

    #[test]
    fn a_follower_that_is_behind_finds_the_leader_by_its_hint() {
        let status = Status::default();
        let claimed = |node, epoch| {
            let name = format!("node-{node}");
            Leader { node, name, address: String::new(), incarnation: node, epoch }
        };
        let told = |node, epoch, age| {
            let Leader { name, address, incarnation, .. } = claimed(node, epoch);
            let (role, lineage) = (Role::Leads, "7".to_owned());
            let hint = Hint { name, address, incarnation, role, lineage, epoch, ..Hint::default() };
            Seen { node, hint, changes: 1, age }
        };
        let leader = || status.leader().borrow().clone();
        // It has read the claim of epoch 5, and has no room for the next groups.
        status.set_epoch(5);
        status.led_by(claimed(1, 5));
        assert!(!status.reaches_leader());
        let seen = [
            told(1, 5, Duration::ZERO),
            told(2, 7, Duration::ZERO),
            told(3, 8, LIVE_MAX),
            told(4, 6, Duration::ZERO),
        ];
        look_for_leader(9, "8", &seen, &status);
        assert_eq!(leader(), Some(claimed(1, 5)), "they are of another lineage");
        look_for_leader(2, "7", &seen, &status);
        assert_eq!(leader(), Some(claimed(1, 5)), "this node does not lead");
        look_for_leader(9, "7", &seen, &status);
        assert_eq!(leader(), Some(claimed(2, 7)));
        // Now it reads what it missed.
        status.led_by(claimed(4, 6));
        assert_eq!(leader(), Some(claimed(2, 7)), "its clients stay");
        status.led_by(claimed(2, 7));
        status.set_epoch(7);
        look_for_leader(9, "7", &seen[..1], &status);
        assert_eq!(leader(), Some(claimed(2, 7)), "an old leader may not know it yet");
        status.led_by(claimed(3, 9));
        assert_eq!(leader(), Some(claimed(3, 9)));
        status.linked(3, false);
        assert!(!status.reaches_leader());
        status.linked(3, true);
        assert!(status.reaches_leader());
    }
}
