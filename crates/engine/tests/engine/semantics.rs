//! The effects of requests on jobs, queues and sessions.

use lineshaft_engine::{
    Choice, Engine, GrabOrder, JobBody, JobId, Kick, Millis, NewJob, Patience, ReadMode, Record,
    SessionId, State, Status, Take,
};

use crate::world::{SLICE_UNITS, START, World, grab, take_job};

/// Makes a job with this state. Returns the job and the session that put it. If the job is leased,
/// this session holds it.
fn job_in(world: &mut World, state: State) -> (JobId, SessionId) {
    let holder = world.open();
    let delay_s = if state == State::Delayed { 100 } else { 0 };
    let id = world.put(holder, 1, delay_s, 60);
    if matches!(state, State::Leased | State::Buried) {
        assert_eq!(world.taken(holder), id);
    }
    if state == State::Buried {
        assert!(world.bury(holder, id));
    }
    (id, holder)
}

/// A function that makes one request of a session about a job. It returns whether the engine
/// allowed the request.
type Act = fn(&mut World, SessionId, JobId) -> bool;

/// The table of spec beanstalkd 2.1. It says which requests each state of a job allows, for its
/// holder and for other sessions.
#[test]
fn requests_are_allowed_by_state_and_holder() {
    let take_job: Act =
        |world, session, id| world.act(|e, fx| take_job(e, session, id, fx)).is_some();
    let finish: Act = |world, session, id| world.finish(session, id);
    let release: Act = |world, session, id| world.release(session, id, 0, 0);
    let bury: Act = |world, session, id| world.bury(session, id);
    let touch: Act = |world, session, id| world.act(|e, _| e.touch(session, id)).is_ok();
    let kick: Act = |world, _, id| world.act(|e, fx| e.kick_job(id, fx)).is_ok();
    //            ready, delayed, leased (holder), leased (others), buried
    let table: [(&str, Act, [bool; 5]); 6] = [
        ("take_job", take_job, [true, true, false, false, true]),
        ("finish", finish, [true, true, true, false, true]),
        ("release", release, [false, false, true, false, false]),
        ("bury", bury, [false, false, true, false, false]),
        ("touch", touch, [false, false, true, false, false]),
        ("kick", kick, [false, true, false, false, true]),
    ];
    for (name, act, allowed) in table {
        let columns = [
            (State::Ready, false),
            (State::Delayed, false),
            (State::Leased, true),
            (State::Leased, false),
            (State::Buried, false),
        ];
        for ((state, by_holder), allowed) in columns.into_iter().zip(allowed) {
            let mut world = World::new();
            let (id, holder) = job_in(&mut world, state);
            let session = if by_holder { holder } else { world.open() };
            let done = act(&mut world, session, id);
            assert_eq!(done, allowed, "{name} on a {state:?} job, by its holder: {by_holder}");
        }
        let mut world = World::new();
        let session = world.open();
        assert!(!act(&mut world, session, JobId(99)), "{name} on an unknown job");
    }
}

#[test]
fn best_priority_first_then_the_oldest_number() {
    let mut world = World::new();
    let session = world.open();
    let a = world.put(session, 10, 0, 60);
    let b = world.put(session, 10, 0, 60);
    let c = world.put(session, 5, 0, 60);
    assert_eq!([world.taken(session), world.taken(session)], [c, a]);
    world.release(session, a, 10, 0);
    assert_eq!(world.taken(session), a, "a job that comes back keeps its number");
    world.release(session, a, 11, 0);
    assert_eq!(world.taken(session), b);
}

#[test]
fn the_best_over_all_watched_queues() {
    let mut world = World::new();
    let (producer, taker) = (world.open(), world.open());
    let mut ids = Vec::new();
    for (queue, priority) in [("a", 5), ("b", 3), ("c", 3)] {
        world.act(|e, fx| e.use_queue(producer, queue.as_bytes(), fx));
        ids.push(world.put(producer, priority, 0, 60));
        world.act(|e, _| e.watch(taker, queue.as_bytes()));
    }
    world.act(|e, fx| e.pause(b"b", 10, fx)).expect("the queue exists");
    assert_eq!([world.taken(taker), world.taken(taker)], [ids[2], ids[0]]);
    assert!(matches!(world.take(taker, Patience::None), Take::Nothing(_)));
    world.pass(10_000);
    assert_eq!(world.taken(taker), ids[1]);
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    let mut world = World::new();
    let producer = world.open();
    let waiters: Vec<SessionId> = (0..6).map(|_| world.open()).collect();
    for &waiter in &waiters {
        assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    }
    for _ in &waiters {
        world.put(producer, 0, 0, 60);
    }
    let served: Vec<SessionId> = world.events().into_iter().map(|(who, _)| who).collect();
    assert_eq!(served, waiters);
}

