//! A full disk, and how often the log is flushed.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::client::Client;
use testkit::process::Program;
use testkit::tools;

use crate::programs;

/// Room of the full disk: some files of the log, and little time to fill it.
const DISK: &str = "size=48m";

/// A file system in memory; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with a message, where mounting is not allowed.
    fn new_or_skip() -> Result<Option<SmallDisk>> {
        let folder = tempfile::tempdir()?;
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder.path()).output();
        if !mount.is_ok_and(|ended| ended.status.success()) {
            tools::leave_out("mounting is not allowed here");
            return Ok(None);
        }
        Ok(Some(SmallDisk(folder)))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: after a failure the server may still be there for a moment.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// The original leaves jobs in a state in which nobody can have them, and shows a refused put.
#[test]
fn a_full_disk_refuses_puts_and_nothing_else() -> Result<()> {
    let Some(disk) = SmallDisk::new_or_skip()? else { return Ok(()) };
    let program = programs::lineshaft_as_beanstalkd().with(&["-b".as_ref(), disk.path()]);
    let server = program.start()?;
    let mut client = Client::on_tube(server.address(), "full")?;
    let body = vec![b'f'; 60_000];
    let mut ids = Vec::new();
    let refusal = loop {
        let reply = client.try_put(0, 0, 600, &body)?;
        match reply.strip_prefix("INSERTED ") {
            Some(id) => ids.push(id.parse::<u64>()?),
            None => break reply,
        }
        ensure!(ids.len() < 2_000, "120 MB fit on a disk of 48");
    };
    ensure!(refusal == "OUT_OF_MEMORY", "{refusal}");
    ensure!(ids.len() > 50, "refused after {} jobs", ids.len());
    let stats = client.stats("stats-tube full")?;
    ensure!(stats["current-jobs-ready"] == ids.len().to_string(), "a refused job shows: {stats:?}");

    for _ in 0..2 {
        client.reserve(0)?.context("a job can be had")?;
    }
    client.expect(&format!("bury {} 1", ids[0]), "BURIED")?;
    client.expect(&format!("release {} 1 100", ids[1]), "RELEASED")?;
    client.expect(&format!("kick-job {}", ids[0]), "KICKED")?;
    for id in &ids[..ids.len() - 5] {
        client.expect(&format!("delete {id}"), "DELETED")?;
    }
    wait_until_accepted(&mut client, &body)?;
    server.kill();
    let server = program.start()?;
    let stats = Client::on_tube(server.address(), "full")?.stats("stats-tube full")?;
    ensure!(stats["current-jobs-ready"] == "6", "after a restart: {stats:?}");
    Ok(())
}

/// Nobody could finish the jobs of a full disk if the server needed room to start.
#[test]
fn a_server_starts_on_a_full_disk_and_its_jobs_can_be_finished() -> Result<()> {
    let Some(disk) = SmallDisk::new_or_skip()? else { return Ok(()) };
    let folder = disk.path().to_str().context("a text path")?;
    let program = programs::lineshaft_durable(folder);
    let server = program.start()?;
    let mut client = Client::on_tube(server.address(), "full")?;
    let mut ids = Vec::new();
    let body = vec![b'f'; 60_000];
    while let Some(id) = client.try_put(0, 0, 600, &body)?.strip_prefix("INSERTED ") {
        ids.push(id.parse::<u64>()?);
    }
    server.kill();
    // Somebody else takes what was left, to the last byte.
    let mut hog = std::fs::File::create(disk.path().join("hog"))?;
    for size in [1 << 20, 4096, 1] {
        while hog.write_all(&vec![0; size]).is_ok() {}
    }
    let server = program.start()?;
    let mut client = Client::on_tube(server.address(), "full")?;
    for id in &ids {
        client.expect(&format!("delete {id}"), "DELETED")?;
    }
    wait_until_accepted(&mut client, b"there is room again")
}

/// Space comes back by itself, without a restart, if not at once.
fn wait_until_accepted(client: &mut Client, body: &[u8]) -> Result<()> {
    let mut reply = String::new();
    for _ in 0..500 {
        reply = client.try_put(0, 0, 600, body)?;
        if reply.starts_with("INSERTED ") {
            return Ok(());
        }
        sleep(Duration::from_millis(10));
    }
    anyhow::bail!("still refused when nearly everything is deleted: {reply}")
}

/// Flushes of the log during twenty puts one after another, and during an idle second after them.
fn count_flushes(flags: &[&str]) -> Result<Option<(usize, usize)>> {
    let Some(strace) = tools::find_or_skip("strace") else { return Ok(None) };
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace");
    let data = folder.path().join("data");
    std::fs::create_dir(&data)?;
    let (trace_path, data_path) = (trace.to_str().context("text")?, data.to_str().context("text")?);
    let lineshaft = programs::lineshaft_path();
    // -D: the server is our child, not the tracer, so that it can be ended like any other.
    let arguments = ["-D", "-f", "-o", trace_path, "-e", "trace=fsync,fdatasync"];
    let program = Program::like_beanstalkd(strace, &arguments)
        .with(&[lineshaft.as_path(), "beanstalkd".as_ref()])
        .with(&["-b", data_path])
        .with(flags);
    let server = program.start()?;
    let mut client = Client::connect(server.address())?;
    let flushes = || -> Result<usize> {
        let text = std::fs::read_to_string(&trace)?;
        Ok(text.lines().filter(|line| line.contains("sync(") && !line.contains("resumed")).count())
    };
    sleep(Duration::from_millis(300));
    let before = flushes()?;
    for _ in 0..20 {
        client.put(0, 0, 60, b"flushed")?;
    }
    let during = flushes()? - before;
    sleep(Duration::from_secs(1));
    Ok(Some((during, flushes()? - before - during)))
}

#[test]
fn interval_zero_flushes_before_every_reply() -> Result<()> {
    let Some((during, _)) = count_flushes(&["-f", "0"])? else { return Ok(()) };
    ensure!(during >= 20, "{during} flushes for 20 puts");
    Ok(())
}

/// The original never flushes what was written last.
#[test]
fn an_interval_flushes_what_was_written_last() -> Result<()> {
    let Some((during, after)) = count_flushes(&["-f", "200"])? else { return Ok(()) };
    ensure!(during <= 10, "{during} flushes for 20 puts within a moment");
    ensure!(after >= 1, "nothing was flushed in the second after the last put");
    Ok(())
}

#[test]
fn flushing_can_be_switched_off() -> Result<()> {
    let Some((during, after)) = count_flushes(&["-F"])? else { return Ok(()) };
    ensure!(during + after == 0, "{during} and {after} flushes");
    Ok(())
}
