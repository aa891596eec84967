//! Tests bodies that leave the memory and are loaded from the log again. Writes, reclaim and loads
//! happen only when a test calls the function for them.

mod rescue;

use std::sync::{Arc, Mutex};

use lineshaft_broker::policy::{Rule, Rules, Setting};
use lineshaft_broker::{
    Answer, Body, Broker, Event, Handout, JobBody, JobId, Mailbox, Millis, NewJob, Options, Outbox,
    Patience, Position, ReadMode, SessionId, State, Submit, Take,
};

const NOW: Millis = Millis(1_000_000);
const LIMIT: u64 = 20_000;

fn options(disk: &log::FaultDisk) -> Options {
    let log = log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), log);
    Options { bodies_bytes_max: Some(LIMIT), ..options }
}

fn open(disk: &log::FaultDisk) -> Broker {
    Broker::open(options(disk), NOW).expect("the log is whole").0
}

/// Does the work of the log's threads. Also ends some turns, because bodies leave the memory at the
/// end of a turn.
fn work(broker: &Broker) {
    loop {
        broker.commit_step(NOW).expect("the disk works");
        broker.prepare_step().expect("the disk works");
        for _ in 0..8 {
            drop(broker.turn(NOW));
        }
        if !broker.reclaim_step(NOW).expect("the disk works") {
            return;
        }
    }
}

fn body(number: u64) -> Vec<u8> {
    format!("{number:03}").repeat(40).into_bytes()
}

/// Puts jobs with bodies of 120 bytes into the default queue.
fn put(broker: &Broker, numbers: std::ops::Range<u64>) -> Vec<JobId> {
    let session = broker.turn(NOW).open_session(0);
    let put = |number| {
        if number % 100 == 99 {
            work(broker);
        }
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), body(number).into());
        put.value.expect("there is room")
    };
    let ids = numbers.map(put).collect();
    work(broker);
    ids
}

fn stored(broker: &Broker) -> u64 {
    broker.turn(NOW).log_stats().stored_jobs
}

fn resident_bytes(broker: &Broker) -> u64 {
    broker.turn(NOW).log_stats().resident_body_bytes
}

fn take(broker: &Broker, session: SessionId) -> Handout {
    match broker.turn(NOW).caller(session).take(Patience::None).value {
        Take::Granted(handout) => handout,
        other => panic!("{other:?}"),
    }
}

/// The bytes of a body. Loads the body if necessary.
fn loaded(broker: &Broker, body: &JobBody) -> Vec<u8> {
    broker.load_step(NOW);
    body.resident().expect("it was loaded").to_vec()
}

#[test]
fn bodies_beyond_the_limit_leave_the_memory_and_come_back() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..3000);
    assert!(resident_bytes(&broker) <= LIMIT, "{}", resident_bytes(&broker));
    assert!(stored(&broker) > 2800, "{}", stored(&broker));
    let session = broker.turn(NOW).open_session(0);
    let mut waited = 0;
    for number in 0..3000 {
        let handout = take(&broker, session);
        waited += u32::from(matches!(handout.body, JobBody::Loading(_)));
        assert_eq!(loaded(&broker, &handout.body), body(number));
        broker.turn(NOW).caller(session).finish(handout.id).value.expect("it is held");
        work(&broker);
    }
    assert!((1..300).contains(&waited), "{waited} takes waited; the others were loaded ahead");
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_reply_waits_until_its_body_is_loaded() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..1000);
    let session = broker.turn(NOW).open_session(0);
    let mut turn = broker.turn(NOW);
    let mut outbox = Outbox::default();
    let mut expected = Vec::new();
    for number in 0..1000 {
        let Answer { value, after } = turn.caller(session).take(Patience::None);
        let handout = value.granted().expect("there are more");
        outbox.reply_with_body(after, b"<", &handout.body, b">");
        expected.extend([&b"<"[..], &body(number), b">"].concat());
    }
    drop(turn);
    broker.commit_step(NOW).expect("the disk works");
    let send = |outbox: &mut Outbox| {
        let mut sent = Vec::new();
        loop {
            let bytes = outbox.sendable(broker.released()).to_vec();
            if bytes.is_empty() {
                return sent;
            }
            outbox.advance(bytes.len());
            sent.extend(bytes);
        }
    };
    let mut sent = send(&mut outbox);
    assert!(sent.len() < expected.len() / 2 && !outbox.is_empty(), "{}", sent.len());
    assert!(outbox.waits_for(broker.released()).is_none(), "it does not wait for the log");
    broker.load_step(NOW);
    sent.extend(send(&mut outbox));
    assert!(sent == expected && outbox.is_empty() && !outbox.is_broken());
}

