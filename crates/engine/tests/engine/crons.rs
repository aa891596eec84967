//! Entries that put jobs by schedules: each instant once, over restarts and steps of the clock.

use lineshaft_engine::crons::{
    CatchUp, CronCounts, CronEntry, CronState, CronTable, Fired, LATE_MS_MAX, Overlap,
};
use lineshaft_engine::policy::{Rule, Rules, Setting};
use lineshaft_engine::{JobFacts, JobId, Millis, NewJob, Patience, Record, State, Status, Take};

use crate::world::{START, World};

/// The tests begin 20 s before a minute.
const MINUTE: u64 = 60_000;
const FIRST: Millis = Millis(START.0 + 20_000);

fn entry(name: &str) -> CronEntry {
    CronEntry {
        name: name.as_bytes().into(),
        queue: b"default"[..].into(),
        cron: "* * * * *".parse().expect("a cron expression"),
        zone: "UTC".parse().expect("a time zone"),
        body: b"tick"[..].into(),
        overlap: Overlap::Queue,
        catch_up: CatchUp::One,
        jitter_ms: 0,
        line: 0,
    }
}

fn set(world: &mut World, entries: &[CronEntry]) {
    let table = CronTable(entries.to_vec());
    table.check().expect("the entries can be obeyed");
    world.act(|e, fx| e.set_crons(table, fx));
}

fn state(world: &World, name: &str) -> CronState {
    world.engine.cron_state(name.as_bytes()).expect("it has a state")
}

fn counts(world: &World) -> CronCounts {
    world.engine.crons().next().expect("there is an entry").counts
}

/// Lets so many minutes pass, one after the other, as in a server that runs.
fn minutes(world: &mut World, count: usize) {
    for _ in 0..count {
        world.pass(MINUTE);
    }
}

/// Takes all jobs, ends them, and returns their number.
fn work(world: &mut World) -> usize {
    let session = world.open();
    let mut done = 0;
    while let Take::Granted(handout) = world.take(session, Patience::None) {
        world.act(|e, fx| e.finish(session, handout.id, fx)).expect("it is held");
        done += 1;
    }
    done
}

#[test]
fn an_entry_puts_a_job_at_each_instant() {
    let mut world = World::new();
    let waiter = world.open();
    set(&mut world, &[entry("tick")]);
    assert_eq!(world.engine.crons().next().expect("it is there").next, Some(FIRST));
    assert!(matches!(world.take(waiter, Patience::Endless), Take::Waiting));
    world.pass(19_999);
    assert!(world.events().is_empty(), "not a moment too early");
    world.pass(1);
    assert_eq!(world.events().len(), 1);
    minutes(&mut world, 5);
    assert_eq!(work(&mut world), 5);
    assert_eq!(counts(&world), CronCounts { fired: 6, ..CronCounts::default() });
    let last = Millis(FIRST.0 + 5 * MINUTE);
    let seen = state(&world, "tick");
    assert_eq!((seen.last, seen.fired), (last, Some(last)));
}

#[test]
fn a_job_has_what_the_policy_says_for_clients_that_send_nothing() {
    let mut world = World::new();
    let settings = [Setting::Priority(7), Setting::Ttr(Some(9)), Setting::Delay(3)];
    world.act(|e, fx| e.set_policies(Rules(vec![Rule::new(["*"], settings)]), fx));
    set(&mut world, &[entry("tick")]);
    world.pass(20_000);
    let id = state(&world, "tick").job.expect("it has fired");
    let facts = world.engine.facts(world.engine.slot(id).expect("it is there"));
    let JobFacts { priority, ttr_s, delay_s, state, .. } = facts;
    assert_eq!((priority, ttr_s, delay_s, state), (7, 9, 3, State::Delayed));
    assert_eq!(facts.fired.map(|fired| fired.at), Some(FIRST));
}

#[test]
fn the_record_of_the_job_comes_before_that_of_the_state_and_has_its_firing() {
    let mut world = World::new();
    set(&mut world, &[entry("tick")]);
    world.effects.records.clear();
    world.engine.set_time(FIRST);
    while world.engine.advance(&mut world.effects) {}
    let Record::Put(slot, _) = world.effects.records[0] else { panic!("{:?}", world.effects) };
    assert!(world.engine.facts(slot).fired.is_some());
    let name = Box::from(*b"tick");
    assert_eq!(world.effects.records[1..], [Record::CronState(name)]);
}

