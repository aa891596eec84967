//! All rows: the measurements that are compared, and the expected results.

use super::gearman;
use super::heavy::Heavy;
use super::row::{Goal, Row, cell, rate, row, shape};
use super::sizes::MEMORY_LIMIT;
use super::work::{
    BARE_LOOP, BARE_LOOP_DURABLE, BARE_SYNC, BEANSTALKD, BEANSTALKD_EACH_WRITE, BEANSTALKD_LOG,
    KEEPING_LOOP, KEEPING_LOOP_DURABLE, LINESHAFT, LINESHAFT_DURABLE,
};
use super::work::{Cell, Keeping, Metric, Mixture, Peer, Side, Work};

/// Lineshaft with a small limit for the records of jobs.
const COLD_JOBS: Peer = Peer::Lineshaft(Side::ColdJobs, Keeping::SyncAlways);
/// Lineshaft with a limit of leased jobs for each key of one queue.
const LIMITED: Peer = Peer::Lineshaft(Side::Limited, Keeping::Memory);
/// The number of queues in the rows that measure the cost of many queues.
const MANY: u32 = 20_000;

/// The number of jobs that the cost among more jobs is compared with.
const FEW_JOBS: u64 = 1_000;
/// The numbers of jobs. A setting leaves out the largest.
const MORE_JOBS: [u64; 5] = [10_000, 100_000, 1_000_000, 10_000_000, 30_000_000];

/// The times of a sync that are compared, in microseconds.
const SYNC_MICROS: [u32; 5] = [50, 150, 300, 1000, 5000];

/// All rows, in the order of the result.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = throughput();
    rows.extend(limits());
    rows.extend(sync_times());
    rows.extend(many_queues());
    rows.extend(blocked_keys());
    rows.extend(lock());
    rows.extend(threads());
    rows.extend(among_jobs());
    rows.extend(bodies());
    rows.extend(brokers());
    rows.extend(cluster());
    rows.extend(gearman::rows());
    rows.extend(memcache());
    rows.extend(latency());
    rows.extend(heavy());
    rows.extend(memory());
    rows.extend(deep_queue());
    rows.extend(restart());
    rows.extend(log_use());
    rows.push(row(
        "D5",
        "CPU per put, 50×1, sync always against memory",
        Metric::CpuMicrosPerOperation,
        cell(LINESHAFT_DURABLE, Work::Put(shape(50, 1))),
        Some(cell(LINESHAFT, Work::Put(shape(50, 1)))),
        Goal::RatioAtMost(2.0, 1.4),
    ));
    rows
}

fn throughput() -> Vec<Row> {
    use Goal::RatioAtLeast as AtLeast;
    use Peer::{Disk, Redis};
    let (single, pipelined) = (shape(50, 1), shape(50, 32));
    let put = |id, load, ours, theirs, goal| rate(id, Work::Put(load), ours, theirs, goal);
    let take = |id, load, theirs, goal| rate(id, Work::Take(load), LINESHAFT, theirs, goal);
    let mut lone = rate("T10", Work::Put(shape(1, 1)), LINESHAFT_DURABLE, Disk, AtLeast(0.6, 0.75));
    lone.theirs = Some(BARE_SYNC);
    vec![
        put("T1", single, LINESHAFT, BEANSTALKD, AtLeast(1.05, 1.25)),
        put("T2", pipelined, LINESHAFT, BEANSTALKD, AtLeast(10.0, 20.0)),
        take("T3", single, BEANSTALKD, AtLeast(1.1, 1.4)),
        take("T4", pipelined, BEANSTALKD, AtLeast(8.0, 14.0)),
        put("T5", pipelined, LINESHAFT, Redis, AtLeast(0.8, 1.2)),
        take("T5", pipelined, Redis, AtLeast(0.3, 0.6)),
        put("T6", single, LINESHAFT_DURABLE, BEANSTALKD_EACH_WRITE, AtLeast(8.0, 15.0)),
        put("T7", shape(500, 1), LINESHAFT_DURABLE, BEANSTALKD_EACH_WRITE, AtLeast(12.0, 20.0)),
        put("T8", pipelined, LINESHAFT_DURABLE, BEANSTALKD_EACH_WRITE, AtLeast(80.0, 250.0)),
        put("T9", single, LINESHAFT_DURABLE, BEANSTALKD_LOG, AtLeast(0.8, 1.2)),
        lone,
    ]
}