/// A mailbox that stores the sessions whose bodies were loaded.
#[derive(Debug, Default)]
struct Loaded(Mutex<Vec<SessionId>>);

impl Mailbox for Loaded {
    fn deliver(&self, _: SessionId, _: Answer<Event>) {}

    fn loaded(&self, session: SessionId) {
        self.0.lock().expect("no test panics here").push(session);
    }

    fn released(&self) {}

    fn alarm(&self, _: Millis) {}
}

#[test]
fn a_session_learns_that_its_bodies_are_loaded() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mailbox = Arc::new(Loaded::default());
    broker.add_mailbox(mailbox.clone());
    put(&broker, 0..1000);
    let [first, second] = [0, 0].map(|mailbox| broker.turn(NOW).open_session(mailbox));
    let mut waiting = Vec::new();
    while waiting.len() < 2 {
        let body = take(&broker, first).body;
        waiting.extend(matches!(body, JobBody::Loading(_)).then_some(body));
    }
    let peeked = broker.turn(NOW).caller(second).peek_used(State::Ready).value;
    let peeked = peeked.expect("there are more");
    assert!(matches!(peeked.body, JobBody::Loading(_)));
    broker.load_step(NOW);
    assert_eq!(*mailbox.0.lock().expect("no test panics here"), [first, second], "each once");
}

#[test]
fn an_item_that_is_taken_for_good_is_read_after_its_end() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let session = broker.turn(NOW).open_reader_session(0);
    for number in 0..1000 {
        let added = broker.turn(NOW).caller(session).add(b"q", body(number).into(), None);
        added.value.expect("there is room");
    }
    work(&broker);
    assert!(stored(&broker) > 500);
    let mut bodies = Vec::new();
    for _ in 0..1000 {
        let read = broker.turn(NOW).caller(session).read(b"q", ReadMode::Finish, Patience::None);
        let item = read.value.expect("reads are allowed").item();
        bodies.push(item.expect("there are more").1);
    }
    // All items have ended, so the log could free their segments. But the reads still wait for
    // their bodies, and hold these segments.
    for _ in 0..5 {
        put(&broker, 0..2000);
        let mut turn = broker.turn(NOW);
        let _ = turn.caller(session).flush(b"default");
        drop(turn);
        while broker.turn(NOW).totals().ready > 0 {
            broker.turn(NOW).advance();
        }
        work(&broker);
    }
    for (number, item) in bodies.iter().enumerate() {
        assert_eq!(loaded(&broker, item), body(number as u64));
    }
    let first = broker.turn(NOW).log_stats().oldest_segment;
    work(&broker);
    work(&broker);
    let is_freed = |segment: u32| !disk.names().contains(&format!("{segment:010}.seg"));
    assert!(first > 1 && (1..first).all(is_freed), "then they are freed: {:?}", disk.names());
}

#[test]
fn a_limit_that_stays_the_same_costs_no_search_for_bodies() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..1000);
    broker.set_bodies_limit(Some(LIMIT / 2));
    while broker.load_step(NOW) {}
    broker.set_bodies_limit(Some(LIMIT / 2));
    assert!(!broker.load_step(NOW), "each reload sets the limit");
    broker.set_bodies_limit(Some(LIMIT));
    assert!(broker.load_step(NOW));
}

