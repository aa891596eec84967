//! Two nodes of a cluster, and a stream that accepts every group: what one node leads, the other one
//! follows.

mod full;
mod large;
mod memory;

use std::sync::Arc;

use lineshaft_broker::crons::{CatchUp, CronEntry, CronTable, Overlap};
use lineshaft_broker::policy::{Rule, Rules, Setting, UniqueWindow};
use lineshaft_broker::{
    Answer, ApplyError, Broker, BrokerError, ClusterError, Event, JobId, Mailbox, Millis, NewJob,
    Options, Patience, SessionId, Since, State, Take,
};
use proptest::prelude::*;
use replica::Lineage;
use replica::group::{At, SealedGroup};

use crate::{Play, contents, options, steps};

const LINEAGE: Lineage = Lineage([7; 16]);
const START: Millis = Millis(1_000_000);
/// A claim reserves this many ids.
const IDS: u64 = 3 << 20;

fn cluster_options(disk: &log::FaultDisk) -> Options {
    Options { cluster: Some(LINEAGE), ..options(disk) }
}

fn follow(disk: &log::FaultDisk) -> Broker {
    Broker::open(cluster_options(disk), START).expect("the log is whole").0
}

fn at(broker: &Broker) -> At {
    broker.stream().expect("it is a node").at()
}

/// Makes a node the leader. Each claim in these tests has a higher number than all records before.
fn lead(broker: &Broker, now: Millis) {
    let At { epoch, id_limit, .. } = at(broker);
    let ids = id_limit..id_limit + IDS;
    broker.lead(epoch + 1000, ids, Since::Wall { now, record: Millis(0) }).expect("ids are left");
}

fn commit(broker: &Broker, now: Millis) {
    broker.commit_step(now).expect("the disk works");
    broker.prepare_step().expect("the disk works");
}

/// The groups of the leader, one after the other. The stream accepts each of them.
fn groups(leader: &Broker) -> impl Iterator<Item = SealedGroup> {
    let stream = leader.stream().expect("it is a node");
    std::iter::from_fn(move || {
        let group = stream.take_group()?;
        assert!(stream.take_group().is_none(), "one group is in flight");
        leader.accept(group.number);
        Some(group)
    })
}

/// Accepts all groups of the leader, and applies them to the follower.
fn pass_on(leader: &Broker, follower: &Broker) {
    for group in groups(leader) {
        let applied = follower.apply(&group).expect("it follows the last one");
        assert_eq!(applied.at, group.at());
    }
    follower.turn(Millis(0)).check_invariants();
}

fn put(broker: &Broker, now: Millis, delay_s: u32) -> (JobId, lineshaft_broker::Position) {
    let mut turn = broker.turn(now);
    let session = turn.open_session(0);
    let job = NewJob { delay_s, ttr_s: 3600, ..NewJob::default() };
    let put = turn.caller(session).put(job, b"body"[..].into());
    (put.value.expect("there is room"), put.after)
}

