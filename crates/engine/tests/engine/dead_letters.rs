//! Dead letters: where they go, when they end, and how they come back.

use lineshaft_engine::limits;
use lineshaft_engine::policy::{DeadTarget, Rule, Rules, Setting, WhenFull};
use lineshaft_engine::{
    Death, DeathCause, FailureCause, GrabOrder, JobId, Millis, NewJob, News, RedriveRefused,
    Refused, ReturnOrder, SessionId, State, Submit,
};

use crate::apply::Follower;
use crate::world::{START, World, grab, take_job};

/// A world in which the first failure makes a job a dead letter. A follower gets all records.
pub(crate) fn world(more: impl IntoIterator<Item = Setting>) -> World {
    let mut settings = vec![Setting::Retries(true), Setting::RetryLimit(0)];
    settings.extend(more);
    let mut world = World::new();
    world.follower = Some(Follower::new());
    let rules = Rules(vec![Rule::new(["*"], settings)]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    world
}

pub(crate) fn to(name: &str) -> Setting {
    Setting::DeadQueue(DeadTarget::Queue(name.as_bytes().into()))
}

pub(crate) fn queue_of(world: &World, id: JobId) -> String {
    let status = world.engine.job_status(id).expect("it exists");
    String::from_utf8_lossy(world.engine.queue_name(status.queue)).into_owned()
}

/// Why a job is a dead letter. The follower must have the same.
pub(crate) fn death(world: &World, id: JobId) -> Option<Death> {
    let facts = |engine: &lineshaft_engine::Engine| engine.job_status(id).expect("it exists").facts;
    let follower = &world.follower.as_ref().expect("it follows").engine;
    assert_eq!(facts(follower).death, facts(&world.engine).death);
    facts(&world.engine).death.map(|death| *death)
}

/// A job of priority 7 that has failed.
fn dead(world: &mut World, session: SessionId) -> JobId {
    let id = world.put(session, 7, 0, 60);
    assert_eq!(world.taken(session), id);
    assert!(world.release(session, id, 7, 0));
    id
}

#[test]
fn a_dead_letter_moves_to_its_queue_and_keeps_its_facts() {
    let mut world = world([to("dead.{name}")]);
    let session = world.open();
    world.act(|e, _| e.set_peer(session, b"10.0.0.1:5"));
    let id = world.put(session, 7, 0, 60);
    world.pass(500);
    world.taken(session);
    world.pass(500);
    world.release(session, id, 3, 0);
    assert_eq!(
        (queue_of(&world, id), world.state(id)),
        ("dead.default".into(), Some(State::Ready))
    );
    let now = Millis(START.0 + 1000);
    let expected = Death {
        died: now,
        until: Some(Millis(now.0 + 14 * 86_400_000)),
        cause: DeathCause::Failed(FailureCause::Released),
        attempts: 1,
        origin: b"default"[..].into(),
        worker: b"10.0.0.1:5"[..].into(),
        error: Box::default(),
    };
    assert_eq!(death(&world, id), Some(expected));
    let facts = world.engine.job_status(id).expect("it exists").facts;
    assert_eq!((facts.created, facts.due, facts.priority), (START, now, 3));
    // A client of that queue can take it, and it is never a dead letter again.
    world.act(|e, _| e.watch(session, b"dead.default"));
    for _ in 0..3 {
        assert_eq!(world.taken(session), id);
        world.release(session, id, 3, 0);
        assert_eq!(queue_of(&world, id), "dead.default");
    }
    assert!(death(&world, id).is_some());
    world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    assert_eq!((queue_of(&world, id), death(&world, id)), ("default".into(), None));
    assert_eq!(world.engine.job_status(id).expect("it exists").facts.created, START);
    assert_eq!(world.taken(session), id);
}

/// A submitted job of the queue `q`, and the worker that holds it. The worker's address is `10.0.0.2:7`.
pub(crate) fn submitted(world: &mut World) -> (JobId, SessionId) {
    let client = world.open();
    let submit = Submit {
        priority: Some(1),
        due: None,
        unique: b"",
        reducer: b"",
        body: b"work"[..].into(),
        foreground: false,
    };
    let id = world.act(|e, fx| e.submit(client, b"q", submit, fx)).expect("no limit is set");
    let worker = world.engine.open_session(0, ReturnOrder::ToTail);
    world.act(|e, _| e.set_peer(worker, b"10.0.0.2:7"));
    world.act(|e, fx| e.register(worker, b"q", None, fx));
    world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).expect("it is ready");
    (id, worker)
}

