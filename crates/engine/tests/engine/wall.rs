//! Steps of the wall clock while jobs wait for a time of the wall clock.

use lineshaft_engine::{JobId, Millis, Patience, ReadMode, SessionId, State, Submit, Take, When};

use crate::world::{SLICE_UNITS, START, World};

const HOUR_MS: u64 = 3_600_000;
/// The steps of the wall clock: one hour forward, and one hour back.
const STEPS: [i64; 2] = [HOUR_MS as i64, -(HOUR_MS as i64)];
const LATER: Millis = Millis(START.0 + 2 * HOUR_MS);

impl World {
    fn submit_for(&mut self, client: SessionId, due: When) -> JobId {
        let (unique, reducer, body) = (&b""[..], &b""[..], b"x"[..].into());
        let submit =
            Submit { priority: Some(1), due: Some(due), unique, reducer, body, foreground: false };
        self.act(|e, fx| e.submit(client, b"default", submit, fx)).expect("there is room")
    }

    fn set_wall(&mut self, ahead_ms: i64) {
        self.act(|engine, _| engine.set_wall_ahead(ahead_ms));
        self.pass(0);
    }

    fn add_for_wall(&mut self, queue: &str, body: &str, wall: Millis) {
        let (body, expires) = (body.as_bytes().into(), Some(When::Wall(wall)));
        self.act(|engine, fx| engine.add(None, queue.as_bytes(), body, expires, fx))
            .expect("there is room");
    }

    fn time_left_ms(&self, id: JobId) -> u64 {
        self.engine.job_status(id).expect("it is there").time_left_ms
    }
}

#[test]
fn only_what_goes_by_the_wall_clock_moves_when_it_is_set() {
    for step_ms in STEPS {
        let mut world = World::new();
        let client = world.open();
        let by_wall = world.submit_for(client, When::Wall(LATER));
        let by_time = world.submit_for(client, When::At(LATER));
        let delayed = world.put(client, 1, 7200, 60);
        let leased = world.put(client, 1, 0, 7200);
        assert_eq!(world.taken(client), leased);
        world.set_wall(step_ms);
        let left_ms = (2 * HOUR_MS).saturating_add_signed(-step_ms);
        assert_eq!(world.time_left_ms(by_wall), left_ms);
        for id in [by_time, delayed, leased] {
            assert_eq!(world.time_left_ms(id), 2 * HOUR_MS);
        }
        // A change of less than a second is not a step.
        world.set_wall(step_ms + 999);
        assert_eq!(world.time_left_ms(by_wall), left_ms);
        world.set_wall(0);
        assert_eq!(world.time_left_ms(by_wall), 2 * HOUR_MS);
        world.pass(2 * HOUR_MS - 1);
        assert_eq!(world.state(by_wall), Some(State::Delayed));
        world.pass(1);
        assert_eq!(world.state(by_wall), Some(State::Ready));
        // A job that has become ready stays ready.
        world.set_wall(-(HOUR_MS as i64));
        assert_eq!(world.state(by_wall), Some(State::Ready));
    }
}

#[test]
fn a_job_that_a_clock_step_makes_due_goes_to_a_waiter() {
    let mut world = World::new();
    let client = world.open();
    let id = world.submit_for(client, When::Wall(Millis(START.0 + HOUR_MS)));
    world.take(client, Patience::Endless);
    world.set_wall(HOUR_MS as i64);
    assert_eq!(world.events(), [(client, format!("granted {id}"))]);
}

#[test]
fn a_delay_that_was_given_later_is_not_the_wall_clocks() {
    let mut world = World::new();
    let client = world.open();
    let id = world.submit_for(client, When::Wall(LATER));
    world.act(|engine, fx| engine.kick_job(id, fx)).expect("it is delayed");
    assert_eq!(world.taken(client), id);
    assert!(world.release(client, id, 1, 7200));
    world.set_wall(HOUR_MS as i64);
    assert_eq!(world.time_left_ms(id), 2 * HOUR_MS);
}

#[test]
fn an_expiry_moves_with_the_wall_clock() {
    let mut world = World::new();
    let reader = world.reader();
    for body in ["held", "waiting"] {
        world.add_for_wall("q", body, LATER);
    }
    let (_, lease) = world.open_one(reader, "q");
    world.set_wall(HOUR_MS as i64 + 1000);
    world.pass(HOUR_MS - 1000);
    assert_eq!(world.stats("q").items, 1);
    world.pass(1);
    assert_eq!(world.stats("q").items, 0);
    // The wall clock gets its old value back, so the open item expires one hour later.
    world.set_wall(0);
    assert!(world.give_back_item(reader, lease));
    world.pass(HOUR_MS);
    assert_eq!(world.stats("q").items, 1);
    world.pass(1000);
    assert_eq!(world.stats("q").items, 0);
}

#[test]
fn an_item_that_is_live_again_goes_to_a_waiter_behind_it() {
    let mut world = World::new();
    let reader = world.reader();
    // One request cannot end this many items. So some expired items still exist when the wall clock
    // is set.
    let many = 3 * SLICE_UNITS;
    for _ in 0..many {
        world.add_for_wall("q", "1", Millis(START.0 + 10));
    }
    world.engine.set_time(Millis(START.0 + 11));
    // While chores are held, timers do not end expired items.
    world.engine.hold_chores(true);
    let read = world.read(reader, "q", ReadMode::Finish, Patience::Millis(1000));
    assert!(matches!(read, Take::Waiting), "{read:?}");
    let left = world.stats("q").items;
    assert!(left > 0 && left < many.into());
    world.act(|engine, _| engine.set_wall_ahead(-(HOUR_MS as i64)));
    world.pass(0);
    let events = world.events();
    assert!(events[0].1.starts_with("granted"), "{events:?}");
}

#[test]
fn many_jobs_move_in_slices_and_others_are_served_meanwhile() {
    let mut world = World::new();
    let client = world.open();
    let many = 2 * SLICE_UNITS;
    let due = When::Wall(LATER);
    let ids: Vec<JobId> = (0..many).map(|_| world.submit_for(client, due)).collect();
    world.engine.begin_slice();
    world.act(|engine, _| engine.set_wall_ahead(HOUR_MS as i64));
    let done = world.engine.work_done();
    assert!(world.act(lineshaft_engine::Engine::advance), "there is more");
    assert!(world.engine.work_done() - done < 2 * u64::from(SLICE_UNITS));
    let moved = |world: &World| ids.iter().filter(|id| world.time_left_ms(**id) == HOUR_MS).count();
    assert!(moved(&world) > 0 && moved(&world) < ids.len());
    // Set the wall clock again before all jobs have their new moments. Then add a job and finish
    // another job.
    world.act(|engine, _| engine.set_wall_ahead(2 * HOUR_MS as i64 - 5000));
    let late = world.submit_for(client, due);
    assert!(world.finish(client, ids[0]));
    world.pass(0);
    for id in ids[1..].iter().chain([&late]) {
        assert_eq!(world.time_left_ms(*id), 5000);
    }
}