#[test]
fn patience_ends_in_time() {
    let mut world = World::new();
    let session = world.open();
    assert!(matches!(world.take(session, Patience::Millis(1500)), Take::Waiting));
    world.pass(1499);
    assert!(world.events().is_empty());
    world.pass(1);
    assert_eq!(world.events(), [(session, "timed out".into())]);
    world.put(session, 0, 0, 60);
    assert!(world.events().is_empty(), "no session waits any more");
}

#[test]
fn a_ttr_that_is_over_makes_the_job_ready_though_everybody_is_idle() {
    let mut world = World::new();
    let (holder, waiter) = (world.open(), world.open());
    let id = world.put(holder, 0, 0, 2);
    world.taken(holder);
    world.take(waiter, Patience::Endless);
    assert_eq!(world.engine.next_deadline(), Some(Millis(START.0 + 2000)));
    world.pass(1999);
    assert!(world.events().is_empty());
    world.pass(1);
    assert_eq!(world.events(), [(waiter, format!("granted {id}"))]);
    assert!(!world.release(holder, id, 0, 0), "the old holder has lost it");
    let counters = world.engine.job_status(id).expect("it exists").facts.counters;
    assert_eq!((counters.takes, counters.timeouts), (2, 1));
}

#[test]
fn touch_starts_the_ttr_anew() {
    let mut world = World::new();
    let holder = world.open();
    let id = world.put(holder, 0, 0, 2);
    world.taken(holder);
    world.pass(1500);
    world.act(|e, _| e.touch(holder, id)).expect("held");
    world.pass(1999);
    assert_eq!(world.state(id), Some(State::Leased));
    world.pass(1);
    assert_eq!(world.state(id), Some(State::Ready));
}

#[test]
fn a_waiting_holder_gets_a_warning_a_second_before_its_deadline() {
    let mut world = World::new();
    let holder = world.open();
    world.put(holder, 0, 0, 3);
    world.taken(holder);
    world.take(holder, Patience::Endless);
    world.pass(1999);
    assert!(world.events().is_empty());
    world.pass(1);
    assert_eq!(world.events(), [(holder, "deadline soon".into())]);
    assert!(matches!(world.take(holder, Patience::Endless), Take::DeadlineSoon));
    let next = world.put(holder, 0, 0, 60);
    assert_eq!(world.taken(holder), next, "a ready job comes before the warning");
}

#[test]
fn a_closed_session_gives_back_all_it_held_and_counts_nothing() {
    let mut world = World::new();
    let holder = world.open();
    let ids: Vec<JobId> = (0..2500).map(|_| world.put(holder, 0, 0, 60)).collect();
    for _ in &ids {
        world.engine.take(holder, Choice::Watched, Patience::None, &mut world.effects);
    }
    let waiter = world.open();
    world.take(waiter, Patience::Endless);
    world.close(holder);
    world.pass(0);
    assert_eq!(world.events(), [(waiter, format!("granted {}", ids[0]))]);
    let totals = world.engine.totals();
    assert_eq!((totals.ready, totals.leased), (2499, 1));
    let counters = world.engine.job_status(ids[7]).expect("it exists").facts.counters;
    assert_eq!((counters.takes, counters.timeouts, counters.releases), (1, 0, 0));
}

#[test]
fn a_closed_session_s_jobs_reach_waiters_in_the_order_they_were_taken() {
    let mut world = World::new();
    let holder = world.open();
    let ids = [1000, 100, 500].map(|ttr_s| world.put(holder, 0, 0, ttr_s));
    for _ in &ids {
        world.taken(holder);
    }
    let waiters = [world.open(), world.open(), world.open()];
    for waiter in waiters {
        world.take(waiter, Patience::Endless);
    }
    world.close(holder);
    let granted: Vec<String> = world.events().into_iter().map(|(_, what)| what).collect();
    assert_eq!(granted, ids.map(|id| format!("granted {id}")), "not by their deadlines");
}