fn warn(world: &mut World, worker: SessionId, id: JobId, text: &[u8]) {
    let news = News::Warning(text.into());
    world.act(|e, fx| e.report(worker, id, &news, fx)).expect("it is held");
}

#[test]
fn an_exception_is_kept_up_to_its_limit() {
    let mut world = world([]);
    let (id, worker) = submitted(&mut world);
    warn(&mut world, worker, id, b"an exception says more");
    let news = News::Exception(vec![b'x'; 3000].into());
    world.act(|e, fx| e.fail(worker, id, &news, fx)).expect("it is held");
    let death = death(&world, id).expect("it has failed");
    assert_eq!(
        (death.cause, &*death.error),
        (DeathCause::Failed(FailureCause::Reported), &[b'x'; 1024][..])
    );
    assert_eq!((&*death.worker, world.state(id)), (&b"10.0.0.2:7"[..], Some(State::Buried)));
}

#[test]
fn warnings_are_the_error_of_a_worker_that_fails_or_leaves_without_an_exception() {
    for leaves in [true, false] {
        let mut world = world([]);
        let (id, worker) = submitted(&mut world);
        warn(&mut world, worker, id, b"no route ");
        warn(&mut world, worker, id, b"to host");
        let expected = if leaves {
            world.act(|e, fx| e.close_session(worker, fx));
            world.pass(0);
            DeathCause::Failed(FailureCause::HolderLeft)
        } else {
            world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("it is held");
            DeathCause::Failed(FailureCause::Reported)
        };
        let death = death(&world, id).expect("it has failed");
        assert_eq!((death.cause, &*death.error), (expected, &b"no route to host"[..]));
        assert_eq!(&*death.worker, b"10.0.0.2:7");
    }
}

#[test]
fn a_worker_that_fails_at_a_dead_letter_does_not_end_it() {
    let mut world = world([to("dead")]);
    world.engine.set_attempts_max(1);
    let (id, worker) = submitted(&mut world);
    world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("it is held");
    assert_eq!(queue_of(&world, id), "dead");
    world.act(|e, fx| e.register(worker, b"dead", None, fx));
    world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).expect("it is ready");
    world.act(|e, fx| e.unregister(worker, b"dead", fx));
    assert_eq!(world.state(id), Some(State::Ready));
    world.act(|e, fx| e.register(worker, b"dead", None, fx));
    world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).expect("it is ready");
    world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).expect("it is held");
    assert_eq!((queue_of(&world, id), world.state(id)), ("dead".into(), Some(State::Buried)));
    assert!(death(&world, id).is_some());
    world.act(|e, fx| e.kick_job(id, fx)).expect("it is buried");
    assert!(death(&world, id).is_some(), "a kick is no redrive");
    world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    assert_eq!((queue_of(&world, id), death(&world, id)), ("q".into(), None));
}

#[test]
fn a_dropped_job_ends() {
    let mut world = world([Setting::DeadQueue(DeadTarget::Drop)]);
    let session = world.open();
    let id = dead(&mut world, session);
    assert_eq!(world.state(id), None);
}

