//! Large bodies that the log shares with its owner until they are written.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use lineshaft_log::{
    BodyRef, Current, FaultDisk, Log, Meta, Owner, Position, QueueRef, Restored, Settings, Slot,
};

type Body = triomphe::Arc<[u8]>;

const QUEUE: QueueRef<'static> = QueueRef { number: 0, name: b"mails" };
const NOW: u64 = 1000;
/// The size of the smallest body that is not copied.
const LARGE: usize = 64 << 10;

fn meta(id: u64) -> Meta<'static> {
    Meta { id, priority: 7, ttr: 60, created_ms: 1, due_ms: 0, state: 0, options: b"opt" }
}

fn body(id: u64, bytes: usize) -> Body {
    (0..bytes).map(|at| (id as usize * 7 + at) as u8).collect()
}

fn shares(body: &Body) -> usize {
    Body::strong_count(body)
}

/// Opens a log with small segments. Also returns the bodies of its jobs.
fn open(disk: &FaultDisk) -> (Log, BTreeMap<u64, Vec<u8>>) {
    let settings = Settings { segment_bytes: 256 << 10, ..Settings::default() };
    let mut bodies = BTreeMap::new();
    let (log, _) = Log::open(Arc::new(disk.clone()), settings, NOW, &mut |restored| {
        if let Restored::Job { meta, body, .. } = restored {
            bodies.insert(meta.id, body.read().unwrap().to_vec());
        }
    })
    .unwrap();
    (log, bodies)
}

/// The bodies that a start finds after a power failure.
fn after_a_crash(disk: &FaultDisk) -> BTreeMap<u64, Vec<u8>> {
    disk.crash();
    open(disk).1
}

#[test]
fn a_large_body_is_not_copied() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    let (large, small) = (body(1, LARGE), body(2, LARGE - 1));
    let (first, _) = log.put(NOW, QUEUE, &meta(1), &large);
    log.put(NOW, QUEUE, &meta(2), &small);
    log.put_many(NOW, &[(QUEUE, meta(3)), (QUEUE, meta(4))], &large, &mut Vec::new());
    log.import(NOW, QUEUE, &meta(5), &large);
    log.replace(NOW, first, QUEUE, &meta(1), &large);
    assert_eq!((shares(&large), shares(&small)), (1 + 4, 1));
    assert!(log.open_batch_bytes() > 5 * (LARGE - 1), "the batch counts them");
    log.commit_step(NOW).unwrap();
    assert_eq!(shares(&large), 1, "all of them are written");
    let bodies = after_a_crash(&disk);
    assert_eq!(bodies.len(), 5);
    for (id, found) in bodies {
        let expected = if id == 2 { &small } else { &large };
        assert!(found == **expected, "job {id}");
    }
}

#[test]
fn a_crash_between_the_writes_of_a_group_leaves_all_of_it_or_nothing() {
    let mut crashes = 0;
    for call in 1.. {
        let disk = FaultDisk::new(call, 64 << 20);
        let (log, _) = open(&disk);
        log.prepare_step().unwrap();
        disk.crash_at(disk.calls() + call);
        let put: Vec<Body> =
            (1..).zip([10, LARGE, 100, LARGE, LARGE]).map(|(id, bytes)| body(id, bytes)).collect();
        for (id, body) in (1..).zip(&put) {
            log.put(NOW, QUEUE, &meta(id), body);
        }
        let is_durable = log.commit_step(NOW).is_ok();
        let found = after_a_crash(&disk);
        assert!(found.len() == put.len() || found.is_empty() && !is_durable, "{}", found.len());
        for (id, found) in found {
            assert!(found == *put[id as usize - 1], "job {id}, crash at call {call}");
        }
        if is_durable {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 7, "each large body has a write of its own: {crashes}");
}

/// The owner of jobs that reclaim moves. Keeps the last body that was moved.
#[derive(Debug, Default)]
struct Jobs {
    slots: BTreeMap<u64, Slot>,
    moved: Option<Body>,
}

impl Owner for Jobs {
    fn current(&mut self, _: Slot, id: u64) -> Option<Current<'_>> {
        self.slots.contains_key(&id).then(|| Current { queue: QUEUE, meta: meta(id) })
    }

    fn moved(&mut self, old: Slot, new: Slot, id: u64, _: Position, body: BodyRef<'_>) {
        assert_eq!(self.slots.insert(id, new), Some(old));
        self.moved = Some(body.share());
    }
}

#[test]
fn reclaim_shares_a_large_body_with_the_batch_and_the_owner() {
    let disk = FaultDisk::new(1, 64 << 20);
    let (log, _) = open(&disk);
    let mut jobs = Jobs::default();
    let work = || {
        log.commit_step(NOW).unwrap();
        log.prepare_step().unwrap();
    };
    for id in 1..=30 {
        jobs.slots.insert(id, log.put(NOW, QUEUE, &meta(id), &body(id, LARGE)).0);
        work();
    }
    for (_, slot) in jobs.slots.extract_if(.., |id, _| id % 4 > 0) {
        log.finish(NOW, slot);
    }
    work();
    let mut moved = 0;
    for _ in 0..100 {
        if !log.reclaim_wanted() {
            break;
        }
        let Some(mut slice) = log.reclaim_read().unwrap() else { break };
        let mut is_done = false;
        while !is_done {
            is_done = log.reclaim_copy(NOW, &mut slice, &mut jobs).unwrap();
            if let Some(body) = jobs.moved.take() {
                assert_eq!(shares(&body), 3, "the slice, the batch and the owner have it");
                moved += 1;
            }
        }
        work();
    }
    assert!(moved > 3, "{moved} jobs were moved");
    let bodies = after_a_crash(&disk);
    assert!(bodies.keys().eq(jobs.slots.keys()));
    for (id, found) in bodies {
        assert!(found == *body(id, LARGE), "job {id}");
    }
}
