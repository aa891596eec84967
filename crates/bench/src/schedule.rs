//! Open-loop schedule. It says when each operation is due, and does not depend on the server.
//!
//! Operation `i` of the run is due at `i / rate` and belongs to connection `i mod connections`. The
//! schedule computes due times instead of storing them. So a backlog of a million due operations
//! costs no memory. The latency of each operation still counts from its due time. This avoids
//! coordinated omission: a stalled server cannot delay the schedule.

/// The schedule of one run. Its times are nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    interval_ns: f64,
    connections: u64,
}

impl Schedule {
    /// A schedule of `rate` operations per second. The connections get the operations in turn.
    pub(crate) fn new(rate: f64, connections: usize) -> Self {
        assert!(rate > 0.0, "a schedule needs a positive rate");
        assert!(connections > 0, "a schedule needs a connection");
        Self { interval_ns: 1e9 / rate, connections: connections as u64 }
    }

    /// The number of operations of the whole run that are due at `now_ns`. The first operation is
    /// due at 0.
    pub(crate) fn due_total(&self, now_ns: u64) -> u64 {
        (now_ns as f64 / self.interval_ns) as u64 + 1
    }

    /// The number of operations among the first `total` that belong to `connection`.
    pub(crate) fn share(&self, total: u64, connection: usize) -> u64 {
        (total + self.connections - 1 - connection as u64) / self.connections
    }

    /// The due time of operation `nth` of `connection`. The connection's first operation is 0.
    pub(crate) fn due_ns(&self, connection: usize, nth: u64) -> u64 {
        self.due_ns_of(nth * self.connections + connection as u64)
    }

    /// The due time of operation `index` of the whole run.
    pub(crate) fn due_ns_of(&self, index: u64) -> u64 {
        (index as f64 * self.interval_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_due_at_even_intervals_from_zero() {
        let schedule = Schedule::new(1000.0, 1);
        assert_eq!(schedule.due_total(0), 1);
        assert_eq!(schedule.due_total(999_999), 1);
        assert_eq!(schedule.due_total(1_000_000), 2);
        assert_eq!(schedule.due_total(1_000_000_000), 1001);
        assert_eq!(schedule.due_ns_of(1000), 1_000_000_000);
    }

    #[test]
    fn connections_are_served_in_turn() {
        let schedule = Schedule::new(100.0, 3);
        assert_eq!([0, 1, 2].map(|connection| schedule.share(0, connection)), [0, 0, 0]);
        assert_eq!([0, 1, 2].map(|connection| schedule.share(1, connection)), [1, 0, 0]);
        assert_eq!([0, 1, 2].map(|connection| schedule.share(7, connection)), [3, 2, 2]);
        assert_eq!(schedule.due_ns(1, 2), schedule.due_ns_of(7));
    }

    #[test]
    fn a_stall_does_not_move_due_times() {
        let schedule = Schedule::new(1000.0, 2);
        // If no operation was sent for a second, 1001 are due, and the oldest is a second late.
        let now_ns = 1_000_000_000;
        assert_eq!(schedule.due_total(now_ns), 1001);
        assert_eq!(now_ns - schedule.due_ns(0, 0), 1_000_000_000);
        assert_eq!(now_ns - schedule.due_ns(1, 0), 999_000_000);
    }

    #[test]
    fn shares_add_up_to_the_total() {
        let schedule = Schedule::new(1.0, 7);
        for total in 0..100 {
            let sum: u64 = (0..7).map(|connection| schedule.share(total, connection)).sum();
            assert_eq!(sum, total);
        }
    }
}
