//! A server that speaks beanstalkd's protocol. It runs in the thread of the test, on simulated
//! time.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use broker::{Broker, Options, Settings};
use lineshaft_beanstalk::{
    Listener, MAX_JOB_SIZE_DEFAULT, ProcessorTime, Server, ServerInfo, Session,
};
use testkit::dialect::world;

/// A world whose connections speak beanstalkd's protocol.
pub(crate) struct World {
    world: world::World,
    listener: Arc<Listener>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_max_job_size(MAX_JOB_SIZE_DEFAULT)
    }

    pub(crate) fn with_max_job_size(max_job_size: u32) -> Self {
        Self::over(world::World::memory(), max_job_size)
    }

    pub(crate) fn over(world: world::World, max_job_size: u32) -> Self {
        Self { world, listener: listener(max_job_size) }
    }

    /// A server with short slices, so that a long reply takes many slices.
    pub(crate) fn with_slices(units: u32) -> Self {
        Self::over(world::World::with_slices(units), MAX_JOB_SIZE_DEFAULT)
    }

    /// A server whose log writes only when the test calls `commit`.
    pub(crate) fn over_unwritten(broker: Broker) -> Self {
        Self::over(world::World::over_unwritten(broker), MAX_JOB_SIZE_DEFAULT)
    }

    /// Opens a connection, and returns its number. The other functions identify the connection by
    /// this number.
    pub(crate) fn connect(&mut self) -> usize {
        connect(&self.listener, &mut self.world)
    }
}

/// The options of a broker whose log has room for many segments.
pub(crate) fn with_log() -> Options {
    let disk = Arc::new(log::FaultDisk::new(1, 1 << 30));
    Options::without_threads(disk, Settings::default())
}

/// The listener of a new server.
pub(crate) fn listener(max_job_size: u32) -> Arc<Listener> {
    let info = ServerInfo {
        pid: 4711,
        version: "lineshaft 0.1.0".to_owned(),
        hostname: "vm".to_owned(),
        os: "#1 SMP".to_owned(),
        platform: "x86_64".to_owned(),
        id: 0xfeed,
        segment_bytes: 10_485_760,
        started: world::START,
        processor_time: || ProcessorTime { user_us: 12_679, system_us: 3_000_001 },
    };
    Arc::new(Listener { server: Server::new(info), max_job_size })
}

/// Opens a connection to this listener.
pub(crate) fn connect(listener: &Arc<Listener>, world: &mut world::World) -> usize {
    world.connect_as(|turn, mailbox| {
        let session = Session::new(listener.clone(), turn, mailbox);
        (session.id(), session)
    })
}

impl Deref for World {
    type Target = world::World;

    fn deref(&self) -> &world::World {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut world::World {
        &mut self.world
    }
}
