//! Makes heavy requests. Each request has only a few bytes, but the server's work for the request
//! grows with the stored data. This file also makes other loads. A quiet client measures the effect
//! of each load.

mod beanstalk;
mod gearman;
mod kestrel;
mod loads;

use std::net::{SocketAddr, TcpStream};

use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::lab::wire::{Disconnect, Wire};
use crate::compare::plan::heavy::Heavy;

/// A function that makes one request.
pub(crate) type Once = Box<dyn FnMut() -> anyhow::Result<()> + Send>;

/// A prepared load.
#[derive(Default)]
pub(crate) struct HeavyLoad {
    /// Functions that run repeatedly. Each has a thread of its own.
    pub(crate) loops: Vec<Once>,
    /// Functions that end the connections of the loops.
    pub(crate) disconnects: Vec<Disconnect>,
    /// Connections that must only stay open.
    pub(crate) held: Vec<TcpStream>,
    /// Programs that run until the end of the load.
    pub(crate) programs: Vec<loads::BusyLoop>,
}

impl HeavyLoad {
    fn of(
        once: impl FnMut() -> anyhow::Result<()> + Send + 'static,
        disconnects: Vec<Disconnect>,
    ) -> Self {
        Self { loops: vec![Box::new(once)], disconnects, ..Self::default() }
    }

    fn add(&mut self, mut other: Self) {
        self.loops.append(&mut other.loops);
        self.disconnects.append(&mut other.disconnects);
        self.held.append(&mut other.held);
        self.programs.append(&mut other.programs);
    }
}

/// Connects, and creates the jobs and queues that the requests need.
pub(crate) fn prepare(heavy: Heavy, lab: &Lab, server: &Server) -> anyhow::Result<HeavyLoad> {
    let mut load = HeavyLoad::default();
    if heavy == Heavy::Workers {
        load.add(gearman::many_registrations(server.gearman)?);
    }
    for _ in 0..heavy.connections() {
        load.add(prepare_one(heavy, lab, server)?);
    }
    Ok(load)
}

fn prepare_one(heavy: Heavy, lab: &Lab, server: &Server) -> anyhow::Result<HeavyLoad> {
    let (tubes, gearman, memcache) = (server.address, server.gearman, server.memcache);
    match heavy {
        Heavy::BusyProcessors => loads::busy_processors(lab),
        Heavy::CheapRequests => repeated(tubes, b"ignore nosuch\r\n", 1),
        Heavy::ManyCheapRequests => repeated(tubes, b"ignore nosuch\r\n", 100),
        Heavy::Puts => repeated(tubes, b"put 0 0 60 1\r\nx\r\n", 1000),
        Heavy::PassingJobs => loads::passing_jobs(tubes),
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

/// A load that repeats a request. The reply to it ends with `tail`.
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

/// A load that repeatedly sends this number of requests at once. Each request has a reply of one
/// line.
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