#[test]
fn a_long_kick_goes_in_slices_and_reports_the_sum() {
    let mut world = World::new();
    let session = world.open();
    for _ in 0..2600 {
        let put = world.engine.put(
            session,
            NewJob { priority: 0, delay_s: 100, ttr_s: 1 },
            b""[..].into(),
            &mut world.effects,
        );
        put.expect("no policy asks for anything");
    }
    let kick = |world: &mut World, max| world.act(|e, fx| e.kick(session, max, fx));
    assert_eq!(kick(&mut world, 100), Kick::Done(100));
    assert_eq!(kick(&mut world, 2400), Kick::Waiting);
    world.pass(0);
    assert_eq!(world.events(), [(session, "kicked 2400".into())]);
    assert_eq!(kick(&mut world, 5000), Kick::Done(100));
    assert_eq!(world.engine.totals().ready, 2600);
}

#[test]
fn a_long_kick_rests_while_the_records_cannot_be_written() {
    let mut world = World::new();
    let session = world.open();
    for _ in 0..2500 {
        world.put(session, 0, 100, 1);
    }
    assert_eq!(world.act(|e, fx| e.kick(session, 2500, fx)), Kick::Waiting);
    world.engine.hold_chores(true);
    let now = world.engine.now();
    assert!(!world.act(Engine::advance));
    assert!(world.engine.next_deadline().is_some_and(|at| at > now), "it is looked at again");
    let kicked = world.engine.totals().ready;
    assert!((1..=1000).contains(&kicked), "{kicked}: one step");
    world.engine.hold_chores(false);
    world.pass(0);
    assert_eq!(world.events(), [(session, "kicked 2500".into())]);
}

#[test]
fn a_long_kick_ends_early_while_its_records_have_no_room() {
    let mut world = World::new();
    let session = world.open();
    for _ in 0..2500 {
        world.put(session, 0, 100, 1);
    }
    assert_eq!(world.act(|e, fx| e.kick(session, 2500, fx)), Kick::Waiting);
    let kicked = world.engine.totals().ready;
    world.engine.end_kicks(true);
    world.pass(0);
    assert_eq!(world.events(), [(session, format!("kicked {kicked}"))]);
    assert_eq!(world.act(|e, fx| e.kick(session, 1, fx)), Kick::Done(1), "the caller found room");
    world.engine.end_kicks(false);
    assert_eq!(world.act(|e, fx| e.kick(session, 2500, fx)), Kick::Waiting);
    world.pass(0);
    assert_eq!(world.events(), [(session, format!("kicked {}", 2499 - kicked))]);
}

#[test]
fn kicks_take_buried_jobs_first_in_the_order_of_burying() {
    let mut world = World::new();
    let session = world.open();
    let ids: Vec<JobId> = (0..3).map(|_| world.put(session, 0, 0, 60)).collect();
    let delayed = world.put(session, 0, 100, 60);
    for _ in 0..3 {
        world.taken(session);
    }
    for at in [2, 0, 1] {
        world.bury(session, ids[at]);
    }
    world.act(|e, fx| e.kick(session, 2, fx));
    let states: Vec<_> = ids.iter().map(|id| world.state(*id)).collect();
    assert_eq!(states, [Some(State::Ready), Some(State::Buried), Some(State::Ready)]);
    world.act(|e, fx| e.kick(session, 9, fx));
    assert_eq!(world.state(delayed), Some(State::Delayed), "only buried ones in one kick");
    world.act(|e, fx| e.kick(session, 9, fx));
    assert_eq!(world.state(delayed), Some(State::Ready));
}

#[test]
fn a_burst_of_due_jobs_is_worked_off_in_slices() {
    let mut world = World::new();
    let session = world.open();
    for _ in 0..2500 {
        world.put(session, 0, 5, 60);
    }
    let now = Millis(world.engine.now().0 + 5000);
    world.engine.set_time(now);
    assert!(world.act(Engine::advance));
    assert!(world.engine.totals().ready <= 1000);
    while world.act(Engine::advance) {}
    assert_eq!(world.engine.totals().ready, 2500);
    assert_eq!(world.engine.next_deadline(), None);
}

#[test]
fn a_queue_exists_while_something_keeps_it() {
    let mut world = World::new();
    let session = world.open();
    let exists = |world: &World| world.engine.queue_id(b"q").is_some();
    world.act(|e, fx| e.use_queue(session, b"q", fx));
    let id = world.put(session, 0, 0, 60);
    world.act(|e, fx| e.use_queue(session, b"default", fx));
    assert!(exists(&world), "a job keeps it");
    world.finish(session, id);
    assert!(!exists(&world));
    world.act(|e, _| e.watch(session, b"q"));
    assert!(exists(&world), "a watcher keeps it");
    world.act(|e, fx| e.ignore(session, b"default", fx));
    assert!(world.act(|e, fx| e.ignore(session, b"q", fx)).is_none(), "the only one stays");
    world.close(session);
    assert!(!exists(&world));
    assert!(world.engine.queue_id(b"default").is_some());
}

