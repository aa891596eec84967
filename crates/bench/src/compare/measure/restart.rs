//! Measures a restart. Kills a server whose log has many jobs, starts a new server on this log, and
//! measures the time until the new server replies and has every job.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::beanstalk_client::Client;
use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::plan::sizes::Bounds;
use crate::compare::plan::work::{Metric, Peer, Sample};
use crate::modes::put_drivers;

const BODY_BYTES: usize = 20;

/// Fills the log in `folder`. The restarts of all rounds use this log.
pub(crate) fn fill(lab: &Lab, peer: Peer, folder: &Path) -> anyhow::Result<()> {
    let server = Server::start(&lab.programs, peer, folder)?;
    let drivers = put_drivers("default", 50, BODY_BYTES);
    lab.load(&server, drivers, 32, Bounds::exactly(lab.sizes.restart_jobs))?;
    server.kill()
}

/// Starts a server on the log in `folder`, measures the time until its first reply, and kills it.
pub(crate) fn run(lab: &Lab, peer: Peer, folder: &Path) -> anyhow::Result<Sample> {
    let start = Instant::now();
    let mut server = Server::launch(&lab.programs, peer, folder)?;
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
    let found = client.tube_figure("default", "current-jobs-ready")?;
    let expected = lab.sizes.restart_jobs;
    anyhow::ensure!(found == expected, "{found} of {expected} jobs were there after the restart");
    server.kill()?;
    Ok(Sample::from([(Metric::Seconds, seconds)]))
}
