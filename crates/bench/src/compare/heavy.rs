//! Heavy requests: a few bytes each, with work that grows with the stored data. Also other loads of
//! a server. A quiet client measures the effect of each.
//!
//! This file lists them all. The folder contains their code.

mod beanstalk;
mod gearman;
mod kestrel;
mod loads;

use std::fmt;
use std::net::{SocketAddr, TcpStream};

use serde::Serialize;

use super::lab::Lab;
use super::server::Server;
use super::wire::{Disconnect, Wire};

pub(super) use self::beanstalk::expiry_policy;

/// A kind of heavy request, or another load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heavy {
    ListTubes,
    ReserveOverTubes,
    ReserveOverExpired,
    Kick,
    Closes,
    ShowJobs,
    ShowUniqueJobs,
    FunctionStatus,
    PriorityStatus,
    Workers,
    DropUnknown,
    CannotDo,
    ResetAbilities,
    GrabAndSleep,
    NewsToMany,
    KestrelStats,
    DumpStats,
    KestrelStatus,
    FlushAllExpired,
    FlushAll,
    PutToChildren,
    AdminStats,
    AdminGraph,
    StuckReaders,
    LargeBodies,
    IdleConnections,
    Reclaim,
}

/// Makes one request.
pub(super) type Once = Box<dyn FnMut() -> anyhow::Result<()> + Send>;

/// A prepared load.
#[derive(Default)]
pub(super) struct HeavyLoad {
    /// Functions that run repeatedly, each in its own thread.
    pub(super) loops: Vec<Once>,
    /// Functions that close the connections of the loops.
    pub(super) disconnects: Vec<Disconnect>,
    /// Connections that only have to stay open.
    pub(super) held: Vec<TcpStream>,
}

impl HeavyLoad {
    fn of(
        once: impl FnMut() -> anyhow::Result<()> + Send + 'static,
        disconnects: Vec<Disconnect>,
    ) -> Self {
        Self { loops: vec![Box::new(once)], disconnects, held: Vec::new() }
    }

    fn add(&mut self, mut other: Self) {
        self.loops.append(&mut other.loops);
        self.disconnects.append(&mut other.disconnects);
        self.held.append(&mut other.held);
    }
}

impl fmt::Display for Heavy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())?;
        match self.connections() {
            1 => Ok(()),
            connections => write!(formatter, ", {connections} connections"),
        }
    }
}

impl Heavy {
    /// All loads, in the order of measurement.
    pub(super) const ALL: [Heavy; 27] = [
        Heavy::ListTubes,
        Heavy::ReserveOverTubes,
        Heavy::ReserveOverExpired,
        Heavy::Kick,
        Heavy::Closes,
        Heavy::ShowJobs,
        Heavy::ShowUniqueJobs,
        Heavy::FunctionStatus,
        Heavy::PriorityStatus,
        Heavy::Workers,
        Heavy::DropUnknown,
        Heavy::CannotDo,
        Heavy::ResetAbilities,
        Heavy::GrabAndSleep,
        Heavy::NewsToMany,
        Heavy::KestrelStats,
        Heavy::DumpStats,
        Heavy::KestrelStatus,
        Heavy::FlushAllExpired,
        Heavy::PutToChildren,
        Heavy::AdminStats,
        Heavy::AdminGraph,
        // After all loads that request items, because it empties their queues.
        Heavy::FlushAll,
        Heavy::StuckReaders,
        Heavy::LargeBodies,
        Heavy::IdleConnections,
        // Last, because the reclaim that it starts continues after it.
        Heavy::Reclaim,
    ];

