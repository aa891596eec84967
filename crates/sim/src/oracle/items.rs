//! The oracle's record of each Kestrel item, and whether it allows each event.
//!
//! No reply names an item. So the oracle identifies an item by its body, if that body was sent only
//! once and is too long to repeat by chance. A body may be in several queues; each of them is a
//! place.

use std::collections::{BTreeMap, BTreeSet};

use broker::policy::Rules;

use super::rules::{QueueRules, RuleHistory, parent_of};
use super::{Certain, Conn, Lasting, ReplyEnd};
use crate::Checked;

/// The oracle does not distinguish shorter bodies.
const BODY_BYTES_MIN: usize = 8;

/// An expiry from here on is a moment in Unix seconds. A smaller one is a number of seconds from
/// now.
const MOMENT_MIN: i64 = 1_000_000;

/// With more places than this, the oracle does not judge orders, because each check would take
/// long.
const ORDERED_PLACES_MAX: usize = 300;

/// Counts requests and replies, so that the oracle knows which came first.
pub(super) type Tick = u64;

#[derive(Debug)]
pub(super) struct Items {
    /// Only clients of this protocol take, end or put jobs.
    alone: bool,
    rule_history: RuleHistory,
    bodies: BTreeMap<Vec<u8>, usize>,
    known: Vec<Item>,
    /// By item and queue.
    places: BTreeMap<(usize, String), Place>,
    queues: BTreeMap<String, Queue>,
    /// Queues at which a client waits now, or which a client empties now.
    busy: BTreeSet<String>,
    pub(super) tick: Tick,
    pub(super) memory_is_limited: bool,
    pub(super) in_slices: bool,
    /// The latest moment of the record. After a crash the clock can be behind it.
    latest: u64,
    pub(super) orders_judged: u64,
    pub(super) holds_judged: u64,
    pub(super) copies_judged: u64,
    pub(super) limits_judged: u64,
}

#[derive(Debug)]
struct Item {
    queue: String,
    len: usize,
    conn: Conn,
    sent: Tick,
    put: Put,
    stored: Tick,
    /// It was put at this moment or earlier.
    stored_at: u64,
    /// The earliest and the latest moment at which it can expire.
    due: Option<(i64, i64)>,
    /// The same body was sent again.
    is_doubled: bool,
    drained: usize,
}

#[derive(Copy, Clone, Debug)]
enum Put {
    Unheard,
    Refused,
    Stored(Lasting),
}

#[derive(Debug)]
struct Place {
    state: State,
    /// When the oracle learned of it.
    changed: Tick,
    /// Whether its end outlives a crash.
    lasting: Lasting,
    /// A rule or a client may have ended it.
    may_be_gone: bool,
    /// It ends with the process.
    is_volatile: bool,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum State {
    Ready,
    Held {
        by: Conn,
        until: u64,
    },
    /// Its holder is gone. It will be ready soon.
    Returning,
    Ended,
    Unknown,
}

#[derive(Debug, Default)]
struct Queue {
    /// When a client last waited there, or requested that its items end.
    disturbed: Option<Tick>,
    /// Since when it certainly exists.
    exists: Option<Tick>,
    /// A client requested its removal in this life of the server.
    may_have_vanished: bool,
}

/// A client received an item.
#[derive(Copy, Clone, Debug)]
pub(super) struct Delivery<'a> {
    pub(super) reply_end: ReplyEnd,
    pub(super) queue: &'a str,
    pub(super) body: &'a [u8],
    pub(super) opens: bool,
    pub(super) peeks: bool,
    pub(super) arrival: Arrival,
    pub(super) now: u64,
}

/// When a request arrived, and whether other calls came between it and the reply.
#[derive(Copy, Clone, Debug)]
pub(super) struct Arrival {
    pub(super) tick: Tick,
    pub(super) at: u64,
    pub(super) waited: bool,
}

impl Items {
    pub(super) fn new(alone: bool) -> Self {
        Self {
            alone,
            rule_history: RuleHistory::new(),
            bodies: BTreeMap::new(),
            known: Vec::new(),
            places: BTreeMap::new(),
            queues: BTreeMap::new(),
            busy: BTreeSet::new(),
            tick: 0,
            memory_is_limited: false,
            in_slices: false,
            latest: 0,
            orders_judged: 0,
            holds_judged: 0,
            copies_judged: 0,
            limits_judged: 0,
        }
    }

