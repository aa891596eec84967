//! Puts that wait for room in a full queue.

use lineshaft_engine::policy::{OnDuplicate, Rule, Rules, Setting, WhenFull};
use lineshaft_engine::{
    Body, Engine, JobId, Millis, MoveRefused, NewJob, Refused, SessionId, Submit,
};

use crate::world::World;

const WAIT_MS: u64 = 1000;

fn blocking<const N: usize>(pattern: &str, more: [Setting; N]) -> Rule {
    let settings =
        [Setting::JobsMax(Some(1)), Setting::WhenFull(WhenFull::Block), Setting::BlockFor(WAIT_MS)];
    Rule::new([pattern], settings.into_iter().chain(more))
}

/// A world in which the queue `q` blocks puts, and has one job.
fn full<const N: usize>(more: [Setting; N]) -> (World, JobId) {
    let mut world = World::new();
    world.policies([blocking("q", more)]);
    let session = producer(&mut world);
    let id = try_put(&mut world, session, "a first").expect("it need not wait").expect("it fits");
    (world, id)
}

fn producer(world: &mut World) -> SessionId {
    let session = world.open();
    world.act(|engine, fx| engine.use_queue(session, b"q", fx));
    session
}

/// Puts as a dialect does. `None`: the put must wait.
fn try_put(world: &mut World, session: SessionId, body: &str) -> Option<Result<JobId, Refused>> {
    let body: Body = body.as_bytes().into();
    let waits = world.act(|engine, fx| {
        let waits = engine.wait_for_room(session, None, (&body, b""), None, fx);
        if waits {
            engine.offer_room(fx);
        }
        waits
    });
    if waits {
        return None;
    }
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    let put = world.act(|engine, fx| {
        let put = engine.put(session, job, body, fx);
        engine.offer_room(fx);
        put
    });
    Some(put)
}

/// Sessions whose puts wait, in this order.
fn waiting<const N: usize>(world: &mut World) -> [SessionId; N] {
    [(); N].map(|()| {
        let session = producer(world);
        assert_eq!(try_put(world, session, "x"), None);
        session
    })
}

fn offers(world: &mut World) -> Vec<SessionId> {
    world.act(Engine::offer_room);
    let events = world.events().into_iter().filter(|(_, event)| event == "room");
    events.map(|(session, _)| session).collect()
}

fn take(world: &mut World) -> JobId {
    hold(world).1
}

/// A worker takes a job. If it gives the job back, the queue is full again.
fn hold(world: &mut World) -> (SessionId, JobId) {
    let worker = world.open();
    world.act(|engine, _| engine.watch(worker, b"q"));
    (worker, world.taken(worker))
}

#[test]
fn puts_wait_in_their_order_and_each_take_lets_one_try() {
    let (mut world, first) = full([]);
    let sessions = waiting::<3>(&mut world);
    assert_eq!(offers(&mut world), []);
    assert_eq!(take(&mut world), first, "a take makes room");
    assert_eq!(offers(&mut world), [sessions[0]]);
    // Another session comes before the first one has tried.
    let late = producer(&mut world);
    assert_eq!(try_put(&mut world, late, "late"), None);
    let second = try_put(&mut world, sessions[0], "x").expect("it has room").expect("it fits");
    assert_eq!(offers(&mut world), [], "the queue is full again");
    assert!(world.act(|engine, fx| engine.finish(late, second, fx)).is_ok());
    assert_eq!(offers(&mut world), [sessions[1]]);
    // It leaves. The next one does not wait for it.
    world.close(sessions[1]);
    assert_eq!(offers(&mut world), [sessions[2]]);
    assert!(matches!(try_put(&mut world, sessions[2], "x"), Some(Ok(_))));
    take(&mut world);
    assert_eq!(offers(&mut world), [late]);
    assert!(matches!(try_put(&mut world, late, "late"), Some(Ok(_))));
    assert!(!world.engine.has_room_lines());
}

