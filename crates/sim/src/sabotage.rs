//! Ways to break a promise on purpose, so that a test can check that the oracle notices it.

use std::io;
use std::sync::Arc;

use log::{Disk, DiskFile, FaultDisk, Space};

/// The promise to break.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Replies leave before their changes are durable. Only a crash shows it.
    EarlyReplies,
    /// The same. A check when the replies leave detects it.
    HastyReplies,
    /// The disk reports data as synced that it did not sync.
    LyingSync,
    /// A crash takes the end of each segment, synced or not.
    LostTail,
    /// The server does not wake sleeping workers.
    LostWakeUps,
    /// Clients do not learn how their jobs ended.
    LostEnds,
    /// Clients get each end twice.
    DoubledEnds,
    /// News of a job overtake each other.
    DisorderedNews,
    /// The server's clock is fast, so scheduled jobs run early.
    FastClock,
    /// A client that leaves ends the jobs that it waits for, even those that must outlive it.
    TakesAlong,
    /// The server's clock is slow, so the server hands out expired jobs.
    SlowClock,
    /// Changed policies do not come into force.
    StalePolicies,
    /// Children do not get what their parent gets.
    LostCopies,
    /// Leases end before their deadlines.
    ShortLeases,
    /// Some jobs fall behind others.
    WrongOrder,
    /// Buried and delayed jobs become ready without a request.
    RestlessJobs,
    /// Some jobs vanish.
    LostJobs,
    /// As [`LostCopies`](Self::LostCopies), for the oracle.
    MissedCopies,
    /// As [`SlowClock`](Self::SlowClock), for the oracle.
    LateExpiries,
    /// Queues take more than their policies allow.
    IgnoredLimits,
}

impl Sabotage {
    /// The model would see these in the state of the engine. They are for the oracle, which must
    /// see them in the replies.
    pub(crate) fn is_for_oracle(self) -> bool {
        matches!(
            self,
            Self::ShortLeases
                | Self::WrongOrder
                | Self::RestlessJobs
                | Self::LostJobs
                | Self::MissedCopies
                | Self::LateExpiries
                | Self::IgnoredLimits
        )
    }
}

/// A disk whose files are never synced.
#[derive(Debug)]
pub(crate) struct LyingDisk(pub(crate) FaultDisk);

#[derive(Debug)]
struct LyingFile(Arc<dyn DiskFile>);

impl Disk for LyingDisk {
    fn folder(&self) -> String {
        self.0.folder()
    }

    fn lock(&self) -> io::Result<bool> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.0.sync_folder()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    fn copies_on_write(&self) -> bool {
        self.0.copies_on_write()
    }

    fn random(&self) -> io::Result<u64> {
        self.0.random()
    }
}

impl DiskFile for LyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn shrink(&self, len: u64) -> io::Result<()> {
        self.0.shrink(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn links(&self) -> io::Result<u64> {
        self.0.links()
    }
}
