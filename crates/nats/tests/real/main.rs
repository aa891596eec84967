//! The driver, with three real servers. The tests are skipped if `nats-server` is not installed:
//! `scripts/install-test-tools.sh` installs it.
#![allow(clippy::unwrap_used)]

mod access;
mod nodes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use nats::driver::Driver;
use nats::guard::{Needed, Question, Refusal};
use nats::hints::{Hint, Hints, Order, Role};
use nats::{Access, Place, guard, stream};
use nodes::{LINEAGE, Shared, origin};
use replica::Seq;
use replica::node::{Answer, Expect, Request, Subject};
use replica::reader::{Meaning, Reader};
use testkit::cluster::{FLUSH_ALWAYS, NatsServers};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

/// Servers with an empty stream.
async fn begin() -> Option<(NatsServers, Place)> {
    let servers = NatsServers::start(FLUSH_ALWAYS)?;
    let place = place_of(&servers);
    let begun = Instant::now();
    // The servers must elect a leader first.
    while let Err(error) = stream::create_at(&place, LINEAGE).await {
        assert!(begun.elapsed() < NatsServers::ELECTION_MAX, "{error}");
        sleep(Duration::from_millis(50)).await;
    }
    Some((servers, place))
}

fn place_of(servers: &NatsServers) -> Place {
    let access = Access::default();
    Place { servers: servers.urls(), name: "test".into(), replicas: 3, access }
}

/// What a node on this machine asks. All servers of a test are on it.
fn question(servers: &NatsServers) -> Question {
    Question {
        place: place_of(servers),
        monitors: servers.monitors(),
        lineage: Some(LINEAGE),
        stream_bytes_max: 100 << 20,
        allow_colocated: true,
        unsafe_flush: false,
    }
}

/// A server that accepts users, and then answers nothing: the others do not hear it.
async fn start_mute_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let info = "INFO {\"server_id\":\"M\",\"server_name\":\"mute\",\
                            \"version\":\"2.15.1\",\"go\":\"\",\"host\":\"127.0.0.1\",\
                            \"port\":1,\"max_payload\":1048576,\"proto\":1,\
                            \"headers\":true}\r\n";
                socket.write_all(info.as_bytes()).await?;
                let mut lines = BufReader::new(socket);
                let mut line = String::new();
                while lines.read_line(&mut line).await? > 0 {
                    if line == "PING\r\n" {
                        lines.get_mut().write_all(b"PONG\r\n").await?;
                    }
                    line.clear();
                }
                std::io::Result::Ok(())
            });
        }
    });
    url
}

#[tokio::test]
async fn a_server_that_knows_nothing_does_not_hide_the_others() {
    let Some((servers, place)) = begin().await else { return };
    let mute = start_mute_server().await;
    let place = Place { servers: [vec![mute], place.servers].concat(), ..place };
    let found = stream::find(&place).await.unwrap();
    assert_eq!(found.lineage, LINEAGE);
    let question = Question { place: place.clone(), ..question(&servers) };
    let found = guard::look(&question).await.unwrap();
    assert!(found.is_safe(), "{found:?}");
    let mut hints = Hints::new(place);
    let hint = Hint { name: "a".into(), ..Hint::default() };
    assert!(hints.write(1, &hint).await.is_err(), "the first server is mute");
    hints.write(1, &hint).await.unwrap();
}

async fn next(answers: &mut Receiver<Answer>) -> Answer {
    timeout(Duration::from_secs(30), answers.recv()).await.expect("an answer").unwrap()
}

