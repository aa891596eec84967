//! The oracle's record of each Kestrel item. Checks each event against this record.
//!
//! No reply names an item. So the oracle identifies an item by its body. The body must have been
//! sent only once, and must be too long to repeat by chance. A body can be in several queues. A
//! *place* is an item in one queue.

mod deliveries;
mod ends;
mod puts;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use broker::policy::Rules;

use super::gates::Gates;
use super::retries::Retries;
use super::rules::{QueueRules, RuleHistory};
use super::terms::{Conn, Lasting, ReplyEnd};
use super::unique::Uniques;
use crate::Checked;

/// The oracle does not identify items with shorter bodies, because such bodies can repeat by
/// chance.
const BODY_BYTES_MIN: usize = 8;

/// An expiry of at least this value is a moment in Unix seconds. A smaller value is a number of
/// seconds from the put.
const MOMENT_MIN: i64 = 1_000_000;

/// If there are more places than this, the oracle does not check the order of items, because each
/// check would take long.
const ORDERED_PLACES_MAX: usize = 300;

/// A count of requests and replies, which shows the order of events.
pub(super) type Tick = u64;

#[derive(Debug)]
pub(super) struct Items {
    /// True if all clients that take, end or put jobs speak Kestrel's memcache protocol.
    alone: bool,
    rule_history: RuleHistory,
    pub(super) gates: Gates,
    pub(super) uniques: Uniques,
    pub(super) retries: Retries,
    bodies: BTreeMap<Vec<u8>, usize>,
    known: Vec<Item>,
    /// The places, by item and queue.
    places: BTreeMap<(usize, String), Place>,
    queues: BTreeMap<String, Queue>,
    /// Queues at which a client waits now, or that a client empties now.
    busy: BTreeSet<String>,
    pub(super) tick: Tick,
    pub(super) memory_is_limited: bool,
    pub(super) in_slices: bool,
    /// The latest moment in the record. After a crash, the clock can be behind this moment.
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
    /// The item was put at this moment or earlier.
    stored_at: u64,
    /// The earliest and the latest moment at which the item can expire.
    due: Option<(i64, i64)>,
    /// True if the same body was sent again.
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
    /// When the oracle saw the last change of `state`.
    changed: Tick,
    /// Whether the end of the item survives a crash.
    lasting: Lasting,
    /// True if a rule or a client may have ended the item.
    may_be_gone: bool,
    /// True if the item is only in memory, and ends with the process.
    is_volatile: bool,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum State {
    Ready,
    Held {
        by: Conn,
        until: u64,
    },
    /// The holder's connection is closed. The item will be ready soon.
    Returning,
    Ended,
    Unknown,
}

#[derive(Debug, Default)]
struct Queue {
    /// When a client last waited at the queue, or requested the end of the queue's items.
    disturbed: Option<Tick>,
    /// From this moment on, the queue certainly exists.
    exists: Option<Tick>,
    /// True if a client requested the removal of the queue since the last start of the server.
    may_have_vanished: bool,
    /// When the server last replied to a removal of the queue.
    removed: Option<Tick>,
}

/// The delivery of an item to a client.
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

/// When a request arrived, and whether the client waited. The client waited if the session did not
/// reply in the call in which it got the request.
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
            gates: Gates::default(),
            uniques: Uniques::default(),
            retries: Retries::default(),
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
        self.gates.passed(now);
    }

    pub(super) fn policies_changed(&mut self, rules: &Rules) {
        self.rule_history.changed(rules, self.in_slices);
        self.gates.changed(rules, self.in_slices);
        self.uniques.changed(rules, self.in_slices);
        self.retries.changed(rules, self.in_slices);
        self.mark_uncertain_by_rules();
    }

    /// Marks items, leases and queues as uncertain, if a rule can end them from now on.
    fn mark_uncertain_by_rules(&mut self) {
        for (name, queue) in &mut self.queues {
            let rules = self.rule_history.rules_of(name, false);
            queue.exists = queue.exists.filter(|_| !rules.iter().any(|rules| rules.can_idle));
        }
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

    // --- Which items exist ---

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
        if self.places.len() > ORDERED_PLACES_MAX
            || self.may_be_alias(queue)
            || self.rule_history.ever_pauses()
            || self.may_have_gates(queue)
        {
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

    /// True if failed jobs are, or were, delayed, buried or moved.
    pub(super) fn ever_retries(&self) -> bool {
        self.rule_history.ever_retries()
    }

    /// True if a put can be, or could be, answered with the job of another put.
    pub(super) fn ever_unique(&self) -> bool {
        self.rule_history.ever_unique()
    }

    pub(super) fn ever_bumps(&self) -> bool {
        self.rule_history.ever_bumps()
    }

    fn may_have_gates(&self, queue: &str) -> bool {
        self.rule_history.rules_of(queue, self.alone).iter().any(QueueRules::has_gates)
    }

    /// True if a job can come before an earlier job, because of their keys or of the time that they wait.
    fn may_have_keys(&self, queue: &str) -> bool {
        let rules = self.rule_history.rules_of(queue, self.alone);
        rules.iter().any(|rules| rules.group_key().is_some() || rules.is_strict || rules.is_aging)
    }

    fn may_be_alias(&self, queue: &str) -> bool {
        self.rule_history.rules_of(queue, self.alone).iter().any(|rules| rules.is_alias)
    }

    // --- How open reads end ---

    /// True if a connection certainly still holds the item.
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
        let state = if self.rule_history.ever_retries() { State::Unknown } else { State::Ready };
        self.change(id, queue, conn, |place| place.state = state);
    }

    /// Notes that the connection of the item's holder is closed.
    pub(super) fn comes_back(&mut self, id: usize, queue: &str, conn: Conn) {
        let state = match self.in_slices {
            _ if self.rule_history.ever_retries() => State::Unknown,
            true => State::Returning,
            false => State::Ready,
        };
        self.change(id, queue, conn, |place| place.state = state);
    }

    /// Notes that all items of closed connections are ready again.
    pub(super) fn settled(&mut self) {
        self.tick += 1;
        self.rule_history.settled();
        self.gates.settled();
        self.uniques.settled();
        self.retries.settled();
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
}