#[test]
fn a_put_that_has_its_event_keeps_its_turn_when_its_client_sends_no_more() {
    let (mut world, _) = full([]);
    let sessions = waiting::<2>(&mut world);
    take(&mut world);
    assert_eq!(offers(&mut world), [sessions[0]]);
    assert!(!world.act(|engine, fx| engine.cancel_room_wait(sessions[0], fx)), "it has its event");
    assert_eq!(offers(&mut world), [], "the next one does not pass it");
    assert!(world.act(|engine, fx| engine.cancel_room_wait(sessions[1], fx)), "it has none");
    assert!(matches!(try_put(&mut world, sessions[0], "x"), Some(Ok(_))));
    assert!(!world.engine.has_room_lines());
}

#[test]
fn a_put_that_does_not_wait_does_not_pass_those_that_wait() {
    let (mut world, _) = full([]);
    world.policies([
        blocking("q", []),
        Rule::new(["copied"], [Setting::CopyTo([b"q"[..].into()].into())]),
    ]);
    let [first, second] = waiting::<2>(&mut world);
    let operator = world.open();
    let moved = world.put(operator, 5000, 0, 60);
    let moves = |world: &mut World| world.act(|engine, fx| engine.move_job(moved, b"q", fx));
    take(&mut world);
    assert_eq!(offers(&mut world), [first]);
    assert!(!world.add("q", "by HTTP") && world.engine.is_full_for_puts(b"q"));
    assert_eq!(moves(&mut world), Err(MoveRefused::NoRoom(Refused::QueueFull)));
    assert!(matches!(try_put(&mut world, first, "x"), Some(Ok(_))), "the second one is behind it");
    take(&mut world);
    assert!(world.add("copied", "y"), "a copy would be lost");
    assert_eq!(try_put(&mut world, second, "x"), None);
    take(&mut world);
    assert!(matches!(try_put(&mut world, second, "x"), Some(Ok(_))));
    take(&mut world);
    assert_eq!(moves(&mut world), Ok(()));
}

#[test]
fn a_put_that_has_waited_for_its_time_is_refused() {
    let (mut world, _) = full([]);
    let (first, second) = (producer(&mut world), producer(&mut world));
    assert_eq!(try_put(&mut world, first, "x"), None);
    world.pass(WAIT_MS / 2);
    assert_eq!(try_put(&mut world, second, "x"), None);
    world.pass(WAIT_MS / 2);
    assert_eq!(offers(&mut world), [first]);
    assert_eq!(try_put(&mut world, first, "x"), Some(Err(Refused::QueueFull)));
    // A second try of another session keeps its time.
    let (worker, held) = hold(&mut world);
    assert_eq!(offers(&mut world), [second]);
    assert!(world.release(worker, held, 0, 0));
    assert_eq!(try_put(&mut world, second, "x"), None, "the job came back");
    world.pass(WAIT_MS / 2);
    assert_eq!(offers(&mut world), [second]);
    assert_eq!(try_put(&mut world, second, "x"), Some(Err(Refused::QueueFull)));
    assert!(!world.engine.has_room_lines());
}

#[test]
fn a_put_that_has_waited_for_its_time_does_not_come_back_before_the_others() {
    let (mut world, _) = full([]);
    let (first, second) = (producer(&mut world), producer(&mut world));
    assert_eq!(try_put(&mut world, first, "x"), None);
    world.pass(WAIT_MS / 2);
    assert_eq!(try_put(&mut world, second, "x"), None);
    world.pass(WAIT_MS / 2);
    assert_eq!(offers(&mut world), [first]);
    // The first one has not tried yet when the second one may, and a reload lets puts wait longer.
    let (worker, held) = hold(&mut world);
    assert_eq!(offers(&mut world), [second]);
    assert!(world.release(worker, held, 0, 0));
    world.policies([blocking("q", [Setting::BlockFor(10 * WAIT_MS)])]);
    assert_eq!(try_put(&mut world, first, "x"), Some(Err(Refused::QueueFull)));
    assert_eq!(try_put(&mut world, second, "x"), None);
    take(&mut world);
    assert_eq!(offers(&mut world), [second]);
    assert!(matches!(try_put(&mut world, second, "x"), Some(Ok(_))));
}

