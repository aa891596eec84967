//! The driver, with three real servers. The tests are skipped if `nats-server` is not installed:
//! `scripts/install-test-tools.sh` installs it.
#![allow(clippy::unwrap_used)]

mod nodes;
mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use nats::driver::Driver;
use nats::{Place, guard, stream};
use nodes::{LINEAGE, Shared, origin};
use replica::node::{Answer, Expect, Request, Subject};
use replica::reader::{Meaning, Reader};
use servers::Servers;
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

const SAFE: &str = "sync_interval: always";

/// Servers with an empty stream.
async fn begin() -> Option<(Servers, Place)> {
    let servers = Servers::start(SAFE)?;
    let place = Place { servers: servers.urls(), name: "test".into(), replicas: 3 };
    let client = async_nats::connect(place.servers[0].as_str()).await.unwrap();
    let context = jetstream::new(client);
    let begun = Instant::now();
    // The servers must elect a leader first.
    while let Err(error) = stream::create(&context, &place, LINEAGE).await {
        assert!(begun.elapsed() < Duration::from_secs(30), "{error}");
        sleep(Duration::from_millis(50)).await;
    }
    Some((servers, place))
}

async fn next(answers: &mut Receiver<Answer>) -> Answer {
    timeout(Duration::from_secs(30), answers.recv()).await.expect("an answer").unwrap()
}

async fn append(
    driver: &mut Driver,
    answers: &mut Receiver<Answer>,
    subject: Subject,
    expect: Expect,
    body: &[u8],
) -> Answer {
    driver.request(Request::Append { id: 1, subject, expect, record: body.into() });
    next(answers).await
}

#[tokio::test]
async fn each_request_gets_its_answer() {
    let Some((_servers, place)) = begin().await else { return };
    let (mut driver, mut answers) = Driver::start(place.clone());
    let id = 1;
    let none = Expect { tail: 0, claim: 0 };

    driver.request(Request::Tail);
    assert!(matches!(next(&mut answers).await, Answer::Tail { last: 0, .. }));
    driver.request(Request::LastClaim);
    assert_eq!(next(&mut answers).await, Answer::NoClaim);

    let answer = append(&mut driver, &mut answers, Subject::Claims, none, b"claim").await;
    assert_eq!(answer, Answer::Appended { id, seq: 1 });
    let right = Expect { tail: 1, claim: 1 };
    let answer = append(&mut driver, &mut answers, Subject::Groups, right, b"group").await;
    assert_eq!(answer, Answer::Appended { id, seq: 2 });
    for wrong in [none, right, Expect { tail: 3, claim: 1 }, Expect { tail: 2, claim: 0 }] {
        let answer = append(&mut driver, &mut answers, Subject::Groups, wrong, b"x").await;
        assert_eq!(answer, Answer::Refused { id }, "{wrong:?}");
    }
    let large = vec![9; (512 << 10) + 128];
    let right = Expect { tail: 2, claim: 1 };
    let answer = append(&mut driver, &mut answers, Subject::Groups, right, &large).await;
    assert_eq!(answer, Answer::Appended { id, seq: 3 });

    driver.request(Request::Read { seq: 2 });
    assert_eq!(next(&mut answers).await, Answer::Read { seq: 2, bytes: Arc::from(*b"group") });
    driver.request(Request::Read { seq: 4 });
    assert_eq!(next(&mut answers).await, Answer::NoRecord { seq: 4 });
    driver.request(Request::LastClaim);
    let claim = Answer::LastClaim { seq: 1, bytes: Arc::from(*b"claim") };
    assert_eq!(next(&mut answers).await, claim);

    driver.request(Request::Follow { from: Some(2) });
    assert_eq!(next(&mut answers).await, Answer::Record { seq: 2, bytes: Arc::from(*b"group") });
    assert_eq!(next(&mut answers).await, Answer::Record { seq: 3, bytes: large.into() });
    driver.request(Request::Follow { from: None });

    driver.request(Request::Trim { below: 3 });
    driver.request(Request::Tail);
    assert!(matches!(next(&mut answers).await, Answer::Tail { first: 3, last: 3, .. }));

    // The stream is as it should be.
    let client = async_nats::connect(place.servers[1].as_str()).await.unwrap();
    let found = jetstream::new(client).get_stream(place.stream()).await.unwrap();
    let config = &found.cached_info().config;
    stream::check(&place, config).unwrap();
    assert_eq!(stream::lineage(config), Some(LINEAGE));
    let names = found.cached_info().cluster.as_ref().unwrap();
    assert_eq!(names.replicas.len(), 2);
}

#[tokio::test]
async fn servers_that_do_not_flush_are_refused() {
    let Some(servers) = Servers::start(SAFE) else { return };
    let peers = ["n0", "n1", "n2"].map(String::from);
    guard::judge(&peers, &guard::ask(&servers.monitors()).await, 3).unwrap();
    let careless = Servers::start("").unwrap();
    let found = guard::ask(&careless.monitors()).await;
    assert_eq!(found.len(), 3);
    let refusal = guard::judge(&peers, &found, 2).unwrap_err();
    assert!(matches!(refusal, guard::Refusal::NoFlush(_)));
}

/// Waits until this many groups more are acknowledged.
async fn more(shared: &Shared, groups: u64, what: &str) {
    let begun = Instant::now();
    let mut wanted = None;
    loop {
        let changed = shared.changed.notified();
        {
            let ledger = shared.read();
            assert!(ledger.faults.is_empty(), "{:?}", ledger.faults);
            let last = ledger.acknowledged.keys().last().copied().unwrap_or(0);
            if last >= *wanted.get_or_insert(last + groups) {
                break;
            }
        }
        timeout(Duration::from_secs(40), changed).await.expect(what);
    }
    eprintln!("{what}: {groups} groups after {} ms", begun.elapsed().as_millis());
}

#[tokio::test]
async fn nothing_acknowledged_is_lost() {
    let Some((mut servers, place)) = begin().await else { return };
    let shared = Shared::default();
    let mut nodes = [1, 2].map(|number| Some(nodes::start(place.clone(), number, shared.clone())));
    more(&shared, 20, "the start").await;

    for server in 0..3 {
        servers.kill(server);
        more(&shared, 20, "a server was killed").await;
        servers.run(server);
        more(&shared, 20, "the server is back").await;
    }

    let leader = *shared.read().leaders.values().last().unwrap();
    nodes[leader as usize - 1].take().unwrap().abort();
    more(&shared, 20, "the leading node was stopped").await;
    let last = *shared.read().leaders.values().last().unwrap();
    assert_ne!(last, leader, "the other node leads");
    for node in nodes.iter().flatten() {
        node.abort();
    }

    // Everybody who reads the stream finds all that was acknowledged.
    let (mut driver, mut answers) = Driver::start(place);
    driver.request(Request::Follow { from: Some(1) });
    let mut reader = Reader::new(LINEAGE, origin(), 0, 0);
    let mut missing = shared.read().acknowledged.clone();
    while !missing.is_empty() {
        let Answer::Record { seq, bytes } = next(&mut answers).await else { continue };
        if let Meaning::Group(group) = reader.read(seq, &bytes).unwrap() {
            let acknowledged = missing.remove(&group.number);
            assert!(acknowledged.is_none_or(|chain| chain == group.after));
        }
    }
}
