//! Blocks that cannot be read, for a moment or for good.

use lineshaft_broker::{Body, JobId, Need, NewJob};
use log::ReclaimError;

use super::*;

pub(super) fn at(seconds: u64) -> Millis {
    Millis(NOW.0 + 1000 * seconds)
}

/// Takes and finishes jobs until one must be loaded, or there is none.
fn take_in_memory(broker: &Broker, session: SessionId) -> Vec<JobId> {
    let mut taken = Vec::new();
    while broker.turn(NOW).caller(session).is_at_hand(Need::Watched) {
        let mut turn = broker.turn(NOW);
        let Take::Granted(handout) = turn.caller(session).take(Patience::None).value else { break };
        turn.caller(session).finish(handout.id).value.expect("the session holds it");
        taken.push(handout.id);
    }
    taken
}

/// The bytes of the two files of a segment.
pub(super) struct Files {
    disk: log::FaultDisk,
    files: [(String, Vec<u8>); 2],
}

impl Files {
    /// Damages a group in the middle of a segment, and all of its index file.
    pub(super) fn damage(disk: &log::FaultDisk, segment: u32) -> Self {
        let files = ["seg", "idx"].map(|end| {
            let name = format!("{segment:010}.{end}");
            let bytes = disk.bytes(&name).expect("the file exists");
            (name, bytes)
        });
        let [(segment, bytes), (index, index_bytes)] = &files;
        disk.flip_bit(segment, bytes.len() as u64 / 2 * 8);
        disk.set_bytes(index, vec![0; index_bytes.len()]);
        Self { disk: disk.clone(), files }
    }

    pub(super) fn repair(self) {
        for (name, bytes) in self.files {
            self.disk.set_bytes(&name, bytes);
        }
    }
}

/// The jobs of a segment, in memory or not.
fn jobs_of(broker: &Broker, ids: &[JobId], segment: u32) -> Vec<JobId> {
    let turn = broker.turn(NOW);
    // Jobs in memory say where they are. All jobs between two of them are in the same segment.
    let known = ids.iter().filter(|id| turn.job_segment(**id) == segment);
    known.copied().collect()
}

