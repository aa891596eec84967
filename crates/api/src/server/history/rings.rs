//! Rings of rows, and their form in a file.

use std::collections::VecDeque;

use broker::Millis;

/// A number of the history.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Series {
    /// Ready jobs.
    Ready,
    /// Leased jobs.
    Leased,
    /// Delayed jobs.
    Delayed,
    /// Buried jobs.
    Buried,
    /// Jobs put per second.
    Puts,
    /// Jobs handed out per second.
    Takes,
    /// Jobs ended per second.
    Ends,
    /// Leases per second that ended at their deadline.
    Timeouts,
    /// The age of the oldest job that is next in its queue, in milliseconds.
    Oldest,
    /// The time within which 99 % of the syncs ended, in microseconds.
    Sync,
    /// Bytes of the log's files.
    Log,
    /// Open connections.
    Connections,
}

impl Series {
    /// All series, in the order of their columns. The order is a part of the form of the file.
    pub const ALL: [Series; 12] = [
        Series::Ready,
        Series::Leased,
        Series::Delayed,
        Series::Buried,
        Series::Puts,
        Series::Takes,
        Series::Ends,
        Series::Timeouts,
        Series::Oldest,
        Series::Sync,
        Series::Log,
        Series::Connections,
    ];

    /// The name of the series over HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Series::Ready => "ready",
            Series::Leased => "leased",
            Series::Delayed => "delayed",
            Series::Buried => "buried",
            Series::Puts => "puts_per_s",
            Series::Takes => "takes_per_s",
            Series::Ends => "ends_per_s",
            Series::Timeouts => "timeouts_per_s",
            Series::Oldest => "oldest_ms",
            Series::Sync => "sync_p99_us",
            Series::Log => "log_bytes",
            Series::Connections => "connections",
        }
    }

    /// Whether a longer step shows the largest value of its time, and not the average.
    fn shows_largest(self) -> bool {
        matches!(self, Series::Oldest | Series::Sync)
    }
}

/// A length of time that the history covers.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Span {
    /// An hour, with a value for each 10 seconds.
    Hour,
    /// A day, with a value for each minute.
    Day,
    /// Thirty days, with a value for each quarter of an hour.
    Month,
}

impl Span {
    /// All spans.
    pub const ALL: [Span; 3] = [Span::Hour, Span::Day, Span::Month];

    /// The name of the span over HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Span::Hour => "1h",
            Span::Day => "24h",
            Span::Month => "30d",
        }
    }

    /// The span of this name.
    pub fn named(name: &str) -> Option<Span> {
        Span::ALL.into_iter().find(|span| span.name() == name)
    }

    /// The time between two values.
    pub fn step_ms(self) -> u64 {
        match self {
            Span::Hour => 10_000,
            Span::Day => 60_000,
            Span::Month => 900_000,
        }
    }

    /// The largest number of values.
    pub fn values(self) -> usize {
        match self {
            Span::Hour => 360,
            Span::Day => 1440,
            Span::Month => 2880,
        }
    }
}

/// A value of each series. NaN: not known.
pub(crate) type Row = [f32; Series::ALL.len()];

const UNKNOWN: Row = [f32::NAN; Series::ALL.len()];

/// The first bytes of the file. The last digit is the version of its form.
const MAGIC: &[u8; 8] = b"LSHIST\n1";
const ROW_BYTES: usize = 4 * Series::ALL.len();
/// A file is smaller than this.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The rows of one span.
#[derive(Clone, Debug, PartialEq)]
struct Ring {
    span: Span,
    /// The number of the last row: its moment divided by the step.
    last: u64,
    /// At most [`Span::values`] rows, without gaps.
    rows: VecDeque<Row>,
    /// The number of rows of 10 seconds in the last row. 0: not known.
    merged: u32,
}

impl Ring {
    fn new(span: Span) -> Ring {
        Ring { span, last: 0, rows: VecDeque::new(), merged: 0 }
    }

    fn number(&self, wall: Millis) -> u64 {
        wall.0 / self.span.step_ms()
    }

    fn add(&mut self, wall: Millis, row: &Row) {
        let number = self.number(wall);
        // If the wall clock was set back, the later rows belong to the future.
        while self.last > number && self.rows.pop_back().is_some() {
            self.last -= 1;
            self.merged = 0;
        }
        if self.last == number
            && let Some(last) = self.rows.back_mut()
        {
            if self.merged == 0 {
                // Rows come every 10 seconds. If some are missing, the others stand for them.
                let before = wall.0 % self.span.step_ms() / Span::Hour.step_ms();
                self.merged = before.max(1) as u32;
            }
            self.merged += 1;
            merge(last, row, self.merged);
            return;
        }
        let missed = if self.rows.is_empty() { 0 } else { (number - self.last).saturating_sub(1) };
        if missed >= self.span.values() as u64 {
            self.rows.clear();
        } else {
            self.rows.extend((0..missed).map(|_| UNKNOWN));
        }
        self.rows.push_back(*row);
        let excess = self.rows.len().saturating_sub(self.span.values());
        self.rows.drain(..excess);
        (self.last, self.merged) = (number, 1);
    }
}

