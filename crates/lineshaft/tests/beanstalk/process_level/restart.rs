//! Tests the jobs that a server with a log has after it was killed and restarted.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::client::Client;
use testkit::process::{Program, Server};
use testkit::wait;

use super::for_both;
use crate::programs;

/// A server with a log. A test can kill it and start it again.
struct Rig {
    program: Program,
    server: Option<Server>,
    _folder: TempDir,
}

impl Rig {
    fn new(program: &Program, flags: &[&str]) -> Result<Rig> {
        let folder = tempfile::tempdir()?;
        let arguments: [&Path; 2] = ["-b".as_ref(), folder.path()];
        let program = program.clone().with(flags).with(&arguments);
        let server = Some(program.start()?);
        Ok(Rig { program, server, _folder: folder })
    }

    fn lineshaft() -> Result<Rig> {
        Rig::new(&programs::lineshaft_as_beanstalkd(), &[])
    }

    fn client(&self) -> Result<Client> {
        let server = self.server.as_ref().context("a running server")?;
        Client::on_tube(server.address(), "kept")
    }

    fn kill(&mut self) {
        self.server.take().expect("a running server").kill();
    }

    fn restart(&mut self) -> Result<Client> {
        if self.server.is_some() {
            self.kill();
        }
        self.server = Some(self.program.start()?);
        self.client()
    }
}

fn job_stat(client: &mut Client, id: u64, key: &str) -> Result<String> {
    let stats = client.stats(&format!("stats-job {id}"))?;
    stats.get(key).cloned().with_context(|| format!("no {key}"))
}

#[track_caller]
fn ensure_job(client: &mut Client, id: u64, key: &str, wanted: &str) -> Result<()> {
    let got = job_stat(client, id, key)?;
    ensure!(got == wanted, "job {id}: {key}: wanted {wanted}, got {got}");
    Ok(())
}

#[test]
fn every_state_comes_back_as_it_should() -> Result<()> {
    for_both(|program| {
        let mut rig = Rig::new(program, &[])?;
        let mut client = rig.client()?;
        let deleted = client.put(0, 0, 60, b"deleted")?;
        client.expect(&format!("delete {deleted}"), "DELETED")?;
        let buried = client.put(1, 0, 60, b"buried")?;
        ensure!(client.reserve(0)?.is_some_and(|job| job.id == buried), "the only ready job");
        client.expect(&format!("bury {buried} 7"), "BURIED")?;
        let reserved = client.put(2, 0, 60, b"reserved")?;
        ensure!(client.reserve(0)?.is_some_and(|job| job.id == reserved), "the only ready job");
        let ready = client.put(77, 0, 61, b"ready")?;
        let delayed = client.put(4, 500, 60, b"delayed")?;
        let soon_due = client.put(5, 1, 60, b"soon due")?;
        client.expect("pause-tube kept 500", "PAUSED")?;

        rig.kill();
        wait::let_pass(Duration::from_millis(1_100), "a delay ends while no server runs");
        let mut client = rig.restart()?;
        for (id, state) in [
            (buried, "buried"),
            (reserved, "ready"),
            (ready, "ready"),
            (delayed, "delayed"),
            (soon_due, "ready"),
        ] {
            ensure_job(&mut client, id, "state", state)?;
            ensure_job(&mut client, id, "tube", "kept")?;
        }
        ensure!(client.peek(&format!("peek {deleted}"))?.is_none(), "a deleted job is back");
        ensure_job(&mut client, buried, "pri", "7")?;
        ensure_job(&mut client, ready, "pri", "77")?;
        ensure_job(&mut client, ready, "ttr", "61")?;
        let left_s: u64 = job_stat(&mut client, delayed, "time-left")?.parse()?;
        ensure!((480..=499).contains(&left_s), "the delay started again: {left_s} s are left");
        let age_s: u64 = job_stat(&mut client, ready, "age")?.parse()?;
        ensure!(age_s >= 1, "the age started again: {age_s} s");

        let stats = client.stats("stats-tube kept")?;
        ensure!(stats["total-jobs"] == "0", "total-jobs is {}", stats["total-jobs"]);
        ensure!(stats["pause"] == "0", "the pause is still there");
        Ok(())
    })
}

