//! Items that clients put, and the limits of queues.

use super::super::rules::{QueueRules, parent_of};
use super::super::terms::{Conn, Lasting, ReplyEnd};
use super::{Arrival, BODY_BYTES_MIN, Item, Items, MOMENT_MIN, Place, Put, Queue, State};
use crate::Checked;

impl Items {
    /// Notes that a client sent a put.
    pub(in crate::oracle) fn sent(
        &mut self,
        conn: Conn,
        queue: &str,
        body: &[u8],
        expiry: i64,
        now: u64,
    ) {
        if let Some(known) = self.bodies.get(body) {
            self.known[*known].is_doubled = true;
            return;
        }
        let moment = now as i64;
        self.bodies.insert(body.to_vec(), self.known.len());
        self.known.push(Item {
            queue: queue.to_owned(),
            len: body.len(),
            conn,
            sent: self.tick,
            put: Put::Unheard,
            stored: 0,
            stored_at: now,
            due: match expiry {
                0 => None,
                // A relative expiry counts from the put. The exact moment of the put is unknown.
                ..MOMENT_MIN => Some((moment + expiry * 1000, i64::MAX)),
                _ => Some((expiry * 1000, expiry * 1000)),
            },
            is_doubled: body.len() < BODY_BYTES_MIN,
            drained: 0,
        });
    }

    pub(in crate::oracle) fn refused(&mut self, body: &[u8]) {
        if let Some(id) = self.bodies.get(body) {
            self.known[*id].put = Put::Refused;
        }
    }

    /// Notes that the server acknowledged a put.
    pub(in crate::oracle) fn stored(
        &mut self,
        reply_end: ReplyEnd,
        (queue, expiry, body): (&str, i64, &[u8]),
        arrival: Arrival,
        now: u64,
    ) -> Checked {
        self.check_limits(queue, body.len() as u64)?;
        let id = self.bodies[body];
        if !self.known[id].is_doubled {
            self.note_stored(reply_end, id, expiry, arrival, now);
        }
        if !self.may_be_alias(queue) {
            self.exists(queue);
        }
        Ok(())
    }

    /// Records that the item is in its queue, and in all children that existed at the put.
    pub(super) fn note_stored(
        &mut self,
        reply_end: ReplyEnd,
        id: usize,
        expiry: i64,
        arrival: Arrival,
        now: u64,
    ) {
        let item = &mut self.known[id];
        let queue = item.queue.clone();
        item.put = Put::Stored(Lasting::IfSent(reply_end));
        item.stored = self.tick;
        item.stored_at = now;
        if let Some((_, latest)) = &mut item.due
            && expiry < MOMENT_MIN
        {
            *latest = now as i64 + expiry * 1000;
        }
        let rules = self.rule_history.rules_of(&queue, self.alone);
        if rules.iter().any(|rules| rules.is_alias) {
            return;
        }
        if !rules.iter().any(|rules| rules.fanout_only) {
            self.add_place(id, queue.clone(), reply_end, false);
        }
        // The server may have removed a child before it replied to the removal.
        let since = |queue: &Queue| {
            let is_certain = |since| since < arrival.tick && queue.disturbed < Some(since);
            queue.exists.is_some_and(is_certain)
        };
        let is_child = |name: &str| parent_of(name) == Some(&*queue);
        let children = self.queues.iter().filter(|(name, child)| is_child(name) && since(child));
        let children: Vec<String> = children.map(|(name, _)| name.clone()).collect();
        for child in children {
            // A full child does not get the item.
            let may_miss = self
                .rule_history
                .rules_of(&child, self.alone)
                .iter()
                .any(|rules| rules.has_limit() || rules.is_alias || rules.fanout_only);
            self.add_place(id, child, reply_end, may_miss);
        }
    }

    pub(super) fn add_place(
        &mut self,
        id: usize,
        queue: String,
        reply_end: ReplyEnd,
        may_be_gone: bool,
    ) {
        let rules = self.rule_history.rules_of(&queue, self.alone);
        let is_certain =
            !self.rule_history.may_lead_to(&queue) && !self.rule_history.ever_has_defaults();
        let place = Place {
            state: if is_certain { State::Ready } else { State::Unknown },
            changed: self.tick,
            lasting: Lasting::IfSent(reply_end),
            may_be_gone: may_be_gone || rules.iter().any(QueueRules::lets_go),
            is_volatile: rules.iter().any(|rules| rules.in_memory),
        };
        self.places.entry((id, queue)).or_insert(place);
    }

    /// Checks that an acknowledged put kept the limits of its queue.
    pub(super) fn check_limits(&mut self, queue: &str, len: u64) -> Checked {
        let Some(rules) = self.rule_history.certain_rules_of(queue).filter(|_| self.alone) else {
            return Ok(());
        };
        if rules.is_alias || rules.fanout_only {
            return Ok(());
        }
        if rules.item_bytes_max.is_some_and(|max| len > max) {
            return Err(format!("{queue} takes no item of {len} bytes: {rules:?}"));
        }
        if !rules.drops_oldest && (rules.jobs_max.is_some() || rules.bytes_max.is_some()) {
            let there = self.surely_ready(queue).map(|(id, _)| self.known[id].len as u64);
            let lens: Vec<u64> = there.collect();
            let (count, bytes) = (lens.len() as u64, lens.iter().sum::<u64>());
            self.limits_judged += 1;
            if rules.jobs_max.is_some_and(|max| count >= max)
                || rules.bytes_max.is_some_and(|max| bytes >= max)
            {
                return Err(format!("{queue} was full with {count} items: {rules:?}"));
            }
        }
        Ok(())
    }
}