/// The rows about the most that any server with one thread can reach: the bare loop against the
/// same servers as Lineshaft.
fn limits() -> Vec<Row> {
    let (single, pipelined) = (shape(50, 1), shape(50, 32));
    let put = |id, load, ours, theirs| rate(id, Work::Put(load), ours, theirs, Goal::Shown);
    let mut rows = vec![
        put("T1m", single, BARE_LOOP, BEANSTALKD),
        put("T2m", pipelined, BARE_LOOP, BEANSTALKD),
        put("T2k", pipelined, KEEPING_LOOP, BEANSTALKD),
        put("T6m", single, BARE_LOOP_DURABLE, BEANSTALKD_EACH_WRITE),
        put("T7m", shape(500, 1), BARE_LOOP_DURABLE, BEANSTALKD_EACH_WRITE),
        put("T8m", pipelined, BARE_LOOP_DURABLE, BEANSTALKD_EACH_WRITE),
        put("T8k", pipelined, KEEPING_LOOP_DURABLE, BEANSTALKD_EACH_WRITE),
        put("T9m", single, BARE_LOOP_DURABLE, BEANSTALKD_LOG),
    ];
    for (name, metric) in [("p50", Metric::P50Micros), ("p99", Metric::P99Micros)] {
        let what = format!("put to waiting consumer, quiet server, {name}");
        let (ours, theirs) = (cell(BARE_LOOP, Work::Trip), cell(BEANSTALKD, Work::Trip));
        rows.push(row("L1m", &what, metric, ours, Some(theirs), Goal::Shown));
    }
    rows
}

/// The rows about disks of other speeds.
fn sync_times() -> Vec<Row> {
    let mut rows = Vec::new();
    for (connections, micros) in [1, 10, 50, 500]
        .into_iter()
        .flat_map(|connections| SYNC_MICROS.map(|micros| (connections, micros)))
    {
        let work = Work::PutWithSync(shape(connections, 1), micros);
        let (id, goal) = if connections == 50 && micros <= 1000 {
            ("T9b", Goal::RatioAtLeast(0.8, 1.0))
        } else {
            ("T9c", Goal::Shown)
        };
        rows.push(rate(id, work, LINESHAFT_DURABLE, BEANSTALKD_LOG, goal));
        if id == "T9b" {
            rows.push(rate("T9bm", work, BARE_LOOP_DURABLE, BEANSTALKD_LOG, Goal::Shown));
        }
        // A put of each of 500 connections would take seconds.
        if connections < 500 || micros <= 1000 {
            rows.push(rate("T9c", work, LINESHAFT_DURABLE, BEANSTALKD_EACH_WRITE, Goal::Shown));
        }
    }
    rows
}

/// The rows of Kestrel's memcache protocol. Its `get` takes and finishes an item at once, like
/// Redis' `RPOP`.
fn memcache() -> Vec<Row> {
    use Goal::RatioAtLeast as AtLeast;
    let mut rows = Vec::new();
    for (load, goal) in [(shape(50, 1), AtLeast(0.8, 1.0)), (shape(50, 32), AtLeast(0.5, 1.0))] {
        for (name, work) in [("SET", Work::Put(load)), ("GET", Work::Take(load))] {
            let mut row = rate(
                "T15",
                work,
                Peer::Lineshaft(Side::Memcache, Keeping::Memory),
                Peer::Redis,
                goal,
            );
            row.what = format!("{name}, {load}");
            rows.push(row);
        }
    }
    rows
}

/// The rows that compare many queues with one queue. Each server is compared with itself.
fn many_queues() -> Vec<Row> {
    let goal = Goal::RatioAtLeast(0.8, 0.95);
    let mut rows = Vec::new();
    for (peer, goal) in [(LINESHAFT, goal), (BEANSTALKD, Goal::Shown)] {
        let mut against_one = |many, one| {
            let mut row = rate("T16", many, peer, peer, goal);
            row.theirs = Some(cell(peer, one));
            rows.push(row);
        };
        for load in [shape(50, 1), shape(50, 32)] {
            against_one(Work::PutAmong(load, MANY), Work::PutAmong(load, 1));
        }
        let load = shape(50, 1);
        against_one(Work::TakeAmong(load, MANY), Work::TakeAmong(load, 1));
    }
    rows
}

