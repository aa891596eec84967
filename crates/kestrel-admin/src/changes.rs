//! Changes of numbers: in the last whole period, or since the last request of the same namespace.

use std::collections::BTreeMap;

use broker::Millis;

use crate::snapshot::{Counts, Snapshot};

/// Limit of watched periods. At the limit, a new period evicts the period that was requested
/// longest ago.
const PERIODS_MAX: usize = 9;
/// A period is dropped if no client requests it for this many times its length.
const LENGTHS_MAX: u64 = 10;
/// The longest period.
pub(crate) const PERIOD_S_MAX: u64 = 86_400;
/// Limit of namespaces. At the limit, a new namespace evicts the namespace whose last request was
/// longest ago.
const NAMESPACES_MAX: usize = 32;

/// Recorded numbers of earlier moments, for each period and namespace. A period is a length of
/// time: clients request the changes in the last whole period.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    periods: BTreeMap<u64, Period>,
    namespaces: BTreeMap<String, Namespace>,
}

/// A watched period.
#[derive(Debug)]
struct Period {
    /// When the current period ends.
    ends: Millis,
    /// The numbers at the beginning of the current period.
    base: Counts,
    /// The changes in the previous period.
    latched: Counts,
    requested: Millis,
}

/// A namespace. A request with a namespace gets the changes since the previous request with this
/// namespace.
#[derive(Debug)]
struct Namespace {
    seen: Counts,
    requested: Millis,
}

impl Changes {
    /// Drops periods that no client requests any more. Returns whether one of the remaining periods
    /// is over. If so, the caller must call [`Changes::advance`].
    pub(crate) fn is_due(&mut self, now: Millis) -> bool {
        let is_wanted = |seconds: &u64, period: &mut Period| {
            now.since(period.requested) <= seconds * 1_000 * LENGTHS_MAX
        };
        self.periods.retain(is_wanted);
        self.periods.values().any(|period| period.ends <= now)
    }

    /// Stores the changes of each period that is over, and begins the next period.
    pub(crate) fn advance(&mut self, now: Millis, snapshot: &Snapshot) {
        for (seconds, period) in self.periods.iter_mut().filter(|(_, period)| period.ends <= now) {
            period.latched = snapshot.since(&period.base).counts();
            period.base = snapshot.counts();
            // If this call is late by whole periods, their changes become part of the period that
            // is stored now.
            let length_ms = seconds * 1_000;
            let late_ms = now.since(period.ends) % length_ms;
            period.ends = Millis(now.0 - late_ms + length_ms);
        }
    }

    /// The changes in the last whole period of this length. Before the end of the first period, all
    /// changes are 0. Gauges are not changes, and have their current values.
    pub(crate) fn in_period(&mut self, now: Millis, seconds: u64, snapshot: &Snapshot) -> Snapshot {
        if !self.periods.contains_key(&seconds) {
            if self.periods.len() == PERIODS_MAX
                && let Some((_, oldest)) = self.oldest_period()
            {
                self.periods.remove(&oldest);
            }
            self.periods.insert(seconds, Period::new(now, seconds, snapshot));
        }
        let period = self.periods.get_mut(&seconds).expect("it was just there");
        period.requested = now;
        snapshot.with_changes(&period.latched)
    }

    /// The changes since the last request with this namespace. For the first request, these are the
    /// changes since the start of the server.
    pub(crate) fn for_namespace(
        &mut self,
        now: Millis,
        name: &str,
        snapshot: &Snapshot,
    ) -> Snapshot {
        let namespace = Namespace { seen: snapshot.counts(), requested: now };
        if let Some(before) = self.namespaces.insert(name.to_owned(), namespace) {
            return snapshot.since(&before.seen);
        }
        if self.namespaces.len() > NAMESPACES_MAX
            && let Some((_, oldest)) = self.oldest_namespace()
        {
            self.namespaces.remove(&oldest);
        }
        snapshot.clone()
    }

    /// All recorded numbers.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = &Counts> {
        let periods = self.periods.values().flat_map(|period| [&period.base, &period.latched]);
        periods.chain(self.namespaces.values().map(|namespace| &namespace.seen))
    }

    /// Drops the period or namespace that was requested longest ago. Returns false if nothing is
    /// recorded.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let (period, namespace) = (self.oldest_period(), self.oldest_namespace());
        let requested_earlier = |(requested, _): &(Millis, u64)| {
            namespace
                .as_ref()
                .is_none_or(|(namespace_requested, _)| requested <= namespace_requested)
        };
        match (period.filter(requested_earlier), namespace) {
            (Some((_, seconds)), _) => {
                self.periods.remove(&seconds);
            }
            (None, Some((_, name))) => {
                self.namespaces.remove(&name);
            }
            (None, None) => return false,
        }
        true
    }

    fn oldest_period(&self) -> Option<(Millis, u64)> {
        self.periods.iter().map(|(seconds, period)| (period.requested, *seconds)).min()
    }

    fn oldest_namespace(&self) -> Option<(Millis, String)> {
        let oldest = self.namespaces.iter().min_by_key(|(_, namespace)| namespace.requested)?;
        Some((oldest.1.requested, oldest.0.clone()))
    }
}