/// The record of a state has the state at the end of the slice. If it came before a job of the slice, a
/// crash between the two would lose the job.
#[test]
fn the_state_comes_after_all_jobs_of_a_slice() {
    let mut world = World::new();
    let entries = [CronEntry { catch_up: CatchUp::All, ..entry("tick") }];
    set(&mut world, &entries);
    world.records();
    world.pass(5 * MINUTE);
    let records = world.records();
    let put = |record: &Record| matches!(record, Record::Put(..));
    assert_eq!(records.iter().take_while(|record| put(record)).count(), 5, "{records:?}");
    assert_eq!(records[5..], [Record::CronState(Box::from(*b"tick"))]);
}

#[test]
fn jitter_makes_no_instant_late() {
    let mut world = World::new();
    let cron = "*/5 * * * *".parse().expect("a cron expression");
    set(&mut world, &[CronEntry { cron, jitter_ms: 60 * MINUTE, ..entry("tick") }]);
    minutes(&mut world, 24 * 60);
    let CronCounts { fired, missed, .. } = counts(&world);
    assert_eq!(missed, 0);
    assert!((276..=288).contains(&fired), "{fired} of a day's 288, the last hour may be to come");
}

#[test]
fn a_reload_keeps_the_counts_of_the_entries() {
    let mut world = World::new();
    set(&mut world, &[entry("tick")]);
    minutes(&mut world, 2);
    set(&mut world, &[CronEntry { line: 9, ..entry("tick") }, entry("tock")]);
    assert_eq!(counts(&world).fired, 2);
}

#[test]
fn an_entry_that_was_removed_begins_anew() {
    let mut world = World::new();
    set(&mut world, &[entry("tick")]);
    minutes(&mut world, 2);
    let mut world = restarted(&world, &[entry("tick")], 0);
    set(&mut world, &[]);
    set(&mut world, &[entry("tick")]);
    assert_eq!(state(&world, "tick").job, None);
}

/// Another engine with the state that the log has, `stopped_ms` later.
fn restarted(world: &World, entries: &[CronEntry], stopped_ms: u64) -> World {
    let mut next = World::new();
    next.engine.set_time(Millis(world.engine.now().0 + stopped_ms));
    next.engine.restore_crons(world.engine.cron_table().clone());
    for view in world.engine.crons() {
        next.engine.restore_cron_state(&view.entry.name, Some(view.state));
    }
    set(&mut next, entries);
    next.pass(0);
    next
}

#[test]
fn after_a_stop_the_rule_for_missed_instants_decides() {
    for (catch_up, fired, missed) in
        [(CatchUp::None, 0, 10), (CatchUp::One, 1, 9), (CatchUp::All, 10, 0)]
    {
        let mut world = World::new();
        let cron = "*/10 * * * *".parse().expect("a cron expression");
        let entries = [CronEntry { catch_up, cron, ..entry("tick") }];
        set(&mut world, &entries);
        world.pass(200_000);
        assert_eq!(work(&mut world), 1);
        // The last missed instant is a moment too late to be on time.
        let mut next = restarted(&world, &entries, 100 * MINUTE + LATE_MS_MAX + 1);
        let found = work(&mut next);
        assert_eq!((found, counts(&next).missed), (fired, missed), "{catch_up:?}");
        next.pass(9 * MINUTE - 1);
        assert_eq!(work(&mut next), 1, "{catch_up:?} goes on");
        let mut again = restarted(&next, &entries, 1);
        assert_eq!(work(&mut again), 0, "no instant fires twice");
    }
}

#[test]
fn a_short_stop_misses_nothing() {
    for catch_up in [CatchUp::None, CatchUp::One, CatchUp::All] {
        let mut world = World::new();
        let entries = [CronEntry { catch_up, ..entry("tick") }];
        set(&mut world, &entries);
        let mut next = restarted(&world, &entries, 20_000 + 50_000);
        assert_eq!((work(&mut next), counts(&next).missed), (1, 0), "{catch_up:?}");
    }
}

