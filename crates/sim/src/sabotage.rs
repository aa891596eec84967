//! Ways to break a promise of the server on purpose. Tests check that the simulation detects each
//! sabotage.

use std::io;
use std::sync::Arc;

use log::{Disk, DiskFile, FaultDisk, Space};

/// The promise to break.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Sabotage {
    /// No promise.
    #[default]
    None,
    /// Replies are sent before their changes are durable. Only the checks after a crash can detect
    /// this.
    EarlyReplies,
    /// Like `EarlyReplies`, but a check at the moment of sending detects it.
    HastyReplies,
    /// The disk reports a sync that it did not do.
    LyingSync,
    /// A crash loses the end of each segment, even if it was synced.
    LostTail,
    /// The server does not wake sleeping workers.
    LostWakeUps,
    /// Clients get no news of the ends of their jobs.
    LostEnds,
    /// Clients get the news of each end twice.
    DoubledEnds,
    /// Clients get the news of a job in the wrong order.
    DisorderedNews,
    /// The server's clock is fast, so delayed jobs become ready early.
    FastClock,
    /// When a client disconnects, the jobs that it waits for end, even background jobs.
    TakesAlong,
    /// The server's clock is slow, so the server hands out expired jobs.
    SlowClock,
    /// Changed policies do not come into force.
    StalePolicies,
    /// Children get no copies of their parent's jobs.
    LostCopies,
    /// Leases end before their deadlines.
    ShortLeases,
    /// Some jobs lose their place in their queue.
    WrongOrder,
    /// Buried and delayed jobs become ready without a request.
    RestlessJobs,
    /// Some jobs end without a request.
    LostJobs,
    /// As [`LostCopies`](Self::LostCopies), for the oracle.
    MissedCopies,
    /// As [`SlowClock`](Self::SlowClock), for the oracle.
    LateExpiries,
    /// Queues accept more jobs than their policies allow.
    IgnoredLimits,
    /// Queues hand out more jobs than their policies allow.
    OpenGates,
    /// As [`OpenGates`](Self::OpenGates). All policies limit the jobs of each key.
    OpenKeys,
    /// As [`OpenGates`](Self::OpenGates). All policies limit jobs, in a strict order.
    OpenOrders,
    /// Jobs with the same key are different jobs, once the first one is done or leased.
    ForgottenClaims,
    /// Failed jobs are tried again without end.
    EndlessRetries,
    /// Jobs pass a job that was handed out and is not done, although the order of their queue is strict.
    LooseOrders,
    /// The keys of a fair queue share its hand-outs in another way than its policy says.
    OtherShares,
    /// Jobs do not become more urgent while they wait.
    NoAging,
    /// The stream of a cluster ignores the conditions of appends.
    FenceOff,
    /// A leader sends replies before the stream has their changes. Only the oracle can show this.
    EarlyAcks,
    /// A leader takes all groups as accepted. A check at the moment of sending a reply detects it.
    HastyAcks,
    /// A leader writes groups to its folder before the stream has them.
    GateOff,
    /// Followers swap two facts of a group.
    DisorderedApply,
    /// Followers leave out a fact of each group.
    SkippedFact,
    /// Followers leave out the ends of jobs. So these jobs come back after a takeover.
    ForgottenEnds,
    /// A node claims before it has applied all groups.
    ClaimUnapplied,
    /// A leader answers although its lease has ended.
    LeaseOff,
    /// The stream is trimmed up to what one node holds.
    TrimOne,
    /// A new leader assigns ids that the old leader may have used.
    IdsAnew,
    /// The stream loses its end, because its servers flush nothing.
    UnflushedStream,
    /// The stream loses a record.
    LostRecord,
    /// A leader sends other bytes for an append that is not decided.
    UnfencedResend,
    /// Followers apply other bodies than those of the leader's clients.
    OtherBodies,
    /// Followers let delayed jobs become ready by themselves.
    TimersOnFollower,
    /// Followers apply late groups of former leaders.
    ReaderFenceOff,
    /// A node claims with a tail of the stream that it has not read.
    StaleTailTrusted,
    /// A node claims although its last check of the stream's servers failed.
    GuardsIgnored,
}

impl Sabotage {
    /// True if only the oracle checks a run with this sabotage. The model could see such a sabotage
    /// in the state of the engine. The oracle must detect it from the replies alone.
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
                | Self::OpenGates
                | Self::OpenKeys
                | Self::OpenOrders
        )
    }

    /// True if a run with this sabotage has policies of its own. Other runs seldom have such policies.
    pub(crate) fn chooses_rules(self) -> bool {
        matches!(self, Self::OpenKeys | Self::OpenOrders)
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