#[test]
fn the_server_ends_dead_letters_at_their_time_and_the_oldest_of_too_many() {
    for target in [Setting::DeadQueue(DeadTarget::Bury), to("dead")] {
        let bounds = [target, Setting::DeadKeep(Some(1000)), Setting::DeadJobsMax(2)];
        let mut world = world(bounds);
        let session = world.open();
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(dead(&mut world, session));
            world.pass(100);
        }
        assert_eq!(world.state(ids[0]), None, "there were three");
        // A letter that somebody holds does not end, but when it comes back.
        world.act(|e, fx| {
            let choice = lineshaft_engine::Choice::Job(ids[1]);
            e.take(session, choice, lineshaft_engine::Patience::None, fx)
        });
        world.pass(899);
        assert!(world.state(ids[2]).is_some());
        world.pass(2);
        assert_eq!((world.state(ids[1]), world.state(ids[2])), (Some(State::Leased), None));
        world.release(session, ids[1], 7, 0);
        world.pass(0);
        assert_eq!(world.state(ids[1]), None);
    }
}

fn count_letters(world: &World, queue: &[u8]) -> usize {
    let queue = world.engine.queue_id(queue).expect("it has letters");
    std::iter::successors(world.engine.next_dead_letter(queue, None), |last| {
        world.engine.next_dead_letter(queue, Some(*last))
    })
    .count()
}

#[test]
fn a_few_deaths_shrink_a_queue_of_letters_to_a_lower_limit() {
    let mut world = world([to("dead")]);
    let session = world.open();
    for _ in 0..150 {
        dead(&mut world, session);
    }
    let settings =
        [Setting::Retries(true), Setting::RetryLimit(0), to("dead"), Setting::DeadJobsMax(10)];
    let rules = Rules(vec![Rule::new(["*"], settings)]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    assert_eq!(count_letters(&world, b"dead"), 150, "a reload ends no letter");
    for left in [150 - 64 + 1, 150 - 2 * 64 + 2, 10, 10] {
        let id = dead(&mut world, session);
        assert_eq!(count_letters(&world, b"dead"), left);
        assert_eq!(queue_of(&world, id), "dead", "the new letter stays");
    }
}

#[test]
fn a_death_that_a_put_causes_ends_few_letters() {
    let mut world = world([to("dead")]);
    let session = world.open();
    for _ in 0..20 {
        dead(&mut world, session);
    }
    let settings = [
        to("dead"),
        Setting::JobsMax(Some(1)),
        Setting::WhenFull(WhenFull::DropOldest),
        Setting::DeadDropped(true),
        Setting::DeadJobsMax(1),
    ];
    world.act(|e, fx| e.set_policies(Rules(vec![Rule::new(["default"], settings)]), fx));
    world.put(session, 5, 0, 60);
    assert_eq!(count_letters(&world, b"dead"), 20);
    let id = world.put(session, 5, 0, 60);
    assert_eq!(world.state(id), Some(State::Ready));
    assert_eq!(count_letters(&world, b"dead"), 20 - limits::PUT_ENDS_MAX + 1);
}

#[test]
fn a_kick_brings_back_what_is_buried_in_its_own_queue() {
    let mut world = world([]);
    let session = world.open();
    let id = dead(&mut world, session);
    assert_eq!((world.state(id), death(&world, id).is_some()), (Some(State::Buried), true));
    world.act(|e, fx| e.kick_job(id, fx)).expect("it is buried");
    assert_eq!((world.state(id), death(&world, id)), (Some(State::Ready), None));
    // A redrive is the same, also for what a client buried.
    world.taken(session);
    world.bury(session, id);
    assert_eq!(death(&world, id), None);
    world.act(|e, fx| e.redrive(id, fx)).expect("it is buried");
    assert_eq!(world.state(id), Some(State::Ready));
    let again = world.act(|e, fx| e.redrive(id, fx));
    assert_eq!(again, Err(RedriveRefused::NotDead));
    world.taken(session);
    assert_eq!(world.act(|e, fx| e.redrive(id, fx)), Err(RedriveRefused::Leased));
    assert_eq!(world.act(|e, fx| e.redrive(JobId(99), fx)), Err(RedriveRefused::NotFound));
}

#[test]
fn the_letters_of_a_queue_are_walked_in_the_order_of_their_ends() {
    let mut world = world([to("dead")]);
    let session = world.open();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(dead(&mut world, session));
        world.pass(1);
    }
    let queue = world.engine.queue_id(b"dead").expect("it has jobs");
    let (mut after, mut found) = (None, Vec::new());
    while let Some(next) = world.engine.next_dead_letter(queue, after) {
        found.push(next.1);
        after = Some(next);
    }
    assert_eq!(found, ids);
    // A move makes it a job like others.
    world.act(|e, fx| e.move_job(ids[1], b"elsewhere", fx)).expect("it is ready");
    assert_eq!(death(&world, ids[1]), None);
    for id in [ids[0], ids[2]] {
        world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    }
    assert_eq!(world.engine.queue_id(b"dead"), None, "nobody needs the empty queue");
}

