//! The types of a comparison: servers, measurements and figures.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::heavy::Heavy;
use crate::plot::show_micros;
use crate::table::grouped;

/// A server under test, with its relevant settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Lineshaft(Side, Keeping),
    /// Three nodes of Lineshaft over three servers of NATS, and all processors. Clients use the
    /// leader.
    Cluster,
    Beanstalkd(Binlog),
    /// gearmand, with or without an `SQLite` file for background jobs.
    Gearmand {
        sqlite: bool,
    },
    /// redis-server without persistence.
    Redis,
    /// A stream of NATS in a file. Each message is synced before it is acknowledged, or the file is
    /// synced every two minutes, the default.
    Nats {
        sync_always: bool,
    },
    /// A quorum queue of one RabbitMQ server.
    RabbitMq,
    /// The smallest server, with or without jobs in memory, and with or without a log that it syncs:
    /// see [`crate::bare_loop`].
    BareLoop {
        keeps: bool,
        syncs: bool,
    },
    /// The disk alone, without a server.
    Disk,
}

/// The protocols that clients speak to Lineshaft in a measurement, and the server's settings for
/// this measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Beanstalk,
    Gearman,
    Memcache,
    /// All three protocols, on separate addresses.
    All,
    /// beanstalkd's protocol, on a server with metrics.
    Watched,
    /// All three protocols, on a server with a small memory limit.
    Bounded,
    /// beanstalkd's protocol, on a server that keeps nearly all bodies in the log only.
    StoredBodies,
    /// beanstalkd's protocol, on a server with metrics and a small limit for the records of jobs.
    /// Most jobs of a deep queue are in the log only.
    ColdJobs,
    /// beanstalkd's protocol, on a server with this many I/O threads and both processors.
    Threads(u8),
    /// beanstalkd's protocol, on a server with a limit of leased jobs for each key of one queue.
    Limited,
}

/// The durability of a change when Lineshaft replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keeping {
    /// The server has no log.
    Memory,
    /// On stable storage. The reply waits for the sync.
    SyncAlways,
}

/// The log of beanstalkd, and how often it is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binlog {
    None,
    /// Synced at most every 50 ms, beanstalkd's default.
    Usual,
    EachWrite,
}

pub(crate) const LINESHAFT: Peer = Peer::Lineshaft(Side::Beanstalk, Keeping::Memory);
pub(crate) const LINESHAFT_DURABLE: Peer = Peer::Lineshaft(Side::Beanstalk, Keeping::SyncAlways);
pub(crate) const BEANSTALKD: Peer = Peer::Beanstalkd(Binlog::None);
pub(crate) const BEANSTALKD_LOG: Peer = Peer::Beanstalkd(Binlog::Usual);
pub(crate) const BEANSTALKD_EACH_WRITE: Peer = Peer::Beanstalkd(Binlog::EachWrite);
pub(crate) const BARE_LOOP: Peer = Peer::BareLoop { keeps: false, syncs: false };
pub(crate) const BARE_LOOP_DURABLE: Peer = Peer::BareLoop { keeps: false, syncs: true };
pub(crate) const KEEPING_LOOP: Peer = Peer::BareLoop { keeps: true, syncs: false };
pub(crate) const KEEPING_LOOP_DURABLE: Peer = Peer::BareLoop { keeps: true, syncs: true };

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Peer::Lineshaft(side, keeping) => {
                let side = match side {
                    Side::Beanstalk | Side::Watched => "Lineshaft",
                    Side::Gearman => "Lineshaft's Gearman",
                    Side::Memcache => "Lineshaft's memcache",
                    Side::All => "Lineshaft, all protocols",
                    Side::Bounded => "Lineshaft, all protocols, 1 GiB",
                    Side::StoredBodies => "Lineshaft, bodies in the log",
                    Side::ColdJobs => "Lineshaft, `memory.jobs`",
                    Side::Threads(1) => "Lineshaft, one I/O thread",
                    Side::Threads(2) => "Lineshaft, two I/O threads",
                    Side::Threads(_) => "Lineshaft, many I/O threads",
                    Side::Limited => "Lineshaft, limits for each key",
                };
                let keeping = match keeping {
                    Keeping::Memory => "memory",
                    Keeping::SyncAlways => "sync always",
                };
                return write!(formatter, "{side}, {keeping}");
            }
            Peer::Cluster => "three nodes over NATS",
            Peer::Beanstalkd(Binlog::None) => "beanstalkd",
            Peer::Beanstalkd(Binlog::Usual) => "beanstalkd -b",
            Peer::Beanstalkd(Binlog::EachWrite) => "beanstalkd -b -f 0",
            Peer::Gearmand { sqlite: false } => "gearmand",
            Peer::Gearmand { sqlite: true } => "gearmand -q libsqlite3",
            Peer::Redis => "redis",
            Peer::Nats { sync_always: false } => "NATS JetStream",
            Peer::Nats { sync_always: true } => "NATS JetStream, sync always",
            Peer::RabbitMq => "RabbitMQ, quorum queue",
            Peer::BareLoop { keeps, syncs } => {
                let keeping = if *keeps { " that keeps its jobs" } else { "" };
                let syncing = if *syncs { ", one sync for each round" } else { "" };
                return write!(formatter, "bare loop{keeping}{syncing}");
            }
            Peer::Disk => "append + fdatasync",
        })
    }
}