/// The rows about limits for each key: takes from a queue with many jobs that must wait, and other
/// queues of the same server. The other server has the same jobs and no limit.
fn blocked_keys() -> Vec<Row> {
    let row = |id, work, goal| rate(id, work, LIMITED, LINESHAFT, goal);
    let [lone, single] = [shape(1, 1), shape(50, 1)];
    let goal = Goal::RatioAtLeast(0.5, 0.8);
    vec![
        row("T21", Work::TakeBlocked(lone), goal),
        row("T21", Work::TakeBlocked(single), goal),
        row("T21b", Work::PutBeside(single), Goal::Shown),
        row("T21b", Work::TakeBeside(single), Goal::Shown),
    ]
}

/// The rows about the part of a request that threads cannot run in parallel.
fn lock() -> Vec<Row> {
    let watched = Peer::Lineshaft(Side::Watched, Keeping::Memory);
    let row = |work: Work| {
        let what = format!("processor time under the lock: {work}");
        row("T17", &what, Metric::LockShare, cell(watched, work), None, Goal::AtMost(0.2, 0.1))
    };
    vec![row(Work::Put(shape(50, 1))), row(Work::Take(shape(50, 1)))]
}

/// Two I/O threads compared with one. The result is only shown, not judged, because on a machine
/// with two processors the generator uses one of them.
fn threads() -> Vec<Row> {
    let [one, two] = [1, 2].map(|threads| Peer::Lineshaft(Side::Threads(threads), Keeping::Memory));
    let row = |work| rate("T17b", work, two, one, Goal::Shown);
    let shapes = [shape(50, 1), shape(50, 32)];
    shapes
        .into_iter()
        .flat_map(|shape| [row(Work::PutInTurn(shape)), row(Work::TakeInTurn(shape))])
        .collect()
}

/// The cost of an operation while many jobs are in the queue. Each server is compared with itself.
fn among_jobs() -> Vec<Row> {
    let mut rows = Vec::new();
    for peer in [LINESHAFT, BEANSTALKD, LINESHAFT_DURABLE] {
        for jobs in MORE_JOBS {
            let [many, few] = [jobs, FEW_JOBS].map(|jobs| Work::Cycle(shape(50, 32), jobs));
            let theirs = Some(cell(peer, few));
            let metric = Metric::CpuMicrosPerOperation;
            let what = format!("CPU of {many}");
            rows.push(row("T18", &what, metric, cell(peer, many), theirs, Goal::Shown));
        }
    }
    rows
}

/// Bodies of other sizes.
fn bodies() -> Vec<Row> {
    let mut rows = Vec::new();
    for bytes in [1 << 10, 64 << 10, 1 << 20] {
        let single = shape(50, 1);
        let (put, take) = (Work::PutOf(single, bytes), Work::TakeOf(single, bytes));
        for (work, ours, theirs) in [
            (put, LINESHAFT, BEANSTALKD),
            (put, LINESHAFT, Peer::Redis),
            (take, LINESHAFT, BEANSTALKD),
            (take, LINESHAFT, Peer::Redis),
            (put, LINESHAFT_DURABLE, BEANSTALKD_EACH_WRITE),
        ] {
            rows.push(rate("T19", work, ours, theirs, Goal::Shown));
        }
    }
    rows
}

/// Other servers that keep jobs on disk.
fn brokers() -> Vec<Row> {
    let mut rows = Vec::new();
    for shape in [shape(50, 1), shape(50, 32)] {
        for work in [Work::Put(shape), Work::Take(shape)] {
            for peer in [
                Peer::Nats { sync_always: true },
                Peer::Nats { sync_always: false },
                Peer::RabbitMq,
            ] {
                rows.push(rate("T20", work, LINESHAFT_DURABLE, peer, Goal::Shown));
            }
        }
    }
    rows
}

