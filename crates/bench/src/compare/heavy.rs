//! Heavy requests: a few bytes each, whose work grows with what is stored. Each is made in a loop while a quiet
//! client measures what it feels of that.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::server::Server;
use super::wire::{Cutter, Wire};

/// Tubes that one `reserve` looks at: as many as a connection may watch.
const WATCHED_TUBES: u32 = 10_000;
/// Jobs that are kicked, or given back by a close, at once.
const BATCH_JOBS: usize = 1000;
/// Children of the parent that is put into: as many as it may have.
const CHILDREN: u32 = 256;
/// Connections that wait for one job, and how often each joined it: as often as it may.
const WATCHERS: (usize, u32) = (8, 1000);
/// After a batch of kicks: without it the disk writes at its full speed, and the row would measure that.
const KICK_REST: Duration = Duration::from_millis(10);
/// After a put to many children: their jobs add up, so there must not be too many.
const CHILDREN_REST: Duration = Duration::from_millis(1);

/// A kind of heavy request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heavy {
    ListTubes,
    ReserveOverTubes,
    Kick,
    Closes,
    ShowJobs,
    ShowUniqueJobs,
    FunctionStatus,
    PriorityStatus,
    DropUnknown,
    NewsToMany,
    KestrelStats,
    DumpStats,
    FlushAllExpired,
    PutToChildren,
}

/// A kind of heavy request that is prepared: the loop, and what ends it.
pub(super) struct Loop {
    /// Makes the request once.
    pub(super) once: Box<dyn FnMut() -> anyhow::Result<()> + Send>,
    /// Ends all connections of it.
    pub(super) cutters: Vec<Cutter>,
}

impl Heavy {
    pub(super) const ALL: [Heavy; 14] = [
        Heavy::ListTubes,
        Heavy::ReserveOverTubes,
        Heavy::Kick,
        Heavy::Closes,
        Heavy::ShowJobs,
        Heavy::ShowUniqueJobs,
        Heavy::FunctionStatus,
        Heavy::PriorityStatus,
        Heavy::DropUnknown,
        Heavy::NewsToMany,
        Heavy::KestrelStats,
        Heavy::DumpStats,
        Heavy::FlushAllExpired,
        Heavy::PutToChildren,
    ];

    /// What it is, in words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Heavy::ListTubes => "`list-tubes`",
            Heavy::ReserveOverTubes => "`reserve` over 10,000 tubes",
            Heavy::Kick => "`kick` of 1,000 delayed jobs",
            Heavy::Closes => "connections that close with 1,000 jobs",
            Heavy::ShowJobs => "`show jobs`",
            Heavy::ShowUniqueJobs => "`show unique jobs`",
            Heavy::FunctionStatus => "`status`",
            Heavy::PriorityStatus => "`prioritystatus`",
            Heavy::DropUnknown => "100 × `drop function nosuch`",
            Heavy::NewsToMany => "`WORK_DATA` to 8,000 watchers",
            Heavy::KestrelStats => "Kestrel's `STATS`",
            Heavy::DumpStats => "Kestrel's `DUMP_STATS`",
            Heavy::FlushAllExpired => "Kestrel's `FLUSH_ALL_EXPIRED`",
            Heavy::PutToChildren => "puts into a parent of 256 children",
        }
    }

    /// Connects, and does what the requests need.
    pub(super) fn prepare(self, server: &Server) -> anyhow::Result<Loop> {
        let (gearman, memcache) = (server.gearman, server.memcache);
        match self {
            Heavy::ListTubes => asking(server.address, b"list-tubes\r\n", b"\n\r\n"),
            Heavy::ReserveOverTubes => reserve_over_tubes(server.address),
            Heavy::Kick => kick(server.address),
            Heavy::Closes => closes(server.address),
            Heavy::ShowJobs => asking(gearman, b"show jobs\n", b"\n.\n"),
            Heavy::ShowUniqueJobs => asking(gearman, b"show unique jobs\n", b"\n.\n"),
            Heavy::FunctionStatus => asking(gearman, b"status\n", b"\n.\n"),
            Heavy::PriorityStatus => asking(gearman, b"prioritystatus\n", b"\n.\n"),
            Heavy::DropUnknown => repeated(gearman, b"drop function nosuch\n", 100),
            Heavy::NewsToMany => news_to_many(gearman),
            Heavy::KestrelStats => asking(memcache, b"STATS\r\n", b"\nEND\r\n"),
            Heavy::DumpStats => asking(memcache, b"DUMP_STATS\r\n", b"\nEND\r\n"),
            Heavy::FlushAllExpired => repeated(memcache, b"FLUSH_ALL_EXPIRED\r\n", 1),
            Heavy::PutToChildren => put_to_children(memcache),
        }
    }
}

/// A request whose reply ends with `tail`.
fn asking(
    address: SocketAddr,
    request: &'static [u8],
    tail: &'static [u8],
) -> anyhow::Result<Loop> {
    let mut wire = Wire::connect(address)?;
    let cutters = vec![wire.cutter()?];
    let once = move || {
        wire.send(request)?;
        wire.read_to(tail)
    };
    Ok(Loop { once: Box::new(once), cutters })
}