#[test]
fn catching_up_is_bounded_and_goes_in_slices() {
    let mut world = World::new();
    let entries = [CronEntry { catch_up: CatchUp::All, ..entry("tick") }];
    set(&mut world, &entries);
    let mut next = restarted(&world, &entries, 10 * 24 * 60 * MINUTE);
    let found = work(&mut next);
    assert!((1440..=1441).contains(&found), "{found}");
    assert_eq!(counts(&next).missed as usize + found, 10 * 24 * 60);
    let states = next.effects.records.iter();
    let states = states.filter(|record| matches!(record, Record::CronState(_))).count();
    assert!(states < found + 1000, "missed instants need few records: {states}");
}

#[test]
fn a_crash_between_the_two_records_loses_no_instant_and_fires_none_twice() {
    let mut world = World::new();
    let entries = [entry("tick")];
    set(&mut world, &entries);
    let before = state(&world, "tick");
    world.pass(20_000);
    let after = state(&world, "tick");
    let id = after.job.expect("it has fired");
    let facts = world.engine.facts(world.engine.slot(id).expect("it is there"));
    for survives in [false, true] {
        let mut next = World::new();
        next.engine.set_time(world.engine.now());
        next.engine.restore_crons(CronTable(entries.to_vec()));
        next.engine.restore_cron_state(b"tick", Some(before));
        if survives {
            let body = b"tick"[..].into();
            let body = lineshaft_engine::JobBody::Resident(body);
            next.engine.restore(b"default", &facts, None, body).expect("it is possible");
        }
        set(&mut next, &entries);
        next.pass(0);
        let now = state(&next, "tick");
        assert_eq!((now.last, now.fired), (after.last, after.fired));
        assert!(now.job == Some(id) || !survives);
        assert_eq!(work(&mut next), 1);
    }
}

#[test]
fn an_entry_that_overlaps_skips_queues_or_replaces() {
    for (overlap, while_ready, while_leased) in
        [(Overlap::Skip, 1, 0), (Overlap::Queue, 3, 2), (Overlap::Replace, 1, 1)]
    {
        let mut world = World::new();
        let session = world.open();
        set(&mut world, &[CronEntry { overlap, ..entry("tick") }]);
        world.pass(20_000);
        minutes(&mut world, 2);
        let ready = |world: &World| {
            let queue = world.engine.queue_id(b"default").expect("it is there");
            world.engine.queue_stats(queue).ready
        };
        assert_eq!(ready(&world), while_ready, "{overlap:?}");
        work(&mut world);
        world.pass(MINUTE);
        let held = world.taken(session);
        minutes(&mut world, 2);
        assert_eq!(ready(&world), while_leased, "{overlap:?}");
        world.act(|e, fx| e.finish(session, held, fx)).expect("a worker keeps its job");
        work(&mut world);
        world.pass(MINUTE);
        assert_eq!(ready(&world), 1, "{overlap:?} goes on");
        let expected = if overlap == Overlap::Skip { 4 } else { 0 };
        assert_eq!(counts(&world).overlaps, expected, "{overlap:?}");
    }
}

#[test]
fn a_buried_job_holds_nothing_up() {
    let mut world = World::new();
    let session = world.open();
    set(&mut world, &[CronEntry { overlap: Overlap::Skip, ..entry("tick") }]);
    world.pass(20_000);
    let id = world.taken(session);
    assert!(world.bury(session, id));
    world.pass(MINUTE);
    assert_eq!(work(&mut world), 1);
}

#[test]
fn the_wall_clock_decides_and_no_instant_comes_twice() {
    let mut world = World::new();
    set(&mut world, &[entry("tick")]);
    world.pass(20_000);
    assert_eq!(work(&mut world), 1);
    // Somebody sets the clock back by five minutes: the instants up to now have happened.
    world.act(|e, _| e.set_wall_ahead(-5 * MINUTE as i64));
    world.pass(5 * MINUTE);
    assert_eq!(work(&mut world), 0);
    world.pass(MINUTE);
    assert_eq!(work(&mut world), 1);
    // And an hour ahead: what this skips is missed.
    world.act(|e, _| e.set_wall_ahead(55 * MINUTE as i64));
    world.pass(0);
    assert_eq!((work(&mut world), counts(&world).missed), (1, 59));
}