/// A cluster, and one node alone. Both use all processors.
fn cluster() -> Vec<Row> {
    let alone = Peer::Lineshaft(Side::Threads(1), Keeping::SyncAlways);
    let (lone, single, pipelined) = (shape(1, 1), shape(50, 1), shape(50, 32));
    let rate = |id, work, goal| rate(id, work, Peer::Cluster, alone, goal);
    let time = |id, what, metric, work, goal| {
        row(id, what, metric, cell(Peer::Cluster, work), Some(cell(alone, work)), goal)
    };
    let (put, p50) = (Work::Put(lone), Metric::P50Micros);
    vec![
        rate("C1", put, Goal::Shown),
        time("C1", "put, 1×1, p50", p50, put, Goal::AtMost(2e3, 1e3)),
        rate("C2", Work::Put(single), Goal::Shown),
        rate("C3", Work::Put(pipelined), Goal::RatioAtLeast(0.5, 0.75)),
        rate("C4", Work::Take(single), Goal::Shown),
        rate("C4", Work::Take(pipelined), Goal::Shown),
        time("C5", "put to waiting consumer, p50", p50, Work::Trip, Goal::Shown),
        time("C5", "put to waiting consumer, p99", Metric::P99Micros, Work::Trip, Goal::Shown),
        row(
            "C6",
            "a killed leader: time without an acknowledgement",
            Metric::Seconds,
            cell(Peer::Cluster, Work::Takeover),
            None,
            Goal::AtMost(5.0, 2.0),
        ),
    ]
}

fn latency() -> Vec<Row> {
    let mut rows = Vec::new();
    for (metric, name) in [(Metric::P50Micros, "p50"), (Metric::P99Micros, "p99")] {
        rows.push(row(
            "L1",
            &format!("put to waiting consumer, quiet server, {name}"),
            metric,
            cell(LINESHAFT, Work::Trip),
            Some(cell(BEANSTALKD, Work::Trip)),
            Goal::RatioAtMost(1.0, 0.8),
        ));
    }
    for busy in [false, true] {
        let metrics = [
            (Metric::DelayLateP99Micros, "delay"),
            (Metric::TtrLateP99Micros, "ttr on idle connections"),
            (Metric::TimeoutLateP99Micros, "reserve-with-timeout"),
        ];
        for (metric, name) in metrics {
            let state = if busy { "busy" } else { "idle" };
            rows.push(row(
                "L4",
                &format!("{name}: lateness p99, {state} server"),
                metric,
                cell(LINESHAFT, Work::Lateness { busy }),
                Some(cell(BEANSTALKD, Work::Lateness { busy })),
                Goal::AtMost(50e3, 5e3),
            ));
        }
    }
    rows
}

/// A quiet client during a burst, and during each load, compared with the same client without load.
fn heavy() -> Vec<Row> {
    let full = Peer::Lineshaft(Side::All, Keeping::SyncAlways);
    let burst = row(
        "L2",
        "a quiet client's p99 while 1,000,000 jobs become ready at one moment",
        Metric::P99Micros,
        cell(full, Work::Burst),
        None,
        Goal::AtMost(20e3, 5e3),
    );
    let beside = |kind: Heavy, cell: Cell| {
        let what = format!("a quiet client's p99 beside {kind}");
        let is_yardstick = Heavy::YARDSTICKS.contains(&kind);
        let goal = if is_yardstick { Goal::Shown } else { Goal::AtMost(2.0, 1.3) };
        row("L3", &what, Metric::Slowdown(kind), cell, None, goal)
    };
    let in_memory = cell(Peer::Lineshaft(Side::All, Keeping::Memory), Work::QuietInMemory);
    let mut rows = vec![burst];
    let with_log = Heavy::ALL.into_iter().filter(|kind| !Heavy::IN_MEMORY.contains(kind));
    rows.extend(with_log.map(|kind| beside(kind, cell(full, Work::Quiet))));
    rows.extend(Heavy::IN_MEMORY.map(|kind| beside(kind, in_memory)));
    rows
}

fn memory() -> Vec<Row> {
    let against = |id, what, metric, work, goal| {
        row(id, what, metric, cell(LINESHAFT, work), Some(cell(BEANSTALKD, work)), goal)
    };
    vec![
        against(
            "M1",
            "per ready 100-byte job",
            Metric::BytesPerJob,
            Work::JobMemory,
            Goal::AtMost(250.0, 200.0),
        ),
        row(
            "M2",
            "per ready 100-byte job whose body is in the log only",
            Metric::BytesPerJob,
            cell(Peer::Lineshaft(Side::StoredBodies, Keeping::SyncAlways), Work::JobMemory),
            None,
            Goal::AtMost(150.0, 100.0),
        ),
        against(
            "M4",
            "given back 3 s after deletion in random order",
            Metric::GivenBack,
            Work::JobMemory,
            Goal::AtLeast(0.8, 0.95),
        ),
        against(
            "M5",
            "per idle connection",
            Metric::BytesPerConnection,
            Work::IdleConnections,
            Goal::AtMost(1500.0, 800.0),
        ),
        row(
            "M7",
            &format!("resident memory to a limit of {} GiB, a mixture", MEMORY_LIMIT >> 30),
            Metric::OfLimit,
            cell(Peer::Lineshaft(Side::Bounded, Keeping::SyncAlways), Work::MemoryLimit),
            None,
            Goal::AtMost(1.1, 1.05),
        ),
    ]
}