/// Returns `count` sessions that wait for jobs of a queue. The queue has `count` ready jobs. The
/// caller must have paused the queue or blocked reads.
fn waiters_and_jobs(world: &mut World, queue: &[u8], count: usize) -> Vec<SessionId> {
    let producer = world.open();
    world.engine.use_queue(producer, queue, &mut world.effects);
    for _ in 0..count {
        let body = b"1"[..].into();
        world.engine.put(producer, NewJob::default(), body, &mut world.effects).expect("room");
    }
    let waiters: Vec<SessionId> = (0..count).map(|_| world.open()).collect();
    for waiter in &waiters {
        world.engine.watch(*waiter, queue);
        let take =
            world.engine.take(*waiter, Choice::Watched, Patience::Endless, &mut world.effects);
        assert!(matches!(take, Take::Waiting));
    }
    waiters
}

fn told(world: &mut World) -> Vec<SessionId> {
    world.events().into_iter().map(|(session, _)| session).collect()
}

#[test]
fn many_waiters_are_served_in_slices_and_in_their_order() {
    let mut world = World::new();
    let late = world.open();
    world.act(|engine, _| engine.watch(late, b"q"));
    for unpauses in [true, false] {
        world.act(|e, fx| e.pause(b"q", 10, fx)).expect("the queue exists");
        let waiters = waiters_and_jobs(&mut world, b"q", 2500);
        if unpauses {
            world.act(|e, fx| e.pause(b"q", 0, fx)).expect("the queue exists");
        } else {
            world.engine.set_time(Millis(world.engine.now().0 + 10_000));
            world.act(Engine::advance);
        }
        let mut served = told(&mut world);
        assert!((200..=SLICE_UNITS as usize).contains(&served.len()), "{}", served.len());
        let queue = world.engine.queue_id(b"q").expect("it exists");
        assert_eq!(world.engine.queue_stats(queue).pause_s, 0);
        assert!(
            matches!(world.take(late, Patience::None), Take::Nothing(_)),
            "no session overtakes"
        );
        while served.len() < waiters.len() {
            world.pass(1);
            let more = told(&mut world);
            assert!((1..=SLICE_UNITS as usize).contains(&more.len()));
            served.extend(more);
        }
        assert_eq!(served, waiters);
    }
}

#[test]
fn jobs_that_sliced_waiters_leave_go_to_others() {
    let mut world = World::new();
    let (late, worker) = (world.open(), world.open());
    world.act(|engine, _| engine.watch(late, b"q"));
    world.act(|engine, fx| engine.register(worker, b"q", None, fx));
    world.act(|e, fx| e.pause(b"q", 10, fx)).expect("the queue exists");
    let waiters = waiters_and_jobs(&mut world, b"q", 2500);
    world.act(|engine, fx| engine.use_queue(late, b"q", fx));
    for _ in 0..3 {
        world.put(late, 9, 0, 60);
    }
    world.act(|e, fx| e.pause(b"q", 0, fx)).expect("the queue exists");
    let mut served = told(&mut world);
    assert!(served.len() < waiters.len());
    assert!(matches!(world.take(late, Patience::None), Take::Granted(_)));
    assert!(world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_some());
    let reader = world.reader();
    let read = world.read(reader, "q", ReadMode::Finish, Patience::UntilSwept);
    assert!(matches!(read, Take::Finished { .. }));
    assert!(
        matches!(world.take(late, Patience::None), Take::Nothing(_)),
        "the others are promised"
    );
    assert!(world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).is_none());
    while served.len() < waiters.len() {
        world.pass(1);
        served.extend(told(&mut world));
    }
    assert_eq!(served, waiters);
}

#[test]
fn no_job_is_taken_by_its_number_while_the_status_refuses_reads() {
    for state in [State::Ready, State::Delayed, State::Buried] {
        let mut world = World::new();
        let (id, session) = job_in(&mut world, state);
        world.act(|e, fx| e.set_status(Status::Quiescent, 0, fx));
        assert!(world.act(|e, fx| take_job(e, session, id, fx)).is_none());
        assert_eq!(world.state(id), Some(state));
        world.act(|e, fx| e.set_status(Status::Up, 0, fx));
        assert!(world.act(|e, fx| take_job(e, session, id, fx)).is_some());
    }
}