#[test]
fn a_block_that_cannot_be_read_for_a_moment_stays_cold() {
    let disk = log::FaultDisk::new(21, 64 << 20);
    let (broker, events, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let mut taken = take_in_memory(&broker, session);
    let cold = broker.cold_jobs();
    disk.fail_reads(0..u64::MAX);
    events.0.lock().expect("no panic").clear();
    for _ in 0..3 {
        broker.load_step(NOW);
        assert!(!broker.load_step(NOW), "it rests before the next try");
    }
    assert_eq!(broker.cold_jobs(), cold, "nothing is lost");
    assert!(events.0.lock().expect("no panic").is_empty(), "nobody is told to try again");
    assert!(broker.index_error().is_some());
    disk.plan_nothing();
    assert!(!broker.load_step(NOW));
    assert!(broker.load_step(at(1)), "the next try");
    let woken = events.0.lock().expect("no panic").pop();
    assert!(matches!(woken, Some((who, Event::Loaded)) if who == session));
    taken.extend(std::iter::from_fn(|| take(&broker, session)));
    assert_eq!(taken, ids);
}

#[test]
fn no_block_is_lost_for_want_of_descriptors() {
    let disk = log::FaultDisk::new(23, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let mut taken = take_in_memory(&broker, session);
    let cold = broker.cold_jobs();
    disk.set_fail_opens(true);
    for seconds in 0..60 {
        while broker.load_step(at(seconds)) {}
    }
    assert_eq!(broker.cold_jobs(), cold, "nothing is lost");
    assert!(broker.index_error().is_none(), "no file is damaged");
    disk.set_fail_opens(false);
    while broker.load_step(at(120)) {}
    taken.extend(std::iter::from_fn(|| take(&broker, session)));
    assert_eq!(taken, ids);
}

#[test]
fn lost_blocks_do_not_stop_their_queue_and_come_back() {
    let disk = log::FaultDisk::new(22, 64 << 20);
    let (broker, events, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    let files = Files::damage(&disk, 2);
    let mut taken = take_in_memory(&broker, session);
    let mut seconds = 0;
    while taken.last() != ids.last() {
        if !broker.load_step(at(seconds)) {
            seconds += 1;
        }
        assert!(seconds < 10, "the queue continues after some tries");
        taken.extend(take_in_memory(&broker, session));
    }
    let lost: Vec<JobId> = ids.iter().copied().filter(|id| !taken.contains(id)).collect();
    assert!(taken.is_sorted() && lost.len() > 1000, "{} jobs are lost", lost.len());
    assert_eq!(broker.turn(NOW).log_stats().unreadable_jobs, lost.len() as u64);
    // A client that names such a job gets no wrong reply.
    events.0.lock().expect("no panic").clear();
    assert!(!broker.turn(NOW).caller(session).is_job_at_hand(lost[7]));
    while broker.load_step(at(seconds)) {}
    let told = events.0.lock().expect("no panic").pop();
    assert!(matches!(told, Some((who, Event::Unreadable)) if who == session));
    // The disk works again.
    files.repair();
    assert!(!broker.load_step(at(seconds)), "the broker does not try all the time");
    while broker.load_step(at(seconds + 60)) {}
    assert_eq!(broker.turn(NOW).log_stats().unreadable_jobs, 0);
    broker.turn(NOW).check_invariants();
    assert_eq!(take_in_memory(&broker, session), lost);
}

/// A broker whose oldest segment has cold blocks that cannot be read, and that has tried to rescue
/// its jobs.
struct AfterRescue {
    broker: Broker,
    session: SessionId,
    first: u32,
    /// The jobs that have not ended.
    kept: Vec<JobId>,
    /// The jobs of the segment that were in memory.
    in_memory: Vec<JobId>,
    errors: Vec<ReclaimError>,
}

fn after_rescue(disk: &log::FaultDisk) -> (AfterRescue, Files) {
    let (broker, _, ids) = with_cold_jobs(disk);
    let session = broker.turn(NOW).open_session(0);
    // Finish most jobs of later segments, so that reclaim wants to copy the first segment.
    let first = broker.turn(NOW).log_stats().oldest_segment;
    let in_memory = jobs_of(&broker, &ids, first);
    let kept: Vec<JobId> = ids.iter().copied().filter(|id| id.0 < 1600 || id.0 % 10 == 0).collect();
    for id in ids.iter().filter(|id| kept.binary_search(id).is_err()) {
        while !broker.turn(NOW).caller(session).is_job_at_hand(*id) {
            assert!(broker.load_step(NOW));
        }
        broker.turn(NOW).caller(session).finish(*id).value.expect("no session holds it");
        if id.0 % 100 == 1 {
            work(&broker);
        }
    }
    work(&broker);
    let files = Files::damage(disk, first);
    let mut errors = Vec::new();
    for second in 0..8 {
        for _ in 0..200 {
            match broker.reclaim_step(at(second)) {
                Ok(true) => work(&broker),
                Ok(false) => break,
                Err(error) => errors.push(error),
            }
        }
    }
    (AfterRescue { broker, session, first, kept, in_memory, errors }, files)
}

impl AfterRescue {
    /// Makes steps of reclaim until there is nothing to do.
    fn reclaim(&self, second: u64) {
        for _ in 0..400 {
            match self.broker.reclaim_step(at(second)) {
                Ok(true) => work(&self.broker),
                Ok(false) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn reclaim_keeps_a_segment_with_lost_blocks() {
    let disk = log::FaultDisk::new(23, 64 << 20);
    let (after, files) = after_rescue(&disk);
    let AfterRescue { broker, session, first, in_memory, errors, .. } = &after;
    let [ReclaimError::Left { jobs, .. }] = &errors[..] else { panic!("{errors:?}") };
    assert!(*jobs > 1000 && *jobs < 1600, "{jobs} jobs are left");
    assert_eq!(broker.turn(NOW).log_stats().oldest_segment, *first, "the segment is kept");
    let moved = jobs_of(broker, in_memory, *first);
    assert!(in_memory.len() > 100 && moved.is_empty(), "the other jobs are written again");

    files.repair();
    for second in [60, 61, 62, 120, 121, 122, 180, 181] {
        while broker.load_step(at(second)) {}
        after.reclaim(second);
    }
    assert!(broker.turn(NOW).log_stats().oldest_segment > *first, "reclaim continues");
    broker.turn(NOW).check_invariants();
    let new = broker.turn(NOW).caller(*session).put(NewJob::default(), Body::from(&b"x"[..]));
    let mut wanted = after.kept.clone();
    wanted.push(new.value.expect("there is room"));
    let left: Vec<JobId> = std::iter::from_fn(|| take(broker, *session)).collect();
    assert_eq!(left, wanted);
}

#[test]
fn a_rescue_is_done_again_if_lost_jobs_come_back_while_it_goes_over_the_jobs() {
    for steps in 1..6 {
        let disk = log::FaultDisk::new(29, 64 << 20);
        let (after, files) = after_rescue(&disk);
        let AfterRescue { broker, first, .. } = &after;
        files.repair();
        for _ in 0..steps {
            broker.reclaim_step(at(70)).expect("the disk works again");
            work(broker);
        }
        while broker.load_step(at(70)) {}
        after.reclaim(70);
        after.reclaim(140);
        let oldest = broker.turn(NOW).log_stats().oldest_segment;
        assert!(oldest > *first, "reclaim continues, after {steps} steps");
        broker.turn(NOW).check_invariants();
    }
}

#[test]
fn a_session_is_woken_if_its_block_becomes_ready_before_it_can_be_read() {
    let disk = log::FaultDisk::new(27, 64 << 20);
    let broker = open_with(&disk, 0);
    let events = Arc::new(Events::default());
    broker.add_mailbox(events.clone());
    let session = broker.turn(NOW).open_session(0);
    let (early, late) = (at(100), Millis(at(100).0 + 500));
    let delayed = NewJob { delay_s: 100, ..NewJob::default() };
    let put = |now: Millis| {
        let put = broker.turn(now).caller(session).put(delayed, Body::from(&b"later"[..]));
        put.value.expect("there is room");
    };
    for _ in 0..10 {
        put(NOW);
    }
    for _ in 0..10 {
        put(Millis(NOW.0 + 500));
    }
    work(&broker);
    broker.seal_step(Millis(NOW.0 + 500));
    work(&broker);
    while broker.index_step().expect("the disk works") {}
    while broker.cool_step(Millis(NOW.0 + 500)) {}
    assert_eq!((broker.cold_jobs(), broker.turn(Millis(NOW.0 + 500)).totals().delayed), (20, 20));
    // The timer of this job makes the engine look at the block again.
    put(Millis(NOW.0 + 500));

    while broker.turn(early).advance() {}
    assert!(!broker.turn(early).caller(session).is_at_hand(Need::Watched));
    disk.fail_reads(0..u64::MAX);
    broker.load_step(early);
    assert_eq!(broker.cold_jobs(), 20, "the read has failed");
    disk.plan_nothing();
    while broker.turn(late).advance() {}
    assert_eq!(broker.turn(late).totals().ready, 21);
    broker.load_step(at(101));
    let woken = events.0.lock().expect("no panic").pop();
    assert!(matches!(woken, Some((who, Event::Loaded)) if who == session));
    assert!(take_at(&broker, session, at(101)).is_some());
}