#[test]
fn a_queue_that_cannot_store_letters_is_not_used() {
    let mut world = world([to("dead")]);
    let mut rules = world.engine.policies().clone();
    rules.0.push(Rule::new(["dead"], [Setting::Alias([b"x"[..].into()].into())]));
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    let session = world.open();
    let id = dead(&mut world, session);
    assert_eq!((queue_of(&world, id), world.state(id)), ("default".into(), Some(State::Buried)));
}

/// The cause of a dead letter, its failures and the queue that it came from.
pub(crate) fn cause(world: &World, id: JobId) -> Option<(DeathCause, u32, String)> {
    let death = death(world, id)?;
    Some((death.cause, death.attempts, String::from_utf8_lossy(&death.origin).into_owned()))
}

#[test]
fn a_job_that_expires_is_a_dead_letter_if_the_policy_says_so() {
    let age = Setting::AgeMax(Some(1000));
    let mut off = world([to("dead"), age.clone()]);
    let session = off.open();
    let id = off.put(session, 7, 0, 60);
    off.pass(1001);
    assert_eq!(off.state(id), None);

    let on = Setting::DeadExpired(true);
    let mut moving = world([to("dead"), age.clone(), on.clone()]);
    let session = moving.open();
    let id = moving.put(session, 7, 0, 60);
    moving.pass(1001);
    assert_eq!((queue_of(&moving, id), moving.state(id)), ("dead".into(), Some(State::Ready)));
    assert_eq!(cause(&moving, id), Some((DeathCause::Expired, 0, "default".into())));
    assert_eq!(moving.stats("default").expired, 1);
    moving.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    assert_eq!((queue_of(&moving, id), death(&moving, id)), ("default".into(), None));
    moving.pass(1001);
    assert_eq!(queue_of(&moving, id), "dead");
    // The age of the dead queue ends it. A dead letter never becomes another one.
    moving.pass(1001);
    assert_eq!(moving.state(id), None);

    let mut burying = world([age.clone(), on.clone()]);
    let session = burying.open();
    let id = burying.put(session, 7, 0, 60);
    burying.pass(1001);
    assert_eq!(burying.state(id), Some(State::Buried));
    assert_eq!(cause(&burying, id), Some((DeathCause::Expired, 0, String::new())));
    burying.pass(9000);
    assert_eq!(burying.state(id), Some(State::Buried));
    burying.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    assert_eq!(burying.taken(session), id);

    for without in [Setting::DeadQueue(DeadTarget::Drop), Setting::DeadJobsMax(0)] {
        let mut world = world([without, age.clone(), on.clone()]);
        let session = world.open();
        let id = world.put(session, 7, 0, 60);
        world.pass(1001);
        assert_eq!(world.state(id), None);
    }
}

#[test]
fn an_item_that_expired_and_comes_back_does_not_expire_again() {
    let mut world = world([Setting::DeadExpired(true)]);
    let expires = Some(lineshaft_engine::When::At(Millis(START.0 + 10)));
    world.act(|e, fx| e.add(None, b"items", b"1"[..].into(), expires, fx)).expect("there is room");
    world.pass(11);
    let queue = world.engine.queue_id(b"items").expect("it has the letter");
    let (_, id) = world.engine.next_dead_letter(queue, None).expect("it expired");
    assert_eq!(world.state(id), Some(State::Buried));
    world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    world.pass(1000);
    assert_eq!(world.state(id), Some(State::Ready));
}

