//! Measures appends, finishes, commits and a restart of a log. Prints one line for each
//! measurement.
//!
//! Run it with `cargo run -p lineshaft-log --example speed -- FOLDER [JOBS]`. The folder must be
//! empty. The example does not remove the folder.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use lineshaft_log::{Committer, Log, Meta, PosixDisk, QueueRef, Restored, Settings, Sync};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"default" };

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" }
}

fn line(what: &str, count: u64, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.3} s, {:.0} ns each", seconds * 1e9 / count as f64);
}

fn main() {
    let folder = std::env::args().nth(1).expect("the first argument is a folder");
    let jobs: u64 = std::env::args().nth(2).map_or(1_000_000, |jobs| jobs.parse().unwrap());
    let settings = || Settings { sync: Sync::Always, ..Settings::default() };
    let disk = || Arc::new(PosixDisk::new(&folder).unwrap());
    let start = Instant::now();
    let (log, _) = Log::open(disk(), settings(), 1, &mut |_| ()).unwrap();
    line("start of a new log", 1, start);
    let log = Arc::new(log);
    let committer = Committer::spawn(Arc::clone(&log), Arc::new(|| 1), Arc::new(|| ())).unwrap();

    let start = Instant::now();
    let mut appending = std::time::Duration::ZERO;
    let mut slots = Vec::new();
    for id in 1..=jobs {
        // A batch has 1600 jobs, as from 50 connections with 32 requests each.
        if id % 1600 == 1 {
            log.wake();
            while log.open_batch_bytes() > log.open_batch_bytes_max() || log.lags() {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        let before = (id % 1600 == 1).then(Instant::now);
        let body = [7; 100];
        slots.push(log.put(1, QUEUE, &meta(id), &body[..20 + (id as usize & 1)]).0);
        if let Some(before) = before {
            appending += before.elapsed();
        }
    }
    let last = log.fact(1, b"k", b"v");
    log.wake();
    while log.durable() < last {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    line("put, all durable (body 20)", jobs, start);
    let batch = 20_000;
    let body = [7; 100];
    let start = Instant::now();
    for id in 1..=batch {
        slots.push(log.put(1, QUEUE, &meta(jobs + id), &body).0);
    }
    line("put, append alone (body 100)", batch, start);
    let start = Instant::now();
    for _ in 0..batch {
        log.finish(1, slots.pop().unwrap());
    }
    line("finish, append alone", batch, start);
    let start = Instant::now();
    let groups = 2000;
    for id in 1..=groups {
        slots.push(log.put(1, QUEUE, &meta(jobs * 2 + id), &body).0);
        log.commit_step(1).unwrap();
    }
    line("group of one, durable", groups, start);
    committer.stop();
    log.close(1, jobs * 3).unwrap();
    drop(log);

    let start = Instant::now();
    let (mut found, mut bytes) = (0, 0);
    let (log, report) = Log::open(disk(), settings(), 1, &mut |restored| {
        if let Restored::Job { body, .. } = restored {
            found += 1;
            bytes += body.len();
        }
    })
    .unwrap();
    line("restart", found, start);
    println!("{report:?} {:?} {bytes} bytes of bodies", log.usage());
}
