//! Series of the last hour: one value per minute for each number.

use broker::Millis;

use crate::name_list::NameList;
use crate::snapshot::{Counts, Snapshot, json_bytes};

/// Number of values in a series.
const POINTS: usize = 60;
const MINUTE_MS: u64 = 60_000;
/// Limit of series. Each series takes half a kilobyte. If there are more numbers, only the first
/// ones get a series, in this order: the server's numbers, the queues' counters by name, the
/// queues' gauges.
const SERIES_MAX: usize = 10_000;
/// Limit of the bytes of all names, as JSON writes them, because queue names can be long.
const NAMES_BYTES_MAX: usize = 1 << 20;

/// All series.
#[derive(Debug)]
pub(crate) struct Series {
    /// When the last value was added.
    latest: Millis,
    /// The numbers at the moment of the last value. Their changes give the next value.
    seen: Counts,
    /// When a client last requested numbers.
    asked: Millis,
    names: NameList,
    /// The values of each series, in the order of the names.
    values: Vec<[f64; POINTS]>,
}

impl Series {
    /// Begins all series with one value each. All earlier values are 0.
    pub(crate) fn new(now: Millis, snapshot: &Snapshot) -> Series {
        let seen = snapshot.counts();
        let unchanged = snapshot.since(&seen);
        let (names, values) = (NameList::default(), Vec::new());
        let mut series = Series { latest: now, seen, asked: now, names, values };
        series.add(&unchanged);
        series
    }

    /// Notes a request for numbers.
    pub(crate) fn note_question(&mut self, now: Millis) {
        self.asked = now;
    }

    /// Whether the last request was longer ago than the series reach back.
    pub(crate) fn is_forgotten(&self, now: Millis) -> bool {
        now.since(self.asked) > POINTS as u64 * MINUTE_MS
    }

    /// Whether a minute is over, so that the caller must call [`Series::advance`].
    pub(crate) fn is_due(&self, now: Millis) -> bool {
        now.since(self.latest) >= MINUTE_MS
    }

    /// Adds a value to each series: the growth of a counter, the value of a gauge, the mean of a
    /// metric. Removes a series if its counter, gauge or metric does not exist any more.
    pub(crate) fn advance(&mut self, now: Millis, snapshot: &Snapshot) {
        let minutes = now.since(self.latest) / MINUTE_MS;
        self.latest = Millis(self.latest.0 + minutes * MINUTE_MS);
        let changed = snapshot.since(&self.seen);
        self.seen = snapshot.counts();
        // Each missed minute gets the value 0. A series has the values of one hour, so further
        // minutes need no values.
        for _ in 1..minutes.min(POINTS as u64) {
            self.values.iter_mut().for_each(|values| shift(values, 0.0));
        }
        self.add(&changed);
    }

    fn add(&mut self, changed: &Snapshot) {
        let counters = changed.counters.iter();
        let counters = counters.map(|(name, value)| (format!("counter:{name}"), *value as f64));
        let gauges = changed.gauges.iter().map(|(name, value)| (format!("gauge:{name}"), *value));
        let metrics = changed.metrics.iter().map(|(name, measured)| {
            let measured = measured.as_ref().filter(|all| !all.is_empty());
            (format!("metric:{name}"), measured.map_or(0.0, |all| all.mean()))
        });
        let of_queues = changed
            .queue_counters()
            .map(|(name, value)| (format!("counter:{name}"), value as f64))
            .chain(changed.queue_gauges().map(|(name, value)| (format!("gauge:{name}"), value)));
        let all = counters.chain(gauges).chain(metrics).chain(of_queues);
        let mut names_bytes = 0;
        let in_bounds = all.take(SERIES_MAX).take_while(|(name, _)| {
            names_bytes += json_bytes(name);
            names_bytes <= NAMES_BYTES_MAX
        });
        let mut added: Vec<(String, f64)> = in_bounds.collect();
        added.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let names = NameList::of(added.iter().map(|(name, _)| name.as_str()));
        if names != self.names {
            let before = |name| self.names.find(name).map(|place| self.values[place]);
            let values = names.iter().map(|name| before(name).unwrap_or([0.0; POINTS]));
            self.values = values.collect();
            self.names = names;
        }
        for (values, (_, value)) in self.values.iter_mut().zip(added) {
            shift(values, value);
        }
    }

