//! The durable queue: engine and log joined, as a library.