/// The number of connections, and the number of operations in flight on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) connections: u32,
    pub(crate) depth: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}×{}", self.connections, self.depth)
    }
}

/// A mixture of jobs. It decides how much of the log is live, and how much reclaim must copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mixture {
    /// One queue that is consumed in the order of its jobs.
    InOrder,
    /// A backlog that nobody takes, and another queue that is consumed at once.
    StaticBacklog,
    /// One job that stays buried, and a queue that is consumed at once.
    BuriedJob,
}

impl fmt::Display for Mixture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mixture::InOrder => "a queue consumed in order",
            Mixture::StaticBacklog => "fast traffic beside a static backlog",
            Mixture::BuriedJob => "one buried job under short ones",
        })
    }
}

/// A kind of measurement. A round measures the kinds in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Put(Shape),
    Take(Shape),
    /// Puts with a `use` before each put. The puts use this number of queues in turn. All queues
    /// exist before.
    PutAmong(Shape, u32),
    /// Takes from one queue while this number of queues exists.
    TakeAmong(Shape, u32),
    /// Like `Put`, on servers that are loaded in turn.
    PutInTurn(Shape),
    TakeInTurn(Shape),
    /// Takes from a queue in which most jobs have keys whose limit is reached.
    TakeBlocked(Shape),
    /// Puts into a plain queue, and takes from it, while another queue has such keys.
    PutBeside(Shape),
    TakeBeside(Shape),
    /// Puts on servers whose syncs take this many microseconds.
    PutWithSync(Shape, u32),
    /// Puts and takes of bodies with this many bytes.
    PutOf(Shape, u32),
    TakeOf(Shape, u32),
    /// Put, reserve and delete, in a queue that always has this many jobs.
    Cycle(Shape, u64),
    Trip,
    /// Lateness of delays, ttrs and reserve timeouts, on a busy or an idle server.
    Lateness {
        busy: bool,
    },
    /// Gearman: submits of background jobs.
    Submit(Shape),
    /// Gearman: workers that grab and complete jobs from a queue that is already long.
    Grab(Shape),
    /// Gearman: foreground jobs, from the submit to the result.
    Foreground,
    /// Gearman: sleeping workers. Each is registered for this number of functions.
    IdleWorkers(u32),
    /// A quiet client during heavy requests, on a server that is full of jobs and queues.
    Quiet,
    /// A quiet client during puts of large bodies, on a server without a log.
    QuietInMemory,
    /// A quiet client while a large number of delayed jobs becomes ready at one moment.
    Burst,
    JobMemory,
    /// Puts of all kinds and sizes, up to the memory limit.
    MemoryLimit,
    IdleConnections,
    /// A queue with very many jobs.
    DeepQueue,
    /// A cluster whose leader is killed.
    Takeover,
    /// The size of the log, and the bytes that are written to it.
    LogUse(Mixture),
    /// A restart with a million small jobs, or with ten times as many larger ones.
    Restart {
        large: bool,
    },
    BareSync,
}