/// Adds a row to the average of a longer step, which then has `count` rows.
fn merge(into: &mut Row, row: &Row, count: u32) {
    for series in Series::ALL {
        let (value, new) = (&mut into[series as usize], row[series as usize]);
        if value.is_nan() {
            *value = new;
        } else if series.shows_largest() {
            *value = value.max(new);
        } else if !new.is_nan() {
            *value += (new - *value) / count as f32;
        }
    }
}

/// The rings of all spans.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rings([Ring; 3]);

impl Default for Rings {
    fn default() -> Rings {
        Rings(Span::ALL.map(Ring::new))
    }
}

impl Rings {
    /// Whether the present 10 seconds have no row yet. Also if the wall clock was set back.
    pub(crate) fn wants_row(&self, wall: Millis) -> bool {
        let finest = &self.0[0];
        finest.rows.is_empty() || finest.last != finest.number(wall)
    }

    pub(crate) fn add(&mut self, wall: Millis, row: &Row) {
        self.0.iter_mut().for_each(|ring| ring.add(wall, row));
    }

    /// The rows of a span up to this moment, and the moment of the first one.
    pub(crate) fn of(&self, span: Span, wall: Millis) -> (Millis, Vec<Row>) {
        let ring = &self.0[span as usize];
        let now = ring.number(wall);
        let first_kept = (now + 1).saturating_sub(span.values() as u64);
        let first_known = (ring.last + 1).saturating_sub(ring.rows.len() as u64);
        let first = if ring.rows.is_empty() { now } else { first_kept.max(first_known).min(now) };
        let row = |number: u64| {
            let index = number.checked_sub(first_known)?;
            ring.rows.get(usize::try_from(index).ok()?).copied()
        };
        let rows = (first..=now).map(|number| row(number).unwrap_or(UNKNOWN));
        (Millis(first * span.step_ms()), rows.collect())
    }

