//! Keys of cold jobs: a put or a search with a key needs the oldest job that has it.

use lineshaft_engine::Submit;

use super::*;

/// Submits a background job with this key.
fn submit(owner: &mut Owner, session: SessionId, queue: &[u8], unique: &[u8]) -> JobId {
    let body = b"work"[..].into();
    let (due, reducer, foreground) = (None, &b""[..], false);
    let submit = Submit { priority: Some(5), due, unique, reducer, body, foreground };
    let done = owner.world.act(|engine, effects| engine.submit(session, queue, submit, effects));
    done.expect("there is room")
}

fn load_job(owner: &mut Owner, id: JobId) {
    let mut blocks = owner.blocks.iter();
    let found = blocks.find(|(_, jobs)| jobs.iter().any(|(facts, ..)| facts.id == id));
    let block = *found.expect("the job is cold").0;
    owner.load_block(block);
}

#[test]
fn a_submit_needs_the_cold_job_with_its_key() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let id = submit(&mut owner, session, b"q", b"key");
    submit(&mut owner, session, b"other", b"its own");
    let keyless = submit(&mut owner, session, b"q", b"");
    assert_eq!(owner.world.engine.cold_with_key(Some(b"q"), b"key"), None);
    owner.cool(&[id, keyless]);
    let engine = &owner.world.engine;
    for (queue, unique, cold) in [
        (Some(&b"q"[..]), &b"key"[..], Some(id)),
        (None, b"key", Some(id)),
        (Some(b"other"), b"key", None),
        (Some(b"none"), b"key", None),
        (Some(b"q"), b"its own", None),
        (Some(b"q"), b"", None),
        (Some(b"q"), b"-", None),
        (None, b"-", None),
    ] {
        assert_eq!(engine.cold_with_key(queue, unique), cold, "{queue:?} {unique:?}");
    }
    load_job(&mut owner, id);
    assert_eq!(owner.world.engine.cold_with_key(Some(b"q"), b"key"), None);
    assert_eq!(submit(&mut owner, session, b"q", b"key"), id);
    assert_eq!(owner.world.engine.find_key(b"key"), Some(id));
    owner.world.act(|engine, effects| engine.finish(session, id, effects)).expect("it is ready");
    assert_eq!(owner.world.engine.cold_with_key(None, b"key"), None);
    assert_ne!(submit(&mut owner, session, b"q", b"key"), id);
}

#[test]
fn of_cold_jobs_with_one_key_only_the_oldest_is_needed() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    owner.world.act(|engine, effects| engine.use_queue(session, b"q", effects));
    let first = submit(&mut owner, session, b"q", b"key");
    owner.world.act(|engine, _| engine.watch(session, b"q"));
    assert_eq!(owner.world.taken(session), first);
    assert!(owner.world.bury(session, first));
    // The key of a buried job is free.
    let second = submit(&mut owner, session, b"q", b"key");
    assert_ne!(second, first);
    assert_eq!(owner.kick(session, 1), 1);
    let elsewhere = submit(&mut owner, session, b"a queue", b"key");
    for id in [second, first, elsewhere] {
        owner.cool(&[id]);
    }
    for queue in [Some(&b"q"[..]), None] {
        assert_eq!(owner.world.engine.cold_with_key(queue, b"key"), Some(first));
    }
    load_job(&mut owner, first);
    for queue in [Some(&b"q"[..]), None] {
        assert_eq!(owner.world.engine.cold_with_key(queue, b"key"), None);
    }
    assert_eq!(owner.world.engine.find_key(b"key"), Some(first));
    owner.world.act(|engine, effects| engine.finish(session, first, effects)).expect("ready");
    assert_eq!(owner.world.engine.cold_with_key(Some(b"q"), b"key"), Some(second));
    assert_eq!(owner.world.engine.cold_with_key(Some(b"a queue"), b"key"), Some(elsewhere));
}

/// A key of another job with the same hash cannot be found by a test. A key that the engine is told
/// wrongly acts like it.
#[test]
fn a_cold_job_whose_key_differs_is_loaded_only_once() {
    let mut owner = Owner::new();
    let session = owner.world.open();
    let id = submit(&mut owner, session, b"q", b"key");
    owner.cool(&[id]);
    owner.world.engine.restore_key(b"q", b"same hash", id);
    for queue in [Some(&b"q"[..]), None] {
        assert_eq!(owner.world.engine.cold_with_key(queue, b"same hash"), Some(id));
    }
    load_job(&mut owner, id);
    for queue in [Some(&b"q"[..]), None] {
        assert_eq!(owner.world.engine.cold_with_key(queue, b"same hash"), None);
    }
    assert_eq!(owner.world.engine.find_key(b"same hash"), None);
}
