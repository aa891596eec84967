//! Tests a full disk, and how often the log is flushed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::client::Client;
use testkit::process::{IO_THREADS, Program, Server};
use testkit::{tools, wait};

use crate::programs;

/// The size of the full disk. It has room for some files of the log, and the test fills it quickly.
const DISK: &str = "size=48m";

/// A file system in memory. Dropping it unmounts it.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts the disk. If the test has no permission to mount, prints a message and returns
    /// `None`.
    fn new_or_skip() -> Result<Option<SmallDisk>> {
        if !tools::may_mount_or_skip(false) {
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let mut mount = Command::new("mount");
        let ended = mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder.path()).output()?;
        let complaint = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "mount: {}: {complaint}", ended.status);
        Ok(Some(SmallDisk(folder)))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The unmount is lazy, because after a failed test the server can still run for a moment.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// The original fails this test: it leaves jobs in a state in which no client can get them, and
/// shows a job whose put it refused.
#[test]
fn a_full_disk_refuses_puts_and_nothing_else() -> Result<()> {
    puts_alone_are_refused(|folder| programs::lineshaft_as_beanstalkd().with(&["-b", folder]))?;
    // `serve` runs with one I/O thread and with several.
    IO_THREADS.into_iter().try_for_each(|threads| {
        puts_alone_are_refused(|folder| {
            programs::lineshaft_durable(folder).with_io_threads(threads)
        })
    })
}

fn puts_alone_are_refused(program: impl Fn(&str) -> Program) -> Result<()> {
    let Some(disk) = SmallDisk::new_or_skip()? else { return Ok(()) };
    let program = program(disk.path().to_str().context("a text path")?);
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

/// The server must start without free space. Otherwise no client could finish the jobs that fill
/// the disk.
#[test]
fn a_server_starts_on_a_full_disk_and_its_jobs_can_be_finished() -> Result<()> {
    IO_THREADS.into_iter().try_for_each(all_jobs_can_be_finished)
}

fn all_jobs_can_be_finished(io_threads: usize) -> Result<()> {
    let Some(disk) = SmallDisk::new_or_skip()? else { return Ok(()) };
    let folder = disk.path().to_str().context("a text path")?;
    let program = programs::lineshaft_durable(folder).with_io_threads(io_threads);
    let server = program.start()?;
    let mut client = Client::on_tube(server.address(), "full")?;
    let mut ids = Vec::new();
    let body = vec![b'f'; 60_000];
    while let Some(id) = client.try_put(0, 0, 600, &body)?.strip_prefix("INSERTED ") {
        ids.push(id.parse::<u64>()?);
    }
    server.kill();
    // Another process uses all of the remaining space.
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

/// Waits until the server accepts puts again. The server frees space without a restart, but not at
/// once.
fn wait_until_accepted(client: &mut Client, body: &[u8]) -> Result<()> {
    wait::until_ok("a put is accepted when nearly everything is deleted", || {
        Ok(client.try_put(0, 0, 600, body)?.starts_with("INSERTED "))
    })
}

/// A server under strace. The test counts its flushes.
struct Traced {
    server: Server,
    trace: PathBuf,
    _folder: tempfile::TempDir,
}

impl Traced {
    /// Starts the server, and waits until the start causes no more flushes.
    fn start_or_skip(flags: &[&str]) -> Result<Option<Traced>> {
        let Some(strace) = tools::find_or_skip("strace") else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let trace = folder.path().join("trace");
        let data = folder.path().join("data");
        std::fs::create_dir(&data)?;
        let (trace_path, data_path) =
            (trace.to_str().context("text")?, data.to_str().context("text")?);
        let lineshaft = programs::lineshaft_path();
        // With -D, the test's child process is the server and not strace. So the test can end it
        // like any other server.
        let calls = "trace=fsync,fdatasync,?rename,?renameat,?renameat2";
        let program =
            Program::like_beanstalkd(strace, &["-D", "-f", "-o", trace_path, "-e", calls])
                .with(&[lineshaft.as_path(), "beanstalkd".as_ref()])
                .with(&["-b", data_path])
                .with(flags);
        let traced = Traced { server: program.start()?, trace, _folder: folder };
        // A start ends with the rename of the log's second file, and a flush after it.
        traced.wait_until("the start flushes no more", |text| {
            text.rsplit_once("0000000002.seg").is_some_and(|(_, later)| later.contains("sync("))
        })?;
        Ok(Some(traced))
    }

    fn text(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.trace)?)
    }

    /// The number of flushes that have begun.
    fn flushes(&self) -> Result<usize> {
        Ok(flushes_in(&self.text()?))
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<()> {
        wait::until_ok(what, || Ok(is_so(&self.text()?)))
            .with_context(|| format!("the trace: {:?}", self.text()))
    }

    /// Makes twenty puts, one after the other. Returns the number of flushes and the time.
    fn put_some(&self) -> Result<(usize, Duration)> {
        let mut client = Client::connect(self.server.address())?;
        let (before, started) = (self.flushes()?, Instant::now());
        for _ in 0..20 {
            client.put(0, 0, 60, b"flushed")?;
        }
        Ok((self.flushes()? - before, started.elapsed()))
    }
}

fn flushes_in(trace: &str) -> usize {
    trace.lines().filter(|line| line.contains("sync(") && !line.contains("resumed")).count()
}

#[test]
fn interval_zero_flushes_before_every_reply() -> Result<()> {
    let Some(traced) = Traced::start_or_skip(&["-f", "0"])? else { return Ok(()) };
    let (flushes, _) = traced.put_some()?;
    ensure!(flushes >= 20, "{flushes} flushes for 20 puts");
    Ok(())
}

/// The original fails this test: it never flushes the last write.
#[test]
fn an_interval_flushes_the_last_writes() -> Result<()> {
    let Some(traced) = Traced::start_or_skip(&["-f", "200"])? else { return Ok(()) };
    let (flushes, took) = traced.put_some()?;
    let allowed = took.as_millis() as usize / 200 + 2;
    ensure!(flushes <= allowed, "{flushes} flushes for 20 puts within {took:?}");
    let before = traced.flushes()?;
    Client::connect(traced.server.address())?.put(0, 0, 60, b"the last one")?;
    traced.wait_until("the last put is flushed", |text| flushes_in(text) > before)
}

#[test]
fn flushing_can_be_switched_off() -> Result<()> {
    let Some(traced) = Traced::start_or_skip(&["-F"])? else { return Ok(()) };
    let before = traced.flushes()?;
    traced.put_some()?;
    wait::let_pass(Duration::from_secs(1), "a flush that never comes has no event");
    let flushes = traced.flushes()? - before;
    ensure!(flushes == 0, "{flushes} flushes");
    Ok(())
}
