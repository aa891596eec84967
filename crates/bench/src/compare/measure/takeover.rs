//! Kills the leader of a cluster while a client puts jobs one after the other through a follower.
//! Measures the longest time without an acknowledgement.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::beanstalk_client::Client;
use crate::compare::lab::server::Server;
use crate::compare::plan::work::{Metric, Sample};
use crate::interrupt;

/// The client puts for this time before the kill.
const BEFORE: Duration = Duration::from_secs(1);
/// The client puts for this time after its first put that the next leader has acknowledged.
const AFTER: Duration = Duration::from_millis(500);
const TAKEOVER_MAX: Duration = Duration::from_secs(30);
const BODY: &[u8] = b"a job";

pub(super) fn run(server: &mut Server) -> anyhow::Result<Sample> {
    let followers = server.followers().context("only a cluster has a takeover")?.to_vec();
    let (mut next, mut client) = (followers.iter().cycle(), None);
    let start = Instant::now();
    let (mut killed, mut last, mut longest) = (None, start, Duration::ZERO);
    loop {
        interrupt::check()?;
        let now = Instant::now();
        if killed.is_none() && now > start + BEFORE {
            server.kill_leader()?;
            killed = Some(Instant::now());
        }
        anyhow::ensure!(now < start + TAKEOVER_MAX, "no node has taken over");
        let connect = || Client::connect(*next.next().expect("there are followers")).ok();
        let Some(mut open) = client.take().or_else(connect) else {
            interrupt::sleep(Duration::from_millis(1))?;
            continue;
        };
        if open.put(0, 60, BODY).is_ok() {
            let now = Instant::now();
            if let Some(killed) = killed {
                longest = longest.max(now - last);
                if now > killed + longest + AFTER {
                    return Ok(Sample::from([(Metric::Seconds, longest.as_secs_f64())]));
                }
            }
            last = now;
            client = Some(open);
        }
    }
}