    fn name(self) -> &'static str {
        match self {
            Heavy::ListTubes => "`list-tubes`",
            Heavy::ReserveOverTubes => "`reserve` over 5,000 tubes",
            Heavy::ReserveOverExpired => "`reserve` over 2,000 expired jobs",
            Heavy::Kick => "`kick` of 1,000 delayed jobs",
            Heavy::Closes => "connections that close with 1,000 jobs",
            Heavy::ShowJobs => "`show jobs`",
            Heavy::ShowUniqueJobs => "`show unique jobs`",
            Heavy::FunctionStatus => "`status`",
            Heavy::PriorityStatus => "`prioritystatus`",
            Heavy::Workers => "`workers` of 10,000 functions each",
            Heavy::DropUnknown => "100 × `drop function nosuch`",
            Heavy::CannotDo => "100 × `CANT_DO` of a worker with 10,000 jobs",
            Heavy::ResetAbilities => "`RESET_ABILITIES` and 10,000 × `CAN_DO`",
            Heavy::GrabAndSleep => "`GRAB_JOB` and `PRE_SLEEP` of a worker of 10,000 functions",
            Heavy::NewsToMany => "`WORK_DATA` to 8,000 watchers",
            Heavy::KestrelStats => "Kestrel's `STATS`",
            Heavy::DumpStats => "Kestrel's `DUMP_STATS`",
            Heavy::KestrelStatus => "Kestrel's `STATUS`, changed",
            Heavy::FlushAllExpired => "Kestrel's `FLUSH_ALL_EXPIRED`",
            Heavy::FlushAll => "Kestrel's `FLUSH_ALL`",
            Heavy::PutToChildren => "puts into a parent of 256 children",
            Heavy::AdminStats => "`/stats`",
            Heavy::AdminGraph => "`/graph_data`",
            Heavy::StuckReaders => "20 readers that are stuck",
            Heavy::LargeBodies => "jobs of 10 MiB",
            Heavy::IdleConnections => "idle connections",
            Heavy::Reclaim => "reclaim that copies",
        }
    }

    /// The number of connections that make the request at once. It is higher for requests that have
    /// stalled a server in this way.
    fn connections(self) -> u32 {
        match self {
            Heavy::ListTubes
            | Heavy::ShowJobs
            | Heavy::ShowUniqueJobs
            | Heavy::FunctionStatus
            | Heavy::Workers
            | Heavy::KestrelStats
            | Heavy::DumpStats
            | Heavy::FlushAllExpired => 4,
            Heavy::ReserveOverTubes => 20,
            Heavy::DropUnknown => 50,
            Heavy::ReserveOverExpired
            | Heavy::Kick
            | Heavy::Closes
            | Heavy::PriorityStatus
            | Heavy::CannotDo
            | Heavy::ResetAbilities
            | Heavy::GrabAndSleep
            | Heavy::NewsToMany
            | Heavy::KestrelStatus
            | Heavy::FlushAll
            | Heavy::PutToChildren
            | Heavy::AdminStats
            | Heavy::AdminGraph
            | Heavy::StuckReaders
            | Heavy::LargeBodies
            | Heavy::IdleConnections
            | Heavy::Reclaim => 1,
        }
    }

    /// Connects, and makes what the requests need.
    pub(super) fn prepare(self, lab: &Lab, server: &Server) -> anyhow::Result<HeavyLoad> {
        let mut load = HeavyLoad::default();
        if self == Heavy::Workers {
            load.add(gearman::many_registrations(server.gearman)?);
        }
        for _ in 0..self.connections() {
            load.add(self.prepare_one(lab, server)?);
        }
        Ok(load)
    }

    fn prepare_one(self, lab: &Lab, server: &Server) -> anyhow::Result<HeavyLoad> {
        let (tubes, gearman, memcache) = (server.address, server.gearman, server.memcache);
        match self {
            Heavy::ListTubes => asking(tubes, b"list-tubes\r\n", b"\n\r\n"),
            Heavy::ReserveOverTubes => beanstalk::reserve_over_tubes(tubes),
            Heavy::ReserveOverExpired => beanstalk::reserve_over_expired(tubes),
            Heavy::Kick => beanstalk::kick(tubes),
            Heavy::Closes => beanstalk::closes(tubes),
            Heavy::ShowJobs => asking(gearman, b"show jobs\n", b"\n.\n"),
            Heavy::ShowUniqueJobs => asking(gearman, b"show unique jobs\n", b"\n.\n"),
            Heavy::FunctionStatus => asking(gearman, b"status\n", b"\n.\n"),
            Heavy::PriorityStatus => asking(gearman, b"prioritystatus\n", b"\n.\n"),
            Heavy::Workers => asking(gearman, b"workers\n", b"\n.\n"),
            Heavy::DropUnknown => repeated(gearman, b"drop function nosuch\n", 100),
            Heavy::CannotDo => gearman::cannot_do(gearman),
            Heavy::ResetAbilities => gearman::reset_abilities(gearman),
            Heavy::GrabAndSleep => gearman::grab_and_sleep(gearman),
            Heavy::NewsToMany => gearman::news_to_many(gearman),
            Heavy::KestrelStats => asking(memcache, b"STATS\r\n", b"\nEND\r\n"),
            Heavy::DumpStats => asking(memcache, b"DUMP_STATS\r\n", b"\nEND\r\n"),
            Heavy::KestrelStatus => kestrel::change_status(memcache),
            Heavy::FlushAllExpired => repeated(memcache, b"FLUSH_ALL_EXPIRED\r\n", 1),
            Heavy::FlushAll => kestrel::flush_all(memcache),
            Heavy::PutToChildren => kestrel::put_to_children(memcache),
            Heavy::AdminStats => Ok(kestrel::page(server.admin, "/stats")),
            Heavy::AdminGraph => Ok(kestrel::page(server.admin, "/graph_data")),
            Heavy::StuckReaders => Ok(loads::stuck_readers(tubes)),
            Heavy::LargeBodies => loads::large_bodies(gearman),
            Heavy::IdleConnections => loads::idle_connections(lab, tubes),
            Heavy::Reclaim => loads::reclaim(server),
        }
    }
}

/// Repeats a request whose reply ends with `tail`.
fn asking(
    address: SocketAddr,
    request: &'static [u8],
    tail: &'static [u8],
) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let once = move || {
        wire.send(request)?;
        wire.read_to(tail)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// Sends this many requests at once. Each has a reply of one line.
fn repeated(address: SocketAddr, request: &[u8], times: usize) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let requests = request.repeat(times);
    let once = move || {
        wire.send(&requests)?;
        wire.read_lines(times)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_burden_is_measured_once_and_has_a_name_of_its_own() {
        let names: BTreeSet<String> = Heavy::ALL.iter().map(Heavy::to_string).collect();
        assert_eq!(names.len(), Heavy::ALL.len());
        // `Reclaim` is the last one in the source.
        assert_eq!(Heavy::Reclaim as usize + 1, Heavy::ALL.len());
    }

    #[test]
    fn a_name_mentions_connections_if_there_are_several() {
        assert_eq!(Heavy::ShowJobs.to_string(), "`show jobs`, 4 connections");
        assert_eq!(Heavy::Closes.to_string(), "connections that close with 1,000 jobs");
    }
}