#[test]
fn a_loaded_body_stays_in_memory_if_its_job_stays() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..1000);
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    assert_eq!(stored(&broker), 1000);
    broker.set_bodies_limit(Some(LIMIT));
    let session = broker.turn(NOW).open_session(0);
    let peek = || {
        let peeked = broker.turn(NOW).caller(session).peek_used(State::Ready).value;
        peeked.expect("there are more").body
    };
    assert_eq!(loaded(&broker, &peek()), body(0));
    assert!(matches!(peek(), JobBody::Resident(_)));
    let reads = disk.reads();
    let one = peek();
    drop(broker.turn(NOW).caller(session).peek_used(State::Delayed));
    assert_eq!(loaded(&broker, &one), body(0));
    assert_eq!(disk.reads(), reads);
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_body_that_nobody_waits_for_any_more_is_not_read() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..1000);
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    let session = broker.turn(NOW).open_session(0);
    let reads = disk.reads();
    drop(broker.turn(NOW).caller(session).peek_used(State::Ready));
    broker.load_step(NOW);
    assert_eq!(disk.reads(), reads);
}

#[test]
fn the_loader_waits_while_clients_have_not_read_what_it_has_loaded() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let mailbox = broker.add_mailbox(Arc::new(Loaded::default()));
    broker.report_unread_bodies(mailbox, 0);
    let ids = put(&broker, 0..1000);
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    assert_eq!(stored(&broker), 1000);
    broker.set_loads_limit(300);
    let session = broker.turn(NOW).open_session(mailbox);
    let peek = |id: &JobId| broker.turn(NOW).caller(session).peek(*id).value.expect("it is kept");
    assert!(!broker.has_many_loads());
    // Another one makes 11.
    let mut waiting: Vec<JobBody> = ids.iter().take(11).map(|id| peek(id).body).collect();
    assert!(broker.has_many_loads() && broker.turn(NOW).has_many_loads());
    drop(waiting.pop());
    let loaded_count = || waiting.iter().filter(|body| body.resident().is_some()).count();
    // The last one of 120 bytes may exceed the limit.
    for count in [3, 6, 9] {
        assert!(broker.load_step(NOW));
        assert_eq!(loaded_count(), count);
        broker.report_unread_bodies(mailbox, 360);
        assert!(!broker.load_step(NOW), "clients have not read more");
        broker.report_unread_bodies(mailbox, 0);
    }
    broker.report_unread_bodies(mailbox, 280);
    assert!(broker.load_step(NOW));
    assert_eq!(loaded_count(), 10);
    broker.report_unread_bodies(mailbox, 0);
    broker.load_step(NOW);
    assert!(!broker.has_many_loads(), "a load that nobody waits for counts no more");
    for (number, fetched) in (0..10).zip(&waiting) {
        assert_eq!(**fetched.resident().expect("it was loaded"), *body(number));
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn jobs_that_share_an_entry_share_its_body_in_memory() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = Broker::open(Options { bodies_bytes_max: Some(0), ..options(&disk) }, NOW);
    let broker = broker.expect("the disk is empty").0;
    let all = ["a", "b", "c"].map(|name| name.as_bytes().into());
    let alias = Rule::new(["all"], [Setting::Alias(all.into())]);
    let _ = broker.turn(NOW).set_policies(Rules(vec![alias]));
    let session = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(session).use_queue(b"all");
    let mut put_one = |number| {
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), body(number).into());
        work(&broker);
        put.value.expect("there is room")
    };
    let firsts: Vec<JobId> = (0..2000).map(&mut put_one).collect();
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    assert_eq!(stored(&broker), 6000);
    let peek = |queue: &str| {
        broker.turn(NOW).caller(session).use_queue(queue.as_bytes());
        let peeked = broker.turn(NOW).caller(session).peek_used(State::Ready).value;
        peeked.expect("there are more")
    };
    let peeked = ["a", "b", "c"].map(|queue| peek(queue).body);
    broker.load_step(NOW);
    let loaded = peeked.each_ref().map(|body| body.resident().expect("it was loaded"));
    assert!(loaded.iter().all(|body| std::ptr::eq(body.as_ptr(), loaded[0].as_ptr())));
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    // Now reclaim moves entries.
    let jobs = |first: &JobId| [0, 1, 2].map(|next| JobId(first.0 + next));
    let (kept, ended): (Vec<_>, Vec<_>) = firsts.iter().partition(|first| first.0 % 10 == 1);
    for id in ended.into_iter().flat_map(jobs) {
        broker.turn(NOW).caller(session).finish(id).value.expect("nobody holds it");
    }
    let is_shared = |first: &&JobId| {
        let turn = broker.turn(NOW);
        let bodies = jobs(first).map(|id| turn.body(id).expect("it is kept"));
        bodies.iter().all(|body| std::ptr::eq(body.as_ptr(), bodies[0].as_ptr()))
    };
    assert!(kept.len() > 100 && !kept.iter().any(is_shared), "each is read from the log");
    while broker.turn(NOW).log_stats().records_copied == 0 {
        broker.reclaim_step(NOW).expect("the disk works");
    }
    assert!(kept.iter().any(is_shared), "until the copies are written, they are in memory");
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_queue_can_end_before_it_is_loaded_ahead() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put_into(&broker, "short", 0);
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    let session = broker.turn(NOW).open_session(0);
    let _ = broker.turn(NOW).caller(session).watch(b"short");
    let handouts: Vec<_> = (0..200).map(|_| take(&broker, session)).collect();
    for handout in &handouts {
        broker.turn(NOW).caller(session).finish(handout.id).value.expect("it is held");
    }
    let _ = broker.turn(NOW).caller(session).ignore(b"short");
    for handout in handouts {
        loaded(&broker, &handout.body);
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn the_first_piece_that_is_loaded_ahead_is_small() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..12_000);
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    assert_eq!(stored(&broker), 12_000);
    broker.set_bodies_limit(Some(4 << 20));
    let session = broker.turn(NOW).open_session(0);
    let handout = take(&broker, session);
    assert_eq!(loaded(&broker, &handout.body), body(0));
    let first = resident_bytes(&broker);
    assert!((30_000..40_000).contains(&first), "{first}");
    let mut waited = 0;
    for number in 1..12_000 {
        let handout = take(&broker, session);
        waited += u32::from(matches!(handout.body, JobBody::Loading(_)));
        assert_eq!(loaded(&broker, &handout.body), body(number));
        broker.turn(NOW).caller(session).finish(handout.id).value.expect("it is held");
    }
    assert!(waited == 0, "{waited} takes waited, although pieces are loaded ahead");
    broker.turn(NOW).check_invariants();
}