    /// The numbers of the last minute. Their memory is not part of [`Series::bytes`].
    pub(crate) fn remembered(&self) -> &Counts {
        &self.seen
    }

    /// Memory of the names and values of all series, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.names.bytes() + size_of_val(&*self.values) as u64
    }

    /// The names of all series.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// When the last value was added, by the broker's clock.
    pub(crate) fn latest(&self) -> Millis {
        self.latest
    }

    /// The points of a series, oldest first: Unix seconds and a value. `latest_at`: the time that the
    /// wall clock shows at [`Series::latest`].
    pub(crate) fn points(
        &self,
        key: &str,
        latest_at: Millis,
    ) -> Option<impl Iterator<Item = (u64, f64)>> {
        let values = &self.values[self.names.find(key)?];
        let points = values.iter().enumerate().map(move |(index, value)| {
            let ago_ms = (POINTS - 1 - index) as u64 * MINUTE_MS;
            (latest_at.0.saturating_sub(ago_ms) / 1_000, *value)
        });
        Some(points)
    }
}

fn shift(values: &mut [f64; POINTS], next: f64) {
    values.rotate_left(1);
    values[POINTS - 1] = next;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(counter: u64, gauge: f64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.counters.insert("c", counter);
        snapshot.gauges.insert("g", gauge);
        snapshot
    }

    fn points(series: &Series, key: &str) -> Vec<(u64, f64)> {
        series.points(key, series.latest()).unwrap().collect()
    }

    #[test]
    fn there_are_sixty_points_a_minute_apart() {
        let start = Millis(7_200_000);
        let mut series = Series::new(start, &snapshot(10, 1.0));
        assert!(!series.is_due(Millis(start.0 + MINUTE_MS - 1)));
        for minute in 1..=2 {
            let now = Millis(start.0 + minute * MINUTE_MS + 200);
            assert!(series.is_due(now));
            series.advance(now, &snapshot(10 + 3 * minute, minute as f64));
        }
        let counter = points(&series, "counter:c");
        assert_eq!(counter.len(), POINTS);
        assert_eq!(counter[57..], [(7_200, 0.0), (7_260, 3.0), (7_320, 3.0)]);
        assert_eq!(counter[0], (7_320 - 59 * 60, 0.0));
        assert_eq!(points(&series, "gauge:g")[57..], [(7_200, 1.0), (7_260, 1.0), (7_320, 2.0)]);
        assert_eq!(series.keys().collect::<Vec<_>>(), ["counter:c", "gauge:g"]);
        assert!(series.points("counter:x", start).is_none());
        series.note_question(Millis(5 * MINUTE_MS));
        assert!(!series.is_forgotten(Millis(65 * MINUTE_MS)));
        assert!(series.is_forgotten(Millis(65 * MINUTE_MS + 1)));
    }

    #[test]
    fn minutes_that_were_missed_are_empty_and_numbers_that_are_gone_go() {
        let mut series = Series::new(Millis(0), &snapshot(0, 0.0));
        series.advance(Millis(3 * MINUTE_MS), &snapshot(6, 0.0));
        assert_eq!(points(&series, "counter:c")[57..], [(60, 0.0), (120, 0.0), (180, 6.0)]);
        let by_wall: Vec<_> = series.points("counter:c", Millis(7_200_000)).unwrap().collect();
        assert_eq!((by_wall[0], by_wall[59]), ((7_200 - 59 * 60, 0.0), (7_200, 6.0)));
        series.advance(Millis(4 * MINUTE_MS), &Snapshot::default());
        assert_eq!(series.keys().count(), 0);
    }
}
