//! The durable log: segments, group commit, recovery and reclaim.
