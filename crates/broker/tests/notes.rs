//! Notes in the log: over restarts, crashes, reclaim, and a full log.

use std::sync::Arc;

use lineshaft_broker::limits::NOTES_BYTES_MAX;
use lineshaft_broker::{Broker, Millis, NewJob, NoteRefusal, Options, PutRefusal};

const NOW: Millis = Millis(1_000_000);

fn open(disk: &log::FaultDisk, segment_bytes: u64) -> Broker {
    let settings = log::Settings { segment_bytes, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), settings);
    Broker::open(options, NOW).expect("the log is whole").0
}

/// Does the work of the log's threads.
fn work(broker: &Broker) {
    loop {
        broker.commit_step(NOW).expect("the log does not fail");
        broker.prepare_step().expect("the disk works");
        if !broker.reclaim_step(NOW).expect("nothing is damaged") {
            return;
        }
    }
}

fn set(broker: &Broker, name: &str, value: &[u8]) {
    broker.turn(NOW).set_note(name.as_bytes(), value).value.expect("there is room");
}

fn notes(broker: &Broker) -> Vec<(String, Vec<u8>)> {
    let turn = broker.turn(NOW);
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    turn.notes().map(|(name, value)| (text(name), value.to_vec())).collect()
}

#[test]
fn notes_survive_a_restart_and_removed_ones_do_not_come_back() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk, 64 << 10);
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("b", ""), ("c", "4")] {
        set(&broker, name, value.as_bytes());
    }
    work(&broker);
    set(&broker, "a", b"not committed");
    drop(broker);
    disk.crash();
    disk.restart();
    let broker = open(&disk, 64 << 10);
    let kept = [("a".to_owned(), b"1".to_vec()), ("c".to_owned(), b"4".to_vec())];
    assert_eq!(notes(&broker), kept);
}

#[test]
fn reclaim_moves_notes() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk, 64 << 10);
    let long = vec![b'x'; NOTES_BYTES_MAX - 100];
    set(&broker, "short", b"1");
    set(&broker, "long", &long);
    set(&broker, "gone", b"2");
    set(&broker, "gone", b"");
    work(&broker);
    let session = broker.turn(NOW).open_session(0);
    // Several times the size of the disk go through the log.
    for _ in 0..3_000 {
        let put =
            broker.turn(NOW).caller(session).put(NewJob::default(), vec![b'x'; 50_000].into());
        let id = put.value.expect("reclaim makes room");
        broker.turn(NOW).caller(session).finish(id).value.expect("no session holds it");
        work(&broker);
    }
    drop(broker);
    disk.restart();
    let broker = open(&disk, 64 << 10);
    assert_eq!(notes(&broker), [("long".to_owned(), long), ("short".to_owned(), b"1".to_vec())]);
}

#[test]
fn a_full_log_refuses_a_long_note_and_writes_a_short_one_later() {
    let disk = log::FaultDisk::new(1, 64 << 20);
    let broker = open(&disk, log::Settings::default().segment_bytes);
    set(&broker, "gone", b"1");
    work(&broker);
    let mut turn = broker.turn(NOW);
    let session = turn.open_session(0);
    // This test prepares no segments while the turn lasts, so the log stays full.
    while turn.caller(session).put(NewJob::default(), vec![b'x'; 60_000].into()).value.is_ok() {}
    let mut limit = 0;
    while turn.caller(session).limit_queue(b"default", [limit + 1, 0, 0]).value.is_ok() {
        limit += 1;
    }
    let long = turn.set_note(b"long", &vec![b'x'; 100_000]).value;
    assert_eq!(long, Err(NoteRefusal::LogFull));
    assert_eq!(turn.set_note(b"short", b"2").value, Ok(()));
    assert_eq!(turn.set_note(b"gone", b"").value, Ok(()));
    let put = turn.caller(session).put(NewJob::default(), b"x"[..].into()).value;
    assert_eq!(put, Err(PutRefusal::LogFull));
    drop(turn);
    work(&broker);
    let _ = broker.turn(NOW).caller(session).create_queue(b"any request");
    work(&broker);
    drop(broker);
    disk.restart();
    assert_eq!(
        notes(&open(&disk, log::Settings::default().segment_bytes)),
        [("short".to_owned(), b"2".to_vec())]
    );
}
