//! Measures a restart. Kills a server whose log has many jobs, starts a new server on this log, and
//! measures the time until the new server replies and has every job.

use std::path::Path;
use std::time::{Duration, Instant};

use super::deep_queue::wait_until_cold;
use crate::beanstalk_client::Client;
use crate::compare::lab::server::{Processors, Server};
use crate::compare::lab::{BODY_BYTES, Lab};
use crate::compare::plan::sizes::Bounds;
use crate::compare::plan::work::{Metric, Peer, Sample, Side};
use crate::modes::put_drivers;

/// Bytes of the bodies in the smaller of the two logs.
const SMALL_BODY_BYTES: usize = 20;

/// The jobs of a log: their number, and the bytes of each body.
#[derive(Clone, Copy)]
pub(crate) struct Stock {
    jobs: u64,
    body_bytes: usize,
}

impl Stock {
    pub(crate) fn new(lab: &Lab, is_large: bool) -> Self {
        if is_large {
            Self { jobs: lab.sizes.large_restart_jobs, body_bytes: BODY_BYTES }
        } else {
            Self { jobs: lab.sizes.restart_jobs, body_bytes: SMALL_BODY_BYTES }
        }
    }
}

/// Fills the log in `folder`. The restarts of all rounds use this log.
pub(crate) fn fill(lab: &Lab, peer: Peer, stock: Stock, folder: &Path) -> anyhow::Result<()> {
    let server = Server::start(&lab.programs, peer, folder)?;
    let drivers = put_drivers("default", 50, stock.body_bytes);
    lab.load(&server, drivers, 32, Bounds::exactly(stock.jobs))?;
    if let Peer::Lineshaft(Side::ColdJobs, _) = peer {
        // A server that runs for long has written its index files.
        wait_until_cold(&server)?;
    }
    server.kill()
}

/// Starts a server on the log in `folder`, measures the time until its first reply, and kills it.
pub(crate) fn run(lab: &Lab, peer: Peer, stock: Stock, folder: &Path) -> anyhow::Result<Sample> {
    let start = Instant::now();
    // Nothing is measured beside the start, so it can use all processors, as on a real machine.
    let mut server = Server::launch(&lab.programs, peer, folder, Processors::Both)?;
    let mut client = loop {
        // A server can listen before it has read its log. So only a reply counts.
        if let Ok(mut client) = Client::connect(server.address) {
            client.command("list-tube-used\r\n", "USING")?;
            break client;
        }
        crate::interrupt::check()?;
        server.check_alive()?;
        std::thread::sleep(Duration::from_micros(500));
    };
    let seconds = start.elapsed().as_secs_f64();
    let found = client.jobs_in("default", "ready")?;
    let expected = stock.jobs;
    anyhow::ensure!(found == expected, "{found} of {expected} jobs were there after the restart");
    server.kill()?;
    Ok(Sample::from([(Metric::Seconds, seconds)]))
}
