//! Entries that put jobs by schedules, over crashes at each call of the disk: no instant is lost,
//! and none comes twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use lineshaft_broker::crons::{CatchUp, CronEntry, CronTable, Overlap};
use lineshaft_broker::{Broker, JobId, Millis, Options, Patience, Take};

const MINUTE: u64 = 60_000;
const START: Millis = Millis(100 * MINUTE + 5_000);
const END: Millis = Millis(START.0 + 8 * MINUTE);

fn table() -> CronTable {
    CronTable(vec![CronEntry {
        name: b"tick"[..].into(),
        queue: b"default"[..].into(),
        cron: "* * * * *".parse().expect("a cron expression"),
        zone: "UTC".parse().expect("a time zone"),
        // A few bodies fill a segment. So the entries of a job and of its firing are often in two
        // segments, and a crash separates them.
        body: vec![b'x'; 9_000].into(),
        overlap: Overlap::Queue,
        catch_up: CatchUp::All,
        jitter_ms: 0,
        line: 0,
    }])
}

fn open(disk: &log::FaultDisk, now: Millis) -> Option<Broker> {
    let settings = log::Settings { segment_bytes: 64 << 10, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), settings);
    let broker = Broker::open(options, now).ok()?.0;
    let _ = broker.turn(now).set_crons(table());
    Some(broker)
}

/// Takes a job and ends it, if there is one.
fn work(broker: &Broker, now: Millis) -> Option<JobId> {
    let mut turn = broker.turn(now);
    let session = turn.open_session(0);
    let Take::Granted(handout) = turn.caller(session).take(Patience::None).value else {
        return None;
    };
    turn.caller(session).finish(handout.id).value.expect("it is held");
    Some(handout.id)
}

fn commit(broker: &Broker, now: Millis) -> bool {
    broker.commit_step(now).is_ok() && broker.prepare_step().is_ok()
}

/// Runs until `END`, with a crash at this call of the disk. Checks that a worker sees one job for each
/// instant. Returns whether there was a crash.
fn run(call: u64, works: bool) -> bool {
    let disk = log::FaultDisk::new(call, 32 << 20);
    let mut broker = open(&disk, START).expect("the disk is empty");
    assert!(commit(&broker, START), "the log has the entry");
    disk.crash_at(disk.calls() + call);
    let (mut now, mut seen, mut crashed) = (START, BTreeSet::new(), false);
    while now < END {
        now = Millis(now.0 + 20_000);
        let mut turn = broker.turn(now);
        while turn.advance() {}
        drop(turn);
        // A worker sees only jobs that are durable.
        let mut is_whole = commit(&broker, now);
        if is_whole && works {
            seen.extend(work(&broker, now));
            is_whole = commit(&broker, now);
        }
        if !is_whole {
            assert!(!crashed, "the disk crashes once");
            crashed = true;
            drop(broker);
            disk.crash();
            disk.restart();
            disk.plan_nothing();
            now = Millis(now.0 + 90_000);
            broker = open(&disk, now).expect("the log is whole");
        }
    }
    let mut turn = broker.turn(now);
    while turn.advance() {}
    drop(turn);
    while let Some(id) = work(&broker, now) {
        seen.insert(id);
    }
    let instants = (now.0 / MINUTE - START.0 / MINUTE) as usize;
    assert_eq!(seen.len(), instants, "crash at call {call}");
    crashed
}

#[test]
fn each_instant_has_one_job_over_a_crash_at_each_call_of_the_disk() {
    for works in [false, true] {
        for call in 1.. {
            if !run(call, works) {
                assert!(call > 20, "there were crashes");
                break;
            }
        }
    }
}