#[test]
fn a_new_entry_and_another_schedule_begin_now() {
    let mut world = World::new();
    set(&mut world, &[entry("a")]);
    world.pass(20_000);
    assert_eq!(work(&mut world), 1);
    let hourly = CronEntry { cron: "@hourly".parse().expect("a word"), ..entry("a") };
    world.pass(30_000);
    set(&mut world, &[hourly, entry("b")]);
    let now = world.engine.now();
    assert_eq!((state(&world, "a").last, state(&world, "b").last), (now, now));
    world.pass(30_000);
    assert_eq!(work(&mut world), 1, "only b");
    // Other changes keep the instants.
    let other = CronEntry { queue: b"q"[..].into(), body: b"x"[..].into(), ..entry("b") };
    set(&mut world, &[other]);
    assert_eq!(state(&world, "b").last, Millis(FIRST.0 + MINUTE));
    assert_eq!(world.engine.cron_state(b"a"), None, "an entry that is gone leaves nothing");
    world.pass(MINUTE);
    let queue = world.engine.queue_id(b"q").expect("it has a job");
    assert_eq!(world.engine.queue_stats(queue).ready, 1);
    set(&mut world, &[]);
    world.pass(10 * MINUTE);
    assert_eq!(world.engine.queue_stats(queue).ready, 1);
}

#[test]
fn a_queue_can_refuse_a_job() {
    let mut world = World::new();
    world.act(|e, fx| {
        e.set_policies(Rules(vec![Rule::new(["*"], [Setting::JobsMax(Some(1))])]), fx);
    });
    let entries = [CronEntry { queue: b"full"[..].into(), ..entry("tick") }];
    set(&mut world, &entries);
    world.pass(20_000);
    minutes(&mut world, 2);
    assert_eq!((counts(&world).fired, counts(&world).refused), (1, 2));
}

#[test]
fn a_job_is_replaced_only_by_a_new_one() {
    let ready = |world: &World| {
        let queue = world.engine.queue_id(b"default").expect("it is there");
        world.engine.queue_stats(queue).ready
    };
    let entries = [CronEntry { overlap: Overlap::Replace, ..entry("tick") }];
    let mut world = World::new();
    let rules = |settings| Rules(vec![Rule::new(["*"], settings)]);
    // The earlier job keeps the new one out, so it ends first.
    world.act(|e, fx| e.set_policies(rules(vec![Setting::JobsMax(Some(1))]), fx));
    set(&mut world, &entries);
    minutes(&mut world, 3);
    assert_eq!((counts(&world).fired, counts(&world).refused, ready(&world)), (3, 0, 1));
    // The queue does not take the next one at all.
    world.act(|e, fx| e.set_policies(rules(vec![Setting::ItemBytesMax(Some(1))]), fx));
    work(&mut world);
    minutes(&mut world, 1);
    assert_eq!((counts(&world).fired, counts(&world).refused), (3, 1));
    // A job of a client has the same key: it is not the entry's.
    let key = "body".parse().expect("a key");
    world.act(|e, fx| e.set_policies(rules(vec![Setting::UniqueBy(Some(key))]), fx));
    let session = world.open();
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    let client = world.act(|e, fx| e.put(session, job, b"tick"[..].into(), fx)).expect("new");
    minutes(&mut world, 3);
    assert_eq!((counts(&world).fired, counts(&world).refused), (3, 4));
    assert_eq!(world.state(client), Some(State::Ready));
}

#[test]
fn an_alias_gets_a_job_in_each_of_its_queues() {
    let mut world = World::new();
    let names = [b"x"[..].into(), b"y"[..].into()];
    world.act(|e, fx| {
        let alias = Setting::Alias(Box::new(names));
        e.set_policies(Rules(vec![Rule::new(["both"], [alias])]), fx);
    });
    set(&mut world, &[CronEntry { queue: b"both"[..].into(), ..entry("tick") }]);
    world.pass(20_000);
    for name in [&b"x"[..], b"y"] {
        let queue = world.engine.queue_id(name).expect("it has a job");
        assert_eq!(world.engine.queue_stats(queue).ready, 1);
    }
}