impl Period {
    fn new(now: Millis, seconds: u64, snapshot: &Snapshot) -> Period {
        let base = snapshot.counts();
        Period {
            ends: Millis(now.0.saturating_add(seconds * 1_000)),
            latched: snapshot.since(&base).counts(),
            base,
            requested: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment `seconds` seconds after the beginning of the test.
    fn at(seconds: u64) -> Millis {
        Millis(1_000_000 + seconds * 1_000)
    }

    fn counted(value: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.counters.insert("c", value);
        snapshot.gauges.insert("g", value as f64);
        snapshot
    }

    /// A period that a client requested at `at(0)`, when the counter had this value.
    fn watching(seconds: u64, value: u64) -> Changes {
        let mut changes = Changes::default();
        changes.in_period(at(0), seconds, &counted(value));
        changes
    }

    /// The counter and the gauge of a report.
    fn shown(snapshot: &Snapshot) -> (u64, f64) {
        (snapshot.counters["c"], snapshot.gauges["g"])
    }

    #[test]
    fn a_period_shows_what_changed_in_the_last_whole_one() {
        let mut changes = watching(60, 100);
        assert_eq!(shown(&changes.in_period(at(10), 60, &counted(105))), (0, 105.0));
        let mut with_new = counted(105);
        with_new.counters.insert("new", 3);
        assert_eq!(changes.in_period(at(10), 60, &with_new).counters["new"], 0);
        assert!(!changes.is_due(at(59)));
        assert!(changes.is_due(at(60)));
        changes.advance(at(60), &counted(107));
        for second in [60, 61, 119] {
            assert_eq!(shown(&changes.in_period(at(second), 60, &counted(200))), (7, 200.0));
        }
        assert!(!changes.is_due(at(119)));
        changes.advance(at(120), &counted(207));
        assert_eq!(shown(&changes.in_period(at(121), 60, &counted(207))), (100, 207.0));
        changes.advance(at(180), &counted(207));
        assert_eq!(shown(&changes.in_period(at(181), 60, &counted(207))), (0, 207.0));
    }

    #[test]
    fn a_period_that_was_missed_is_in_the_next_one_and_the_ends_stay_where_they_were() {
        let mut changes = watching(60, 0);
        changes.advance(at(190), &counted(9));
        assert_eq!(changes.in_period(at(190), 60, &counted(9)).counters["c"], 9);
        assert!(!changes.is_due(at(239)));
        assert!(changes.is_due(at(240)));
    }

    #[test]
    fn a_period_begins_with_its_first_request() {
        let mut changes = watching(60, 0);
        assert_eq!(changes.in_period(at(5), 10, &counted(50)).counters["c"], 0);
        changes.advance(at(15), &counted(53));
        assert_eq!(changes.in_period(at(16), 10, &counted(60)).counters["c"], 3);
        assert_eq!(changes.in_period(at(16), 60, &counted(60)).counters["c"], 0);
        for seconds in 100..200 {
            changes.in_period(at(seconds), seconds, &counted(0));
        }
        assert_eq!(changes.periods.len(), PERIODS_MAX);
        assert!(changes.periods.contains_key(&199) && !changes.periods.contains_key(&60));
    }

    #[test]
    fn a_period_is_kept_while_clients_request_it() {
        assert!(!Changes::default().is_due(at(1_000_000)));
        let mut changes = watching(60, 0);
        for minute in 1..=9 {
            assert!(changes.is_due(at(minute * 60)));
            changes.advance(at(minute * 60), &counted(minute));
        }
        assert_eq!(shown(&changes.in_period(at(550), 60, &counted(9))), (1, 9.0));
        changes.advance(at(600), &counted(9));
        assert!(changes.is_due(at(1_150)), "not ten minutes ago");
        assert!(!changes.is_due(at(1_151)));
        assert!(changes.periods.is_empty());
        assert_eq!(shown(&changes.in_period(at(1_200), 60, &counted(20))), (0, 20.0));
        assert!(changes.is_due(at(1_260)), "it begins again with the question");
    }

    #[test]
    fn each_namespace_gets_changes_since_its_last_request() {
        let mut changes = Changes::default();
        assert_eq!(changes.for_namespace(at(1), "a", &counted(5)).counters["c"], 5);
        assert_eq!(changes.for_namespace(at(2), "b", &counted(6)).counters["c"], 6);
        assert_eq!(changes.for_namespace(at(3), "a", &counted(8)).counters["c"], 3);
        assert_eq!(changes.for_namespace(at(3), "a", &counted(8)).counters["c"], 0);
        assert_eq!(changes.for_namespace(at(3), "b", &counted(8)).counters["c"], 2);
        // The queue was removed and created again, so its counter has restarted from 0.
        assert_eq!(changes.for_namespace(at(4), "a", &counted(4)).counters["c"], 4);
        for number in 0..100 {
            changes.for_namespace(at(number), &number.to_string(), &counted(0));
        }
        assert_eq!(changes.namespaces.len(), NAMESPACES_MAX);
    }
}
