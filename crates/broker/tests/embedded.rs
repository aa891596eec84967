//! The broker as a library: blocking calls in memory.

use std::time::{Duration, Instant};

use lineshaft_broker::embedded::{Error, Store, Wait};
use lineshaft_broker::policy::{Rule, Rules, Setting};
use lineshaft_broker::{JobId, NewJob, State};

const SOON: Wait = Wait::For(Duration::from_secs(5));

#[test]
fn a_job_goes_its_way() {
    let store = Store::in_memory();
    let mut session = store.session();
    let id = session.put("q", NewJob::default(), b"one").expect("there is room");
    assert_eq!(session.peek("q", State::Ready).expect("it is ready").id, id);
    let job = session.take(&["q"], Wait::No).expect("no failure").expect("it is ready");
    assert_eq!((job.id, &job.body[..]), (id, &b"one"[..]));
    session.touch(id).expect("held");
    session.give_back(id, 5, 0).expect("held");
    assert!(matches!(session.touch(id), Err(Error::NotFound)));
    session.take(&["q"], SOON).expect("no failure").expect("it is ready again");
    session.bury(id, 5).expect("held");
    assert_eq!(store.stats("q").expect("it exists").buried, 1);
    assert_eq!(session.kick("q", 10).expect("no failure"), 1);
    session.finish(id).expect("anybody may finish a ready job");
    assert!(matches!(store.peek(id), Err(Error::NotFound)));
}

#[test]
fn a_taker_waits_for_a_put_and_no_longer_than_it_said() {
    let store = Store::in_memory();
    let begun = Instant::now();
    let nothing = store.session().take(&["q"], Wait::For(Duration::from_millis(50)));
    assert!(nothing.expect("no failure").is_none());
    assert!(begun.elapsed() >= Duration::from_millis(50));
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| store.session().take(&["a", "q"], Wait::Forever));
        while store.stats("q").is_none_or(|stats| stats.waiters == 0) {
            std::thread::yield_now();
        }
        store.session().put("q", NewJob::default(), b"x").expect("there is room");
        let job = taker.join().expect("no panic").expect("no failure").expect("a job");
        assert_eq!(job.id, JobId(1));
    });
    let stats = store.stats("q").expect("the job keeps it");
    assert_eq!((stats.ready, stats.leased), (1, 0), "a session that ends gives back");
}

#[test]
fn bodies_beyond_their_limit_are_read_from_the_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = log::Settings { sync: log::Sync::Never, ..log::Settings::default() };
    let store = Store::open_with(folder.path(), settings).expect("the folder is empty");
    store.set_bodies_limit(Some(0));
    let mut queue = store.queue("q");
    let body = |number: u32| number.to_le_bytes().repeat(1000);
    for number in 0..300 {
        queue.add(&body(number), None).expect("there is room");
    }
    let begun = Instant::now();
    while store.item_stats("q").expect("it exists").stored_items < 300 {
        // Bodies leave when the log has written them. A new limit starts the search for them again.
        store.set_bodies_limit(None);
        store.set_bodies_limit(Some(0));
        assert!(begun.elapsed() < Duration::from_secs(30), "bodies stay in memory");
    }
    for number in 0..300 {
        let item = queue.remove(SOON).expect("no failure").expect("there are more");
        assert_eq!(item[..], body(number));
    }
}

#[test]
fn at_the_limit_of_memory_jobs_and_items_are_refused_until_there_is_room() {
    let store = Store::in_memory();
    let (mut session, mut queue) = (store.session(), store.queue("items"));
    store.set_memory_limit(Some(3_000_000));
    let body = vec![b'x'; 1_000_000];
    let first = session.put("q", NewJob::default(), &body).expect("there is room");
    queue.add(&body, None).expect("there is room");
    assert!(matches!(session.put("q", NewJob::default(), &body), Err(Error::Full)));
    assert!(matches!(queue.add(&body, None), Err(Error::Full)));
    session.finish(first).expect("anybody may finish a ready job");
    queue.add(&body, None).expect("there is room again");
    store.set_memory_limit(None);
    session.put("q", NewJob::default(), &body).expect("there is no limit");
}

#[test]
fn a_long_kick_answers_with_the_sum() {
    let store = Store::in_memory();
    let mut session = store.session();
    for _ in 0..3000 {
        let job = NewJob { delay_s: 100, ..NewJob::default() };
        session.put("q", job, b"").expect("there is room");
    }
    assert_eq!(session.kick("q", 2999).expect("no failure"), 2999);
    assert_eq!(store.stats("q").expect("it exists").delayed, 1);
}