/// The numbers of ready jobs in these queues.
fn ready_in<const N: usize>(world: &World, names: [&str; N]) -> [u64; N] {
    let stats = |queue| world.engine.queue_stats(queue).ready;
    names.map(|name| world.engine.queue_id(name.as_bytes()).map_or(0, stats))
}

#[test]
fn only_the_job_in_the_first_queue_is_replaced() {
    let alias = || {
        let names = [b"a"[..].into(), b"b"[..].into()];
        Rule::new(["both"], [Setting::Alias(Box::new(names))])
    };
    let replacing = |queue: &str| CronEntry {
        queue: queue.as_bytes().into(),
        overlap: Overlap::Replace,
        ..entry("tick")
    };
    let by_body = || Setting::UniqueBy(Some("body".parse().expect("a key")));
    // Either setting lets the earlier job keep the new one out of the first queue.
    for setting in [by_body(), Setting::JobsMax(Some(1))] {
        let mut world = World::new();
        let rules = Rules(vec![alias(), Rule::new(["a"], [setting])]);
        world.act(|e, fx| e.set_policies(rules, fx));
        set(&mut world, &[replacing("both")]);
        minutes(&mut world, 3);
        assert_eq!(ready_in(&world, ["a", "b"]), [1, 3]);
        assert_eq!((counts(&world).fired, counts(&world).refused), (3, 0));
    }
    // The second queue takes no second job. The first one goes on.
    for setting in [by_body(), Setting::JobsMax(Some(1))] {
        let mut world = World::new();
        let rules = Rules(vec![alias(), Rule::new(["b"], [setting])]);
        world.act(|e, fx| e.set_policies(rules, fx));
        set(&mut world, &[replacing("both")]);
        minutes(&mut world, 3);
        assert_eq!(ready_in(&world, ["a", "b"]), [1, 1]);
        assert_eq!(counts(&world).fired, 3);
    }
    // The jobs of a client keep the new one out of the first queue, so the entry's job there stays.
    let mut world = World::new();
    world.act(|e, fx| e.set_policies(Rules(vec![alias()]), fx));
    set(&mut world, &[replacing("both")]);
    minutes(&mut world, 1);
    let session = world.open();
    world.act(|e, fx| e.use_queue(session, b"a", fx));
    world.act(|e, fx| e.put(session, NewJob::default(), b"client"[..].into(), fx)).expect("room");
    let full = Rule::new(["a"], [Setting::JobsMax(Some(1))]);
    world.act(|e, fx| e.set_policies(Rules(vec![alias(), full]), fx));
    minutes(&mut world, 1);
    assert_eq!(ready_in(&world, ["a", "b"]), [2, 2]);
}

#[test]
fn a_delayed_job_keeps_no_other_one_out() {
    let mut world = World::new();
    let delayed = Setting::Delay(3600);
    let rule = |bytes| Rules(vec![Rule::new(["*"], [delayed.clone(), Setting::BytesMax(bytes)])]);
    world.act(|e, fx| e.set_policies(rule(None), fx));
    set(&mut world, &[CronEntry { overlap: Overlap::Replace, ..entry("tick") }]);
    minutes(&mut world, 1);
    let earlier = state(&world, "tick").job.expect("it has fired");
    let session = world.open();
    world.act(|e, fx| e.put(session, NewJob::default(), b"client"[..].into(), fx)).expect("room");
    // The queue is full, but it would not be if the delayed job counted.
    world.act(|e, fx| e.set_policies(rule(Some(6)), fx));
    minutes(&mut world, 1);
    assert_eq!((counts(&world).fired, counts(&world).refused), (1, 1));
    assert_eq!(world.state(earlier), Some(State::Delayed));
}

