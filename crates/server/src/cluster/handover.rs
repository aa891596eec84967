//! The operator's order that another node should lead: whether this leader obeys, and when.
//!
//! The leader serves until the other node has applied all groups that existed when the order came.
//! So clients wait only for what changes while the leader stops. The node must also say that it can
//! lead: else the leader would resign, and perhaps nobody could claim.

use nats::hints::{Hint, Order};
use replica::report::Report;

/// A node that needs longer to apply these groups lags too far.
const CATCH_UP_MS: u64 = 10_000;

/// The newest order that this leader has.
#[derive(Debug, Default)]
pub(super) struct Handover {
    order: Order,
    /// The name of the node.
    name: String,
    /// The node must have applied this group.
    goal: u64,
    until_ms: u64,
    state: State,
    /// The refusal is in the messages.
    is_told: bool,
}

#[derive(Debug, Default, Eq, PartialEq)]
enum State {
    /// Nothing to do.
    #[default]
    Idle,
    /// The node catches up.
    Waits,
    Refused(String),
    /// The lead goes to the node.
    Begun,
}

impl Handover {
    /// Takes an order. Repeated orders and those for another epoch count for nothing. `hint` is what
    /// the node told last, and `acknowledged` the last group that the stream has.
    pub(super) fn order(
        &mut self,
        now_ms: u64,
        order: Order,
        hint: &Hint,
        epoch: u64,
        acknowledged: u64,
    ) {
        if order.epoch != epoch || order.id == self.order.id || self.state == State::Begun {
            return;
        }
        let refusal = if hint.name.is_empty() {
            Some(format!("no node has the number {:016x}", order.successor))
        } else if hint.never_leads {
            Some("cluster.lead of this node is false".to_owned())
        } else if !hint.fault.is_empty() {
            Some(format!("the node does not serve: {}", hint.fault))
        } else if !hint.refusal.is_empty() {
            Some(format!("the node does not begin to lead: {}", hint.refusal))
        } else {
            None
        };
        *self = Handover {
            order,
            name: hint.name.clone(),
            goal: acknowledged,
            until_ms: now_ms + CATCH_UP_MS,
            state: refusal.map_or(State::Waits, State::Refused),
            is_told: false,
        };
    }

    /// The node that must have reported, while the order waits.
    pub(super) fn waits_for(&self) -> Option<u64> {
        (self.state == State::Waits).then_some(self.order.successor)
    }

    /// Decides whether the lead can go now. `report` is the last live report of the node in this
    /// epoch. Returns the name of the node if the lead goes.
    pub(super) fn decide(&mut self, now_ms: u64, report: Option<Report>) -> Option<String> {
        if self.state != State::Waits {
            return None;
        }
        match report {
            Some(report) if report.applied >= self.goal && !report.cannot_lead => {
                self.state = State::Begun;
                return Some(self.name.clone());
            }
            // After a start, the node needs some of this time for its first check of the stream's servers.
            Some(report) if now_ms >= self.until_ms => {
                let behind = self.goal.saturating_sub(report.applied);
                self.state = State::Refused(if behind > 0 {
                    format!("the node is {behind} groups behind")
                } else {
                    "the node says that it cannot lead now".to_owned()
                });
            }
            None if now_ms >= self.until_ms => {
                let why = "the node does not follow this leader: it has no link to it";
                self.state = State::Refused(why.to_owned());
            }
            Some(_) | None => {}
        }
        None
    }

    /// The node that should claim after the resignation.
    pub(super) fn successor(&self) -> Option<u64> {
        (self.state == State::Begun).then_some(self.order.successor)
    }

    /// Why the order was refused, once.
    pub(super) fn new_refusal(&mut self) -> Option<&str> {
        match &self.state {
            State::Refused(why) if !std::mem::replace(&mut self.is_told, true) => Some(why),
            State::Refused(_) | State::Idle | State::Waits | State::Begun => None,
        }
    }