#[test]
fn no_client_overtakes_at_the_end_of_a_pause() {
    let mut world = World::new();
    let (first, second, late) = (world.open(), world.open(), world.open());
    world.act(|e, fx| e.pause(b"default", 10, fx)).expect("the queue exists");
    for waiter in [first, second] {
        assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    }
    let early = world.put(late, 1, 0, 60);
    // The time of the pause is over, but the queue's timer has not run yet.
    world.engine.set_time(Millis(START.0 + 10_000));
    assert!(matches!(world.take(late, Patience::None), Take::Nothing(_)), "it is promised");
    let urgent = world.put(late, 0, 0, 60);
    assert!(world.events().is_empty(), "the order of jobs is kept");
    world.put(late, 2, 0, 60);
    assert_eq!(world.taken(late), urgent, "there is enough for all");
    world.pass(0);
    let served = world.events();
    assert_eq!(served[0], (first, format!("granted {early}")));
    assert_eq!((served.len(), served[1].0), (2, second));
}

#[test]
fn waiters_of_many_queues_are_served_in_slices() {
    let mut world = World::new();
    world.act(|e, fx| e.set_status(Status::Quiescent, 0, fx));
    let queues: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let waiters = queues.map(|queue| waiters_and_jobs(&mut world, queue, 400)).concat();
    world.act(|e, fx| e.set_status(Status::Up, 0, fx));
    let mut served = told(&mut world);
    assert!((1..waiters.len()).contains(&served.len()), "{}", served.len());
    while served.len() < waiters.len() {
        world.pass(1);
        served.extend(told(&mut world));
    }
    served.sort_unstable();
    let mut waiters = waiters;
    waiters.sort_unstable();
    assert_eq!(served, waiters);
}

#[test]
fn records_name_all_durable_changes() {
    let mut world = World::new();
    let session = world.open();
    let id = world.put(session, 0, 0, 60);
    let slot = world.engine.slot(id).expect("it exists");
    let queue = world.engine.queue_of(slot);
    assert_eq!(world.records(), [Record::Put(slot, id)]);
    world.taken(session);
    assert_eq!(world.records(), [Record::Count(slot, id)]);
    world.release(session, id, 7, 0);
    assert_eq!(world.records(), [Record::Update(slot, id)]);
    world.taken(session);
    world.bury(session, id);
    assert_eq!(world.records(), [Record::Count(slot, id), Record::Update(slot, id)]);
    world.act(|engine, effects| take_job(engine, session, id, effects)).expect("it is buried");
    assert_eq!(world.records(), [Record::Count(slot, id), Record::Update(slot, id)]);
    world.finish(session, id);
    assert_eq!(world.records(), [Record::Finish { slot, id, queue, sync: None }]);
}

#[test]
fn restored_jobs_are_as_they_were() {
    let mut world = World::new();
    let session = world.open();
    let ready = world.put(session, 3, 0, 60);
    let delayed = world.put(session, 4, 50, 60);
    let buried: Vec<JobId> = (0..2).map(|_| world.put(session, 1, 0, 60)).collect();
    for _ in 0..2 {
        world.taken(session);
    }
    world.bury(session, buried[1]);
    world.bury(session, buried[0]);
    let facts = |world: &World, id| {
        let slot = world.engine.slot(id).expect("it exists");
        world.engine.facts(slot)
    };
    let all = [ready, delayed, buried[0], buried[1]].map(|id| facts(&world, id));

    let mut again = World::new();
    for job in &all {
        let body = JobBody::Resident(b"body"[..].into());
        again.act(|e, _| e.restore(b"default", job, None, body)).expect("not there yet");
    }
    for job in &all {
        assert_eq!(facts(&again, job.id), *job);
    }
    assert!(again.act(|e, _| e.restore(b"default", &all[0], None, JobBody::Stored(0))).is_err());
    let session = again.open();
    assert_eq!(again.act(|e, fx| e.kick(session, 1, fx)), Kick::Done(1));
    assert_eq!(again.state(buried[1]), Some(State::Ready), "first buried, first kicked");
    again.pass(50_000);
    assert_eq!(again.state(delayed), Some(State::Ready));
    assert_eq!(again.put(session, 0, 0, 60), JobId(5), "numbers go on");
}