/// An operator takes a buried job, and leaves.
fn take_and_leave(world: &mut World, id: JobId) {
    let operator = world.open();
    world.act(|e, fx| take_job(e, operator, id, fx)).expect("it is buried");
    world.close(operator);
}

#[test]
fn a_buried_letter_that_was_taken_and_given_back_is_buried_again_when_it_expires() {
    let keep = Setting::DeadKeep(Some(9000));
    let mut world = world([Setting::AgeMax(Some(1000)), Setting::DeadExpired(true), keep]);
    let session = world.open();
    let id = world.put(session, 7, 0, 60);
    let behind = world.put(session, 8, 0, 60);
    let is_released = |world: &mut World, id| {
        let operator = world.open();
        world.act(|e, fx| take_job(e, operator, id, fx)).expect("it can be taken");
        world.release(operator, id, 7, 0)
    };
    assert_eq!(world.taken(session), id);
    assert!(world.release(session, id, 7, 0));
    let letter = death(&world, id).expect("it failed");
    assert!(is_released(&mut world, id));
    world.pass(1000);
    assert_eq!((world.state(id), death(&world, id)), (Some(State::Ready), Some(letter.clone())));
    // The job behind it expires, too: nothing blocks it.
    world.pass(1);
    assert_eq!((world.state(id), death(&world, id)), (Some(State::Buried), Some(letter.clone())));
    assert_eq!(cause(&world, behind), Some((DeathCause::Expired, 0, String::new())));
    assert_eq!(world.stats("default").expired, 1, "the letter has not expired");
    // If its holder is lost, its age counts from the put, so it is buried again at once.
    take_and_leave(&mut world, id);
    world.pass(0);
    assert_eq!((world.state(id), death(&world, id)), (Some(State::Buried), Some(letter)));
    // Its time as a dead letter still counts from its death.
    assert!(is_released(&mut world, id));
    world.pass(7999);
    assert!(world.state(id).is_some());
    world.pass(1);
    assert_eq!(world.state(id), None);
    assert!(world.state(behind).is_some());
}

#[test]
fn an_expired_letter_can_be_taken_by_its_number_and_comes_back_with_a_new_age() {
    let mut world = world([Setting::AgeMax(Some(1000)), Setting::DeadExpired(true)]);
    let session = world.open();
    let id = world.put(session, 7, 0, 60);
    world.pass(1001);
    take_and_leave(&mut world, id);
    take_and_leave(&mut world, id);
    assert!(death(&world, id).is_some());
    world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
    world.pass(1000);
    assert_eq!((world.state(id), death(&world, id)), (Some(State::Ready), None));
    world.pass(1);
    assert_eq!((world.state(id), death(&world, id).is_some()), (Some(State::Buried), true));
}

#[test]
fn a_buried_letter_that_was_given_back_does_not_move_when_it_expires() {
    let to_late = Setting::ExpireTo(Some(b"late"[..].into()));
    let mut world = world([Setting::AgeMax(Some(1000)), to_late]);
    let session = world.open();
    let id = dead(&mut world, session);
    take_and_leave(&mut world, id);
    assert_eq!(world.state(id), Some(State::Ready));
    world.pass(1001);
    assert_eq!((queue_of(&world, id), world.state(id)), ("default".into(), Some(State::Buried)));
    assert!(death(&world, id).is_some());
}