    /// The order that was refused, and why.
    pub(super) fn refusal(&self) -> Option<(u64, &str)> {
        match &self.state {
            State::Refused(why) => Some((self.order.id, why)),
            State::Idle | State::Waits | State::Begun => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint() -> Hint {
        Hint { name: "two".to_owned(), ..Hint::default() }
    }

    fn ordered(hint: &Hint) -> Handover {
        let mut handover = Handover::default();
        handover.order(1000, Order { id: 5, epoch: 7, successor: 2 }, hint, 7, 100);
        handover
    }

    fn applied(applied: u64) -> Report {
        Report { node: 2, applied, ..Report::default() }
    }

    #[test]
    fn the_lead_goes_when_the_node_has_caught_up() {
        let mut handover = ordered(&hint());
        assert_eq!(handover.waits_for(), Some(2));
        assert_eq!(handover.decide(1000, None), None, "its link may be new");
        assert_eq!(handover.decide(1100, Some(applied(99))), None);
        assert_eq!(handover.successor(), None);
        assert_eq!(handover.decide(1200, Some(applied(100))).as_deref(), Some("two"));
        assert_eq!((handover.successor(), handover.refusal()), (Some(2), None));
        assert_eq!(handover.decide(1300, Some(applied(101))), None, "once");
        // Nothing stops it now.
        handover.order(1400, Order { id: 6, epoch: 7, successor: 3 }, &hint(), 7, 100);
        assert_eq!(handover.successor(), Some(2));
    }

    #[test]
    fn a_node_that_cannot_lead_is_refused() {
        let refused = |hint: Hint| ordered(&hint).refusal().map(|(id, why)| (id, why.to_owned()));
        let why = |hint| refused(hint).expect("a refusal").1;
        assert!(why(Hint::default()).contains("no node has the number 0000000000000002"));
        assert!(why(Hint { never_leads: true, ..hint() }).contains("cluster.lead"));
        assert!(why(Hint { fault: "copies".to_owned(), ..hint() }).ends_with(": copies"));
        assert!(why(Hint { refusal: "flush".to_owned(), ..hint() }).ends_with(": flush"));
        assert_eq!(refused(hint()), None);
        for (report, text) in [(Some(applied(40)), "60 groups behind"), (None, "does not follow")] {
            let mut handover = ordered(&hint());
            assert_eq!(handover.decide(1000 + CATCH_UP_MS, report), None);
            let (id, why) = handover.refusal().expect("a refusal");
            assert!(id == 5 && why.contains(text), "{why}");
            assert_eq!(
                handover.decide(60_000, Some(applied(100))),
                None,
                "the operator must ask again"
            );
        }
    }

    #[test]
    fn the_lead_stays_while_the_node_says_that_it_cannot_lead() {
        let refuses = Report { cannot_lead: true, ..applied(100) };
        // Its check of the stream's servers turned bad after the order.
        let mut handover = ordered(&hint());
        assert_eq!(handover.decide(1100, Some(refuses)), None);
        assert_eq!(handover.decide(1200, Some(applied(100))).as_deref(), Some("two"));

        let mut handover = ordered(&hint());
        assert_eq!(handover.decide(1000 + CATCH_UP_MS, Some(refuses)), None);
        assert_eq!(handover.refusal(), Some((5, "the node says that it cannot lead now")));
        assert_eq!(
            handover.decide(60_000, Some(applied(100))),
            None,
            "the operator must ask again"
        );
    }

    #[test]
    fn an_old_order_counts_for_nothing() {
        let mut handover = Handover::default();
        handover.order(0, Order { id: 5, epoch: 6, successor: 2 }, &hint(), 7, 100);
        assert_eq!(handover.waits_for(), None);
        let mut handover = ordered(&Hint::default());
        assert!(handover.new_refusal().is_some_and(|why| why.contains("no node")));
        handover.order(2000, Order { id: 5, epoch: 7, successor: 2 }, &hint(), 7, 100);
        assert_eq!(handover.waits_for(), None, "it was refused");
        assert_eq!(handover.new_refusal(), None, "it is told once");
        handover.order(2000, Order { id: 6, epoch: 7, successor: 2 }, &hint(), 7, 100);
        assert_eq!(handover.waits_for(), Some(2));
    }
}