/// The original fails this test: it loses a plain release, both the priority and the count.
#[test]
fn a_plain_release_is_kept() -> Result<()> {
    let mut rig = Rig::lineshaft()?;
    let mut client = rig.client()?;
    let id = client.put(5, 0, 60, b"released")?;
    client.reserve(0)?.context("the job")?;
    client.expect(&format!("release {id} 99 0"), "RELEASED")?;
    let mut client = rig.restart()?;
    ensure_job(&mut client, id, "pri", "99")?;
    ensure_job(&mut client, id, "releases", "1")?;
    ensure_job(&mut client, id, "reserves", "1")
}

/// The original fails this test: every restart counts one more bury, and changes the order of
/// buried jobs.
#[test]
fn buried_jobs_keep_their_count_and_order() -> Result<()> {
    let mut rig = Rig::lineshaft()?;
    let mut client = rig.client()?;
    let first = client.put(0, 0, 60, b"first put")?;
    let second = client.put(0, 0, 60, b"second put")?;
    for _ in 0..2 {
        client.reserve(0)?.context("a job")?;
    }
    client.expect(&format!("bury {second} 1"), "BURIED")?;
    client.expect(&format!("bury {first} 1"), "BURIED")?;
    for _ in 0..2 {
        client = rig.restart()?;
        ensure_job(&mut client, first, "buries", "1")?;
        let oldest = client.peek("peek-buried")?.context("a buried job")?;
        ensure!(oldest.id == second, "{} is the first of the buried", oldest.id);
    }
    client.expect("kick 1", "KICKED 1")?;
    ensure_job(&mut client, second, "state", "ready")
}

/// The original fails this test: it loses the largest jobs, and all jobs after them in the same
/// file.
#[test]
fn the_largest_jobs_are_kept() -> Result<()> {
    let mut rig = Rig::lineshaft()?;
    let mut client = rig.client()?;
    let sizes = [65_533, 65_534, 65_535, 3];
    let put = |size: usize| client.put(0, 0, 60, &vec![b's'; size]);
    let ids: Vec<u64> = sizes.into_iter().map(put).collect::<Result<_>>()?;
    let mut client = rig.restart()?;
    for (id, size) in ids.into_iter().zip(sizes) {
        let job = client.peek(&format!("peek {id}"))?.with_context(|| format!("{size} bytes"))?;
        ensure!(job.body.len() == size, "{} bytes instead of {size}", job.body.len());
    }
    Ok(())
}

/// The original fails this test: it uses ids a second time after the files with these ids are
/// deleted.
#[test]
fn ids_are_never_given_out_twice() -> Result<()> {
    let mut rig = Rig::new(&programs::lineshaft_as_beanstalkd(), &["-s", "8192"])?;
    let mut client = rig.client()?;
    let put = |client: &mut Client| client.put(0, 0, 60, &[b'i'; 500]);
    let ids: Vec<u64> = (0..60).map(|_| put(&mut client)).collect::<Result<_>>()?;
    for id in &ids {
        client.expect(&format!("delete {id}"), "DELETED")?;
    }
    let last = ids.last().copied().context("an id")?;
    let mut client = rig.restart()?;
    let next = put(&mut client)?;
    ensure!(next > last, "the id {next} comes after {last}");
    Ok(())
}

#[test]
fn a_job_larger_than_a_log_file_is_kept() -> Result<()> {
    for_both(|program| {
        let mut rig = Rig::new(program, &["-s", "5000"])?;
        let mut client = rig.client()?;
        let small = client.put(0, 0, 60, b"small")?;
        let large = client.put(0, 0, 60, &vec![b'l'; 20_000])?;
        let mut client = rig.restart()?;
        let body = |client: &mut Client, id: u64| client.peek(&format!("peek {id}"));
        ensure!(body(&mut client, small)?.is_some_and(|job| job.body == b"small"), "small");
        ensure!(body(&mut client, large)?.is_some_and(|job| job.body.len() == 20_000), "large");
        Ok(())
    })
}

#[test]
fn a_log_works_without_flushing_and_with_every_interval() -> Result<()> {
    for_both(|program| {
        for flags in [&["-F"][..], &["-f", "0"], &["-f", "1000"]] {
            let mut rig = Rig::new(program, flags)?;
            let mut client = rig.client()?;
            let id = client.put(0, 0, 60, b"kept")?;
            // A killed process loses no data that it has written, even without a flush.
            let mut client = rig.restart()?;
            ensure_job(&mut client, id, "state", "ready").with_context(|| format!("{flags:?}"))?;
        }
        Ok(())
    })
}