#[test]
fn a_body_that_cannot_be_read_buries_its_job() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..1000);
    let session = broker.turn(NOW).open_session(0);
    let handout = std::iter::repeat_with(|| take(&broker, session))
        .find(|handout| matches!(handout.body, JobBody::Loading(_)))
        .expect("the iterator is endless");
    disk.fail_reads(0..u64::MAX);
    let mut outbox = Outbox::default();
    outbox.reply_with_body(Position::default(), b"", &handout.body, b"");
    broker.load_step(NOW);
    disk.plan_nothing();
    assert!(outbox.is_broken() && outbox.sendable(broker.released()).is_empty());
    let status = broker.turn(NOW).job_status(handout.id).value.expect("it is kept");
    assert_eq!(status.facts.state, State::Buried);
    assert_eq!(broker.turn(NOW).log_stats().body_errors, 1, "those of jobs ahead do not count");
    assert!(broker.body_error().is_some());
    broker.turn(NOW).check_invariants();
}

#[test]
fn want_of_descriptors_buries_no_job_and_loses_no_item() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..1000);
    let session = broker.turn(NOW).open_session(0);
    let reader = broker.turn(NOW).open_reader_session(0);
    let read = || {
        let mut turn = broker.turn(NOW);
        let read = turn.caller(reader).read(b"default", ReadMode::Finish, Patience::None);
        read.value.expect("reads are allowed").item().expect("there are more").1
    };
    let is_stored = |body: &JobBody| matches!(body, JobBody::Loading(_));
    let (taken, handout) = (0..1000)
        .map(|number| (number, take(&broker, session)))
        .find(|(_, handout)| is_stored(&handout.body))
        .expect("not all bodies are in memory");
    let (ended, item) = (taken + 1..1000)
        .map(|number| (number, read()))
        .find(|(_, item)| is_stored(item))
        .expect("not all bodies are in memory");
    disk.set_fail_opens(true);
    let at = |tenths: u64| Millis(NOW.0 + 100 * tenths);
    for tenths in 0..50 {
        broker.load_step(at(tenths));
        assert!(!broker.load_step(at(tenths)), "the bodies rest");
        assert!(broker.turn(at(tenths)).has_many_loads(), "nobody requests more meanwhile");
    }
    for body in [&handout.body, &item] {
        let JobBody::Loading(loading) = body else { panic!("{body:?}") };
        assert!(loading.body().is_none() && !loading.has_failed());
    }
    let status = broker.turn(at(50)).job_status(handout.id).value.expect("it is kept");
    assert_eq!(status.facts.state, State::Leased);
    assert!(broker.body_error().is_none() && broker.turn(at(50)).log_stats().body_errors == 0);
    disk.set_fail_opens(false);
    for tenths in 50..53 {
        broker.load_step(at(tenths));
    }
    assert!(!broker.turn(at(53)).has_many_loads());
    for (number, waiting) in [(taken, &handout.body), (ended, &item)] {
        assert_eq!(**waiting.resident().expect("it was loaded"), *body(number));
    }
    broker.turn(at(53)).check_invariants();
}

