//! The memory of dead letters. Failures are never refused, so a letter must not be much larger than its job.

use lineshaft_engine::JobId;

use crate::dead_letters::{to, world};

#[test]
fn letters_from_one_queue_share_its_name() {
    const LETTERS: u64 = 100;
    let mut world = world([to("dead")]);
    let name = [b'q'; 8000];
    let session = world.open();
    world.act(|engine, fx| engine.use_queue(session, &name, fx));
    world.act(|engine, _| engine.watch(session, &name));
    let ids: Vec<JobId> = (0..LETTERS).map(|_| world.put(session, 7, 0, 60)).collect();
    for id in &ids {
        assert_eq!(world.taken(session), *id);
    }
    let before = world.engine.memory_bytes();
    for id in &ids {
        assert!(world.release(session, *id, 7, 0));
    }
    let full = before + LETTERS * 500;
    assert!(world.engine.memory_bytes() < full);
    // The follower has them as the log has them.
    let follower = world.follower.as_ref().expect("it follows");
    assert!(follower.engine.memory_bytes() < full);
    for id in &ids {
        assert!(world.finish(session, *id));
    }
    assert!(world.engine.memory_bytes() < before);
}
