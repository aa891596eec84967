//! A round trip, in any protocol.

use std::time::Instant;

/// A producer, and a consumer that waits for its jobs.
pub(crate) trait RoundTrip {
    /// Makes one trip. Returns its end time. The consumer then waits for the next trip.
    fn trip(&mut self) -> anyhow::Result<Instant>;
}