#[test]
fn a_start_keeps_bodies_beyond_the_limit_in_the_log() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    put(&broker, 0..2000);
    drop(broker);
    disk.crash();
    let broker = open(&disk);
    assert!(resident_bytes(&broker) <= LIMIT + 1000, "{}", resident_bytes(&broker));
    let session = broker.turn(NOW).open_session(0);
    for number in 0..2000 {
        let handout = take(&broker, session);
        assert_eq!(loaded(&broker, &handout.body), body(number));
    }
    broker.turn(NOW).check_invariants();
}

#[test]
fn reclaim_moves_stored_bodies() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let ids = put(&broker, 0..6000);
    let session = broker.turn(NOW).open_session(0);
    let (kept, ended): (Vec<_>, Vec<_>) =
        ids.into_iter().enumerate().partition(|(number, _)| number % 5 == 0);
    for (_, id) in ended {
        broker.turn(NOW).caller(session).finish(id).value.expect("nobody holds it");
    }
    for _ in 0..200 {
        work(&broker);
    }
    assert!(broker.turn(NOW).log_stats().records_copied > 500);
    assert!(resident_bytes(&broker) <= LIMIT, "the copies left the memory again");
    assert!(stored(&broker) > 1000);
    for (number, id) in kept {
        let handout = take(&broker, session);
        assert_eq!(handout.id, id);
        assert_eq!(loaded(&broker, &handout.body), body(number as u64));
    }
    broker.turn(NOW).check_invariants();
}

const QUEUE_LIMIT: u64 = 2_000;

/// Limits the memory of the queues whose name begins with `small`.
fn limit_small(broker: &Broker) {
    let limit = Setting::MemoryMax(Some(QUEUE_LIMIT));
    let _ = broker.turn(NOW).set_policies(Rules(vec![Rule::new(["small*"], [limit])]));
    work(broker);
}

fn open_without_limit(disk: &log::FaultDisk) -> Broker {
    Broker::open(Options { bodies_bytes_max: None, ..options(disk) }, NOW).expect("it is whole").0
}

/// Puts 200 jobs, each of this delay, into a queue.
fn put_into(broker: &Broker, queue: &str, delay_s: u32) {
    let session = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(session).use_queue(queue.as_bytes());
    for number in 0..200 {
        let job = NewJob { delay_s, ..NewJob::default() };
        let put = broker.turn(NOW).caller(session).put(job, body(number).into());
        put.value.expect("there is room");
        work(broker);
    }
    broker.turn(NOW).close_session(session);
}