/// A queue with so many jobs that most of them are in the log only.
fn deep_queue() -> Vec<Row> {
    const GIB: f64 = (1 << 30) as f64;
    let row =
        |what, metric, goal| row("M3", what, metric, cell(COLD_JOBS, Work::DeepQueue), None, goal);
    let as_fast = Goal::AtLeast(0.7, 0.7);
    vec![
        row(
            "per job of the long tail of a deep queue",
            Metric::BytesPerTailJob,
            Goal::AtMost(10.0, 2.0),
        ),
        row(
            "resident memory while a deep queue is filled and emptied",
            Metric::ResidentBytes,
            Goal::AtMost(GIB, GIB),
        ),
        row("put, 50×32, deep queue to short queue", Metric::DeepPutRatio, as_fast),
        row("reserve + delete, 50×32, deep queue to short queue", Metric::DeepTakeRatio, as_fast),
        row(
            "reserve + delete of all jobs, 50×32, deep queue to short queue",
            Metric::DeepDrainRatio,
            as_fast,
        ),
    ]
}

fn restart() -> Vec<Row> {
    let row = |id, what, ours, large, goal| {
        let theirs = Some(cell(BEANSTALKD_LOG, Work::Restart { large }));
        row(id, what, Metric::Seconds, cell(ours, Work::Restart { large }), theirs, goal)
    };
    let small = "restart with 1,000,000 jobs of 20 bytes";
    let large = "restart with 10,000,000 jobs of 100 bytes";
    let within = Goal::AtMost(6.0, 2.0);
    vec![
        row("D1", small, LINESHAFT_DURABLE, false, Goal::SpeedUpAtLeast(3.0, 10.0)),
        row("D1", small, COLD_JOBS, false, Goal::SpeedUpAtLeast(3.0, 10.0)),
        row("D2", large, LINESHAFT_DURABLE, true, within),
        row("D2", large, COLD_JOBS, true, within),
    ]
}

/// The bytes of the log's files, and the bytes written to them.
fn log_use() -> Vec<Row> {
    let watched = Peer::Lineshaft(Side::Watched, Keeping::SyncAlways);
    let row = |id, what: &str, metric, mixture, goal| {
        let what = format!("{what}: {mixture}");
        row(id, &what, metric, cell(watched, Work::LogUse(mixture)), None, goal)
    };
    // The floor of the goal is 2 × live bytes + 4 segments. The reach, 1.85 × live bytes + 3
    // segments, depends on the live bytes: it is three quarters of the floor if nearly nothing is
    // live, and 0.87 of the floor with the jobs of a full run.
    let disk = |mixture, reach| {
        // The lock file and the extents of the file system use a few blocks more.
        let goal = Goal::AtMost(1.001, reach);
        row("D3", "bytes on disk to 2 × live + 4 segments", Metric::DiskOfBound, mixture, goal)
    };
    let written = |mixture, goal| {
        row("D4", "log bytes written to those of clients", Metric::WrittenOfClients, mixture, goal)
    };
    vec![
        disk(Mixture::InOrder, 0.87),
        disk(Mixture::StaticBacklog, 0.87),
        disk(Mixture::BuriedJob, 0.75),
        written(Mixture::InOrder, Goal::AtMost(1.3, 1.05)),
        written(Mixture::StaticBacklog, Goal::AtMost(2.5, 2.2)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::row::Verdict;
    use super::*;

    #[test]
    fn every_reach_is_at_least_as_hard_as_its_floor() {
        for row in all() {
            if let Some((_, reach)) = row.goal.bounds() {
                assert_eq!(row.goal.verdict(Some(reach)), Verdict::Reach, "{row:?}");
            }
            if let Some((floor, _)) = row.goal.bounds() {
                assert_ne!(row.goal.verdict(Some(floor)), Verdict::Below, "{row:?}");
            }
        }
    }
}
