//! Tells people and the other nodes about this node once a second, and reads what the others tell.
//! The leader also reads the operator's order.
//!
//! No promise depends on this. A leader trims less while a node that is away needs more. Nodes that
//! are not away report over their own link.

use std::collections::BTreeMap;
use std::sync::Arc;

use nats::Place;
use nats::hints::{EVERY, Hint, Hints, Role, Seen};
use replica::NodeId;
use replica::node::Input;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::cluster::node::Event;
use crate::cluster::status::Status;

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
    while !events.is_closed() {
        ticks.tick().await;
        let hint = newest.borrow().clone();
        if hint.name.is_empty() {
            continue;
        }
        let leads = hint.role == Role::Leads;
        if let Err(error) = hints.write(node, &hint).await {
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
        }
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
    use std::time::Duration;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn a_hint_counts_when_it_changes() {
        let (events, mut received) = unbounded_channel();
        let mut known = BTreeMap::new();
        let mut inputs = |node, changes, is_forgotten| {
            let hint = Hint { lineage: "7".into(), is_forgotten, ..Hint::default() };
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
}