fn take_all(broker: &Broker, queue: &str) {
    let session = broker.turn(NOW).open_session(0);
    let _ = broker.turn(NOW).caller(session).watch(queue.as_bytes());
    for number in 0..200 {
        let handout = take(broker, session);
        assert_eq!(loaded(broker, &handout.body), body(number));
        broker.turn(NOW).caller(session).finish(handout.id).value.expect("it is held");
    }
}

/// Bodies of 120 bytes that the limit of one queue allows in memory.
const KEPT: u64 = QUEUE_LIMIT / 120;

#[test]
fn a_queue_with_its_own_limit_keeps_only_its_first_bodies_in_memory() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open_without_limit(&disk);
    limit_small(&broker);
    put_into(&broker, "large", 0);
    assert_eq!(stored(&broker), 0);
    put_into(&broker, "small", 0);
    assert_eq!(stored(&broker), 200 - KEPT);
    put_into(&broker, "small-delayed", 1000);
    assert_eq!(stored(&broker), 400 - KEPT, "delayed jobs do not need their bodies soon");
    broker.turn(NOW).check_invariants();
    drop(broker);
    disk.crash();
    let broker = open_without_limit(&disk);
    assert_eq!(stored(&broker), 400 - KEPT, "the same after a start");
    take_all(&broker, "small");
    take_all(&broker, "large");
    put_into(&broker, "small", 0);
    assert_eq!(stored(&broker), 400 - KEPT);
    take_all(&broker, "small");
    broker.turn(NOW).check_invariants();
}

#[test]
fn released_jobs_stay_within_the_limit_of_their_queue() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open_without_limit(&disk);
    limit_small(&broker);
    let session = broker.turn(NOW).open_session(0);
    let worker = broker.turn(NOW).open_session(0);
    let _ = broker.turn(NOW).caller(worker).watch(b"small");
    broker.turn(NOW).caller(session).use_queue(b"small");
    for number in 0..200 {
        let put = broker.turn(NOW).caller(session).put(NewJob::default(), body(number).into());
        put.value.expect("there is room");
        take(&broker, worker);
        work(&broker);
    }
    assert_eq!(stored(&broker), 0, "leased jobs probably end soon");
    broker.turn(NOW).close_session(worker);
    while broker.turn(NOW).totals().ready < 200 {}
    work(&broker);
    assert_eq!(stored(&broker), 200 - KEPT);
    take_all(&broker, "small");
}

#[test]
fn a_large_body_is_in_memory_once_while_it_waits_for_the_disk() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open_without_limit(&disk);
    let session = broker.turn(NOW).open_session(0);
    let body: Body = vec![7; 1 << 20].into();
    let put = broker.turn(NOW).caller(session).put(NewJob::default(), body.clone());
    let id = put.value.expect("there is room");
    assert_eq!(Body::strong_count(&body), 3, "the test, the job and the log");
    work(&broker);
    assert_eq!(Body::strong_count(&body), 2, "it is written");
    broker.turn(NOW).caller(session).finish(id).value.expect("nobody holds it");
    assert_eq!(Body::strong_count(&body), 1);
}

#[test]
fn a_lower_limit_applies_to_an_idle_server() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open_without_limit(&disk);
    put_into(&broker, "small", 0);
    put_into(&broker, "large", 0);
    limit_small(&broker);
    broker.load_step(NOW);
    assert_eq!(stored(&broker), 200 - KEPT);
    broker.set_bodies_limit(Some(0));
    broker.load_step(NOW);
    assert_eq!(resident_bytes(&broker), 0);
    take_all(&broker, "small");
    take_all(&broker, "large");
    broker.turn(NOW).check_invariants();
}

/// Lets reclaim run. Returns its errors.
fn reclaim(broker: &Broker, now: Millis) -> Vec<log::ReclaimError> {
    let mut errors = Vec::new();
    for _ in 0..1000 {
        errors.extend(broker.reclaim_step(now).err());
        broker.commit_step(now).expect("the disk can be written");
        broker.prepare_step().expect("the disk can be written");
    }
    errors
}