impl Work {
    /// True if all servers run at the same time and are measured in short turns, so that they have
    /// the same conditions.
    pub(crate) fn is_measured_in_turn(self) -> bool {
        match self {
            Work::PutAmong(..)
            | Work::TakeAmong(..)
            | Work::PutInTurn(_)
            | Work::TakeInTurn(_)
            | Work::TakeBlocked(_)
            | Work::PutBeside(_)
            | Work::TakeBeside(_)
            | Work::PutWithSync(..)
            | Work::Trip
            | Work::Foreground => true,
            Work::Put(_)
            | Work::Take(_)
            | Work::PutOf(..)
            | Work::TakeOf(..)
            | Work::Cycle(..)
            | Work::Lateness { .. }
            | Work::Submit(_)
            | Work::Grab(_)
            | Work::IdleWorkers(_)
            | Work::Quiet
            | Work::QuietInMemory
            | Work::Burst
            | Work::JobMemory
            | Work::MemoryLimit
            | Work::IdleConnections
            | Work::DeepQueue
            | Work::Takeover
            | Work::LogUse(_)
            | Work::Restart { .. }
            | Work::BareSync => false,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Put(shape) | Work::PutInTurn(shape) => write!(formatter, "put, {shape}"),
            Work::Take(shape) | Work::TakeInTurn(shape) => {
                write!(formatter, "reserve + delete, {shape}")
            }
            Work::PutAmong(shape, 1) => write!(formatter, "use + put, {shape}, one queue"),
            Work::PutAmong(shape, queues) => {
                write!(formatter, "use + put, {shape}, {queues} queues")
            }
            Work::TakeAmong(shape, 1) => {
                write!(formatter, "reserve + delete, {shape}, one other queue")
            }
            Work::TakeAmong(shape, queues) => {
                write!(formatter, "reserve + delete, {shape}, among {queues} queues")
            }
            Work::TakeBlocked(shape) => {
                write!(formatter, "reserve + delete, {shape}, most keys at their limit")
            }
            Work::PutBeside(shape) => {
                write!(formatter, "put, {shape}, another queue has keys at their limit")
            }
            Work::TakeBeside(shape) => {
                write!(
                    formatter,
                    "reserve + delete, {shape}, another queue has keys at their limit"
                )
            }
            Work::PutWithSync(shape, micros) => {
                write!(formatter, "put, {shape}, a sync takes {}", show_micros((*micros).into()))
            }
            Work::PutOf(shape, bytes) => write!(formatter, "put, {shape}, {}", body_size(*bytes)),
            Work::TakeOf(shape, bytes) => {
                write!(formatter, "reserve + delete, {shape}, {}", body_size(*bytes))
            }
            Work::Cycle(shape, jobs) => {
                write!(formatter, "put + reserve + delete, {shape}, among {} jobs", grouped(*jobs))
            }
            Work::Trip => formatter.write_str("put to waiting consumer"),
            Work::Lateness { busy: false } => formatter.write_str("timers, idle server"),
            Work::Lateness { busy: true } => formatter.write_str("timers, busy server"),
            Work::Submit(shape) => write!(formatter, "background submit, {shape}"),
            Work::Grab(shape) => write!(formatter, "grab + complete, {shape}, long queue"),
            Work::Foreground => formatter.write_str("foreground job to its result"),
            Work::IdleWorkers(functions) => {
                write!(formatter, "sleeping workers of {functions} functions")
            }
            Work::Quiet => formatter.write_str("a quiet client beside heavy requests"),
            Work::QuietInMemory => formatter.write_str("a quiet client beside large bodies"),
            Work::Burst => formatter.write_str("a quiet client while delayed jobs become ready"),
            Work::MemoryLimit => formatter.write_str("a mixture up to the limit of memory"),
            Work::JobMemory => formatter.write_str("memory of jobs"),
            Work::IdleConnections => formatter.write_str("idle connections"),
            Work::Takeover => formatter.write_str("a takeover"),
            Work::DeepQueue => formatter.write_str("a deep queue"),
            Work::LogUse(mixture) => write!(formatter, "log, {mixture}"),
            Work::Restart { large: false } => formatter.write_str("restart"),
            Work::Restart { large: true } => formatter.write_str("restart, large"),
            Work::BareSync => formatter.write_str("one write at a time"),
        }
    }
}

