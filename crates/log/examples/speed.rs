//! Measures appends, finishes, commits and restarts of a log, without and with index files. Prints one line for each
//! measurement.
//!
//! Run it with `cargo run -p lineshaft-log --example speed -- FOLDER [JOBS [BODY]]`. The folder must be
//! empty. The example does not remove the folder.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use lineshaft_log::{Class, Committer, Log, Meta, PosixDisk, QueueRef, Restored, Settings, Sync};

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"default" };

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 0, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"" }
}

/// All jobs are in one list, in the order of their ids.
fn classify(meta: &Meta<'_>) -> Option<Class> {
    let key = (meta.priority.into(), meta.id);
    (meta.id != 0).then_some(Class { list: 0, key, next_key: key, band: 0 })
}

fn line(what: &str, count: u64, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.3} s, {:.0} ns each", seconds * 1e9 / count as f64);
}

fn blocks(log: &Log) -> u64 {
    let indexes = log.indexed().into_iter().filter_map(|segment| log.index(segment));
    let rows = |index: Arc<lineshaft_log::SegmentIndex>| -> u64 {
        index.blocks().iter().map(|block| u64::from(block.rows)).sum()
    };
    indexes.map(rows).sum()
}

fn main() {
    let folder = std::env::args().nth(1).expect("the first argument is a folder");
    let jobs: u64 = std::env::args().nth(2).map_or(1_000_000, |jobs| jobs.parse().unwrap());
    let body_len: usize = std::env::args().nth(3).map_or(20, |len| len.parse().unwrap());
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
        let body = [7; 1001];
        slots.push(log.put(1, QUEUE, &meta(id), &body[..body_len + (id as usize & 1)]).0);
        if let Some(before) = before {
            appending += before.elapsed();
        }
    }
    let last = log.fact(1, b"k", b"v");
    log.wake();
    while log.durable() < last {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    line(&format!("put, all durable (body {body_len})"), jobs, start);
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
    drop(log);

    let settings = || Settings { classify: Some(classify), ..settings() };
    let (log, _) = Log::open(disk(), settings(), 1, &mut |_| ()).unwrap();
    let start = Instant::now();
    let mut built = 0;
    while log.index_step().unwrap().is_some() {
        built += 1;
    }
    line("index of a segment", built, start);
    let (index_bytes, in_blocks) = (log.usage().index_bytes, blocks(&log));
    println!("{index_bytes} bytes of indexes, {in_blocks} jobs in blocks");
    let (segment, mut rows) = (log.indexed()[0], 0);
    let index = log.index(segment).unwrap();
    let start = Instant::now();
    for number in 0..index.blocks().len() as u32 {
        rows += index.read_block(number).unwrap().len();
    }
    line("read of a row of a block", rows as u64, start);
    drop((log, index));

    let start = Instant::now();
    let mut found = 0;
    let (_, report) = Log::open(disk(), settings(), 1, &mut |restored| match restored {
        Restored::Job { .. } => found += 1,
        Restored::Block { summary, .. } => found += u64::from(summary.rows),
        Restored::Fact { .. } => {}
    })
    .unwrap();
    line("restart with index files", found, start);
    println!("{report:?}");
}