#[test]
fn a_job_whose_body_is_its_key_keeps_it_in_memory() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let session = broker.turn(NOW).open_session(0);
    let mut submit = |number: u64| {
        let bytes = body(number);
        let submit = Submit {
            priority: Some(0),
            due: None,
            unique: b"-",
            reducer: b"",
            body: bytes.as_slice().into(),
            foreground: false,
        };
        let mut turn = broker.turn(NOW);
        let id = turn.caller(session).submit(b"f", submit).value.expect("there is room");
        drop(turn);
        work(&broker);
        id
    };
    let ids: Vec<_> = (0..500).map(&mut submit).collect();
    let again: Vec<_> = (0..500).map(&mut submit).collect();
    assert!(ids == again, "each joins the job with its body");
    assert_eq!(stored(&broker), 0);
}

#[test]
fn small_queues_stay_within_the_limit_while_puts_continue() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let session = broker.turn(NOW).open_session(0);
    for number in 0..4000u64 {
        let mut turn = broker.turn(NOW);
        turn.caller(session).use_queue(format!("q{}", number % 100).as_bytes());
        let put = turn.caller(session).put(NewJob::default(), body(number).into());
        put.value.expect("there is room");
        drop(turn);
        // When a turn ends, its put is not written yet. So there is always a job that waits for the
        // log.
        if number % 10 == 0 {
            broker.commit_step(NOW).expect("the disk works");
            broker.prepare_step().expect("the disk works");
        }
        assert!(resident_bytes(&broker) < 2 * LIMIT, "{number}: {}", resident_bytes(&broker));
    }
}

/// All jobs of a queue are in one list, in the order in which they are taken.
fn classify(meta: &log::Meta<'_>) -> Option<log::Class> {
    let is_ready = meta.state == State::Ready as u8;
    let key = (meta.priority.into(), meta.id);
    is_ready.then_some(log::Class { list: 0, key, next_key: key, band: 0 })
}

#[test]
fn a_start_by_index_files_hands_out_the_same_jobs() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk);
    let ids = put(&broker, 0..4000);
    let session = broker.turn(NOW).open_session(0);
    for &id in ids.iter().step_by(7) {
        let mut turn = broker.turn(NOW);
        let mut caller = turn.caller(session);
        caller.take_job(id).value.expect("it is ready");
        match id.0 % 3 {
            0 => caller.finish(id).value.expect("it is held"),
            1 => caller.bury(id, 9).value.expect("it is held"),
            _ => caller.give_back(id, 5, 0).value.expect("it is held"),
        }
    }
    work(&broker);
    broker.close(NOW).expect("the disk works");
    drop(broker);

    disk.restart();
    let plain = disk.fork();
    let settings = log::Settings { classify: Some(classify), ..options(&disk).log };
    let disk_again = Arc::new(disk.clone());
    let (log, _) = log::Log::open(disk_again, settings.clone(), NOW.0, &mut |_| ()).expect("whole");
    while log.index_step().expect("the disk works").is_some() {}
    assert!(log.indexed().len() > 1, "there are several index files");
    drop(log);
    disk.restart();
    let (by_index, report) =
        Broker::open(Options { log: settings, ..options(&disk) }, NOW).expect("whole");
    assert!(report.indexed > 1, "{report:?}");
    by_index.turn(NOW).check_invariants();
    let broker = open(&plain);
    assert_eq!(by_index.turn(NOW).totals(), broker.turn(NOW).totals());
    let all = |broker: &Broker| {
        let session = broker.turn(NOW).open_session(0);
        let mut jobs = Vec::new();
        loop {
            let take = broker.turn(NOW).caller(session).take(Patience::None).value;
            let Take::Granted(handout) = take else { return jobs };
            jobs.push((handout.id, loaded(broker, &handout.body)));
            broker.turn(NOW).caller(session).finish(handout.id).value.expect("it is held");
            work(broker);
        }
    };
    let jobs = all(&broker);
    assert!(jobs.len() > 3000, "{}", jobs.len());
    assert_eq!(all(&by_index), jobs);
}