#[test]
fn an_item_that_is_not_confirmed_is_the_next_reader_s() {
    let store = Store::in_memory();
    let mut queue = store.queue("pages");
    for body in [&b"1"[..], b"2", b"3"] {
        queue.add(body, None).expect("there is room");
    }
    let mut careless = store.queue("pages");
    let item = careless.open(Wait::No).expect("no failure").expect("the first");
    assert_eq!(&item.body[..], b"1");
    assert_eq!(queue.peek(Wait::No).expect("no failure").as_deref(), Some(&b"2"[..]));
    assert!(matches!(queue.confirm(&item), Err(Error::NotFound)), "another handle holds it");
    careless.close();
    let item = queue.open(Wait::No).expect("no failure").expect("the first again");
    assert_eq!(&item.body[..], b"1");
    queue.confirm(&item).expect("held");
    let item = queue.open(Wait::No).expect("no failure").expect("the second");
    queue.give_back(item).expect("held");
    assert_eq!(queue.remove(Wait::No).expect("no failure").as_deref(), Some(&b"2"[..]));
    queue.flush().expect("no failure");
    let stats = store.item_stats("pages").expect("it is kept");
    assert_eq!((stats.items, stats.puts, stats.cancelled), (0, 3, 2));
    store.remove_queue("pages").expect("no failure");
    assert!(store.item_queues().is_empty());
}

#[test]
fn readers_and_lookers_wait_for_an_item_and_no_longer_than_they_said() {
    let store = Store::in_memory();
    let short = Wait::For(Duration::from_millis(20));
    let begun = Instant::now();
    assert!(store.queue("q").peek(short).expect("no failure").is_none());
    assert!(store.queue("q").open(short).expect("no failure").is_none());
    // The clock counts whole milliseconds, so each wait can end up to 1 ms early.
    assert!(begun.elapsed() >= Duration::from_millis(38), "{:?}", begun.elapsed());
    std::thread::scope(|scope| {
        let waiters_are = |count| {
            while store.item_stats("q").is_none_or(|stats| stats.waiters < count) {
                std::thread::yield_now();
            }
        };
        // The peek must not remove the item, because the second consumer needs it.
        let looks = scope.spawn(|| store.queue("q").peek(Wait::Forever));
        waiters_are(1);
        let removes = scope.spawn(|| store.queue("q").remove(Wait::Forever));
        waiters_are(2);
        store.queue("q").add(b"x", None).expect("there is room");
        for reader in [looks, removes] {
            let body = reader.join().expect("no panic").expect("no failure");
            assert_eq!(body.as_deref(), Some(&b"x"[..]));
        }
    });
    assert!(store.queue("q").peek(Wait::No).expect("no failure").is_none());
}

#[test]
fn an_item_ends_in_time_and_a_policy_holds() {
    let store = Store::in_memory();
    let mut queue = store.queue("q");
    queue.add(b"short", Some(Duration::from_millis(5))).expect("there is room");
    while store.item_stats("q").is_some_and(|stats| stats.expired == 0) {
        std::thread::yield_now();
    }
    let limit = Rule::new(["q"], [Setting::JobsMax(Some(1))]);
    store.set_policies(Rules(vec![limit])).expect("no failure");
    queue.add(b"1", None).expect("there is room");
    assert!(matches!(queue.add(b"2", None), Err(Error::Refused)));
    store.queue("parent+child").peek(Wait::No).expect("no failure");
    store.queue("parent").add(b"3", None).expect("there is room");
    assert_eq!(store.item_stats("parent+child").expect("it is kept").items, 1);
}

#[test]
fn a_take_gets_the_jobs_of_the_queue_that_its_name_stands_for_now() {
    let store = Store::in_memory();
    let (mut taker, mut producer) = (store.session(), store.session());
    let mut put = |queue| producer.put(queue, NewJob::default(), b"x").expect("there is room");
    let mut taken = || taker.take(&["old"], Wait::No).expect("no failure").map(|job| job.id);
    assert_eq!(taken(), None);
    let same_as = Setting::SameAs(Some(b"new"[..].into()));
    store.set_policies(Rules(vec![Rule::new(["old"], [same_as])])).expect("no failure");
    let id = put("old");
    assert_eq!(taken(), Some(id));
    store.set_policies(Rules::default()).expect("no failure");
    put("new");
    let id = put("old");
    assert_eq!(taken(), Some(id));
    assert_eq!(taken(), None, "the name does not stand for the other queue any more");
}

#[test]
fn a_name_that_is_too_long_is_an_error() {
    let store = Store::in_memory();
    let (fits, too_long) = ("q".repeat(8180), "q".repeat(8181));
    let mut session = store.session();
    session.put(&fits, NewJob::default(), b"x").unwrap();
    assert!(session.take(&[&fits], Wait::No).unwrap().is_some());
    let is_told = |error: Error| matches!(error, Error::NameTooLong(8181));
    assert!(is_told(session.put(&too_long, NewJob::default(), b"x").unwrap_err()));
    assert!(is_told(session.take(&["short", &too_long], Wait::No).unwrap_err()));
    assert!(is_told(session.kick(&too_long, 1).unwrap_err()));
    assert!(is_told(session.peek(&too_long, State::Ready).unwrap_err()));
    let mut queue = store.queue(&too_long);
    assert!(is_told(queue.add(b"x", None).unwrap_err()));
    assert!(is_told(queue.open(Wait::No).unwrap_err()));
    queue.flush().unwrap();
    store.remove_queue(&too_long).unwrap();
    assert!(store.stats(&too_long).is_none());
}