fn take(broker: &Broker, now: Millis) -> Option<JobId> {
    let mut turn = broker.turn(now);
    let session = turn.open_session(0);
    match turn.caller(session).take(Patience::None).value {
        Take::Granted(handout) => Some(handout.id),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_follower_can_lead_at_any_moment(
        lives in prop::collection::vec(steps(), 1..4),
        seed in any::<u64>(),
    ) {
        let mut disks = [log::FaultDisk::new(seed, 32 << 20), log::FaultDisk::new(!seed, 32 << 20)];
        let mut now = START;
        for steps in lives {
            let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
            prop_assert_eq!(at(&leader), at(&follower));
            lead(&leader, now);
            let mut play = Play::over(leader.clone(), now);
            for step in steps {
                play.step(&step);
                if step.number % 4 == 0 {
                    pass_on(&leader, &follower);
                }
                if step.number % 5 == 0 {
                    commit(&follower, play.now);
                }
            }
            play.leave();
            now = play.now;
            pass_on(&leader, &follower);
            commit(&leader, now);
            commit(&follower, now);
            prop_assert_eq!(at(&leader), at(&follower));
            // The crash undoes what this read changes.
            let wanted = contents(&leader, now);
            drop((play, leader));
            lead(&follower, now);
            prop_assert_eq!(&contents(&follower, now), &wanted);
            drop(follower);
            disks.iter().for_each(log::FaultDisk::crash);
            // The folder of the follower has the same, in the right queues.
            let follower = follow(&disks[1]);
            lead(&follower, now);
            prop_assert_eq!(&contents(&follower, now), &wanted);
            drop(follower);
            disks[1].crash();
            disks.swap(0, 1);
        }
    }

    /// The folder of a leader that crashes has exactly a prefix of what the stream has accepted.
    #[test]
    fn nothing_is_in_a_folder_before_the_stream_has_accepted_it(
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let disk = log::FaultDisk::new(seed, 32 << 20);
        let leader = follow(&disk);
        let mut places = vec![at(&leader)];
        lead(&leader, START);
        let mut play = Play::over(leader.clone(), START);
        for step in steps {
            play.step(&step);
            if step.number % 3 == 0 {
                places.extend(groups(&leader).map(|group| group.at()));
            }
            commit(&leader, play.now);
        }
        drop((play, leader));
        disk.crash();
        let found = at(&follow(&disk));
        // The epoch of a claim is in the folder with its first group.
        let last = places.last().expect("the first place");
        prop_assert_eq!((found.number, found.chain), (last.number, last.chain));
    }
}

#[test]
fn a_reply_waits_for_the_stream() {
    let disk = log::FaultDisk::new(1, 32 << 20);
    let leader = follow(&disk);
    lead(&leader, START);
    let (id, after) = put(&leader, START, 0);
    commit(&leader, START);
    assert!(!after.is_reached(leader.released()));
    let group = leader.stream().and_then(|stream| stream.take_group()).expect("a group is ready");
    assert!(!after.is_reached(leader.released()));
    leader.accept(group.number);
    assert!(after.is_reached(leader.released()));
    let stream = leader.stream().expect("it is a node");
    assert_eq!((stream.acknowledged(), stream.durable()), (group.number, group.number - 1));
    commit(&leader, START);
    assert_eq!(stream.durable(), group.number);
    drop(leader);
    disk.crash();
    let leader = follow(&disk);
    lead(&leader, START);
    let mut turn = leader.turn(START);
    let session = turn.open_session(0);
    let taken = turn.caller(session).take_job(id);
    assert!(taken.value.is_ok());
    assert!(taken.after.is_reached(leader.released()), "what is in the folder was accepted");
}

#[test]
fn delays_leases_and_numbers_go_on_after_a_takeover() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let (delayed, _) = put(&leader, START, 30);
    let (leased, _) = put(&leader, START, 0);
    assert_eq!(take(&leader, START), Some(leased));
    pass_on(&leader, &follower);
    let At { id_limit: limit, time_ms, .. } = at(&follower);
    // The follower has got the last group two seconds ago.
    follower.lead(7, limit..limit + IDS, Since::Elapsed(2000)).expect("ids are left");
    let now = follower.last_time();
    assert_eq!(now, Millis(time_ms + 2000));
    assert_eq!(take(&follower, now), Some(leased), "a lease ends with its leader");
    assert_eq!(take(&follower, Millis(START.0 + 29_999)), None);
    assert_eq!(take(&follower, Millis(START.0 + 30_000)), Some(delayed));
    assert!(put(&follower, now, 0).0.0 >= limit, "no number is dealt twice");
}

#[test]
fn a_key_of_a_job_that_is_done_stays_taken_after_a_takeover_and_a_restart() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let settings =
        [Setting::UniqueBy("body".parse().ok()), Setting::UniqueWindow(UniqueWindow::For(10_000))];
    let rules = Rules(vec![Rule::new(["default"], settings)]);
    let _ = leader.turn(START).set_policies(rules);
    let (done, _) = put(&leader, START, 0);
    {
        let mut turn = leader.turn(START);
        let session = turn.open_session(0);
        assert_eq!(turn.caller(session).finish(done).value, Ok(()));
    }
    assert_eq!(put(&leader, START, 0).0, done);
    pass_on(&leader, &follower);
    commit(&follower, START);
    drop(follower);
    disks[1].restart();
    let follower = follow(&disks[1]);
    let limit = at(&follower).id_limit;
    follower.lead(7, limit..limit + IDS, Since::Elapsed(2000)).expect("ids are left");
    let now = follower.last_time();
    assert_eq!(put(&follower, now, 0).0, done);
    let later = Millis(START.0 + 10_000);
    while follower.turn(later).advance() {}
    assert_eq!(follower.turn(later).claims().count(), 0);
    assert!(put(&follower, later, 0).0.0 >= limit, "the window is over");
}

