//! Measures how well a server keeps its memory limit. The run puts jobs of all kinds and sizes
//! until the server refuses a put. Then it deletes half of the jobs, and puts jobs of other sizes.

use std::fmt::Write as _;

use crate::compare::lab::Lab;
use crate::compare::lab::fill;
use crate::compare::lab::server::Server;
use crate::compare::lab::wire::{Wire, deletes, inserted};
use crate::compare::plan::sizes::MEMORY_LIMIT;
use crate::compare::plan::work::{Metric, Sample};
use crate::idle::{self, Greeting};
use crate::{interrupt, process};

/// The number of beanstalkd puts in a batch. The batch also has a quarter as many submits, and a
/// quarter as many items.
const BATCH: usize = 1000;
/// The sizes of bodies, used in turn. The first list is for the time before half of the jobs are
/// deleted, the second list is for the time after it.
const SIZES: [[usize; 4]; 2] = [[10, 100, 1000, 10_000], [30, 300, 3000, 30_000]];
/// The number of tubes. The number of functions and the number of item queues are the same.
const QUEUES: usize = 10_000;
const CONNECTIONS: usize = 1000;

/// Fills the server twice. Compares the higher of the two resident sizes with the limit.
pub(crate) fn run(lab: &Lab, server: &Server) -> anyhow::Result<Sample> {
    let greeting = Greeting::beanstalk();
    let (_, held) = idle::run(server.address, &greeting, CONNECTIONS, None, lab.meter())?;
    lab.meter().show("a server is filled to its limit of memory".to_owned());
    let mut wire = Wire::connect(server.address)?;
    let mut ids = Vec::new();
    let mut highest = 0;
    for sizes in SIZES {
        fill_up(server, &mut wire, sizes, &mut ids)?;
        highest = highest.max(process::resident_bytes(server.pid())?);
        // Delete every second job, so that the next jobs fill the gaps.
        let mut at = 0;
        let (gone, rest): (Vec<u64>, Vec<u64>) =
            std::mem::take(&mut ids).into_iter().partition(|_| {
                at += 1;
                at % 2 == 0
            });
        ids = rest;
        delete(&mut wire, &gone)?;
    }
    drop(held);
    Ok(Sample::from([(Metric::OfLimit, highest as f64 / MEMORY_LIMIT as f64)]))
}

/// Puts until the server refuses a put.
fn fill_up(
    server: &Server,
    wire: &mut Wire,
    sizes: [usize; 4],
    ids: &mut Vec<u64>,
) -> anyhow::Result<()> {
    let bodies = sizes.map(|size| "x".repeat(size));
    for batch in 0.. {
        interrupt::check()?;
        let first = batch * BATCH;
        let mut puts = String::new();
        for at in first..first + BATCH {
            let body = &bodies[at % bodies.len()];
            let (tube, delay) = (at % QUEUES, if at % 10 == 0 { 1000 } else { 0 });
            let size = body.len();
            let _ = write!(puts, "use mix-{tube}\r\nput 0 {delay} 60 {size}\r\n{body}\r\n");
        }
        wire.send(puts.as_bytes())?;
        let replies = wire.read_text(2 * BATCH)?;
        ids.extend(inserted(&replies));
        if replies.contains("OUT_OF_MEMORY\r\n") {
            return Ok(());
        }
        let others = BATCH / 4;
        let place = |at: u64| (batch * others) as u64 + at;
        let submit = |at| {
            let function = format!("mix-{}", place(at) % QUEUES as u64);
            fill::submit(&function, place(at), &bodies[2])
        };
        fill::packets(server.gearman, others as u64, submit)?;
        let item = |at| {
            let (queue, body) = (place(at) % QUEUES as u64, &bodies[1]);
            format!("SET items-{queue} 0 0 {}\r\n{body}\r\n", body.len()).into_bytes()
        };
        fill::lines(server.memcache, others as u64, 1, item)?;
    }
    Ok(())
}

fn delete(wire: &mut Wire, ids: &[u64]) -> anyhow::Result<()> {
    for some in ids.chunks(BATCH) {
        interrupt::check()?;
        wire.send(&deletes(some))?;
        wire.read_lines(some.len())?;
    }
    Ok(())
}
