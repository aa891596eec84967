//! The end of a process, and of a run.

use std::collections::BTreeMap;

use super::super::rules::parent_of;
use super::super::terms::{Certain, Lasting, ReplyEnd};
use super::{Items, Place, Put, Queue, State};
use crate::Checked;

impl Items {
    pub(in crate::oracle) fn restarted(
        &mut self,
        left: Certain,
        is_certain: impl Fn(ReplyEnd) -> bool,
    ) {
        // A rule can make a queue less durable than the log's setting.
        let is_lax = left != Certain::All && self.rule_history.was_lax();
        let after = |lasting: Lasting| match lasting {
            Lasting::IfSent(reply_end) if is_certain(reply_end) && !is_lax => Lasting::Certain,
            Lasting::IfSent(_) => Lasting::Uncertain,
            lasting => lasting,
        };
        let certain: Vec<bool> =
            self.places.iter().map(|(key, place)| self.is_surely_kept(key, place)).collect();
        for (place, is_kept) in self.places.values_mut().zip(certain) {
            place.lasting = after(place.lasting);
            place.changed = self.tick;
            place.may_be_gone |= place.is_volatile || !is_kept;
            match place.state {
                // The lease may have ended before, and the item may be delayed or buried.
                State::Held { .. } | State::Returning if self.rule_history.ever_retries() => {
                    place.state = State::Unknown;
                }
                State::Held { .. } | State::Returning => place.state = State::Ready,
                State::Ended if matches!(place.lasting, Lasting::Uncertain) => {
                    place.state = State::Unknown;
                }
                _ => {}
            }
        }
        for item in &mut self.known {
            if let Put::Stored(lasting) = item.put {
                item.put = Put::Stored(after(lasting));
            }
        }
        self.queues.values_mut().for_each(|queue| *queue = Queue::default());
        if left != Certain::All {
            self.rule_history.crashed();
        }
        self.mark_uncertain_by_rules();
    }

    /// True if no client can have taken or flushed this item, so that only the end of the process
    /// can have changed it.
    fn is_surely_kept(&self, key: &(usize, String), place: &Place) -> bool {
        match place.state {
            State::Held { .. } => true,
            // A flush that began before the item came back can end the item.
            State::Returning => {
                let disturbed = self.queues.get(&key.1).and_then(|queue| queue.disturbed);
                disturbed.is_none_or(|at| at < place.changed)
            }
            _ => self.is_surely_ready(key, place),
        }
    }

    /// Notes that a client took a job with this body, at the end of the run. `queue` is the job's
    /// queue, if it is known.
    pub(in crate::oracle) fn drained(&mut self, queue: Option<&str>, body: &[u8]) -> Checked {
        let Some(id) = self.bodies.get(body).copied().filter(|_| self.alone) else {
            return Ok(());
        };
        let item = &mut self.known[id];
        item.drained += 1;
        let (is_doubled, at) = (item.is_doubled, item.queue.clone());
        let place = self.places.get(&(id, queue.unwrap_or(&at).to_owned()));
        let is_ended = |place: &Place| {
            place.state == State::Ended && !matches!(place.lasting, Lasting::Uncertain)
        };
        let is_alone =
            queue.is_some() || !self.queues.keys().any(|name| parent_of(name) == Some(&at));
        if !is_doubled && self.rule_history.is_empty() && is_alone && place.is_some_and(is_ended) {
            return Err(format!("item {id} was ended before: {:?}", self.known[id]));
        }
        Ok(())
    }

    /// Called after all jobs were taken. Checks that no acknowledged item is missing.
    pub(in crate::oracle) fn check_all_drained(&mut self) -> Checked {
        let mut certain: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (key, place) in &self.places {
            if self.is_surely_ready(key, place) {
                certain.entry(key.0).or_default().push(&key.1);
            }
        }
        for (id, queues) in certain {
            let item = &self.known[id];
            self.copies_judged += queues.len() as u64;
            if item.drained < queues.len() {
                return Err(format!(
                    "item {id} was acknowledged and must be in {queues:?}; in the end it was found \
                     {} times: {item:?}",
                    item.drained
                ));
            }
        }
        Ok(())
    }
}
