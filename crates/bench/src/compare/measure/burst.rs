//! Measures a quiet client while a large number of delayed jobs becomes ready at one moment.
//!
//! The measurement uses Gearman's jobs, because they can have an exact due time. In beanstalkd,
//! each delay counts from its put.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::quiet;
use crate::beanstalk_client::Client;
use crate::compare::lab::Lab;
use crate::compare::lab::fill;
use crate::compare::lab::server::Server;
use crate::compare::lab::wire::packet;
use crate::compare::plan::work::{Metric, Sample};
use crate::interrupt;
use crate::latency::Latency;

const FUNCTION: &str = "heavy-burst";
/// The time from the first submit to the due moment. It must be enough for all submits.
const LEAD: Duration = Duration::from_secs(10);
/// The measurement begins this long before the due moment.
const BEFORE: Duration = Duration::from_millis(20);
/// The pause between two rounds of the quiet client. It is short, because all jobs become ready
/// within a short time.
const REST: Duration = Duration::from_micros(100);
/// The pause between two checks that all jobs are ready.
const LOOK: Duration = Duration::from_millis(50);

/// Submits the jobs, and waits for their due time. Then measures until all jobs are ready.
pub(crate) fn run(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    let jobs = lab.sizes.burst_jobs;
    lab.meter().show("jobs are submitted that become ready at one moment".to_owned());
    let due = Duration::from_secs((now()? + LEAD).as_secs());
    fill::packets(server.gearman, jobs, |_| submit(due))?;
    let mut client = quiet::connect(server)?;
    let mut latency = Latency::new();
    let mut observer = Client::connect(server.address)?;
    let delayed = |observer: &mut Client| observer.jobs_in(FUNCTION, "delayed");
    let all = delayed(&mut observer)?;
    let rest = due.checked_sub(now()? + BEFORE).context("submitting took too long")?;
    anyhow::ensure!(all == jobs, "{all} of {jobs} jobs are delayed");
    interrupt::sleep(rest)?;
    quiet::cycle(&mut client, BEFORE, REST, &mut Latency::new())?;
    let start = Instant::now();
    quiet::cycle(&mut client, LOOK, REST, &mut latency)?;
    while delayed(&mut observer)? > 0 {
        quiet::cycle(&mut client, LOOK, REST, &mut latency)?;
    }
    let summary = latency.summary();
    Ok(Sample::from([
        (Metric::P50Micros, summary.p50_us),
        (Metric::P99Micros, summary.p99_us),
        (Metric::LongestMicros, summary.max_us),
        (Metric::Seconds, start.elapsed().as_secs_f64()),
    ]))
}

/// The time since 1970.
fn now() -> anyhow::Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

fn submit(due: Duration) -> Vec<u8> {
    const SUBMIT_JOB_EPOCH: u32 = 36;
    packet(SUBMIT_JOB_EPOCH, format!("{FUNCTION}\0\0{}\0x", due.as_secs()).as_bytes())
}
