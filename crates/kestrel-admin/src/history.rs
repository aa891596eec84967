//! Numbers of earlier moments, and the bound on the memory that they take.

use broker::Millis;

use crate::changes::Changes;
use crate::series::Series;
use crate::snapshot::{Counts, Snapshot};

/// All that is remembered takes no more than this. For 10,000 queues it is a megabyte for each moment, and two of them
/// for a period.
pub(crate) const BYTES_MAX: u64 = if cfg!(test) { 3 << 19 } else { 32 << 20 };

/// What is remembered. Nothing is remembered for nobody: that begins with the first question for numbers, and ends
/// when no more come.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) changes: Changes,
    pub(crate) series: Option<Series>,
    /// What was last told to be in use.
    told_bytes: u64,
}

impl History {
    /// The series, which begin now if they have not.
    pub(crate) fn series(&mut self, now: Millis, snapshot: impl FnOnce() -> Snapshot) -> &Series {
        let series = self.series.get_or_insert_with(|| Series::new(now, &snapshot()));
        series.note_question(now);
        series
    }

    /// Takes the names of queues from what is remembered if they are the same.
    pub(crate) fn share_names(&self, snapshot: &mut Snapshot) {
        snapshot.share_names(self.remembered());
    }

    /// Keeps the bound; whoever asked longest ago is forgotten first. By how many bytes the memory in use has grown
    /// since the last time.
    pub(crate) fn settle(&mut self) -> i64 {
        let mut bytes = self.bytes();
        while bytes > BYTES_MAX && self.changes.forget_oldest() {
            bytes = self.bytes();
        }
        let told_bytes = std::mem::replace(&mut self.told_bytes, bytes);
        bytes.cast_signed() - told_bytes.cast_signed()
    }

    fn bytes(&self) -> u64 {
        Counts::bytes_of(self.remembered()) + self.series.as_ref().map_or(0, Series::bytes)
    }

    fn remembered(&self) -> impl Iterator<Item = &Counts> {
        self.series.iter().map(Series::remembered).chain(self.changes.remembered())
    }
}