#[test]
fn time_goes_on_after_the_last_record_although_the_wall_clock_was_set_back() {
    let disk = log::FaultDisk::new(1, 32 << 20);
    let leader = follow(&disk);
    lead(&leader, START);
    put(&leader, START, 30);
    for group in groups(&leader) {
        assert!(group.number > 0);
    }
    commit(&leader, START);
    let At { id_limit: limit, time_ms, .. } = at(&leader);
    drop(leader);
    disk.restart();
    // Everything was down, and the idle leader had lived for an hour after its last group.
    let (now, record) = (Millis(START.0 - 10_000), Millis(time_ms + 3_600_000));
    let again = follow(&disk);
    again.lead(5000, limit..limit + IDS, Since::Wall { now, record }).expect("ids are left");
    assert_eq!(again.last_time(), record);
    assert!(take(&again, record).is_some(), "the delay was over long ago");
}

/// The clock of a leader makes jobs ready, and no group says so. Reclaim copies them as ready.
#[test]
fn a_copy_in_the_folder_makes_no_job_ready_before_its_time() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let delayed = [put(&leader, START, 30).0, put(&leader, START, 30).0];
    // Reclaim has something to do.
    for _ in 0..40 {
        let mut turn = leader.turn(START);
        let session = turn.open_session(0);
        let put = turn.caller(session).put(NewJob::default(), vec![7; 8000].into());
        let id = put.value.expect("there is room");
        turn.caller(session).take_job(id).value.expect("it is ready");
        turn.caller(session).finish(id).value.expect("it is held");
        drop(turn);
        pass_on(&leader, &follower);
        commit(&leader, START);
        commit(&follower, START);
    }
    // One of the jobs is leased, and the other one is ready.
    let due = Millis(START.0 + 30_000);
    assert_eq!(take(&leader, due), Some(delayed[0]));
    assert!(at(&leader).time_ms < due.0, "no group has this time");
    while leader.reclaim_step(due).expect("the disk works") {
        pass_on(&leader, &follower);
        commit(&leader, due);
    }
    drop(leader);
    disks[0].crash();
    let again = follow(&disks[0]);
    for id in delayed {
        let state = again.turn(Millis(0)).job_status(id).value.expect("it lives").facts.state;
        let is_due = at(&again).time_ms >= due.0;
        assert!(is_due || state == State::Delayed, "job {id:?} is {state:?} before its time");
    }
    assert_eq!(at(&again), at(&follower), "all nodes have the same time");
}

#[test]
fn counters_reach_the_follower_late_and_only_if_the_job_lives() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let (id, _) = put(&leader, START, 0);
    assert_eq!(take(&leader, START), Some(id));
    pass_on(&leader, &follower);
    let takes = || {
        let turn = follower.turn(Millis(0));
        turn.job_status(id).value.expect("it lives").facts.counters.takes
    };
    assert_eq!(takes(), 0);
    drop(leader.turn(Millis(START.0 + 1000)));
    pass_on(&leader, &follower);
    assert_eq!(takes(), 1);
    let turn = follower.turn(Millis(0));
    let state = turn.job_status(id).value.expect("it lives").facts.state;
    assert_eq!(state, State::Ready, "a follower has no leases");
}

#[test]
fn a_durable_lease_reaches_the_follower_at_once() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let durable = Rule::new(["*"], [Setting::DurableLeases(true)]);
    let _ = leader.turn(START).set_policies(Rules(vec![durable]));
    let (id, _) = put(&leader, START, 0);
    assert_eq!(take(&leader, START), Some(id));
    pass_on(&leader, &follower);
    let facts = follower.turn(Millis(0)).job_status(id).value.expect("it is on both nodes").facts;
    assert_eq!((facts.state, facts.counters.takes), (State::Ready, 1));
}

