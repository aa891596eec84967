//! The record of each queue: whether the queue exists, whether clients wait at it, and whether a
//! client empties it.

use std::collections::BTreeSet;

use super::super::terms::{Lasting, ReplyEnd};
use super::{Arrival, Items, Put, State, Tick};

impl Items {
    /// Notes that a client requested an item of the queue. If the request waited, the queue may
    /// have been removed before the reply.
    pub(in crate::oracle) fn was_used(&mut self, queue: &str, arrival: Arrival) {
        if arrival.waited || self.memory_is_limited {
            self.queues.entry(queue.to_owned()).or_default();
        } else {
            self.exists(queue);
        }
    }

    /// Notes that the queue exists. If a rule can remove it when it is idle, it does not certainly
    /// exist from now on.
    pub(super) fn exists(&mut self, queue: &str) {
        let tick = self.tick;
        let can_idle = self.rule_history.rules_of(queue, false).iter().any(|rules| rules.can_idle);
        let queue = self.queues.entry(queue.to_owned()).or_default();
        if !can_idle {
            queue.exists.get_or_insert(tick);
        }
    }

    /// Notes that no client waits at any queue.
    pub(in crate::oracle) fn note_no_waits(&mut self) {
        self.busy.clear();
    }

    /// Notes that a client waits at the queue, or empties it. Items can then end before a reply
    /// reports their end.
    pub(in crate::oracle) fn disturbed(&mut self, queue: &str) {
        self.busy.insert(queue.to_owned());
        let queue = self.queues.entry(queue.to_owned()).or_default();
        queue.disturbed = queue.disturbed.max(Some(self.tick));
    }

    /// A client began to empty the queue, and disconnected before the reply. Notes that the
    /// operation can continue for long.
    pub(in crate::oracle) fn disturbed_for_good(&mut self, queue: &str) {
        self.uniques.give_up();
        self.queues.entry(queue.to_owned()).or_default().disturbed = Some(Tick::MAX);
    }

    /// Notes that a client requested to empty all queues.
    pub(in crate::oracle) fn all_disturbed(&mut self) {
        self.uniques.give_up();
        self.known_queues().iter().for_each(|name| self.disturbed(name));
    }

    pub(in crate::oracle) fn known_queues(&self) -> BTreeSet<String> {
        self.places.keys().map(|(_, queue)| queue).chain(self.queues.keys()).cloned().collect()
    }

    /// True if only the holder of an open read can end it.
    pub(in crate::oracle) fn are_holds_kept(&self, queue: &str) -> bool {
        let may_vanish = self.queues.get(queue).is_some_and(|queue| queue.may_have_vanished);
        !self.rule_history.ever_times_out() && !self.rule_history.ever_has_defaults() && !may_vanish
    }

    /// Notes that a client may have requested the removal of the queue.
    pub(in crate::oracle) fn may_vanish(&mut self, queue: &str) {
        self.uniques.give_up();
        let queue = self.queues.entry(queue.to_owned()).or_default();
        (queue.exists, queue.may_have_vanished) = (None, true);
    }

    /// Notes the reply to a request that ended the ready items of one queue, or of all queues.
    pub(in crate::oracle) fn emptied(
        &mut self,
        only: Option<&str>,
        reply_end: ReplyEnd,
        arrival: Arrival,
        is_removed: bool,
    ) {
        if is_removed
            && let Some(only) = only
            && !self.may_be_alias(only)
        {
            self.queues.entry(only.to_owned()).or_default().removed = Some(self.tick);
        }
        // If an alias has the name of a queue, the queue keeps its items.
        let is_alias = |queue: &String| self.may_be_alias(queue);
        let hidden: BTreeSet<String> = self.known_queues().into_iter().filter(is_alias).collect();
        for ((id, queue), place) in &mut self.places {
            if only.is_some_and(|only| queue != only) || place.state == State::Ended {
                continue;
            }
            let item = &self.known[*id];
            let is_certain = matches!(item.put, Put::Stored(_));
            let was_ready = place.state == State::Ready && is_certain && self.alone;
            let disturbed = self.queues.get(queue).and_then(|queue| queue.disturbed);
            let is_calm = disturbed.is_none_or(|at| at < place.changed)
                && !self.busy.contains(queue)
                && !hidden.contains(queue);
            // A removal also ends held items.
            if matches!(place.state, State::Held { .. }) && !is_removed {
                continue;
            }
            if was_ready && is_calm && !arrival.waited && item.stored < arrival.tick {
                (place.state, place.changed, place.lasting) =
                    (State::Ended, self.tick, Lasting::IfSent(reply_end));
            } else {
                place.may_be_gone = true;
                place.state = State::Unknown;
            }
        }
    }
}
