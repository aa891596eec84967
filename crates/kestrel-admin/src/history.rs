//! The history: recorded numbers of earlier moments, and the limit of their memory.

use broker::Millis;

use crate::changes::Changes;
use crate::series::Series;
use crate::snapshot::{Counts, Snapshot};

/// Memory limit for all recorded numbers. With 10,000 queues, the numbers of one moment take a
/// megabyte. A period takes two megabytes, because it has the numbers of two moments.
pub(crate) const BYTES_MAX: u64 = if cfg!(test) { 3 << 19 } else { 32 << 20 };

/// The recorded numbers. Recording begins with the first request. It ends some time after the last
/// request.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) changes: Changes,
    pub(crate) series: Option<Series>,
    /// The memory use at the last call of `trim`, in bytes.
    told_bytes: u64,
}

impl History {
    /// Returns all series. If there are no series yet, they begin now.
    pub(crate) fn series(&mut self, now: Millis, snapshot: impl FnOnce() -> Snapshot) -> &Series {
        let series = self.series.get_or_insert_with(|| Series::new(now, &snapshot()));
        series.note_question(now);
        series
    }

    /// If recorded numbers have the same list of queue names as the snapshot, makes the snapshot
    /// use the recorded list.
    pub(crate) fn share_names(&self, snapshot: &mut Snapshot) {
        snapshot.share_names(self.remembered());
    }

    /// Enforces the limit of memory: evicts periods and namespaces that were requested longest ago.
    /// Returns the growth of the memory use since the last call, in bytes.
    pub(crate) fn trim(&mut self) -> i64 {
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