#[test]
fn a_durable_lease_takes_no_room_that_the_disk_of_the_leader_does_not_have() {
    let disks = [log::FaultDisk::new(1, 1 << 20), log::FaultDisk::new(2, 32 << 20)];
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let durable = Rule::new(["*"], [Setting::DurableLeases(true)]);
    let _ = leader.turn(START).set_policies(Rules(vec![durable]));
    let pass = || {
        pass_on(&leader, &follower);
        commit(&leader, START);
        commit(&follower, START);
    };
    let session = leader.turn(START).open_session(0);
    let put = || leader.turn(START).caller(session).put(NewJob::default(), b"body"[..].into());
    while put().value.is_ok() {
        pass();
    }
    // A client takes a job and leaves, again and again: each take writes an entry while there is room.
    let follower_knows = |id, takes| {
        let turn = follower.turn(Millis(0));
        turn.job_status(id).value.expect("it lives").facts.counters.takes == takes
    };
    let mut takes = 0;
    let late = loop {
        let id = take(&leader, START).expect("a job is ready");
        pass();
        takes += 1;
        if !follower_knows(id, 1) {
            break id;
        }
        assert!(takes < 20_000, "takes write entries without an end");
    };
    assert!(takes > 1, "there was room for updates");
    drop(leader.turn(Millis(START.0 + 1000)));
    pass();
    assert!(follower_knows(late, 1), "its counters come later, as with a volatile lease");
}

#[test]
fn a_difference_stops_the_follower_and_never_reaches_its_folder() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    put(&leader, START, 0);
    pass_on(&leader, &follower);
    commit(&follower, START);
    let before = at(&follower);
    put(&leader, START, 0);
    let group = groups(&leader).next().expect("a job was put");
    let later = SealedGroup { number: group.number + 1, ..group.clone() };
    assert!(
        matches!(follower.apply(&later), Err(ApplyError::Order { last, .. }) if last == before.number)
    );
    let other = SealedGroup { state: group.state ^ 1, ..group };
    assert!(matches!(follower.apply(&other), Err(ApplyError::Diverged { .. })));
    commit(&follower, START);
    drop(follower);
    disks[1].crash();
    assert_eq!(at(&follow(&disks[1])), before);
}

#[test]
fn a_follower_may_crash_at_every_call() {
    let leader_disk = log::FaultDisk::new(1, 32 << 20);
    let leader = follow(&leader_disk);
    lead(&leader, START);
    let mut all = Vec::new();
    for number in 0..6 {
        put(&leader, START, number);
        put(&leader, START, 0);
        take(&leader, START);
        all.extend(groups(&leader));
    }
    let apply_all = |follower: &Broker| {
        let last = at(follower).number;
        for group in all.iter().filter(|group| group.number > last) {
            follower.apply(group).expect("it follows the last one");
            if follower.commit_step(START).is_err() {
                return false;
            }
        }
        true
    };
    for call in 1.. {
        let disk = log::FaultDisk::new(call, 32 << 20);
        let follower = follow(&disk);
        disk.crash_at(disk.calls() + call);
        let done = apply_all(&follower);
        drop(follower);
        disk.crash();
        disk.restart();
        let follower = follow(&disk);
        assert!(apply_all(&follower), "the disk works again");
        assert_eq!(at(&follower), at(&leader), "crash at call {call}");
        if done {
            return;
        }
    }
}

/// A leader that has put so many jobs, a follower that has applied them, and its disk. Its upkeep can make all of
/// them cold, but for a few at the head.
fn with_cold_follower(jobs: usize) -> (Broker, Broker, log::FaultDisk, Vec<JobId>) {
    let [disk, followers] = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let leader = follow(&disk);
    let options =
        Options { jobs_bytes_max: Some(0), head_jobs: 100, ..cluster_options(&followers) };
    let follower = Broker::open(options, START).expect("it is new").0;
    lead(&leader, START);
    let mut ids = Vec::new();
    for number in 0..jobs {
        ids.push(put(&leader, START, 0).0);
        if number % 100 == 0 {
            pass_on(&leader, &follower);
            commit(&leader, START);
            commit(&follower, START);
        }
    }
    pass_on(&leader, &follower);
    commit(&follower, START);
    (leader, follower, followers, ids)
}

