//! Milestones: what the engine reports for the history of a queue.

use lineshaft_engine::limits::RESULT_BYTES_MAX;
use lineshaft_engine::policy::{DeadTarget, History, KeptBody, Rule, Rules, Setting, UniqueWindow};
use lineshaft_engine::{
    AttemptEnd, Departure, Engine, GrabOrder, JobEnd, JobId, MilestoneKind, News, Patience,
    Refused, ReturnOrder, SessionId, Submit,
};

use crate::world::{SLICE_UNITS, START, World, grab, take_job};

/// A world whose queues keep a history, except the queue `none`.
fn world(more: impl IntoIterator<Item = Setting>) -> World {
    let mut world = World::new();
    world.engine.note_milestones();
    let settings = [Setting::History(true), Setting::HistoryBody(KeptBody::Full)];
    let all = Rule::new(["*"], settings.into_iter().chain(more));
    let rules = Rules(vec![all, Rule::new(["none"], [Setting::History(false)])]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    world
}

/// What happened, in a short form.
fn told(world: &mut World) -> Vec<String> {
    let (milestones, dropped) = world.engine.take_milestones();
    assert_eq!(dropped, 0);
    let shown = milestones.into_iter().map(|milestone| match milestone.what {
        MilestoneKind::Taken { waited_ms, worker } => {
            format!("taken after {waited_ms} by {}", String::from_utf8_lossy(&worker))
                .trim_end()
                .to_owned()
        }
        MilestoneKind::Returned { how: AttemptEnd::Buried, .. } => "buried".to_owned(),
        MilestoneKind::Returned { how: AttemptEnd::Failed(cause), error } => {
            format!("{cause:?} {}", String::from_utf8_lossy(&error)).trim_end().to_owned()
        }
        MilestoneKind::Left(left) => {
            let to = left.to.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            format!("left {}: {:?} {to}", String::from_utf8_lossy(&left.queue), left.why)
                .trim_end()
                .to_owned()
        }
    });
    shown.collect()
}

fn departure(world: &mut World) -> Departure {
    let (milestones, _) = world.engine.take_milestones();
    match milestones.into_iter().next_back().map(|milestone| milestone.what) {
        Some(MilestoneKind::Left(left)) => *left,
        other => panic!("{other:?}"),
    }
}

fn named(world: &mut World) -> SessionId {
    let session = world.open();
    world.act(|e, _| e.set_peer(session, b"10.0.0.1:5"));
    session
}

#[test]
fn a_job_that_is_done_has_its_facts() {
    let mut world = world([]);
    let session = named(&mut world);
    let id = world.put(session, 7, 0, 60);
    world.pass(300);
    world.taken(session);
    world.pass(40);
    assert!(world.finish(session, id));
    let (milestones, _) = world.engine.take_milestones();
    let moments: Vec<u64> = milestones.iter().map(|one| one.at.0 - START.0).collect();
    assert_eq!(moments, [300, 340]);
    assert!(milestones.iter().all(|one| one.job == id));
    let MilestoneKind::Left(left) = &milestones[1].what else { panic!("{milestones:?}") };
    assert_eq!((left.created, left.priority, left.ttr_s, left.takes), (START, 7, 60, 1));
    assert_eq!((&*left.queue, left.why), (&b"default"[..], JobEnd::Done));
    assert_eq!(left.body.as_deref(), Some(&b"body"[..]));
    let all = History { is_on: true, body: KeptBody::Full, ..History::default() };
    assert_eq!(left.history, all);
}

#[test]
fn each_attempt_ends_for_its_reason() {
    let mut world = world([]);
    let session = named(&mut world);
    let id = world.put(session, 0, 0, 1);
    for end in 0..4 {
        world.taken(session);
        match end {
            0 => assert!(world.release(session, id, 0, 0)),
            1 => world.pass(1_000),
            2 => {
                assert!(world.bury(session, id));
                world.act(|e, fx| e.kick_job(id, fx)).unwrap();
            }
            _ => {
                let other = named(&mut world);
                world.release(session, id, 0, 0);
                world.taken(other);
                world.close(other);
            }
        }
    }
    let taken = "taken after 0 by 10.0.0.1:5";
    // A job that was lost counts as ready since its put.
    let again = "taken after 1000 by 10.0.0.1:5";
    assert_eq!(
        told(&mut world),
        [
            taken,
            "Released",
            taken,
            "TimedOut",
            again,
            "buried",
            taken,
            "Released",
            taken,
            "HolderLeft"
        ]
    );
    // A job that nobody has is deleted, not done.
    assert!(world.finish(session, id));
    assert_eq!(told(&mut world), ["left default: Deleted"]);
}

#[test]
fn a_failed_job_of_gearman_has_the_words_of_its_worker() {
    let mut world = world([]);
    let client = world.engine.open_session(0, ReturnOrder::ToTail);
    let worker = named(&mut world);
    world.act(|e, fx| e.register(worker, b"work", None, fx));
    let submit = |world: &mut World| {
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"",
            reducer: b"",
            body: b"body"[..].into(),
            foreground: false,
        };
        world.act(|e, fx| e.submit(client, b"work", submit, fx)).unwrap()
    };
    let run = |world: &mut World, news: &News| {
        let id = submit(world);
        world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).unwrap();
        let warning = News::Warning(b"no route"[..].into());
        world.act(|e, fx| e.report(worker, id, &warning, fx)).unwrap();
        world.act(|e, fx| e.fail(worker, id, news, fx)).unwrap();
        told(world)
    };
    let taken = "taken after 0 by 10.0.0.1:5";
    let left = "left work: Failed";
    assert_eq!(run(&mut world, &News::Fail), [taken, "Reported no route", left]);
    let exception = News::Exception(b"division by zero"[..].into());
    assert_eq!(run(&mut world, &exception), [taken, "Reported division by zero", left]);
}