/// The size of a body, in words.
fn body_size(bytes: u32) -> String {
    if bytes >= 1 << 20 {
        format!("bodies of {} MiB", bytes >> 20)
    } else {
        format!("bodies of {} KiB", bytes >> 10)
    }
}

impl Work {
    /// True if these two kinds of work are measured together: they are equal, or differ only in the
    /// number of queues.
    pub(crate) fn goes_with(self, other: Self) -> bool {
        match (self, other) {
            (Work::PutAmong(one, _), Work::PutAmong(two, _))
            | (Work::TakeAmong(one, _), Work::TakeAmong(two, _)) => one == two,
            _ => self == other,
        }
    }
}

/// One measurement on one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    /// This field is the first one, so that the cells of one measurement are sorted next to each
    /// other.
    pub(crate) work: Work,
    pub(crate) peer: Peer,
}

/// The disk alone. Every run measures it, because durable figures depend on it.
pub(crate) const BARE_SYNC: Cell = Cell { work: Work::BareSync, peer: Peer::Disk };

/// A figure of a measurement. Its name includes the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    OperationsPerSecond,
    CpuMicrosPerOperation,
    /// The part of the server's processor time during which a thread held the broker's lock.
    LockShare,
    /// The part of the time of the generator's processor that the generator used.
    GeneratorShare,
    /// The part of the time of the server's processor that other programs used.
    ForeignShare,
    P50Micros,
    P99Micros,
    LongestMicros,
    DelayLateP99Micros,
    TtrLateP99Micros,
    TimeoutLateP99Micros,
    /// The p99 of the time that put, reserve and delete of a quiet client take during this load.
    QuietP99Micros(Heavy),
    /// The longest time that put, reserve and delete of a quiet client take during this load.
    QuietLongestMicros(Heavy),
    /// Like `QuietP99Micros`, but without the time in which a thread that the quiet client needs
    /// was ready to run, and waited for its processor.
    QuietRunningP99Micros(Heavy),
    /// The quiet client's p99 during this load, divided by its p99 without a load.
    Slowdown(Heavy),
    BytesPerJob,
    /// Resident bytes for each job of a deep queue, without the first part of the queue.
    BytesPerTailJob,
    /// The highest resident memory while a deep queue is filled.
    ResidentBytes,
    PutRate {
        deep: bool,
    },
    TakeRate {
        deep: bool,
    },
    /// The rate of puts into a deep queue, divided by the rate with a short queue.
    DeepPutRatio,
    DeepTakeRatio,
    /// The same, for takes of all jobs of the deep queue.
    DeepDrainRatio,
    /// The highest value of: bytes on disk, divided by twice the live bytes plus 4 segments.
    DiskOfBound,
    /// Bytes written to the log, divided by the bytes of clients' own entries.
    WrittenOfClients,
    /// The part of the memory of deleted jobs that the server gave back to the system.
    GivenBack,
    BytesPerConnection,
    /// Resident memory, divided by the memory limit.
    OfLimit,
    Seconds,
}