#[test]
fn what_needs_no_room_does_not_wait() {
    let replacing = [
        Setting::UniqueBy("prefix:1".parse().ok()),
        Setting::OnDuplicate(OnDuplicate::ReturnExisting),
        Setting::ItemBytesMax(Some(10)),
    ];
    let (mut world, first) = full(replacing);
    let session = producer(&mut world);
    assert_eq!(try_put(&mut world, session, "a again"), Some(Ok(first)), "a duplicate");
    assert_eq!(try_put(&mut world, session, "b is too long"), Some(Err(Refused::TooBig)));
    assert_eq!(try_put(&mut world, session, "b"), None);
}

#[test]
fn a_raised_limit_and_the_end_of_the_queue_let_puts_try() {
    let (mut world, _) = full([]);
    let sessions = waiting::<2>(&mut world);
    world.policies([blocking("q", [Setting::JobsMax(Some(2))])]);
    assert_eq!(offers(&mut world), [sessions[0]]);
    assert!(matches!(try_put(&mut world, sessions[0], "x"), Some(Ok(_))));
    assert_eq!(offers(&mut world), []);
    world.remove(b"q");
    assert_eq!(offers(&mut world), [sessions[1]]);
    assert!(matches!(try_put(&mut world, sessions[1], "x"), Some(Ok(_))));
}

#[test]
fn a_put_into_an_alias_waits_for_the_queue_that_is_full() {
    let (mut world, first) = full([]);
    world.policies([blocking("q", []), both()]);
    let session = world.open();
    assert!(waits_for_both(&mut world, session, None));
    assert!(world.engine.queue_id(b"p").is_none(), "nothing was stored");
    assert_eq!(take(&mut world), first);
    assert_eq!(offers(&mut world), [session]);
    assert!(!waits_for_both(&mut world, session, None));
}

/// The alias `both` of the queues `p` and `q`.
fn both() -> Rule {
    Rule::new(["both"], [Setting::Alias([b"p"[..].into(), b"q"[..].into()].into())])
}

/// Whether a put into `both` must wait.
fn waits_for_both(world: &mut World, session: SessionId, since: Option<Millis>) -> bool {
    let (name, body) = (Some(&b"both"[..]), Body::from(&b"x"[..]));
    world.act(|engine, fx| engine.wait_for_room(session, name, (&body, b""), since, fx))
}

/// Takes a job of a queue, and ends it.
fn take_from(world: &mut World, queue: &[u8]) {
    let worker = world.open();
    world.act(|engine, _| engine.watch(worker, queue));
    let id = world.taken(worker);
    assert!(world.finish(worker, id));
    world.close(worker);
}

/// A world in which the alias `both` has two full queues. In `q`, a put waits `q_ms` milliseconds.
fn both_full(q_ms: u64) -> World {
    let mut world = World::new();
    world.policies([blocking("p", []), blocking("q", [Setting::BlockFor(q_ms)]), both()]);
    assert!(world.add("p", "p 1") && world.add("q", "q 1"));
    world
}

#[test]
fn a_put_into_an_alias_waits_for_one_time_although_its_queues_become_full_in_turn() {
    let mut world = both_full(WAIT_MS);
    let session = world.open();
    assert!(waits_for_both(&mut world, session, None));
    for (queue, other) in [("p", "q"), ("q", "p"), ("p", "q")] {
        world.pass(WAIT_MS / 4);
        take_from(&mut world, queue.as_bytes());
        assert_eq!(offers(&mut world), [session], "{queue} has room");
        assert!(waits_for_both(&mut world, session, None), "{other} is full");
        // Another dialect is faster in the queue that had room.
        assert!(world.add(queue, "x"));
    }
    world.pass(WAIT_MS / 4);
    assert_eq!(offers(&mut world), [session]);
    assert!(!waits_for_both(&mut world, session, None), "its time is over in both queues");
    assert!(!world.engine.has_room_lines());
}

#[test]
fn a_put_into_an_alias_waits_for_each_queue_as_long_as_that_queue_says() {
    let mut world = both_full(2 * WAIT_MS);
    let session = world.open();
    assert!(waits_for_both(&mut world, session, None));
    world.pass(WAIT_MS);
    assert_eq!(offers(&mut world), [session]);
    assert!(waits_for_both(&mut world, session, None), "only p refuses it by now");
    world.pass(WAIT_MS);
    assert_eq!(offers(&mut world), [session]);
    assert!(!waits_for_both(&mut world, session, None));
}

