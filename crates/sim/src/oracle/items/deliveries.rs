//! Items that clients receive. Checks whether a client may receive each item now.

use super::super::retries::JobRef;
use super::super::rules::{QueueRules, parent_of};
use super::super::terms::Lasting;
use super::{Delivery, Items, ORDERED_PLACES_MAX, Place, Put, State, Tick};
use crate::Checked;

impl Items {
    /// Checks and notes that a client received an item. Returns the item if the read is open and
    /// the oracle has a record of the item.
    pub(in crate::oracle) fn delivered(
        &mut self,
        delivery: &Delivery<'_>,
    ) -> Result<Option<usize>, String> {
        let Delivery { queue, body, now, .. } = *delivery;
        if !delivery.arrival.waited && !delivery.peeks {
            self.gates.handed_out(queue, now)?;
        }
        let Some(id) = self.bodies.get(body).copied() else {
            return if self.alone { Err("no client put the item".into()) } else { Ok(None) };
        };
        if self.known[id].is_doubled {
            return Ok(None);
        }
        let leads = self.rule_history.may_lead_to(queue);
        if !leads {
            self.check_origin(id, queue)?;
            self.check_age(id, delivery)?;
        }
        let key = (id, queue.to_owned());
        let certain_before =
            if delivery.arrival.waited { delivery.arrival.tick } else { Tick::MAX };
        // The client can have got the item before the removal, and the reply after it.
        let removed = self.queues.get(queue).and_then(|queue| queue.removed);
        let is_late = |at: Tick| at >= certain_before && self.known[id].sent <= at;
        let mut doubts = leads || removed.is_some_and(is_late);
        if let Some(place) = self.places.get(&key).filter(|_| !leads) {
            let wrong = match place.state {
                State::Ended if !matches!(place.lasting, Lasting::Uncertain) => {
                    Some("the item was ended before".to_owned())
                }
                State::Held { by, until } if now < until => {
                    Some(format!("connection {by} has it open"))
                }
                _ => None,
            };
            match wrong {
                Some(wrong) if place.changed < certain_before => return Err(wrong),
                // This reply is about an older hand-out, and came late.
                Some(_) => doubts = true,
                None => {}
            }
            if !delivery.arrival.waited && !doubts {
                self.check_order(id, queue)?;
            }
        }
        if delivery.opens && !delivery.arrival.waited && !doubts {
            self.retries.handed_out(JobRef::Item(id), queue)?;
        }
        self.holds_judged += 1;
        if !delivery.peeks {
            let given_at = if delivery.arrival.waited { delivery.arrival.at } else { now };
            self.give(key, delivery, given_at, doubts);
        }
        Ok(delivery.opens.then_some(id))
    }

    pub(super) fn give(
        &mut self,
        key: (usize, String),
        delivery: &Delivery<'_>,
        given_at: u64,
        doubts: bool,
    ) {
        let by = delivery.reply_end.conn;
        let rules = self.rule_history.rules_of(&key.1, self.alone);
        // The rules may have changed between the hand-out and the reply.
        let has_changed = self.rule_history.ever_has_defaults()
            || delivery.arrival.waited && self.rule_history.ever_times_out();
        let timeouts = rules.iter().filter_map(|rules| rules.open_timeout_ms).min();
        let until = match timeouts {
            _ if has_changed => 0,
            Some(timeout) => given_at + timeout,
            None => u64::MAX,
        };
        let lets_go = rules.iter().any(QueueRules::lets_go);
        let is_volatile = rules.iter().any(|rules| rules.in_memory);
        let place = self.places.entry(key).or_insert(Place {
            state: State::Unknown,
            changed: 0,
            lasting: Lasting::Uncertain,
            may_be_gone: lets_go,
            is_volatile,
        });
        place.state = match delivery.opens {
            _ if doubts => State::Unknown,
            true => State::Held { by, until },
            false => State::Ended,
        };
        place.changed = self.tick;
        place.lasting = Lasting::IfSent(delivery.reply_end);
    }

    /// Checks that the item can be in this queue.
    pub(super) fn check_origin(&self, id: usize, queue: &str) -> Checked {
        let item = &self.known[id];
        if !self.rule_history.is_empty() {
            return Ok(());
        }
        if queue != item.queue && parent_of(queue) != Some(&item.queue) {
            return Err(format!("the item was put into {}", item.queue));
        }
        // A child gets a copy even if the named queue refuses the item.
        if queue == item.queue && matches!(item.put, Put::Refused) {
            return Err("the item was refused".into());
        }
        Ok(())
    }

    pub(super) fn check_age(&self, id: usize, delivery: &Delivery<'_>) -> Checked {
        if self.rule_history.ever_sets_aside() || self.rule_history.ever_retries() {
            // A dead letter that comes back has a new age, and no moment at which it expires.
            return Ok(());
        }
        let item = &self.known[id];
        let moment =
            if delivery.arrival.waited { delivery.arrival.at } else { delivery.now } as i64;
        // An item that got the body of another put keeps its own end.
        if let Some((_, latest)) = item.due
            && moment > latest
            && !self.rule_history.ever_replaces(delivery.queue)
        {
            return Err(format!("the item expired {} ms ago", moment - latest));
        }
        if delivery.arrival.waited || !self.alone || !matches!(item.put, Put::Stored(_)) {
            return Ok(());
        }
        if self.rule_history.ever_delays() {
            // The age of an item that was delayed begins at the end of its delay.
            return Ok(());
        }
        let rules = self.rule_history.certain_rules_of(delivery.queue);
        let Some(age_max) = rules.and_then(|rules| rules.age_max_ms) else { return Ok(()) };
        if delivery.now > item.stored_at + age_max {
            return Err(format!("the item is older than {age_max} ms"));
        }
        Ok(())
    }

    /// Called for an item that was handed out at once. Checks that no earlier item of the queue was
    /// certainly ready.
    pub(super) fn check_order(&mut self, id: usize, queue: &str) -> Checked {
        if self.places.len() > ORDERED_PLACES_MAX
            || self.rule_history.ever_has_defaults()
            || self.may_have_keys(queue)
        {
            return Ok(());
        }
        let item = &self.known[id];
        let mut judged = 0;
        for (other_id, _) in self.surely_ready(queue).filter(|(other, _)| *other != id) {
            let other = &self.known[other_id];
            judged += 1;
            if other.stored < item.sent || (other.conn == item.conn && other.sent < item.sent) {
                return Err(format!("item {other_id} was put before it: {other:?}"));
            }
        }
        self.orders_judged += judged;
        Ok(())
    }
}