#[test]
fn a_buried_letter_that_was_given_back_is_buried_again_when_it_makes_room() {
    let full = [Setting::JobsMax(Some(2)), Setting::WhenFull(WhenFull::DropOldest)];
    let bounds = [Setting::DeadJobsMax(2), Setting::DeadDropped(true)];
    let mut world = world(full.into_iter().chain(bounds));
    let session = world.open();
    let ids = [0; 2].map(|_| dead(&mut world, session));
    let letters = ids.map(|id| death(&world, id).expect("it failed"));
    for id in ids {
        take_and_leave(&mut world, id);
    }
    assert_eq!(world.stats("default").items, 2, "the queue is full of ready letters");
    // The urgent jobs stay, and each put makes room for one job.
    let [first, second] = [1; 2].map(|priority| world.put(session, priority, 0, 60));
    for (id, letter) in ids.into_iter().zip(letters) {
        assert_eq!((world.state(id), death(&world, id)), (Some(State::Buried), Some(letter)));
    }
    assert_eq!((world.stats("default").items, world.stats("default").discarded), (2, 0));
    // The next one makes a new letter of a job. The oldest letter ends, because there are two already.
    world.put(session, 1, 0, 60);
    assert_eq!((world.state(ids[0]), world.state(ids[1])), (None, Some(State::Buried)));
    assert_eq!(
        (world.state(first), world.state(second)),
        (Some(State::Buried), Some(State::Ready))
    );
    assert_eq!(cause(&world, first), Some((DeathCause::Dropped, 0, String::new())));
}

#[test]
fn a_client_that_has_joined_a_letter_is_told_when_the_letter_is_buried_again() {
    let mut world = world([Setting::AgeMax(Some(1000))]);
    let (worker, client) = (world.open(), world.open());
    let submit = |foreground| Submit {
        priority: None,
        due: None,
        unique: b"key",
        reducer: b"",
        body: b"work"[..].into(),
        foreground,
    };
    let id = world.act(|e, fx| e.submit(worker, b"q", submit(false), fx)).expect("no limit is set");
    world.act(|e, fx| take_job(e, worker, id, fx)).expect("it is ready");
    assert!(world.release(worker, id, 7, 0));
    assert_eq!((world.state(id), death(&world, id).is_some()), (Some(State::Buried), true));
    world.act(|e, fx| take_job(e, worker, id, fx)).expect("it is buried");
    assert!(world.release(worker, id, 7, 0));
    assert_eq!(world.act(|e, fx| e.submit(client, b"q", submit(true), fx)), Ok(id));
    world.pass(1001);
    assert_eq!(world.state(id), Some(State::Buried));
    assert_eq!(world.events(), [(client, format!("{id}: {:?}", News::Fail))]);
}

#[test]
fn an_item_that_failed_and_comes_back_does_not_expire() {
    for is_kick in [true, false] {
        let mut world = world([]);
        let expires = Some(lineshaft_engine::When::At(Millis(START.0 + 10)));
        world.act(|e, fx| e.add(None, b"q", b"1"[..].into(), expires, fx)).expect("there is room");
        let session = world.open();
        world.act(|e, _| e.watch(session, b"q"));
        let id = world.taken(session);
        assert!(world.release(session, id, 7, 0));
        world.pass(11);
        assert_eq!(world.state(id), Some(State::Buried));
        if is_kick {
            world.act(|e, fx| e.kick_job(id, fx)).expect("it is buried");
        } else {
            world.act(|e, fx| e.redrive(id, fx)).expect("it is dead");
        }
        world.pass(1000);
        assert_eq!((world.state(id), death(&world, id)), (Some(State::Ready), None));
    }
}

#[test]
fn a_client_does_not_wait_for_a_job_that_has_just_become_a_dead_letter() {
    let by_body = || Setting::UniqueBy(Some("body".parse().expect("it is a key")));
    let rules = Rules(vec![
        Rule::new(["both"], [Setting::Alias(["a", "b"].map(|name| name.as_bytes().into()).into())]),
        Rule::new(
            ["a"],
            [
                by_body(),
                Setting::JobsMax(Some(1)),
                Setting::WhenFull(WhenFull::DropOldest),
                Setting::DeadDropped(true),
            ],
        ),
        Rule::new(
            ["b"],
            [by_body(), Setting::AgeMax(Some(1000)), Setting::ExpireTo(Some(b"a"[..].into()))],
        ),
    ]);
    let mut world = World::new();
    world.follower = Some(Follower::new());
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    let session = world.open();
    let put = |world: &mut World, queue: &[u8], body: &[u8]| {
        world.act(|e, fx| e.use_queue(session, queue, fx));
        world.act(|e, fx| e.put(session, NewJob::default(), body.into(), fx)).expect("it has room")
    };
    put(&mut world, b"b", b"old");
    world.pass(500);
    let id = put(&mut world, b"a", b"same");
    put(&mut world, b"b", b"same");
    // Before `b` finds its job, its old job expires and pushes the job that `a` has found out.
    world.engine.set_time(Millis(START.0 + 1001));
    let submit = Submit {
        priority: None,
        due: None,
        unique: b"",
        reducer: b"",
        body: b"same"[..].into(),
        foreground: true,
    };
    let submitted = world.act(|e, fx| e.submit(session, b"both", submit, fx));
    assert_eq!(submitted, Err(Refused::QueueFull));
    assert_eq!(cause(&world, id), Some((DeathCause::Dropped, 0, String::new())));
}

