//! The interface of a round trip, for all protocols.

use std::time::Instant;

/// A producer, and a consumer that waits for its jobs.
pub(crate) trait RoundTrip {
    /// Makes one trip, and returns its end time. When it returns, the consumer waits for the next
    /// trip.
    fn trip(&mut self) -> anyhow::Result<Instant>;
}