#[test]
fn a_follower_loads_the_cold_jobs_that_the_leader_changes() {
    let (leader, follower, disk, ids) = with_cold_follower(3000);
    follower.seal_step(START);
    commit(&follower, START);
    while follower.index_step().expect("the disk works") {}
    while follower.cool_step(START) {}
    let cold = follower.cold_jobs();
    assert!(cold > 2000, "{cold} jobs are cold");
    let mut turn = leader.turn(START);
    let session = turn.open_session(0);
    // The last jobs first: they are cold on the follower.
    for id in ids.iter().rev().take(500) {
        let held = turn.caller(session).take_job(*id).value.expect("it is ready");
        if id.0 % 2 == 0 {
            turn.caller(session).finish(held.id).value.expect("it is held");
        } else {
            turn.caller(session).bury(held.id, 7).value.expect("it is held");
        }
    }
    drop(turn);
    pass_on(&leader, &follower);
    assert_eq!(at(&leader), at(&follower));
    assert!(follower.cold_jobs() < cold, "the changed jobs were loaded");
    commit(&follower, START);
    let counts = |broker: &Broker| {
        let totals = broker.turn(START).totals();
        (totals.ready, totals.buried)
    };
    assert_eq!((counts(&leader), counts(&follower)), ((2500, 250), (2500, 250)));
    drop(follower);
    disk.crash();
    let follower = follow(&disk);
    assert_eq!((at(&follower), counts(&follower)), (at(&leader), (2500, 250)));
}

/// A follower has no sessions, so a queue vanishes there with its last job. Its number then goes to
/// the next new queue, perhaps in the same group.
#[test]
fn a_new_queue_does_not_get_the_name_of_one_that_has_vanished() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let mut turn = leader.turn(START);
    let session = turn.open_session(0);
    turn.caller(session).use_queue(b"old");
    let id = turn.caller(session).put(NewJob::default(), b"x"[..].into()).value.expect("room");
    drop(turn);
    pass_on(&leader, &follower);
    let mut turn = leader.turn(START);
    turn.caller(session).take_job(id).value.expect("it is ready");
    turn.caller(session).finish(id).value.expect("it is held");
    turn.caller(session).use_queue(b"new");
    turn.caller(session).put(NewJob::default(), b"y"[..].into()).value.expect("room");
    drop(turn);
    let all: Vec<SealedGroup> = groups(&leader).collect();
    assert_eq!(all.len(), 1, "one turn is one group");
    follower.apply(&all[0]).expect("it follows the last one");
    commit(&follower, START);
    drop(follower);
    disks[1].crash();
    let follower = follow(&disks[1]);
    let turn = follower.turn(START);
    assert!(turn.queue_stats(b"old").is_none());
    assert_eq!(turn.queue_stats(b"new").expect("it has a job").ready, 1);
}

#[test]
fn a_group_whose_queue_comes_and_goes_is_one_part_of_the_log() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    for number in 0..40 {
        let mut turn = leader.turn(START);
        let session = turn.open_session(0);
        turn.caller(session).use_queue(&[b'q'; 2000]);
        // At the follower, the queue is gone after each job. So its log names it again and again.
        for _ in 0..20 {
            let put = turn.caller(session).put(NewJob::default(), [number; 100][..].into());
            let id = put.value.expect("there is room");
            turn.caller(session).take_job(id).value.expect("it is ready");
            turn.caller(session).finish(id).value.expect("it is held");
        }
        drop(turn);
        // Each node asserts that a group does not cross the end of a segment.
        pass_on(&leader, &follower);
        commit(&leader, START);
        commit(&follower, START);
    }
    assert_eq!(at(&leader), at(&follower));
}

#[test]
fn a_group_with_long_names_is_one_part_of_the_log() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    for number in 0..40 {
        let mut turn = leader.turn(START);
        let session = turn.open_session(0);
        let name = [number; 4000];
        turn.caller(session).use_queue(&name);
        for _ in 0..2 {
            let put = turn.caller(session).put(NewJob::default(), [number; 100][..].into());
            put.value.expect("there is room");
        }
        drop(turn);
        // Each node asserts that a group does not cross the end of a segment.
        pass_on(&leader, &follower);
        commit(&leader, START);
        commit(&follower, START);
    }
    assert_eq!(at(&leader), at(&follower));
}

