//! The queue engine: a deterministic state machine without clock, threads or I/O.