#[test]
fn the_later_puts_of_a_request_wait_for_the_rest_of_its_time() {
    let mut world = both_full(WAIT_MS);
    let session = world.open();
    world.pass(WAIT_MS);
    let began = Millis(world.engine.now().0 - WAIT_MS / 2);
    assert!(waits_for_both(&mut world, session, Some(began)));
    world.pass(WAIT_MS / 2);
    assert_eq!(offers(&mut world), [session]);
    assert!(!waits_for_both(&mut world, session, Some(began)));
}

#[test]
fn a_submit_to_an_alias_waits_although_one_of_its_queues_has_a_job_with_its_key() {
    let (mut world, body) = (World::new(), Body::from(&b"x"[..]));
    world.policies([blocking("q", []), both()]);
    let session = world.open();
    let submit = Submit {
        priority: None,
        due: None,
        unique: b"key",
        reducer: b"",
        body: body.clone(),
        foreground: false,
    };
    let first = world.act(|engine, fx| engine.submit(session, b"q", submit.clone(), fx));
    assert!(first.is_ok());
    let waits = |world: &mut World, name: &[u8]| {
        let put = (&body, &b"key"[..]);
        world.act(|engine, fx| engine.wait_for_room(session, Some(name), put, None, fx))
    };
    assert!(!waits(&mut world, b"q"), "it joins the job");
    assert!(waits(&mut world, b"both"), "it makes jobs of its own");
    take_from(&mut world, b"q");
    assert_eq!(offers(&mut world), [session]);
    assert!(!waits(&mut world, b"both"));
    assert!(world.act(|engine, fx| engine.submit(session, b"both", submit, fx)).is_ok());
}

#[test]
fn an_expired_job_makes_room() {
    let (mut world, _) = full([Setting::AgeMax(Some(100))]);
    let session = producer(&mut world);
    assert_eq!(try_put(&mut world, session, "x"), None);
    world.pass(101);
    assert_eq!(offers(&mut world), [session]);
    assert!(matches!(try_put(&mut world, session, "x"), Some(Ok(_))));
}

#[test]
fn a_queue_that_its_neighbour_empties_may_vanish_during_a_put_into_both() {
    let mut world = World::new();
    let moving = [Setting::AgeMax(Some(100)), Setting::ExpireTo(Some(b"q"[..].into()))];
    let dropping = |jobs_max| {
        let settings = [Setting::JobsMax(Some(jobs_max)), Setting::WhenFull(WhenFull::DropOldest)];
        Rule::new(["q"], settings)
    };
    world.policies([blocking("p", moving.clone()), dropping(1), both()]);
    let producer = world.open();
    for queue in [b"p", b"q"] {
        world.act(|engine, fx| engine.use_queue(producer, queue, fx));
        world.put(producer, 0, 0, 60);
    }
    world.close(producer);
    world.policies([blocking("p", moving), dropping(0), both()]);
    world.engine.set_time(Millis(world.engine.now().0 + 101));
    let session = world.open();
    assert!(!waits_for_both(&mut world, session, None), "nothing is full that blocks");
    world.engine.check_invariants();
}

#[test]
fn a_queue_that_stores_nothing_any_more_lets_puts_try() {
    let (mut world, _) = full([]);
    let session = producer(&mut world);
    assert_eq!(try_put(&mut world, session, "x"), None);
    world.policies([blocking("q", [Setting::FanoutOnly(true)])]);
    assert_eq!(offers(&mut world), [session]);
    assert!(matches!(try_put(&mut world, session, "x"), Some(Ok(_))));
}

#[test]
fn without_a_wait_the_queue_refuses() {
    let (mut world, _) = full([]);
    assert!(!world.add("q", "x"), "the owner has not asked");
    let rules = Rules(vec![blocking("q", [])]);
    assert_eq!(Rules::decode(&rules.encode()), Some(rules));
    let session = producer(&mut world);
    assert_eq!(try_put(&mut world, session, "x"), None);
    world.policies([]);
    assert_eq!(offers(&mut world), [session]);
    assert!(matches!(try_put(&mut world, session, "x"), Some(Ok(_))));
    assert!(!world.engine.puts_may_wait());
}