/// So many requests at once that are answered with a line each.
fn repeated(address: SocketAddr, request: &[u8], times: usize) -> anyhow::Result<Loop> {
    let mut wire = Wire::connect(address)?;
    let cutters = vec![wire.cutter()?];
    let requests = request.repeat(times);
    let once = move || {
        wire.send(&requests)?;
        wire.read_lines(times)
    };
    Ok(Loop { once: Box::new(once), cutters })
}

fn reserve_over_tubes(address: SocketAddr) -> anyhow::Result<Loop> {
    let mut wire = Wire::connect(address)?;
    let cutters = vec![wire.cutter()?];
    let watch = |tube: u32| format!("watch empty-{tube}\r\n").into_bytes();
    wire.send(&(1..WATCHED_TUBES).flat_map(watch).collect::<Vec<u8>>())?;
    wire.read_lines(WATCHED_TUBES as usize - 1)?;
    wire.send(b"ignore default\r\n")?;
    wire.read_lines(1)?;
    let once = move || {
        wire.send(&b"reserve-with-timeout 0\r\n".repeat(20))?;
        wire.read_lines(20)
    };
    Ok(Loop { once: Box::new(once), cutters })
}

/// Puts delayed jobs and kicks them. They add up, ready.
fn kick(address: SocketAddr) -> anyhow::Result<Loop> {
    let mut wire = Wire::connect(address)?;
    let cutters = vec![wire.cutter()?];
    wire.send(b"use heavy-kick\r\n")?;
    wire.read_lines(1)?;
    let mut requests = b"put 0 1000 60 1\r\nx\r\n".repeat(BATCH_JOBS);
    requests.extend(format!("kick {BATCH_JOBS}\r\n").bytes());
    let once = move || {
        std::thread::sleep(KICK_REST);
        wire.send(&requests)?;
        wire.read_lines(BATCH_JOBS + 1)
    };
    Ok(Loop { once: Box::new(once), cutters })
}

/// Reserves jobs, and closes the connection.
fn closes(address: SocketAddr) -> anyhow::Result<Loop> {
    let mut wire = Wire::connect(address)?;
    wire.send(b"use heavy-close\r\n")?;
    wire.read_lines(1)?;
    wire.send(&b"put 0 0 600 1\r\nx\r\n".repeat(2 * BATCH_JOBS))?;
    wire.read_lines(2 * BATCH_JOBS)?;
    let mut requests = b"watch heavy-close\r\nignore default\r\n".to_vec();
    requests.extend(b"reserve-with-timeout 1\r\n".repeat(BATCH_JOBS));
    let once = move || {
        let mut wire = Wire::connect(address)?;
        wire.send(&requests)?;
        wire.read_lines(2 + 2 * BATCH_JOBS)
    };
    Ok(Loop { once: Box::new(once), cutters: Vec::new() })
}

/// A worker tells data to many clients that joined one job.
fn news_to_many(address: SocketAddr) -> anyhow::Result<Loop> {
    let (connections, joins) = WATCHERS;
    let mut cutters = Vec::new();
    let submit = packet(7, b"heavy-news\0key\0");
    for _ in 0..connections {
        let mut wire = Wire::connect(address)?;
        cutters.push(wire.cutter()?);
        wire.send(&submit.repeat(joins as usize))?;
        // Its connection is cut at the end.
        std::thread::spawn(move || wire.drain());
    }
    let mut worker = Wire::connect(address)?;
    cutters.push(worker.cutter()?);
    worker.send(&packet(1, b"heavy-news"))?;
    worker.send(&packet(9, b""))?;
    let handle = worker.read_handle()?;
    let mut data = packet(28, &[&handle[..], b"\0some data"].concat());
    // Answered when the data is dealt with.
    let echo = packet(16, b"echo");
    data.extend_from_slice(&echo);
    let once = move || {
        worker.send(&data)?;
        worker.read_bytes(echo.len())
    };
    Ok(Loop { once: Box::new(once), cutters })
}

fn put_to_children(address: SocketAddr) -> anyhow::Result<Loop> {
    let mut wire = Wire::connect(address)?;
    let cutters = vec![wire.cutter()?];
    let look = |child: u32| format!("GET heavy-parent+{child}\r\n").into_bytes();
    wire.send(&(0..CHILDREN).flat_map(look).collect::<Vec<u8>>())?;
    wire.read_lines(CHILDREN as usize)?;
    let once = move || {
        wire.send(b"SET heavy-parent 0 0 1\r\nx\r\n")?;
        std::thread::sleep(CHILDREN_REST);
        wire.read_lines(1)
    };
    Ok(Loop { once: Box::new(once), cutters })
}

/// A packet of Gearman's, as a client sends it.
pub(super) fn packet(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut packet = b"\0REQ".to_vec();
    packet.extend(kind.to_be_bytes());
    packet.extend((body.len() as u32).to_be_bytes());
    packet.extend_from_slice(body);
    packet
}
