//! Large bodies: a leader's groups share them until the stream takes the groups.

use lineshaft_broker::{Body, Broker, JobId, Millis, NewJob};
use log::SHARED_BYTES_MIN;

use super::{START, at, commit, follow, groups, lead, pass_on};

fn body(bytes: usize) -> Body {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

fn put(leader: &Broker, body: &Body) -> JobId {
    let mut turn = leader.turn(START);
    let session = turn.open_session(0);
    let put = turn.caller(session).put(NewJob::default(), body.clone());
    put.value.expect("there is room")
}

#[test]
fn a_leader_neither_copies_nor_sums_a_large_body_before_the_stream_takes_it() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    pass_on(&leader, &follower);
    let before = at(&leader);
    let bodies = [SHARED_BYTES_MIN, SHARED_BYTES_MIN - 1, 1 << 20].map(body);
    let ids = bodies.each_ref().map(|body| put(&leader, body));
    let shares = || bodies.each_ref().map(Body::strong_count);
    assert_eq!(shares(), [4, 2, 4], "the test, the job, the log and the group");
    let waits = at(&leader);
    assert!(waits.number > before.number, "a group was cut");
    assert_eq!(waits.chain, before.chain, "but nothing was summed");
    pass_on(&leader, &follower);
    assert_eq!(shares(), [3, 2, 3], "the stream has its own bytes");
    let last = at(&leader);
    assert_ne!(last.chain, before.chain);
    assert_eq!(last, at(&follower));
    for node in [&leader, &follower] {
        commit(node, START);
    }
    drop((leader, follower));
    // The folders have the chains and the bodies, too.
    for disk in disks {
        disk.crash();
        let node = follow(&disk);
        assert_eq!((at(&node).number, at(&node).chain), (last.number, last.chain));
        let turn = node.turn(Millis(0));
        for (id, body) in ids.iter().zip(&bodies) {
            assert!(turn.body(*id).is_some_and(|found| found == *body), "job {id:?}");
        }
    }
}

#[test]
fn groups_that_wait_for_the_stream_get_their_chains_in_order() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    pass_on(&leader, &follower);
    // A group has only one body of this size.
    let large = body(1 << 20);
    for _ in 0..4 {
        put(&leader, &large);
    }
    let mut chain = at(&follower).chain;
    let mut places = vec![at(&follower)];
    for group in groups(&leader) {
        assert_eq!(group.before, chain, "group {}", group.number);
        chain = group.after;
        places.push(follower.apply(&group).expect("it follows the last one").at);
        // The folder of the leader has exactly what the stream has accepted.
        commit(&leader, START);
        commit(&follower, START);
        let copy = disks[0].fork();
        copy.crash();
        copy.restart();
        let found = at(&follow(&copy));
        assert_eq!((found.number, found.chain), (group.number, group.after));
    }
    assert!(places.len() > 4, "each body has a group of its own");
    assert_eq!(Some(&at(&leader)), places.last());
}