#[test]
fn a_folder_that_lacks_a_job_is_refused() {
    let disk = log::FaultDisk::new(1, 32 << 20);
    let leader = follow(&disk);
    lead(&leader, START);
    put(&leader, START, 0);
    put(&leader, START, 0);
    assert_eq!(groups(&leader).count(), 2);
    commit(&leader, START);
    drop(leader);
    disk.crash();
    {
        // Another program ends a job, and leaves the place as it is.
        let mut first = None;
        let settings = log::Settings { segment_bytes: 64 << 10, ..log::Settings::default() };
        let disk = std::sync::Arc::new(disk.clone());
        let (log, _) = log::Log::open(disk, settings, START.0, &mut |restored| {
            if let log::Restored::Job { slot, .. } = restored {
                first.get_or_insert(slot);
            }
        })
        .expect("the log is whole");
        log.finish(START.0, first.expect("there are two jobs"));
        log.commit_step(START.0).expect("the disk works");
    }
    disk.crash();
    let files = || disk.names().iter().map(|name| disk.bytes(name)).collect::<Vec<_>>();
    let before = files();
    let refused = Broker::open(cluster_options(&disk), START).err();
    let is_incomplete = matches!(refused, Some(BrokerError::Cluster(ClusterError::Incomplete)));
    assert!(is_incomplete, "{refused:?}");
    assert!(files() == before, "the refused start changed a file");
}

#[test]
fn a_folder_is_used_only_by_its_own_cluster() {
    let disk = log::FaultDisk::new(1, 32 << 20);
    let leader = follow(&disk);
    lead(&leader, START);
    put(&leader, START, 0);
    assert_eq!(groups(&leader).count(), 1);
    commit(&leader, START);
    drop(leader);
    disk.crash();
    let open = |options| Broker::open(options, START).err();
    let alone = open(options(&disk));
    assert!(matches!(alone, Some(BrokerError::Cluster(ClusterError::Member))), "{alone:?}");
    disk.crash();
    let other = Options { cluster: Some(Lineage([8; 16])), ..options(&disk) };
    let other = open(other);
    assert!(matches!(other, Some(BrokerError::Cluster(ClusterError::OtherLineage))), "{other:?}");
    let disk = log::FaultDisk::new(1, 32 << 20);
    let alone = Broker::open(options(&disk), START).expect("it is new").0;
    put(&alone, START, 0);
    commit(&alone, START);
    drop(alone);
    disk.crash();
    let new = open(cluster_options(&disk));
    assert!(matches!(new, Some(BrokerError::Cluster(ClusterError::NotAMember))), "{new:?}");
}

#[test]
fn an_idle_leader_can_make_a_group() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    put(&leader, START, 0);
    pass_on(&leader, &follower);
    let number = at(&leader).number;
    leader.gather_nothing();
    pass_on(&leader, &follower);
    assert_eq!(at(&follower), at(&leader));
    assert_eq!(at(&follower).number, number + 1);
}

/// The wall clock of the old leader was ahead, and the stream accepted none of its groups.
#[test]
fn the_time_of_a_leader_that_left_nothing_does_not_count() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let ahead = Millis(START.0 + 100_000);
    let old = follow(&disks[0]);
    lead(&old, ahead);
    old.close(ahead).expect("the disk works");
    drop(old);
    disks[0].restart();
    let (leader, follower) = (follow(&disks[1]), follow(&disks[0]));
    lead(&leader, START);
    let (id, _) = put(&leader, START, 3);
    pass_on(&leader, &follower);
    let status = follower.turn(Millis(0)).job_status(id).value.expect("it was put");
    assert_eq!(status.facts.state, State::Delayed);
}

/// Counts how often it was told that replies may go.
#[derive(Default)]
struct Told(std::sync::atomic::AtomicU32);

impl Mailbox for Told {
    fn deliver(&self, _: SessionId, _: Answer<Event>) {}