#[test]
fn a_job_that_makes_room_is_a_dead_letter_if_the_policy_says_so() {
    let full = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::DropOldest)];
    let mut off = world(full.clone());
    let session = off.open();
    let id = off.put(session, 7, 0, 60);
    off.put(session, 7, 0, 60);
    assert_eq!(off.state(id), None);

    let mut world = world(full.into_iter().chain([to("dead"), Setting::DeadDropped(true)]));
    let session = world.open();
    let [first, second, third] = [7; 3].map(|priority| world.put(session, priority, 0, 60));
    for id in [first, second] {
        assert_eq!(cause(&world, id), Some((DeathCause::Dropped, 0, "default".into())));
        assert_eq!(queue_of(&world, id), "dead");
    }
    assert_eq!((queue_of(&world, third), world.stats("default").discarded), ("default".into(), 2));
    // A put into the dead queue makes room there: these letters end.
    world.act(|e, fx| e.use_queue(session, b"dead", fx));
    world.put(session, 7, 0, 60);
    assert_eq!((world.state(first), world.state(second)), (None, None));
}

#[test]
fn a_dead_letter_that_goes_back_can_end_for_the_job_that_makes_room_for_it() {
    let rules = Rules(vec![
        Rule::new(
            ["default"],
            [
                Setting::JobsMax(Some(1)),
                Setting::WhenFull(WhenFull::DropOldest),
                to("dead"),
                Setting::DeadDropped(true),
                Setting::DeadJobsMax(1),
            ],
        ),
        Rule::new(
            ["dead"],
            [Setting::AgeMax(Some(1000)), Setting::ExpireTo(Some(b"default"[..].into()))],
        ),
    ]);
    let mut world = World::new();
    world.follower = Some(Follower::new());
    world.act(|e, fx| e.set_policies(rules, fx));
    let session = world.open();
    let first = world.put(session, 7, 0, 60);
    let second = world.put(session, 7, 0, 60);
    assert_eq!(queue_of(&world, first), "dead");
    // The first letter goes back, and the second job makes room for it. But the dead queue has room
    // for one letter only.
    world.pass(1001);
    assert_eq!((world.state(first), queue_of(&world, second)), (None, "dead".into()));
    assert_eq!(cause(&world, second), Some((DeathCause::Dropped, 0, "default".into())));
}

#[test]
fn a_job_whose_client_waits_ends_when_it_makes_room() {
    let full = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::DropOldest)];
    for (foreground, state) in [(true, None), (false, Some(State::Buried))] {
        let mut world = world(full.clone().into_iter().chain([Setting::DeadDropped(true)]));
        let client = world.open();
        let submit = Submit {
            priority: Some(1),
            due: None,
            unique: b"",
            reducer: b"",
            body: b"work"[..].into(),
            foreground,
        };
        let id = world.act(|e, fx| e.submit(client, b"default", submit, fx)).expect("it has room");
        world.put(client, 7, 0, 60);
        assert_eq!(world.state(id), state);
    }
}

