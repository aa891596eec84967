//! The memory that a node needs because it is in a cluster.

use lineshaft_broker::{NewJob, PutRefusal};

use super::{START, commit, follow, groups, lead, pass_on, put, with_cold_follower};

/// One put can go beyond the limit by its entry in the table.
const ENTRY_BYTES: u64 = 36;

#[test]
fn the_table_of_the_state_hash_is_within_the_limit_of_memory() {
    let disks = [1, 2].map(|seed| log::FaultDisk::new(seed, 32 << 20));
    let (leader, follower) = (follow(&disks[0]), follow(&disks[1]));
    lead(&leader, START);
    let session = leader.turn(START).open_session(0);
    let before = [&leader, &follower].map(|node| node.memory_usage().used_bytes);
    let limit = before[0] + 300_000;
    leader.set_memory_limit(Some(limit));
    let mut jobs = 0;
    let refusal = loop {
        let mut turn = leader.turn(START);
        let put = turn.caller(session).put(NewJob::default(), [b'x'; 100][..].into());
        drop(turn);
        if let Err(refusal) = put.value {
            break refusal;
        }
        jobs += 1;
        if jobs % 100 == 0 {
            pass_on(&leader, &follower);
            commit(&leader, START);
            commit(&follower, START);
        }
    };
    assert_eq!(refusal, PutRefusal::MemoryFull);
    pass_on(&leader, &follower);
    let used = [&leader, &follower].map(|node| node.memory_usage().used_bytes);
    assert!(used[0] <= limit + ENTRY_BYTES && used[0] > limit - 5_000, "{used:?} of {limit}");
    // A follower refuses nothing, but it shows the same.
    let grown = used[1] - before[1];
    assert!(grown > 285_000, "{grown} bytes for {jobs} jobs");
}

#[test]
fn the_copy_of_a_large_body_for_the_stream_counts_as_memory() {
    const BODY_BYTES: usize = 1 << 20;
    let leader = follow(&log::FaultDisk::new(1, 32 << 20));
    lead(&leader, START);
    let session = leader.turn(START).open_session(0);
    let body = vec![b'x'; BODY_BYTES].into();
    let put = leader.turn(START).caller(session).put(NewJob::default(), body);
    put.value.expect("there is room");
    // The end of a turn counts.
    let used = || {
        drop(leader.turn(START));
        leader.memory_usage().used_bytes
    };
    let waits = used();
    let stream = leader.stream().expect("it is a node");
    let taken = || stream.take_group().expect("the group with the job comes");
    let mut group = taken();
    while group.body.len() < BODY_BYTES {
        leader.accept(group.number);
        group = taken();
    }
    assert!(used() >= waits + BODY_BYTES as u64, "the stream has its own bytes");
    leader.accept(group.number);
    assert!(used() < waits + BODY_BYTES as u64, "the stream has accepted them");
}

/// A follower gets groups as fast as the stream has them, also those of many hours.
#[test]
fn a_follower_rests_after_puts_while_its_upkeep_is_behind() {
    let (leader, follower, ..) = with_cold_follower(10_000);
    let rests_after_put = || {
        put(&leader, START, 0);
        let rests = groups(&leader).map(|group| {
            let applied = follower.apply(&group).expect("it follows the last one");
            applied.rests
        });
        rests.max().expect("a job was put")
    };
    assert_eq!(rests_after_put(), 0, "the upkeep has not begun");
    follower.cool_step(START);
    assert!(rests_after_put() > 0, "several segments have no index");
    while follower.index_step().expect("the disk works") {}
    while follower.cool_step(START) {}
    assert_eq!(rests_after_put(), 0, "the upkeep is not behind");
}