    pub(super) fn passed(&mut self, now: u64) {
        self.latest = self.latest.max(now);
    }

    // --- Policies ---

    pub(super) fn policies_changed(&mut self, rules: &Rules) {
        self.rule_history.changed(rules, self.in_slices);
        self.mark_uncertain_by_rules();
    }

    /// Doubts all items that a rule can end from now on, and all holds that a rule can end.
    fn mark_uncertain_by_rules(&mut self) {
        for ((_, queue), place) in &mut self.places {
            let rules = self.rule_history.rules_of(queue, self.alone);
            place.may_be_gone |= rules.iter().any(QueueRules::lets_go);
            place.is_volatile |= rules.iter().any(|rules| rules.in_memory);
            let times_out = rules.iter().any(|rules| rules.open_timeout_ms.is_some());
            if let State::Held { until, .. } = &mut place.state
                && times_out
            {
                *until = 0;
            }
        }
    }

    // --- Puts ---

    /// A client sent a put.
    pub(super) fn sent(&mut self, conn: Conn, queue: &str, body: &[u8], expiry: i64, now: u64) {
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
                // The expiry is known at the put.
                ..MOMENT_MIN => Some((moment + expiry * 1000, i64::MAX)),
                _ => Some((expiry * 1000, expiry * 1000)),
            },
            is_doubled: body.len() < BODY_BYTES_MIN,
            drained: 0,
        });
    }

    pub(super) fn refused(&mut self, body: &[u8]) {
        if let Some(id) = self.bodies.get(body) {
            self.known[*id].put = Put::Refused;
        }
    }

    /// A put was acknowledged.
    pub(super) fn stored(
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

    /// Records that the item is in its queue, and in the children that existed.
    fn note_stored(
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
        // A removal of a child can happen before its reply.
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

    fn add_place(&mut self, id: usize, queue: String, reply_end: ReplyEnd, may_be_gone: bool) {
        let rules = self.rule_history.rules_of(&queue, self.alone);
        let is_certain = !self.rule_history.may_lead_to(&queue);
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
    fn check_limits(&mut self, queue: &str, len: u64) -> Checked {
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

    // --- Queues ---

    /// A client requested an item of the queue. If it waited, the reply can come after the queue
    /// was removed.
    pub(super) fn was_used(&mut self, queue: &str, arrival: Arrival) {
        if arrival.waited || self.memory_is_limited {
            self.queues.entry(queue.to_owned()).or_default();
        } else {
            self.exists(queue);
        }
    }

    /// The queue exists.
    fn exists(&mut self, queue: &str) {
        let tick = self.tick;
        self.queues.entry(queue.to_owned()).or_default().exists.get_or_insert(tick);
    }

    /// No client waits anywhere, according to the record.
    pub(super) fn note_no_waits(&mut self) {
        self.busy.clear();
    }

    /// A client waits at the queue, or empties it. Items can end before any client learns of it.
    pub(super) fn disturbed(&mut self, queue: &str) {
        self.busy.insert(queue.to_owned());
        let queue = self.queues.entry(queue.to_owned()).or_default();
        queue.disturbed = queue.disturbed.max(Some(self.tick));
    }

    /// A client that emptied the queue left before the reply. The operation can continue for long.
    pub(super) fn disturbed_for_good(&mut self, queue: &str) {
        self.queues.entry(queue.to_owned()).or_default().disturbed = Some(Tick::MAX);
    }

    /// A client requested to empty all queues.
    pub(super) fn all_disturbed(&mut self) {
        self.known_queues().iter().for_each(|name| self.disturbed(name));
    }

    pub(super) fn known_queues(&self) -> BTreeSet<String> {
        self.places.keys().map(|(_, queue)| queue).chain(self.queues.keys()).cloned().collect()
    }

    /// Whether only their holders can end open reads.
    pub(super) fn are_holds_kept(&self, queue: &str) -> bool {
        let may_vanish = self.queues.get(queue).is_some_and(|queue| queue.may_have_vanished);
        !self.rule_history.ever_times_out() && !may_vanish
    }

    /// A client perhaps requested the removal of the queue.
    pub(super) fn may_vanish(&mut self, queue: &str) {
        let queue = self.queues.entry(queue.to_owned()).or_default();
        (queue.exists, queue.may_have_vanished) = (None, true);
    }

    /// A queue, or each queue, lost the items that were ready when a client requested it.
    pub(super) fn emptied(
        &mut self,
        only: Option<&str>,
        reply_end: ReplyEnd,
        arrival: Arrival,
        is_removed: bool,
    ) {
        // The items of a queue that an alias hides stay.
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
            // No other client can hold it, so all ready items end.
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

    // --- What is there ---

    fn is_surely_ready(&self, (id, queue): &(usize, String), place: &Place) -> bool {
        let item = &self.known[*id];
        let is_put = matches!(item.put, Put::Stored(Lasting::IfSent(_) | Lasting::Certain));
        let disturbed = self.queues.get(queue).and_then(|queue| queue.disturbed);
        self.alone
            && place.state == State::Ready
            && !self.busy.contains(queue)
            && is_put
            && !place.may_be_gone
            && !item.is_doubled
            && item.due.is_none_or(|(earliest, _)| (self.latest as i64) < earliest)
            && disturbed.is_none_or(|at| at < place.changed)
    }

    fn surely_ready(&self, queue: &str) -> impl Iterator<Item = (usize, &Place)> {
        let ready = self.places.iter().filter(move |(key, place)| {
            key.1 == queue && place.state == State::Ready && self.is_surely_ready(key, place)
        });
        ready.map(|((id, _), place)| (*id, place))
    }

    pub(super) fn check_nothing_ready(&mut self, queue: &str) -> Checked {
        if self.places.len() > ORDERED_PLACES_MAX || self.may_be_alias(queue) {
            return Ok(());
        }
        match self.surely_ready(queue).next() {
            Some((id, _)) => {
                let item = &self.known[id];
                let what = if item.queue == queue { "" } else { "the copy of " };
                Err(format!("{what}item {id} was there: {item:?}"))
            }
            None => Ok(()),
        }
    }

    fn may_be_alias(&self, queue: &str) -> bool {
        self.rule_history.rules_of(queue, self.alone).iter().any(|rules| rules.is_alias)
    }

    // --- Deliveries ---

    /// A client received an item. Returns the item, if the oracle knows it and the read is open.
    pub(super) fn delivered(&mut self, delivery: &Delivery<'_>) -> Result<Option<usize>, String> {
        let Delivery { queue, body, now, .. } = *delivery;
        let Some(id) = self.bodies.get(body).copied() else {
            return if self.alone { Err("nobody put the item".into()) } else { Ok(None) };
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
        let mut doubts = leads;
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
                // The reply about an older hand-out came late.
                Some(_) => doubts = true,
                None => {}
            }
            if !delivery.arrival.waited && !doubts {
                self.check_order(id, queue)?;
            }
        }
        self.holds_judged += 1;
        if !delivery.peeks {
            let given_at = if delivery.arrival.waited { delivery.arrival.at } else { now };
            self.give(key, delivery, given_at, doubts);
        }
        Ok(delivery.opens.then_some(id))
    }

    fn give(&mut self, key: (usize, String), delivery: &Delivery<'_>, given_at: u64, doubts: bool) {
        let by = delivery.reply_end.conn;
        let rules = self.rule_history.rules_of(&key.1, self.alone);
        // The server may have handed the item out under other rules than those that are in force at
        // the reply.
        let has_changed = delivery.arrival.waited && self.rule_history.ever_times_out();
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
    fn check_origin(&self, id: usize, queue: &str) -> Checked {
        let item = &self.known[id];
        if !self.rule_history.is_empty() {
            return Ok(());
        }
        if queue != item.queue && parent_of(queue) != Some(&item.queue) {
            return Err(format!("the item was put into {}", item.queue));
        }
        // Children get a copy even if the put itself fails.
        if queue == item.queue && matches!(item.put, Put::Refused) {
            return Err("the item was refused".into());
        }
        Ok(())
    }

    fn check_age(&self, id: usize, delivery: &Delivery<'_>) -> Checked {
        let item = &self.known[id];
        let moment =
            if delivery.arrival.waited { delivery.arrival.at } else { delivery.now } as i64;
        if let Some((_, latest)) = item.due
            && moment > latest
        {
            return Err(format!("the item expired {} ms ago", moment - latest));
        }
        if delivery.arrival.waited || !self.alone || !matches!(item.put, Put::Stored(_)) {
            return Ok(());
        }
        let rules = self.rule_history.certain_rules_of(delivery.queue);
        let Some(age_max) = rules.and_then(|rules| rules.age_max_ms) else { return Ok(()) };
        if delivery.now > item.stored_at + age_max {
            return Err(format!("the item is older than {age_max} ms"));
        }
        Ok(())
    }

    /// Checks an item that was handed out at once: no item that was certainly there was put before
    /// it.
    fn check_order(&mut self, id: usize, queue: &str) -> Checked {
        if self.places.len() > ORDERED_PLACES_MAX {
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

    // --- What becomes of open reads ---

    /// Whether a connection certainly still holds the item.
    pub(super) fn is_held(&self, id: usize, queue: &str, conn: Conn, now: u64) -> bool {
        matches!(self.places.get(&(id, queue.to_owned())).map(|place| place.state),
            Some(State::Held { by, until }) if by == conn && now < until)
    }

    pub(super) fn confirmed(&mut self, id: usize, queue: &str, reply_end: ReplyEnd) {
        self.change(id, queue, reply_end.conn, |place| {
            (place.state, place.lasting) = (State::Ended, Lasting::IfSent(reply_end));
        });
    }

    pub(super) fn given_back(&mut self, id: usize, queue: &str, conn: Conn) {
        self.change(id, queue, conn, |place| place.state = State::Ready);
    }

    /// The connection of its holder is closed.
    pub(super) fn comes_back(&mut self, id: usize, queue: &str, conn: Conn) {
        let state = if self.in_slices { State::Returning } else { State::Ready };
        self.change(id, queue, conn, |place| place.state = state);
    }

    /// All items that had to come back are back.
    pub(super) fn settled(&mut self) {
        self.tick += 1;
        self.rule_history.settled();
        for place in self.places.values_mut().filter(|place| place.state == State::Returning) {
            (place.state, place.changed) = (State::Ready, self.tick);
        }
    }

    pub(super) fn doubted(&mut self, id: usize, queue: &str, conn: Conn) {
        self.change(id, queue, conn, |place| {
            (place.state, place.may_be_gone) = (State::Unknown, true);
        });
    }

    fn change(&mut self, id: usize, queue: &str, conn: Conn, act: impl FnOnce(&mut Place)) {
        let tick = self.tick;
        if let Some(place) = self.places.get_mut(&(id, queue.to_owned()))
            && matches!(place.state, State::Held { by, .. } if by == conn)
        {
            act(place);
            place.changed = tick;
        }
    }

    // --- Ends ---

    pub(super) fn restarted(&mut self, left: Certain, is_certain: impl Fn(ReplyEnd) -> bool) {
        // A queue can be less durable than the log.
        let is_lax = left != Certain::All && self.rule_history.was_lax();
        let after = |lasting: Lasting| match lasting {
            Lasting::IfSent(reply_end) if is_certain(reply_end) && !is_lax => Lasting::Certain,
            Lasting::IfSent(_) => Lasting::Uncertain,
            lasting => lasting,
        };
        let certain: Vec<bool> =
            self.places.iter().map(|(key, place)| self.is_surely_ready(key, place)).collect();
        for (place, was_ready) in self.places.values_mut().zip(certain) {
            place.lasting = after(place.lasting);
            place.changed = self.tick;
            let is_open = matches!(place.state, State::Held { .. } | State::Returning);
            place.may_be_gone |= place.is_volatile || !(was_ready || is_open);
            match place.state {
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

    /// At the end of the run a client took a job with this body, of this queue if the queue is
    /// known.
    pub(super) fn drained(&mut self, queue: Option<&str>, body: &[u8]) -> Checked {
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

    /// Checks after all jobs were taken that no acknowledged item is missing.
    pub(super) fn check_all_drained(&mut self) -> Checked {
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
