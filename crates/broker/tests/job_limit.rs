//! Tests the server's limit of jobs.

use std::sync::Arc;

use lineshaft_broker::policy::{
    OnDuplicate, Pattern, Rule, RuleSetting, Rules, Setting, UniqueWindow, WhenFull,
};
use lineshaft_broker::{
    Broker, Millis, NewJob, Options, Patience, PutRefusal, ReadMode, Submit, Take, Turn,
};

const NOW: Millis = Millis(1_000_000);

fn open(disk: &log::FaultDisk) -> Broker {
    let disk = Arc::new(disk.clone());
    let options = Options::without_threads(disk, log::Settings::default());
    Broker::open(options, NOW).expect("the log is whole").0
}

#[test]
fn a_server_with_all_its_jobs_takes_no_new_one_and_jobs_come_back() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    broker.set_job_count_limit(Some(2));
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    let late = NewJob { delay_s: 60, ..job };
    let put = |turn: &mut Turn<'_>, job| turn.caller(session).put(job, b"x"[..].into()).value;
    let first = put(&mut turn, job).expect("there is room");
    put(&mut turn, late).expect("there is room");
    assert_eq!(put(&mut turn, job), Err(PutRefusal::JobsFull));
    assert_eq!(turn.put_refusal(b"other"), Some(PutRefusal::JobsFull));
    // A leased job counts, and comes back.
    let Take::Granted(taken) = turn.caller(session).take(Patience::None).value else {
        panic!("a job is ready");
    };
    assert_eq!((taken.id, put(&mut turn, job)), (first, Err(PutRefusal::JobsFull)));
    turn.caller(session).give_back(first, 0, 0).value.expect("the session holds it");
    turn.caller(session).finish(first).value.expect("it exists");
    put(&mut turn, job).expect("there is room again");
    assert_eq!(put(&mut turn, job), Err(PutRefusal::JobsFull));
    let refusals = broker.put_refusals();
    assert!(refusals.contains(&(PutRefusal::JobsFull, 3)), "{refusals:?}");
    broker.set_job_count_limit(None);
    put(&mut turn, job).expect("there is no limit");
}

#[test]
fn a_body_that_takes_the_place_of_a_dead_letter_is_a_new_job() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let settings = [
        Setting::UniqueBy(Some("prefix:1".parse().expect("it is a key"))),
        Setting::OnDuplicate(OnDuplicate::ReplaceBody),
        Setting::BytesMax(Some(4)),
        Setting::WhenFull(WhenFull::DropOldest),
        Setting::DeadDropped(true),
    ];
    let _ = turn.set_policies(Rules(vec![Rule::new(["default"], settings)]));
    let session = turn.open_session(0);
    let put = |turn: &mut Turn<'_>, body: &[u8]| {
        turn.caller(session).put(NewJob::default(), body.into()).value
    };
    put(&mut turn, b"b2").expect("there is room");
    put(&mut turn, b"c234").expect("there is room");
    let jobs = turn.totals().jobs();
    broker.set_job_count_limit(Some(jobs));
    // The old job would have to go, and its dead letter would stay.
    assert_eq!(put(&mut turn, b"b234"), Err(PutRefusal::JobsFull));
    assert_eq!(turn.totals().jobs(), jobs);
}

/// Rules with `unique` for several queues, and a name that stands for two of them.
fn unique_rules() -> Rules {
    let rule = |pattern: &str, settings: Vec<Setting>| Rule {
        patterns: vec![Pattern::new(pattern.as_bytes())],
        settings: settings.into_iter().map(|setting| RuleSetting { setting, line: 0 }).collect(),
        line: 0,
    };
    let hour = Setting::UniqueWindow(UniqueWindow::For(3_600_000));
    let by = || Setting::UniqueBy(Some("body".parse().expect("it is a key")));
    let both = || ["once", "hour"].map(|name| name.as_bytes().into()).into();
    Rules(vec![
        rule("once", vec![by()]),
        rule("hour", vec![by(), hour]),
        rule("copied", vec![by(), Setting::CopyTo([b"copy"[..].into()].into())]),
        rule("both", vec![Setting::Alias(both())]),
        rule("strict", vec![by(), Setting::OnDuplicate(OnDuplicate::Refuse)]),
    ])
}

#[test]
fn a_server_with_all_its_jobs_still_answers_puts_with_the_jobs_that_it_has() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mut turn = broker.turn(NOW);
    let _ = turn.set_policies(unique_rules());
    let session = turn.open_session(0);
    let job = NewJob { ttr_s: 60, ..NewJob::default() };
    let put = |turn: &mut Turn<'_>, queue: &[u8], body: &[u8]| {
        turn.caller(session).use_queue(queue);
        turn.caller(session).put(job, body.into()).value
    };
    let add = |turn: &mut Turn<'_>, queue: &[u8], body: &[u8]| {
        turn.caller(session).add(queue, body.into(), None).value
    };
    let submit = |turn: &mut Turn<'_>, unique: &[u8], foreground| {
        let body = b"x"[..].into();
        let submit = Submit { priority: None, due: None, unique, reducer: b"", body, foreground };
        turn.caller(session).submit(b"work", submit).value
    };
    let once = put(&mut turn, b"once", b"a").expect("there is room");
    let done = put(&mut turn, b"hour", b"done").expect("there is room");
    turn.caller(session).finish(done).value.expect("it exists");
    let hour = put(&mut turn, b"hour", b"a").expect("there is room");
    let copied = put(&mut turn, b"copied", b"a").expect("there is room");
    put(&mut turn, b"strict", b"a").expect("there is room");
    let work = submit(&mut turn, b"key", false).expect("there is room");
    let jobs = turn.totals().jobs();
    broker.set_job_count_limit(Some(jobs));

    // A job that is there, or was there, answers these.
    assert_eq!(put(&mut turn, b"once", b"a"), Ok(once));
    assert_eq!(put(&mut turn, b"hour", b"a"), Ok(hour));
    assert_eq!(put(&mut turn, b"hour", b"done"), Ok(done));
    assert_eq!(put(&mut turn, b"copied", b"a"), Ok(copied));
    assert_eq!(put(&mut turn, b"both", b"a"), Ok(once));
    assert_eq!(add(&mut turn, b"once", b"a"), Ok(()));
    assert_eq!(add(&mut turn, b"both", b"a"), Ok(()));
    assert_eq!(submit(&mut turn, b"key", false), Ok(work));
    assert_eq!(submit(&mut turn, b"key", true), Ok(work));
    assert_eq!(put(&mut turn, b"strict", b"a"), Err(PutRefusal::Duplicate));
    // These make a job in at least one queue.
    for (queue, body) in [("once", "b"), ("hour", "b"), ("both", "done"), ("other", "a")] {
        let (queue, body) = (queue.as_bytes(), body.as_bytes());
        assert_eq!(put(&mut turn, queue, body), Err(PutRefusal::JobsFull));
        assert_eq!(add(&mut turn, queue, body), Err(PutRefusal::JobsFull));
    }
    for unique in [&b""[..], b"other"] {
        assert_eq!(submit(&mut turn, unique, false), Err(PutRefusal::JobsFull));
    }
    // A child does not have the job of its parent.
    assert_eq!(add(&mut turn, b"hour", b"a"), Ok(()));
    let reader = turn.open_reader_session(0);
    let _ = turn.caller(reader).read(b"hour+child", ReadMode::Peek, Patience::None);
    assert_eq!(add(&mut turn, b"hour", b"a"), Err(PutRefusal::JobsFull));
    assert_eq!(turn.totals().jobs(), jobs);
}
