//! Loads ahead of takes: the next cold jobs come together with their bodies, as far as the limits of
//! memory allow.

use lineshaft_broker::{Broker, Handout, JobBody, Need, NewJob, Options, Patience, SessionId};

use crate::{JOBS, NOW, Take, open_options, put_jobs, with_cold_jobs, work};

fn body(number: u64) -> Vec<u8> {
    format!("{number:04}").repeat(25).into_bytes()
}

/// Takes the next job, and loads its block if necessary. Does not load its body.
fn take(broker: &Broker, session: SessionId) -> Handout {
    while !broker.turn(NOW).caller(session).is_at_hand(Need::Watched) {
        assert!(broker.load_step(NOW), "the job that the session needs is loaded");
    }
    match broker.turn(NOW).caller(session).take(Patience::None).value {
        Take::Granted(handout) => handout,
        other => panic!("wanted a job, got {other:?}"),
    }
}

/// Takes and finishes all jobs, and checks their bodies. Returns how many takes waited for a body.
fn drain(broker: &Broker) -> u64 {
    let session = broker.turn(NOW).open_session(0);
    let mut waited = 0;
    for number in 0..JOBS {
        let handout = take(broker, session);
        waited += u64::from(matches!(handout.body, JobBody::Loading(_)));
        if handout.body.resident().is_none() {
            broker.load_step(NOW);
        }
        assert_eq!(handout.body.resident().map(|body| &body[..]), Some(&body(number)[..]));
        broker.turn(NOW).caller(session).finish(handout.id).value.expect("it is held");
    }
    broker.turn(NOW).check_invariants();
    waited
}

#[test]
fn the_next_cold_jobs_come_with_their_bodies() {
    let disk = log::FaultDisk::new(30, 64 << 20);
    let (broker, ..) = with_cold_jobs(&disk);
    assert_eq!(drain(&broker), 0, "no take waits for a body");
}

#[test]
fn only_as_many_bodies_come_as_the_limit_allows() {
    const LIMIT: u64 = 80_000;
    let disk = log::FaultDisk::new(31, 64 << 20);
    let options = Options { bodies_bytes_max: Some(LIMIT), ..open_options(&disk, 100) };
    let broker = Broker::open(options, NOW).expect("the log is whole").0;
    let session = broker.turn(NOW).open_session(0);
    put_jobs(&broker, session, |_| NewJob::default());
    crate::cool(&broker);
    let taker = broker.turn(NOW).open_session(0);
    while !broker.turn(NOW).caller(taker).is_at_hand(Need::Watched) {
        assert!(broker.load_step(NOW));
    }
    let stats = broker.turn(NOW).log_stats();
    assert!(stats.resident_body_bytes <= LIMIT, "{} bytes", stats.resident_body_bytes);
    work(&broker);
    let waited = drain(&broker);
    assert!(waited < JOBS / 4, "{waited} takes waited");
}

#[test]
fn jobs_come_back_although_their_bodies_cannot_be_read_now() {
    let disk = log::FaultDisk::new(32, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    // The jobs of the head are in memory. Then the segments cannot be read, but their index files.
    let mut number = 0;
    while broker.turn(NOW).caller(session).is_at_hand(Need::Watched) {
        take(&broker, session);
        number += 1;
    }
    let names = disk.names();
    let is_segment = |name: &&String| name.split_once('.').is_some_and(|(_, end)| end == "seg");
    let segments = names.iter().filter(is_segment);
    let bytes: Vec<_> = segments.map(|name| (name, disk.bytes(name).expect("it exists"))).collect();
    for (name, bytes) in &bytes {
        disk.set_bytes(name, vec![0; bytes.len()]);
    }
    assert!(broker.load_step(NOW), "the block is loaded");
    for (name, bytes) in &bytes {
        disk.set_bytes(name, bytes.clone());
    }
    let handout = take(&broker, session);
    assert_eq!(handout.id, ids[number]);
    assert!(matches!(handout.body, JobBody::Loading(_)));
    broker.load_step(NOW);
    assert_eq!(handout.body.resident().map(|read| &read[..]), Some(&body(number as u64)[..]));
    assert_eq!(broker.turn(NOW).log_stats().body_errors, 0, "no client has waited in vain");
}
