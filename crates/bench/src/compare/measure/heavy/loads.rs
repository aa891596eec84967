//! The loads that are not heavy requests: busy processors, stuck readers, large bodies, many
//! connections, reclaim.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::HeavyLoad;
use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::lab::wire::{Wire, deletes, inserted, packet};
use crate::driver::packets::kind;
use crate::idle::{self, Greeting};
use crate::{interrupt, process};

/// The number of readers that are stuck at once, the number of requests of each, and the time until
/// new readers replace them.
const STUCK: (usize, usize, Duration) = (20, 20_000, Duration::from_millis(500));
/// Bytes of a large body.
const LARGE_BYTES: usize = 10 << 20;
/// The number of jobs that are put and deleted together while reclaim runs, and the bytes of each.
const PASSING: (usize, usize) = (20, 32 * 1024);
/// The pause before each group of these jobs. Without this pause, the disk would write all the
/// time, and the measurement would show only the disk.
const PASSING_REST: Duration = Duration::from_millis(10);
/// The time limit for reclaim to begin.
const RECLAIM_BEGINS_MAX: Duration = Duration::from_secs(30);

/// A program that only uses a processor, and only while nothing else needs it. Dropping it ends the
/// program.
#[derive(Debug)]
pub(crate) struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> anyhow::Result<BusyLoop> {
        let mut command = Command::new("chrt");
        // It also ends if this program was killed.
        let script = "while kill -0 $PPID 2> /dev/null; do :; done";
        command.args(["--idle", "0", "sh", "-c", script]).stdin(Stdio::null());
        Ok(BusyLoop(command.spawn().context("cannot start `chrt`")?))
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        // It fails only if the program has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A load without requests: a program on each of the two processors that runs while the processor
/// would be idle. It shows what the machine itself does to a quiet client as soon as its processors
/// are busy. A hypervisor, for example, can take them away for some milliseconds.
pub(crate) fn busy_processors(lab: &Lab) -> anyhow::Result<HeavyLoad> {
    let generator = BusyLoop::start()?;
    // A program inherits the processors of the thread that starts it.
    process::pin(lab.programs.server_cpu)?;
    let server = BusyLoop::start();
    process::pin(lab.programs.generator_cpu)?;
    Ok(HeavyLoad { programs: vec![generator, server?], ..HeavyLoad::default() })
}

/// Clients that request many replies and read none.
pub(crate) fn stuck_readers(address: SocketAddr) -> HeavyLoad {
    let (readers, requests, rest) = STUCK;
    let requests = b"stats\r\n".repeat(requests);
    let once = move || {
        let mut streams = Vec::new();
        for _ in 0..readers {
            let mut stream = TcpStream::connect(address)?;
            stream.set_write_timeout(Some(rest / readers as u32))?;
            // The write can fail, because the server stops reading from a client that does not
            // read.
            let _ = stream.write_all(&requests);
            streams.push(stream);
        }
        std::thread::sleep(rest);
        Ok(())
    };
    HeavyLoad::of(once, Vec::new())
}

/// Submits, grabs and completes large jobs, one after another.
pub(crate) fn large_bodies(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    wire.send(&packet(kind::CAN_DO, b"heavy-large"))?;
    let mut submit = b"heavy-large\0\0".to_vec();
    submit.resize(submit.len() + LARGE_BYTES, b'x');
    let mut requests = packet(kind::SUBMIT_JOB_BG, &submit);
    requests.extend(packet(kind::GRAB_JOB, b""));
    let once = move || {
        wire.send(&requests)?;
        let handle = wire.read_handle()?;
        wire.send(&packet(kind::WORK_COMPLETE, &[&handle[..], b"\0"].concat()))
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// A load: connections that have sent one request and are then idle.
pub(crate) fn idle_connections(lab: &Lab, address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let connections = lab.sizes.idle_beside;
    let (_, held) = idle::run(address, &Greeting::beanstalk(), connections, None, lab.meter())?;
    Ok(HeavyLoad { held, ..HeavyLoad::default() })
}

/// Puts and deletes groups of jobs, with a pause before each group.
pub(crate) fn passing_jobs(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut passing = Passing::connect(address)?;
    let disconnects = vec![passing.wire.disconnect()?];
    Ok(HeavyLoad::of(move || passing.pass_and_rest(), disconnects))
}

/// Puts and deletes groups of jobs until the log must copy older jobs. Then continues with a pause
/// before each group.
pub(crate) fn reclaim(server: &Server) -> anyhow::Result<HeavyLoad> {
    let mut passing = Passing::connect(server.address)?;
    let disconnects = vec![passing.wire.disconnect()?];
    let copied = || server.metrics(["lineshaft_log_copied_records_total"]);
    let before = copied()?;
    let give_up = Instant::now() + RECLAIM_BEGINS_MAX;
    while copied()? <= before {
        interrupt::check()?;
        anyhow::ensure!(Instant::now() < give_up, "the log copies nothing");
        for _ in 0..10 {
            passing.pass()?;
        }
    }
    Ok(HeavyLoad::of(move || passing.pass_and_rest(), disconnects))
}

/// A client that puts a group of jobs and deletes them.
struct Passing {
    wire: Wire,
    puts: Vec<u8>,
}

impl Passing {
    fn connect(address: SocketAddr) -> anyhow::Result<Passing> {
        let (jobs, bytes) = PASSING;
        let mut wire = Wire::connect(address)?;
        wire.send(b"use heavy-passing\r\nwatch heavy-passing\r\nignore default\r\n")?;
        wire.read_lines(3)?;
        let body = "x".repeat(bytes);
        let puts = format!("put 0 0 60 {bytes}\r\n{body}\r\n").repeat(jobs).into_bytes();
        Ok(Passing { wire, puts })
    }

    fn pass(&mut self) -> anyhow::Result<()> {
        let (jobs, _) = PASSING;
        self.wire.send(&self.puts)?;
        let ids = inserted(&self.wire.read_text(jobs)?);
        self.wire.send(&deletes(&ids))?;
        self.wire.read_lines(jobs)
    }

    fn pass_and_rest(&mut self) -> anyhow::Result<()> {
        std::thread::sleep(PASSING_REST);
        self.pass()
    }
}
