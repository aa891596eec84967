//! A queue in which most jobs have keys whose limit of leased jobs is reached. Servers with the limit
//! and without it get the same jobs and the same leases.

use std::fmt::Write as _;
use std::net::TcpStream;

use crate::compare::lab::server::Server;
use crate::compare::lab::wire::Wire;
use crate::compare::lab::{BODY_BYTES, Lab};
use crate::compare::plan::work::Work;
use crate::interrupt;

/// The queue with the limit.
pub(super) const LIMITED_QUEUE: &str = "limited";
/// The number of requests that are sent before their replies are read.
const AT_ONCE: u64 = 2000;

/// The configuration of a server with the limit.
pub(crate) fn limits_for_each_key() -> String {
    format!(
        "[[policy]]\nmatch = \"{LIMITED_QUEUE}\"\n\
         concurrency = {{ limit = 1, key = \"until::\" }}\n"
    )
}

/// Fills the queue, if this work needs it. Returns the connection that holds a job of each blocked
/// key.
pub(super) fn fill(lab: &Lab, work: Work, server: &Server) -> anyhow::Result<Option<TcpStream>> {
    let sizes = &lab.sizes;
    let (keys, jobs, free) = match work {
        Work::TakeBlocked(shape) => {
            let free_keys = match shape.connections {
                1 => 1,
                connections => u64::from(connections.next_power_of_two()),
            };
            (sizes.blocked_keys, sizes.blocked_jobs, Some((free_keys, sizes.fill_jobs / 3)))
        }
        Work::PutBeside(_) | Work::TakeBeside(_) => {
            (sizes.blocked_keys / 100, sizes.blocked_jobs / 100, None)
        }
        _ => return Ok(None),
    };
    let mut wire = Wire::connect(server.address)?;
    let enter = format!("use {LIMITED_QUEUE}\r\nwatch {LIMITED_QUEUE}\r\nignore default\r\n");
    wire.send(enter.as_bytes())?;
    wire.read_lines(3)?;
    put(&mut wire, "blocked", keys, keys)?;
    repeat(&mut wire, keys, 2, |_, requests| requests.push_str("reserve\r\n"))?;
    put(&mut wire, "blocked", keys, jobs - keys)?;
    if let Some((free_keys, count)) = free {
        put(&mut wire, "free", free_keys, count)?;
    }
    Ok(Some(wire.into_stream()))
}

/// Puts jobs that have so many keys, in turn.
fn put(wire: &mut Wire, name: &str, keys: u64, count: u64) -> anyhow::Result<()> {
    repeat(wire, count, 1, |at, requests| {
        let key = format!("{name}{}", at % keys);
        let _ = write!(requests, "put 0 0 100000 {BODY_BYTES}\r\n{key::<BODY_BYTES$}\r\n");
    })
}

/// Sends requests whose replies have `lines_each` lines each, and reads the replies.
fn repeat(
    wire: &mut Wire,
    count: u64,
    lines_each: usize,
    append: impl Fn(u64, &mut String),
) -> anyhow::Result<()> {
    let mut requests = String::new();
    for from in (0..count).step_by(AT_ONCE as usize) {
        interrupt::check()?;
        let to = count.min(from + AT_ONCE);
        requests.clear();
        (from..to).for_each(|at| append(at, &mut requests));
        wire.send(requests.as_bytes())?;
        wire.read_lines((to - from) as usize * lines_each)?;
    }
    Ok(())
}
