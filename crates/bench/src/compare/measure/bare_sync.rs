//! Measures the disk alone: appends a record to a growing file, syncs it, and repeats. A server
//! with one client that waits for each reply cannot be faster on the same file system.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::compare::plan::work::{Metric, Sample};
use crate::interrupt;
use crate::latency::Latency;

/// Appends records of `record_bytes` bytes to a file in `folder`, for the time `duration`.
pub(crate) fn run(
    folder: &Path,
    record_bytes: usize,
    duration: Duration,
) -> anyhow::Result<Sample> {
    let mut file = File::create(folder.join("bare"))?;
    let record = vec![b'x'; record_bytes];
    let start = Instant::now();
    let mut latency = Latency::new();
    let mut records: u32 = 0;
    while start.elapsed() < duration {
        interrupt::check()?;
        let began = Instant::now();
        file.write_all(&record)?;
        file.sync_data()?;
        latency.record(began.elapsed().as_nanos() as u64, 1);
        records += 1;
    }
    let summary = latency.summary();
    Ok(Sample::from([
        (Metric::OperationsPerSecond, f64::from(records) / start.elapsed().as_secs_f64()),
        (Metric::P50Micros, summary.p50_us),
        (Metric::P99Micros, summary.p99_us),
    ]))
}
