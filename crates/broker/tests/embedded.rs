//! The broker as a library: blocking calls in memory.

use std::time::{Duration, Instant};

use lineshaft_broker::embedded::{Error, Store, Wait};
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