#[test]
fn a_buried_job_that_is_taken_by_its_number_has_not_waited() {
    let mut world = world([]);
    let session = named(&mut world);
    let id = world.put(session, 0, 0, 1);
    world.taken(session);
    assert!(world.bury(session, id));
    world.pass(60_000);
    told(&mut world);
    world.act(|e, fx| take_job(e, session, id, fx)).unwrap();
    assert_eq!(told(&mut world), ["taken after 0 by 10.0.0.1:5"]);
}

#[test]
fn a_put_job_that_a_worker_reports_as_failed_returns_once() {
    let mut world = world([]);
    let producer = named(&mut world);
    let id = world.put(producer, 0, 0, 0);
    let worker = named(&mut world);
    world.act(|e, fx| e.register(worker, b"default", None, fx));
    world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).unwrap();
    world.act(|e, fx| e.fail(worker, id, &News::Fail, fx)).unwrap();
    assert_eq!(told(&mut world), ["taken after 0 by 10.0.0.1:5", "Reported"]);
    world.act(|e, fx| e.kick_job(id, fx)).unwrap();
}

#[test]
fn a_kept_result_answers_a_later_submit() {
    let mut world = World::new();
    let settings = [
        Setting::UniqueBy(Some("gm:unique".parse().unwrap())),
        Setting::UniqueWindow(UniqueWindow::For(60_000)),
        Setting::ResultKeep(Some(30_000)),
    ];
    let rules = Rules(vec![Rule::new(["work"], settings)]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    let client = world.engine.open_session(0, ReturnOrder::ToTail);
    let worker = named(&mut world);
    world.act(|e, fx| e.register(worker, b"work", None, fx));
    let submit = |world: &mut World| {
        let submit = Submit {
            priority: None,
            due: None,
            unique: b"key",
            reducer: b"",
            body: b"body"[..].into(),
            foreground: true,
        };
        world.act(|e, fx| e.submit(client, b"work", submit, fx))
    };
    let id = submit(&mut world).unwrap();
    world.act(|e, fx| grab(e, worker, GrabOrder::NewestFirst, fx)).unwrap();
    let words = b"9 of 10"[..].into();
    world.act(|e, fx| e.progress(worker, id, (9, 10), &words, fx)).unwrap();
    let done = News::Complete(b"result"[..].into());
    world.act(|e, fx| e.complete(worker, id, &done, fx)).unwrap();
    world.events();
    let kept = world.engine.kept_result(id).unwrap();
    assert_eq!((kept.numerator, kept.denominator, &kept.news), (9, 10, &done));
    assert_eq!(world.engine.kept_result_with_key(b"key"), Some(kept));
    assert_eq!(submit(&mut world), Ok(id));
    assert_eq!(world.events(), [(client, format!("{id}: {done:?}"))]);
    world.pass(30_000);
    assert_eq!(world.engine.kept_result(id), None);
    assert_eq!(submit(&mut world), Err(Refused::Duplicate), "the result is gone, the key is not");
}

/// A world that keeps results, with a client and a worker of the function `work`.
fn keeping(keep_ms: u64) -> (World, SessionId, SessionId) {
    let mut world = World::new();
    let rules = Rules(vec![Rule::new(["work"], [Setting::ResultKeep(Some(keep_ms))])]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    let client = world.engine.open_session(0, ReturnOrder::ToTail);
    let worker = named(&mut world);
    for function in [&b"work"[..], b"plain"] {
        world.act(|e, fx| e.register(worker, function, None, fx));
    }
    (world, client, worker)
}

/// Submits a job of this function in the background.
fn submitted(world: &mut World, client: SessionId, function: &[u8], unique: &[u8]) -> JobId {
    let submit = Submit {
        priority: None,
        due: None,
        unique,
        reducer: b"",
        body: b"body"[..].into(),
        foreground: false,
    };
    world.engine.submit(client, function, submit, &mut world.effects).expect("it has room")
}

/// The worker takes the next job, and completes it.
fn complete(world: &mut World, worker: SessionId, result: &[u8]) {
    let World { engine, effects, .. } = world;
    let id = grab(engine, worker, GrabOrder::NewestFirst, effects).expect("one is ready").id;
    let done = News::Complete(result.into());
    engine.complete(worker, id, &done, effects).expect("the worker has it");
}

#[test]
fn results_leave_the_memory_when_their_time_is_over() {
    let (mut world, client, worker) = keeping(1000);
    // The first job makes the tables grow.
    submitted(&mut world, client, b"work", b"key");
    complete(&mut world, worker, b"");
    world.pass(1000);
    let before = world.engine.memory_bytes();
    let id = submitted(&mut world, client, b"work", b"key");
    complete(&mut world, worker, &vec![b'x'; 50_000]);
    assert!(world.engine.memory_bytes() > before + 50_000);
    assert!(world.engine.kept_result(id).is_some());
    world.pass(1000);
    assert_eq!(world.engine.memory_bytes(), before);
}

#[test]
fn results_leave_the_memory_in_slices_when_no_policy_keeps_them() {
    let (mut world, client, worker) = keeping(60_000);
    let count = 5 * SLICE_UNITS as usize;
    let ids: Vec<JobId> = (0..count)
        .map(|_| {
            let id = submitted(&mut world, client, b"work", b"");
            complete(&mut world, worker, b"");
            id
        })
        .collect();
    let kept = world.engine.memory_bytes();
    world.act(|e, fx| e.set_policies(Rules::default(), fx));
    assert_eq!(world.engine.kept_result(ids[0]), None);
    let (mut slices, mut done) = (0, world.engine.work_done());
    while world.act(Engine::advance) {
        slices += 1;
        assert!(world.engine.work_done() - done <= 2 * u64::from(SLICE_UNITS), "slice {slices}");
        done = world.engine.work_done();
    }
    assert!(slices >= 4, "{slices}");
    assert!(world.engine.memory_bytes() <= kept - count as u64 * 300);
}

#[test]
fn a_lower_limit_of_memory_ends_the_results_that_end_first() {
    let (mut world, client, worker) = keeping(60_000);
    let [first, last] = [(); 2].map(|()| {
        world.pass(10);
        let id = submitted(&mut world, client, b"work", b"");
        complete(&mut world, worker, &vec![b'x'; 50_000]);
        id
    });
    world.act(|e, _| e.set_results_limit(60_000));
    while world.act(Engine::advance) {}
    assert_eq!(world.engine.kept_result(first), None);
    assert!(world.engine.kept_result(last).is_some());
}

#[test]
fn a_job_without_a_kept_result_hides_that_of_an_earlier_job_with_its_key() {
    let (mut world, client, worker) = keeping(60_000);
    let too_long = vec![b'x'; RESULT_BYTES_MAX + 1];
    // The second function keeps no results.
    for (function, result) in [(&b"work"[..], &too_long[..]), (b"plain", b"")] {
        submitted(&mut world, client, b"work", b"key");
        complete(&mut world, worker, b"first");
        assert!(world.engine.kept_result_with_key(b"key").is_some());
        submitted(&mut world, client, function, b"key");
        complete(&mut world, worker, result);
        assert_eq!(world.engine.kept_result_with_key(b"key"), None);
    }
}

#[test]
fn each_way_to_leave_has_its_reason() {
    let dead = DeadTarget::Queue(b"dead"[..].into());
    let mut world = world([
        Setting::Retries(true),
        Setting::RetryLimit(0),
        Setting::DeadQueue(dead),
        Setting::AgeMax(Some(500)),
        Setting::HistoryBody(KeptBody::None),
    ]);
    let session = named(&mut world);
    let id = world.put(session, 0, 0, 60);
    world.taken(session);
    world.release(session, id, 0, 0);
    let words = ["taken after 0 by 10.0.0.1:5", "Released", "left default: Dead dead"];
    assert_eq!(told(&mut world), words);
    world.act(|e, fx| e.redrive(id, fx)).unwrap();
    assert_eq!(told(&mut world), ["left dead: Moved default"]);
    world.act(|e, fx| e.move_job(id, b"none", fx)).unwrap();
    assert_eq!(told(&mut world), ["left default: Moved none"]);
    world.act(|e, fx| e.cancel(id, fx)).unwrap();
    assert_eq!(told(&mut world), [""; 0], "this queue keeps no history");
    let old = world.put(session, 0, 0, 60);
    world.pass(501);
    assert_eq!(world.state(old), None);
    assert_eq!(told(&mut world), ["left default: Expired"]);
    let mut rules = world.engine.policies().clone();
    rules.0.push(Rule::new(["default"], [Setting::DeadExpired(true)]));
    world.act(|e, fx| e.set_policies(rules, fx));
    let old = world.put(session, 0, 0, 60);
    world.pass(501);
    assert_eq!(told(&mut world), ["left default: Expired dead"]);
    world.act(|e, fx| e.cancel(old, fx)).unwrap();
    world.engine.take_milestones();
    world.put(session, 0, 60, 60);
    world.remove(b"default");
    let left = departure(&mut world);
    assert_eq!((left.why, left.body, left.body_len), (JobEnd::Flushed, None, 4));
    let id = world.put(session, 0, 0, 60);
    world.act(|e, fx| e.cancel(id, fx)).unwrap();
    assert_eq!(departure(&mut world).why, JobEnd::Deleted);
}

#[test]
fn an_item_that_is_read_for_good_is_done() {
    let mut world = world([]);
    assert!(world.add("items", "body"));
    world.pass(20);
    world.get("items").unwrap();
    assert_eq!(told(&mut world), ["taken after 20 by", "left items: Done"]);
}

#[test]
fn without_a_reader_or_a_policy_there_are_no_milestones() {
    let mut world = World::new();
    let rules = Rules(vec![Rule::new(["*"], [Setting::History(true)])]);
    world.act(|e, fx| e.set_policies(rules, fx));
    world.pass(0);
    let session = world.open();
    let work = |world: &mut World| -> JobId {
        let id = world.put(session, 0, 0, 60);
        assert!(world.take(session, Patience::None).granted().is_some());
        assert!(world.finish(session, id));
        id
    };
    work(&mut world);
    assert_eq!(told(&mut world), [""; 0], "nobody reads them");
    world.engine.note_milestones();
    work(&mut world);
    assert_eq!(told(&mut world).len(), 2);
    world.act(|e, fx| e.set_policies(Rules::default(), fx));
    world.pass(0);
    work(&mut world);
    assert_eq!(told(&mut world), [""; 0], "no policy asks for them");
}