    fn released(&self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn alarm(&self, _: Millis) {}
}

#[test]
fn a_leader_answers_only_during_its_lease() {
    let leader = follow(&log::FaultDisk::new(1, 32 << 20));
    lead(&leader, START);
    let may_answer = |at_ms: u64| leader.may_answer(|| Millis(at_ms));
    assert!(!may_answer(START.0));
    leader.answer_until(Millis(START.0 + 1500));
    assert!(may_answer(START.0 + 1499) && !may_answer(START.0 + 1500));
    // An earlier end does not shorten the lease.
    leader.answer_until(Millis(START.0 + 100));
    assert!(may_answer(START.0 + 1499));
    // A thread may have seen the end of the lease just before it was renewed.
    let told = Arc::new(Told::default());
    leader.add_mailbox(told.clone());
    leader.answer_until(Millis(START.0 + 2000));
    assert_eq!(told.0.load(std::sync::atomic::Ordering::Relaxed), 1, "everybody is told");
    let alone =
        Broker::open(options(&log::FaultDisk::new(2, 32 << 20)), START).expect("it is new").0;
    assert!(alone.may_answer(|| unreachable!("only a node needs the time")));
}

#[test]
fn a_new_segment_ends_the_group() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    put(&leader, START, 0);
    let stream = leader.stream().expect("it is a node");
    let first = stream.take_group().expect("a job was put");
    // While the first group is under way, the next one gathers.
    put(&leader, START, 0);
    assert!(leader.seal_step(START));
    put(&leader, START, 0);
    leader.accept(first.number);
    follower.apply(&first).expect("it follows the last one");
    pass_on(&leader, &follower);
    assert_eq!(at(&leader), at(&follower));
}

#[test]
fn a_node_that_takes_over_fires_each_instant_once() {
    const MINUTE: u64 = 60_000;
    let entry = CronEntry {
        name: b"tick"[..].into(),
        queue: b"default"[..].into(),
        cron: "* * * * *".parse().expect("a cron expression"),
        zone: "UTC".parse().expect("a time zone"),
        body: b"tick"[..].into(),
        overlap: Overlap::Queue,
        catch_up: CatchUp::All,
        jitter_ms: 0,
        line: 0,
    };
    let table = CronTable(vec![entry]);
    let run = |leader: &Broker, now: Millis| {
        let mut turn = leader.turn(now);
        while turn.advance() {}
    };
    // The old leader loses nothing, its last firing, or its last two.
    for lost in 0..3 {
        let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
        let (old, new) = (follow(&disks[0]), follow(&disks[1]));
        lead(&old, START);
        let _ = old.turn(START).set_crons(table.clone());
        for minute in 1..=5 {
            let now = Millis(START.0 + minute * MINUTE);
            run(&old, now);
            if minute + lost <= 5 {
                pass_on(&old, &new);
            }
        }
        let state = new.turn(Millis(0)).crons().next().map(|view| view.state.last);
        drop(old);
        let now = Millis(START.0 + 5 * MINUTE + 10_000);
        assert!(state.is_some_and(|last| last > START && last < now), "{state:?}");
        lead(&new, now);
        run(&new, now);
        let _ = new.turn(now).set_crons(table.clone());
        run(&new, now);
        let jobs = std::iter::from_fn(|| take(&new, now)).count();
        assert_eq!(jobs, 5, "{lost} firings are lost with the old leader");
    }
}

#[test]
fn a_node_that_takes_over_has_the_notes_and_agrees_about_them() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (old, new) = (follow(&disks[0]), follow(&disks[1]));
    lead(&old, START);
    let set = |broker: &Broker, name: &[u8], value: &[u8]| {
        broker.turn(START).set_note(name, value).value.expect("there is room");
    };
    let long = vec![b'x'; 190_000];
    for (name, value) in [(&b"a"[..], &long[..]), (b"b", b"1"), (b"c", b"2"), (b"b", b"")] {
        set(&old, name, value);
    }
    pass_on(&old, &new);
    set(&old, b"c", b"lost with the old leader");
    drop(old);
    lead(&new, START);
    let notes = |broker: &Broker| -> Vec<(Vec<u8>, usize)> {
        let turn = broker.turn(START);
        turn.notes().map(|(name, value)| (name.to_vec(), value.len())).collect()
    };
    let kept = [(b"a".to_vec(), 190_000), (b"c".to_vec(), 1)];
    assert_eq!(notes(&new), kept);
    // The folder has them, too, and its state hash.
    commit(&new, START);
    drop(new);
    disks[1].crash();
    let new = follow(&disks[1]);
    assert_eq!(notes(&new), kept);
    // The state hash also knows what the new values replace.
    lead(&new, START);
    set(&new, b"a", b"3");
    set(&new, b"c", b"");
    assert!(groups(&new).count() > 0);
    commit(&new, START);
    drop(new);
    disks[1].crash();
    assert_eq!(notes(&follow(&disks[1])), [(b"a".to_vec(), 1)]);
}
