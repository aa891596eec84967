//! Nodes without room on their disks.

use lineshaft_broker::{ApplyError, Broker, JobId, NewJob};
use replica::group::SealedGroup;

use super::{START, at, commit, follow, groups, lead};

/// So many segments have room on a disk. They are small: see `options`.
const SEGMENTS: u64 = 128;
const SEGMENT: u64 = 64 << 10;
/// A follower that needs more attempts has no room.
const ATTEMPTS: u32 = 1000;
/// A leader changes at most so many jobs.
const CHANGES: usize = 5000;

/// Does the work of the broker's threads once.
fn work(broker: &Broker) {
    commit(broker, START);
    broker.reclaim_step(START).expect("the disk works");
}

/// Applies a group as soon as there is room for it.
fn apply_when_there_is_room(follower: &Broker, group: &SealedGroup) {
    for _ in 0..ATTEMPTS {
        match follower.apply(group) {
            Ok(_) => return,
            Err(ApplyError::Full(_)) => work(follower),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no room for group {}: {:?}", group.number, follower.turn(START).log_stats());
}

fn pass_on(leader: &Broker, follower: &Broker) {
    for group in groups(leader) {
        apply_when_there_is_room(follower, &group);
    }
    work(leader);
    work(follower);
}

/// Two nodes with equal disks. The leader puts jobs until it has no room. Then it ends some, and changes
/// others while it has room. After each turn of puts, `between` gets the number of the turn and the follower.
fn fill(body_bytes: usize, each: usize, mut between: impl FnMut(u32, &Broker)) {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, SEGMENTS * SEGMENT));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let session = leader.turn(START).open_session(0);
    let mut ids: Vec<JobId> = Vec::new();
    let mut refusals = 0;
    for number in 0.. {
        let mut turn = leader.turn(START);
        for _ in 0..each {
            let put = turn.caller(session).put(NewJob::default(), vec![7; body_bytes].into());
            let Ok(id) = put.value else {
                refusals += 1;
                break;
            };
            ids.push(id);
        }
        drop(turn);
        pass_on(&leader, &follower);
        between(number, &follower);
        if refusals == 20 {
            break;
        }
    }
    assert_eq!(at(&leader), at(&follower), "{} jobs", ids.len());
    // Some jobs end, so there is room for changes.
    for id in ids.split_off(ids.len() * 15 / 16) {
        let mut turn = leader.turn(START);
        turn.caller(session).take_job(id).value.expect("it is ready");
        turn.caller(session).finish(id).value.expect("it is held");
        drop(turn);
        pass_on(&leader, &follower);
    }
    let mut changes = 0;
    for id in ids.into_iter().take(CHANGES) {
        let mut turn = leader.turn(START);
        let changed = turn.caller(session).bury_job(id, 7).value.is_ok();
        drop(turn);
        if !changed {
            break;
        }
        changes += 1;
        pass_on(&leader, &follower);
    }
    assert!(changes > 0, "there was room for changes");
    // The folder of the follower has all this, too.
    commit(&follower, START);
    drop(follower);
    disks[1].crash();
    assert_eq!(at(&follow(&disks[1])), at(&leader));
}

#[test]
fn a_follower_with_the_same_limits_has_room_for_what_its_leader_admits() {
    for (body_bytes, each) in [(100, 100), (1000, 20), (1000, 1), (3000, 7)] {
        fill(body_bytes, each, |_, _| ());
    }
}

/// The follower has four segments of garbage more than the leader, which is less than a tenth of its log.
/// Usually, reclaim does not care about so little.
#[test]
fn a_follower_has_room_although_its_folder_has_some_garbage() {
    fill(1000, 5, |number, follower| {
        if number < 360 && number % 40 == 0 {
            // About half of the last segment stays unused.
            follower.seal_step(START);
        }
    });
}

#[test]
fn a_full_follower_still_ends_jobs() {
    let disks = [log::FaultDisk::new(1, 32 << 20), log::FaultDisk::new(2, 8 << 20)];
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let mut ids = Vec::new();
    for _ in 0..600 {
        let mut turn = leader.turn(START);
        let session = turn.open_session(0);
        let put = turn.caller(session).put(NewJob::default(), vec![7; 4000].into());
        ids.push(put.value.expect("there is room"));
        drop(turn);
        pass_on(&leader, &follower);
        commit(&leader, START);
        commit(&follower, START);
    }
    disks[1].set_capacity(disks[1].used());
    commit(&follower, START);
    let mut later = Vec::new();
    for id in &ids {
        let mut turn = leader.turn(START);
        let session = turn.open_session(0);
        turn.caller(session).take_job(*id).value.expect("it is ready");
        turn.caller(session).finish(*id).value.expect("it is held");
        drop(turn);
        later.extend(groups(&leader));
    }
    assert!(later.iter().all(|group| follower.apply(group).is_ok()));
    assert_eq!(at(&leader), at(&follower));
}