/// Waits until the stream begins with this record.
async fn wait_for_trim(driver: &mut Driver, answers: &mut Receiver<Answer>, below: Seq) {
    let begun = Instant::now();
    loop {
        driver.request(Request::Tail);
        let answer = next(answers).await;
        if matches!(answer, Answer::Tail { first, .. } if first == below) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{answer:?}");
    }
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
    wait_for_trim(&mut driver, &mut answers, 3).await;

    // The stream is as it should be.
    let found = stream::find(&place).await.unwrap();
    assert_eq!((found.lineage, found.replicas, found.peers.len()), (LINEAGE, 3, 3));
    let missing = Place { name: "other".into(), ..place.clone() };
    let error = stream::find(&missing).await.unwrap_err();
    assert!(matches!(error, stream::StreamError::Missing(_)), "{error}");
    let client = async_nats::connect(place.servers[1].as_str()).await.unwrap();
    let found = jetstream::new(client).get_stream(place.stream()).await.unwrap();
    let config = &found.cached_info().config;
    stream::check(&place, config).unwrap();
    assert_eq!(stream::lineage(config), Some(LINEAGE));
    let names = found.cached_info().cluster.as_ref().unwrap();
    assert_eq!(names.replicas.len(), 2);
}

#[tokio::test]
async fn guards_find_what_is_wrong() {
    let Some((mut servers, place)) = begin().await else { return };
    let right = question(&servers);
    let found = guard::look(&right).await.unwrap();
    assert_eq!(found.wrong, []);
    assert_eq!((found.servers.len(), found.peers.len()), (3, 3));
    found.judge(Needed::All).unwrap();

    let wrong = |question: Question| async move { guard::look(&question).await.unwrap().wrong };
    let apart = wrong(Question { allow_colocated: false, ..right.clone() }).await;
    assert!(matches!(apart[..], [Refusal::Colocated(..), Refusal::Colocated(..)]), "{apart:?}");
    let few = Question { monitors: right.monitors[1..].to_vec(), ..right.clone() };
    let few = wrong(few).await;
    assert_eq!(few, [Refusal::NoMonitor("n0".into())]);
    let large = Question { stream_bytes_max: 1 << 40, ..right.clone() };
    let large = guard::look(&large).await.unwrap();
    assert!(large.is_safe());
    assert!(matches!(large.small[..], [Refusal::Store { .. }, ..]), "{large:?}");
    let lineage = Some(replica::Lineage([9; 16]));
    let other = wrong(Question { lineage, ..right.clone() }).await;
    assert_eq!(other, [Refusal::OtherLineage("LS_test_LOG_000".into())]);
    let name = Place { name: "none".into(), ..place.clone() };
    let none = wrong(Question { place: name, ..right.clone() }).await;
    assert_eq!(none, [Refusal::NoStream("LS_none_LOG_000".into())]);

    // Somebody changes the stream. Another call gives it the right settings again.
    let context = nats::connect(&place).await.unwrap();
    let info = stream::info(&context, &place.stream()).await.unwrap().unwrap();
    let changed = jetstream::stream::Config {
        max_messages: 1000,
        max_age: Duration::from_mins(1),
        ..info.config
    };
    context.update_stream(&changed).await.unwrap();
    let info = stream::info(&context, &place.stream()).await.unwrap().unwrap();
    let error = stream::check(&place, &info.config).unwrap_err();
    let fields: Vec<&str> = error.wrong.iter().map(|wrong| wrong.field).collect();
    assert_eq!(fields, ["max_messages", "max_age"]);
    assert!(error.to_string().contains("max_age is 60s instead of 0ns"), "{error}");
    let looked = wrong(Question { lineage: None, ..right.clone() }).await;
    assert_eq!(looked, [Refusal::Settings(error)]);
    stream::repair(&context, &place, &info.config).await.unwrap();
    let info = stream::info(&context, &place.stream()).await.unwrap().unwrap();
    stream::check(&place, &info.config).unwrap();

    let again = stream::create(&context, &place, replica::Lineage([9; 16])).await;
    assert!(matches!(again, Err(stream::StreamError::Exists(_))), "{again:?}");

    // The loss of one machine is no reason not to claim. The loss of two is.
    servers.kill(2);
    let begun = Instant::now();
    let found = loop {
        // The other servers may have to elect a leader.
        match guard::look(&right).await {
            Ok(found) => break found,
            Err(error) => assert!(begun.elapsed() < NatsServers::ELECTION_MAX, "{error}"),
        }
    };
    assert!(found.is_safe(), "{found:?}");
    assert_eq!(found.missing(), ["n2"]);
    assert_eq!(found.silent[0].0, right.monitors[2]);
    assert!(found.judge(Needed::All).is_err());
    servers.kill(1);
    let found = guard::look(&right).await;
    assert!(found.is_ok_and(|found| !found.is_safe()) || guard::look(&right).await.is_err());
}

