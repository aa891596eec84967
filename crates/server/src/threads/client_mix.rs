//! Notes whether quiet clients and clients with much work send requests at the same time, on all
//! I/O threads together.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long the threads expect the next request of a quiet client, or more work for busy ones, in
/// milliseconds. In tests, slow machines must not change the result.
pub(crate) const EXPECTED_MS: u64 = if cfg!(test) { 60_000 } else { 100 };

/// The kinds of clients that sent requests a short time ago. All I/O threads share one, because
/// they share the broker's lock: a quiet client of one thread waits for the turns of the others.
/// The requests of sites (the API, the console, Gearman over HTTP) are not noted. They work in
/// slices of their own turns, so another turn can begin after each slice. With one processor and without quiet
/// clients, a put over HTTP can wait for the fill of a group.
#[derive(Debug, Default)]
pub(crate) struct ClientMix {
    /// Until this time, in milliseconds of the clock, quiet clients probably send requests.
    quiet_until: AtomicU64,
    /// Until this time, in milliseconds of the clock, there is probably much work.
    busy_until: AtomicU64,
}

impl ClientMix {
    /// Whether both quiet clients and clients with much work sent requests a short time ago. The
    /// quiet ones probably send the next requests soon. So turns, slices, pieces and the reads from
    /// busy clients are shorter now. All clients together get a little less done then, because each
    /// turn and each slice has costs of its own. Where all clients are alike, little changes.
    pub(crate) fn is_beside_quiet(&self, now_ms: u64) -> bool {
        now_ms
            < self.quiet_until.load(Ordering::Relaxed).min(self.busy_until.load(Ordering::Relaxed))
    }

    /// Whether a quiet client sent a request a short time ago.
    pub(crate) fn has_quiet(&self, now_ms: u64) -> bool {
        now_ms < self.quiet_until.load(Ordering::Relaxed)
    }

    /// Notes that a quiet client has sent a request.
    pub(crate) fn note_quiet(&self, now_ms: u64) {
        extend(&self.quiet_until, now_ms + EXPECTED_MS);
    }

    /// Notes that there is much work: long inputs, long requests, long replies,
    /// or due work of the broker.
    pub(crate) fn note_much_work(&self, now_ms: u64) {
        extend(&self.busy_until, now_ms + EXPECTED_MS);
    }

    /// Forgets the quiet clients.
    #[cfg(test)]
    pub(crate) fn forget_quiet(&self) {
        self.quiet_until.store(0, Ordering::Relaxed);
    }
}

/// Moves a time to a later one. Most calls come within the same millisecond. They do not write, so
/// the threads do not take the cache line from each other.
fn extend(time: &AtomicU64, until: u64) {
    if time.load(Ordering::Relaxed) < until {
        time.fetch_max(until, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_mixed_only_while_both_kinds_send_requests() {
        let mix = ClientMix::default();
        assert!(!mix.is_beside_quiet(0) && !mix.has_quiet(0));
        mix.note_quiet(1_000);
        assert!(mix.has_quiet(1_000 + EXPECTED_MS - 1));
        assert!(!mix.has_quiet(1_000 + EXPECTED_MS));
        assert!(!mix.is_beside_quiet(1_000), "nobody has much work");
        mix.note_much_work(1_010);
        assert!(mix.is_beside_quiet(1_000 + EXPECTED_MS - 1));
        assert!(!mix.is_beside_quiet(1_000 + EXPECTED_MS), "the quiet client has gone");
        mix.note_quiet(1_020);
        assert!(mix.is_beside_quiet(1_010 + EXPECTED_MS - 1));
        assert!(!mix.is_beside_quiet(1_010 + EXPECTED_MS), "the work is done");
        // A thread whose round began earlier does not shorten the time.
        mix.note_much_work(900);
        assert!(mix.is_beside_quiet(1_010 + EXPECTED_MS - 1));
    }
}
