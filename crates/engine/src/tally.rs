//! Counters of events, for statistics.

/// Counts events since the process made the engine.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) puts: u64,
    pub(crate) takes: u64,
    pub(crate) releases: u64,
    pub(crate) buries: u64,
    pub(crate) ends: u64,
    pub(crate) timeouts: u64,
    pub(crate) item_queue_creates: u64,
    pub(crate) item_queue_deletes: u64,
    pub(crate) idle_queue_deletes: u64,
}