#[tokio::test]
async fn servers_that_do_not_flush_are_refused() {
    let Some(careless) = NatsServers::start("") else { return };
    let question = Question { lineage: None, ..question(&careless) };
    let begun = Instant::now();
    let found = loop {
        match guard::look(&question).await {
            Ok(found) => break found,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
    };
    let wrong: Vec<Refusal> = ["n0", "n1", "n2"].map(|n| Refusal::NoFlush(n.into())).to_vec();
    assert_eq!(found.wrong, wrong);
    assert!(!found.is_safe());
    let told = found.judge(Needed::Majority).unwrap_err().to_string();
    assert!(told.contains("set `sync_interval: always`"), "{told}");
    let found = guard::look(&Question { unsafe_flush: true, ..question }).await.unwrap();
    found.judge(Needed::All).unwrap();
}

#[tokio::test]
async fn hints_age_by_the_clock_of_their_reader() {
    let Some((_servers, place)) = begin().await else { return };
    let (mut writer, mut reader) = (Hints::new(place.clone()), Hints::new(place));
    assert_eq!(reader.read().await.unwrap(), []);
    let hint = Hint { name: "one".into(), role: Role::Leads, applied: 1, ..Hint::default() };
    let begun = Instant::now();
    // The bucket is created first. Its servers must elect a leader.
    while let Err(error) = writer.write(1, &hint).await {
        assert!(begun.elapsed() < Duration::from_secs(30), "{error}");
    }
    writer.write(2, &Hint { name: "two".into(), ..Hint::default() }).await.unwrap();
    let seen = reader.read().await.unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].node, seen[0].changes, &seen[0].hint), (1, 0, &hint));

    // Only the first node goes on.
    let begun = Instant::now();
    let mut applied = 1;
    let seen = loop {
        applied += 1;
        writer.write(1, &Hint { applied, ..hint.clone() }).await.unwrap();
        let seen = reader.read().await.unwrap();
        if seen[1].age > Duration::from_millis(300) {
            break seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "time passes");
    };
    assert_eq!(seen[0].hint.applied, applied);
    assert!(seen[0].changes > 0);
    assert_eq!(seen[1].changes, 0);

    // An operator's tool says that the other one does not come back.
    let gone = Hint { is_forgotten: true, ..seen[1].hint.clone() };
    writer.write(2, &gone).await.unwrap();
    let seen = reader.read().await.unwrap();
    assert_eq!((&seen[1].hint, seen[1].changes), (&gone, 1));
}

#[tokio::test]
async fn an_order_is_taken_back_only_while_it_is_the_newest() {
    let Some((_servers, place)) = begin().await else { return };
    let (mut one, mut other) = (Hints::new(place.clone()), Hints::new(place));
    let begun = Instant::now();
    // A node has created the bucket.
    while let Err(error) = one.write(1, &Hint::default()).await {
        assert!(begun.elapsed() < Duration::from_secs(30), "{error}");
    }
    let order = |id| Order { id, epoch: 7, successor: 2 };
    assert!(!one.take_back(&order(5)).await.unwrap(), "there is none");
    one.order(&order(5)).await.unwrap();
    assert_eq!(one.newest_order().await, Some(order(5)));
    other.order(&order(6)).await.unwrap();
    assert!(!one.take_back(&order(5)).await.unwrap());
    assert_eq!(one.newest_order().await, Some(order(6)), "it is that of somebody else");
    assert!(other.take_back(&order(6)).await.unwrap());
    assert_eq!(one.newest_order().await, None);
    assert!(!other.take_back(&order(6)).await.unwrap(), "once");
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