    /// The bytes of the file: the magic, then for each ring the number of the last row, the number
    /// of rows and the rows, then a checksum. All numbers are little endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for ring in &self.0 {
            bytes.extend(ring.last.to_le_bytes());
            bytes.extend((ring.rows.len() as u32).to_le_bytes());
            bytes.extend(ring.rows.iter().flatten().flat_map(|value| value.to_le_bytes()));
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// `None`: these are not the bytes of a whole file.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Rings> {
        let (content, sum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = content.strip_prefix(MAGIC)?;
        let mut rings = Rings::default();
        for ring in &mut rings.0 {
            let (last, after) = rest.split_first_chunk::<8>()?;
            let (count, after) = after.split_first_chunk::<4>()?;
            let count = u32::from_le_bytes(*count) as usize;
            if count > ring.span.values() {
                return None;
            }
            let (rows, after) = after.split_at_checked(count * ROW_BYTES)?;
            let value = |bytes: &[u8]| bytes.try_into().map_or(f32::NAN, f32::from_le_bytes);
            let rows = rows.chunks_exact(ROW_BYTES).map(|row| {
                let mut values = row.chunks_exact(4).map(value);
                std::array::from_fn(|_| values.next().unwrap_or(f32::NAN))
            });
            ring.rows = rows.collect();
            ring.last = u64::from_le_bytes(*last);
            rest = after;
        }
        rest.is_empty().then_some(rings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_700_000_100_000 / 900_000 * 900_000;

    fn row(ready: f32, oldest: f32) -> Row {
        let mut row = UNKNOWN;
        row[Series::Ready as usize] = ready;
        row[Series::Oldest as usize] = oldest;
        row
    }

    fn ready(rings: &Rings, span: Span, at: u64) -> Vec<Option<f32>> {
        let (_, rows) = rings.of(span, Millis(at));
        let ready = rows.iter().map(|row| row[Series::Ready as usize]);
        ready.map(|value| Some(value).filter(|value| !value.is_nan())).collect()
    }

    #[test]
    fn a_longer_step_has_the_average_and_the_largest_age() {
        let mut rings = Rings::default();
        for (index, ready) in [1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 100.0].into_iter().enumerate() {
            rings.add(Millis(NOON + 10_000 * index as u64), &row(ready, 50.0 - ready));
        }
        let (from, rows) = rings.of(Span::Day, Millis(NOON + 60_000));
        assert_eq!(from, Millis(NOON));
        let ready = rows.iter().map(|row| row[Series::Ready as usize]);
        assert_eq!(ready.collect::<Vec<_>>(), [4.0, 100.0]);
        assert!((rows[0][Series::Oldest as usize] - 49.0).abs() < f32::EPSILON);
        assert!(rows[0][Series::Puts as usize].is_nan());
        assert_eq!(rings.of(Span::Hour, Millis(NOON + 60_000)).1.len(), 7);
    }

    #[test]
    fn a_restart_does_not_change_the_average() {
        let mut rings = Rings::default();
        for index in 0..84 {
            rings.add(Millis(NOON + 10_000 * index), &row(10.0, 0.0));
        }
        let mut rings = Rings::from_bytes(&rings.to_bytes()).expect("the file is whole");
        for index in 84..86 {
            rings.add(Millis(NOON + 10_000 * index), &row(96.0, 0.0));
        }
        let shown = ready(&rings, Span::Month, NOON + 860_000);
        assert!(matches!(shown[..], [Some(average)] if (average - 12.0).abs() < 0.01), "{shown:?}");
    }

    #[test]
    fn times_without_rows_are_gaps() {
        let mut rings = Rings::default();
        rings.add(Millis(NOON), &row(1.0, 0.0));
        assert!(!rings.wants_row(Millis(NOON + 9_999)) && rings.wants_row(Millis(NOON + 10_000)));
        rings.add(Millis(NOON + 30_000), &row(2.0, 0.0));
        let shown = ready(&rings, Span::Hour, NOON + 50_000);
        assert_eq!(shown, [Some(1.0), None, None, Some(2.0), None, None]);
        // After a day, the hour has no known value left.
        let later = ready(&rings, Span::Hour, NOON + 86_400_000);
        assert_eq!(later, vec![None; later.len()]);
        rings.add(Millis(NOON + 86_400_000), &row(3.0, 0.0));
        assert_eq!(ready(&rings, Span::Hour, NOON + 86_400_000), [Some(3.0)]);
        assert_eq!(ready(&rings, Span::Month, NOON + 86_400_000).len(), 97);
    }

    #[test]
    fn a_clock_that_is_set_back_drops_the_future() {
        let mut rings = Rings::default();
        for minute in 0..60 {
            rings.add(Millis(NOON + 60_000 * minute), &row(minute as f32, 0.0));
        }
        let back = NOON + 60_000 * 30 + 5_000;
        assert!(rings.wants_row(Millis(back)));
        rings.add(Millis(back), &row(7.0, 0.0));
        let shown = ready(&rings, Span::Hour, back);
        assert_eq!(shown.len(), 181);
        assert!(shown[178..].iter().flatten().all(|value| *value <= 30.0), "{shown:?}");
        // Also a clock that was wrong by years.
        rings.add(Millis(5), &row(1.0, 0.0));
        assert_eq!(ready(&rings, Span::Hour, 5), [Some(1.0)]);
    }

    #[test]
    fn rings_have_a_bound() {
        let mut rings = Rings::default();
        for index in 0..2_000 {
            rings.add(Millis(NOON + 10_000 * index), &row(index as f32, 0.0));
        }
        let last = NOON + 10_000 * 1_999;
        assert_eq!(ready(&rings, Span::Hour, last).len(), 360);
        assert_eq!(ready(&rings, Span::Hour, last).last(), Some(&Some(1_999.0)));
    }

    #[test]
    fn a_file_gives_the_same_rings_or_none() {
        let mut rings = Rings::default();
        for index in 0..500 {
            rings.add(Millis(NOON + 7_000 * index), &row(index as f32, 1.0));
        }
        let bytes = rings.to_bytes();
        assert!((bytes.len() as u64) < FILE_BYTES_MAX);
        let read = Rings::from_bytes(&bytes).expect("the file is whole");
        assert_eq!(read.to_bytes(), bytes);
        for span in Span::ALL {
            let at = NOON + 7_000 * 499;
            assert_eq!(ready(&read, span, at), ready(&rings, span, at));
        }
        for len in 0..bytes.len() {
            assert!(Rings::from_bytes(&bytes[..len]).is_none(), "{len} bytes");
        }
        let mut damaged = bytes;
        damaged[100] ^= 1;
        assert!(Rings::from_bytes(&damaged).is_none());
    }
}