#[test]
fn a_queue_counts_a_job_once_as_expired_or_discarded() {
    let counts = |world: &World, queue: &str| {
        let stats = world.stats(queue);
        (stats.expired, stats.discarded)
    };
    let age = || Setting::AgeMax(Some(1000));
    let keep = || Setting::DeadKeep(Some(5000));
    let mut expiring = world([age(), Setting::DeadExpired(true), keep(), Setting::DeadJobsMax(1)]);
    let session = expiring.open();
    // Keep the queue when it has no jobs.
    expiring.act(|e, fx| e.use_queue(session, b"default", fx));
    let ids = [0; 2].map(|_| expiring.put(session, 7, 0, 60));
    expiring.pass(1001);
    // The second letter ended the first one.
    assert_eq!((expiring.state(ids[0]), expiring.state(ids[1])), (None, Some(State::Buried)));
    assert_eq!(counts(&expiring, "default"), (2, 0));
    expiring.pass(5001);
    assert_eq!((expiring.state(ids[1]), counts(&expiring, "default")), (None, (2, 0)));

    let full = [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::DropOldest)];
    let mut dropping = world(full.into_iter().chain([Setting::DeadDropped(true), keep()]));
    let session = dropping.open();
    let ids = [0; 2].map(|_| dropping.put(session, 7, 0, 60));
    dropping.pass(5001);
    assert_eq!((dropping.state(ids[0]), dropping.state(ids[1])), (None, Some(State::Ready)));
    assert_eq!(counts(&dropping, "default"), (0, 1));

    // A letter that failed is counted at its end.
    let mut failing = world([keep()]);
    let session = failing.open();
    let id = dead(&mut failing, session);
    assert_eq!(counts(&failing, "default"), (0, 0));
    failing.pass(5001);
    assert_eq!((failing.state(id), counts(&failing, "default")), (None, (1, 0)));

    // Each of two queues counts a letter that has moved.
    let mut moving = world([age(), Setting::DeadExpired(true), to("dead"), keep()]);
    let mut rules = moving.engine.policies().clone();
    rules.0.push(Rule::new(["dead"], [Setting::AgeMax(None)]));
    moving.act(|e, fx| e.set_policies(rules, fx));
    moving.pass(0);
    let session = moving.open();
    moving.act(|e, _| e.watch(session, b"dead"));
    let id = moving.put(session, 7, 0, 60);
    moving.pass(1001);
    assert_eq!(queue_of(&moving, id), "dead");
    moving.pass(5001);
    assert_eq!(moving.state(id), None);
    assert_eq!((counts(&moving, "default"), counts(&moving, "dead")), ((1, 0), (1, 0)));
}

#[test]
fn a_job_that_expires_into_a_full_queue_is_a_dead_letter_if_the_policy_says_so() {
    for (dropped, state) in [(false, None), (true, Some(State::Buried))] {
        let rules = Rules(vec![
            Rule::new(
                ["default"],
                [
                    Setting::AgeMax(Some(1000)),
                    Setting::ExpireTo(Some(b"late"[..].into())),
                    // This alone does not help a job that would move.
                    Setting::DeadExpired(true),
                    Setting::DeadDropped(dropped),
                ],
            ),
            Rule::new(["late"], [Setting::JobsMax(Some(1))]),
        ]);
        let mut world = World::new();
        world.follower = Some(Follower::new());
        world.act(|e, fx| e.set_policies(rules, fx));
        world.pass(0);
        let session = world.open();
        let [first, second] = [0; 2].map(|_| world.put(session, 7, 0, 60));
        world.pass(1001);
        assert_eq!(
            (queue_of(&world, first), world.state(first)),
            ("late".into(), Some(State::Ready))
        );
        assert_eq!(world.state(second), state);
        if dropped {
            let expected = (DeathCause::Dropped, 0, String::new());
            assert_eq!(
                (queue_of(&world, second), cause(&world, second)),
                ("default".into(), Some(expected))
            );
            assert_eq!(world.stats("default").discarded, 1);
            // It comes back, and moves when the other queue has room.
            world.act(|e, fx| e.cancel(first, fx)).expect("it is ready");
            world.act(|e, fx| e.redrive(second, fx)).expect("it is dead");
            world.pass(1001);
            assert_eq!((queue_of(&world, second), death(&world, second)), ("late".into(), None));
        }
    }
}