impl Metric {
    /// Shows a figure with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Metric::OperationsPerSecond | Metric::PutRate { .. } | Metric::TakeRate { .. } => {
                format!("{}/s", crate::table::show_count(value))
            }
            Metric::CpuMicrosPerOperation => format!("{} µs", crate::table::three_digits(value)),
            Metric::P50Micros
            | Metric::P99Micros
            | Metric::LongestMicros
            | Metric::DelayLateP99Micros
            | Metric::TtrLateP99Micros
            | Metric::TimeoutLateP99Micros
            | Metric::QuietP99Micros(_)
            | Metric::QuietLongestMicros(_)
            | Metric::QuietRunningP99Micros(_) => crate::latency::show_micros(value),
            Metric::Slowdown(_)
            | Metric::OfLimit
            | Metric::DeepPutRatio
            | Metric::DeepTakeRatio
            | Metric::DeepDrainRatio
            | Metric::DiskOfBound
            | Metric::WrittenOfClients => format!("{}×", crate::table::three_digits(value)),
            Metric::BytesPerTailJob => format!("{value:.1} B"),
            Metric::ResidentBytes => format!("{:.0} MiB", value / f64::from(1 << 20)),
            Metric::BytesPerJob | Metric::BytesPerConnection => format!("{value:.0} B"),
            Metric::GivenBack
            | Metric::GeneratorShare
            | Metric::ForeignShare
            | Metric::LockShare => format!("{:.0} %", value * 100.0),
            Metric::Seconds => crate::latency::show_micros(value * 1e6),
        }
    }

    /// The name of the figure, in words.
    pub(crate) fn name(self) -> String {
        let name = match self {
            Metric::OperationsPerSecond => "rate",
            Metric::CpuMicrosPerOperation => "server CPU per operation",
            Metric::LockShare => "processor time under the lock",
            Metric::GeneratorShare => "generator busy",
            Metric::ForeignShare => "processor lost to others",
            Metric::P50Micros => "p50",
            Metric::P99Micros => "p99",
            Metric::LongestMicros => "longest",
            Metric::DelayLateP99Micros => "delay, late p99",
            Metric::TtrLateP99Micros => "ttr, late p99",
            Metric::TimeoutLateP99Micros => "timeout, late p99",
            Metric::QuietP99Micros(heavy) => return format!("{heavy}: p99"),
            Metric::QuietLongestMicros(heavy) => return format!("{heavy}: longest"),
            Metric::QuietRunningP99Micros(heavy) => {
                return format!("{heavy}: p99 without waits for a processor");
            }
            Metric::Slowdown(heavy) => return format!("{heavy}: p99 to that without"),
            Metric::BytesPerJob => "memory per job",
            Metric::BytesPerTailJob => "memory per job of the tail",
            Metric::ResidentBytes => "resident memory",
            Metric::PutRate { deep: false } => "puts, short queue",
            Metric::PutRate { deep: true } => "puts, deep queue",
            Metric::TakeRate { deep: false } => "reserve + delete, short queue",
            Metric::TakeRate { deep: true } => "reserve + delete, deep queue",
            Metric::DeepPutRatio => "puts, deep to short",
            Metric::DeepTakeRatio => "reserve + delete, deep to short",
            Metric::DeepDrainRatio => "reserve + delete of all jobs, deep to short",
            Metric::DiskOfBound => "disk to its bound",
            Metric::WrittenOfClients => "written to clients' bytes",
            Metric::GivenBack => "given back",
            Metric::BytesPerConnection => "memory per connection",
            Metric::OfLimit => "resident memory to the limit",
            Metric::Seconds => "time",
        };
        name.to_owned()
    }
}

/// The figures of one measurement.
pub(crate) type Sample = BTreeMap<Metric, f64>;