#[test]
fn a_firing_is_in_the_log_with_a_job_also_if_the_first_queue_takes_none() {
    let mut world = World::new();
    let names = [b"a"[..].into(), b"b"[..].into()];
    let alias = Rule::new(["both"], [Setting::Alias(Box::new(names))]);
    let small = Rule::new(["a"], [Setting::ItemBytesMax(Some(1))]);
    world.act(|e, fx| e.set_policies(Rules(vec![alias, small]), fx));
    set(&mut world, &[CronEntry { queue: b"both"[..].into(), ..entry("tick") }]);
    world.effects.records.clear();
    world.engine.set_time(FIRST);
    while world.engine.advance(&mut world.effects) {}
    assert_eq!(ready_in(&world, ["a", "b"]), [0, 1]);
    let Record::Put(slot, _) = world.effects.records[0] else { panic!("{:?}", world.effects) };
    assert_eq!(world.engine.facts(slot).fired.map(|fired| fired.at), Some(FIRST));
}

#[test]
fn the_job_of_a_parent_is_replaced_and_those_of_its_children_stay() {
    let mut world = World::new();
    let rule = Rule::new(["feed"], [Setting::UniqueBy(Some("body".parse().expect("a key")))]);
    let of_child = Rule::new(["feed+child"], [Setting::UniqueBy(None)]);
    world.act(|e, fx| e.set_policies(Rules(vec![rule, of_child]), fx));
    // A read makes the child.
    assert_eq!(world.get("feed+child"), None);
    let replacing = CronEntry { overlap: Overlap::Replace, ..entry("tick") };
    set(&mut world, &[CronEntry { queue: b"feed"[..].into(), ..replacing }]);
    minutes(&mut world, 3);
    assert_eq!(ready_in(&world, ["feed", "feed+child"]), [1, 3]);
    assert_eq!((counts(&world).fired, counts(&world).refused), (3, 0));
}

#[test]
fn a_server_that_takes_no_jobs_fires_later() {
    let mut world = World::new();
    set(&mut world, &[entry("tick")]);
    world.act(|e, fx| e.set_status(Status::ReadOnly, 0, fx));
    world.pass(20_000);
    world.pass(30_000);
    assert_eq!(work(&mut world), 0);
    world.act(|e, fx| e.set_status(Status::Up, 0, fx));
    world.pass(1_000);
    assert_eq!(work(&mut world), 1);
    world.engine.hold_crons(true);
    world.pass(MINUTE);
    assert_eq!(work(&mut world), 0);
    world.engine.hold_crons(false);
    world.pass(1_000);
    assert_eq!((work(&mut world), counts(&world).missed), (1, 0));
}

#[test]
fn a_job_with_an_older_firing_says_nothing_new() {
    let mut world = World::new();
    let entries = [entry("tick")];
    set(&mut world, &entries);
    world.pass(20_000);
    minutes(&mut world, 1);
    let id = state(&world, "tick").job.expect("it has fired");
    let slot = world.engine.slot(id).expect("it is there");
    let fired: Fired = world.engine.facts(slot).fired.expect("it is the last one");
    assert_eq!(fired.at, Millis(FIRST.0 + MINUTE));
    assert_eq!(world.engine.facts(world.engine.slot(JobId(1)).unwrap()).fired, None);
    let next = restarted(&world, &entries, 0);
    assert_eq!(state(&next, "tick"), state(&world, "tick"));
}

#[test]
fn clock_changes_of_the_zone_skip_and_repeat_no_day() {
    // Berlin: at 02:30, which does not exist on 2027-03-28, and exists twice on 2026-10-25.
    let nightly = CronEntry {
        cron: "30 2 * * *".parse().expect("a cron expression"),
        zone: "Europe/Berlin".parse().expect("a time zone"),
        ..entry("nightly")
    };
    for midnight in [1_806_188_400_000_u64, 1_792_879_200_000] {
        let mut world = World::new();
        world.act(|e, _| e.set_wall_ahead((midnight - 24 * 60 * MINUTE - START.0) as i64));
        set(&mut world, std::slice::from_ref(&nightly));
        for _ in 0..5 * 24 {
            world.pass(60 * MINUTE);
        }
        assert_eq!(work(&mut world), 5);
        assert_eq!(counts(&world).missed, 0);
    }
}
