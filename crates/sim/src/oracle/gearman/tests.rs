//! Tests records with a broken promise, and similar records without a broken promise.

use super::super::{Certain, Oracle};
use crate::protocol::Protocol;

/// A packet: its direction, its kind, and its arguments.
fn packet(magic: &[u8], kind: u32, arguments: &[&str]) -> Vec<u8> {
    let body = arguments.join("\0").into_bytes();
    let words = [kind.to_be_bytes(), (body.len() as u32).to_be_bytes()].concat();
    [magic, &words, &body].concat()
}

fn ask(kind: u32, arguments: &[&str]) -> Vec<u8> {
    packet(b"\0REQ", kind, arguments)
}

fn tell(kind: u32, arguments: &[&str]) -> Vec<u8> {
    packet(b"\0RES", kind, arguments)
}

/// A call of a session: connection, what was sent, and the answer.
type Call = (u64, Vec<u8>, Vec<u8>);

const CLIENT: u64 = 1;
const WORKER: u64 = 2;
const OTHER: u64 = 3;

fn watching() -> Oracle {
    let mut oracle = Oracle::new([false, true, false], true);
    oracle.judge_gearman(true, false);
    (1..=3).for_each(|conn| oracle.opened(conn, Protocol::Gearman));
    oracle
}

fn judge(oracle: &mut Oracle, calls: &[Call]) -> Result<(), String> {
    calls.iter().try_for_each(|(conn, sent, answer)| {
        oracle.observe(*conn, (sent, sent.len()), answer, 10)?;
        oracle.left(*conn, answer.len());
        Ok::<_, String>(())
    })?;
    oracle.settled(10);
    oracle.check_all_told(10)
}

fn assert_broken(calls: &[Call], words: &str) {
    let error = judge(&mut watching(), calls).expect_err("a promise was broken");
    assert!(error.contains(words), "{error}");
    judge(&mut watching(), &calls[..calls.len() - 1]).expect("nothing is wrong yet");
}

fn submit(kind: u32, body: &str) -> Call {
    (CLIENT, ask(kind, &["f", "", body]), tell(8, &["H:sim:1"]))
}

fn foreground() -> Call {
    submit(7, "a")
}

fn background() -> Call {
    submit(18, "a")
}

fn register(conn: u64) -> Call {
    (conn, ask(1, &["f"]), vec![])
}

fn grab(conn: u64) -> Call {
    (conn, ask(9, &[]), tell(11, &["H:sim:1", "f", "a"]))
}

fn says(kind: u32, arguments: &[&str]) -> Call {
    (WORKER, ask(kind, arguments), vec![])
}

fn hears(kind: u32, arguments: &[&str]) -> Call {
    (CLIENT, vec![], tell(kind, arguments))
}

fn done() -> [Call; 2] {
    [says(13, &["H:sim:1", "b"]), hears(13, &["H:sim:1", "b"])]
}

#[test]
fn an_outcome_that_nobody_tells_is_noticed() {
    let calls = [foreground(), register(WORKER), grab(WORKER), done()[0].clone()];
    assert_broken(&calls, "never told the end of job 1");
}

#[test]
fn outcomes_and_news_are_told_once_and_in_order() {
    let begun = [foreground(), register(WORKER), grab(WORKER)];
    let said = |data| says(28, &["H:sim:1", data]);
    let heard = |data| hears(28, &["H:sim:1", data]);
    let reported = [&begun[..], &[said("1"), said("2")]].concat();
    let ended = |calls: &[Call]| {
        let mut oracle = watching();
        judge(&mut oracle, calls)?;
        let [end, told] = done();
        oracle.observe(WORKER, (&end.1, end.1.len()), &end.2, 10)?;
        judge(&mut oracle, std::slice::from_ref(&told))?;
        Ok::<_, String>((oracle, told))
    };
    let right = [&reported[..], &[heard("1"), heard("2")]].concat();
    let (mut oracle, told) = ended(&right).expect("all is right");
    let error = judge(&mut oracle, &[told]).expect_err("it was told before");
    assert!(error.contains("does not wait for it"), "{error}");
    let swapped = [&reported[..], &[heard("2")]].concat();
    assert_broken(&swapped, "has other news");
    let error = ended(&[&reported[..], &[heard("1")]].concat()).expect_err("news are missing");
    assert!(error.contains("before all of its news"), "{error}");
}

#[test]
fn a_worker_that_sleeps_through_a_job_is_noticed() {
    let sleep = (WORKER, ask(4, &[]), vec![]);
    assert_broken(&[register(WORKER), sleep.clone(), background()], "sleeps through job 1");
    let woken = (WORKER, vec![], tell(6, &[]));
    let mut oracle = watching();
    for (conn, sent, answer) in [register(WORKER), sleep, background(), woken] {
        oracle.observe(conn, (&sent, sent.len()), &answer, 10).expect("all is right");
    }
    oracle.check_all_told(10).expect("the worker is awake");
}

#[test]
fn a_job_has_one_worker_and_comes_in_time() {
    let calls = [background(), register(WORKER), register(OTHER), grab(WORKER), grab(OTHER)];
    assert_broken(&calls, "connection 2 holds job 1");
    let scheduled = (CLIENT, ask(36, &["f", "", "31", "a"]), tell(8, &["H:sim:1"]));
    assert_broken(&[scheduled, register(WORKER), grab(WORKER)], "is due in 30990 ms");
}

#[test]
fn a_handle_names_the_same_job_after_a_takeover() {
    let mut oracle = watching();
    judge(&mut oracle, &[background()]).expect("a submit");
    oracle.restarted(Certain::Sent, 10);
    oracle.opened(WORKER, Protocol::Gearman);
    let other = (WORKER, ask(9, &[]), tell(11, &["H:sim:1", "f", "b"]));
    let error = judge(&mut oracle, &[register(WORKER), other]).expect_err("another body");
    assert!(error.contains("names another job"), "{error}");
}

#[test]
fn an_acknowledged_job_must_be_there_after_a_takeover() {
    let mut oracle = watching();
    judge(&mut oracle, &[background()]).expect("a submit");
    oracle.restarted(Certain::Sent, 10);
    let error = oracle.check_all_ended().expect_err("the job is lost");
    assert!(error.contains("neither there nor ended"), "{error}");
    // Nobody knew of this job, because the reply did not leave.
    let mut oracle = watching();
    let (conn, sent, answer) = background();
    oracle.observe(conn, (&sent, sent.len()), &answer, 10).expect("a submit");
    oracle.restarted(Certain::Sent, 10);
    oracle.check_all_ended().expect("it may be lost");
}

#[test]
fn a_job_does_not_come_back_after_its_end_was_told() {
    // The client joined a job of the background, and was told its end.
    let join = |kind| (CLIENT, ask(kind, &["f", "k", "a"]), tell(8, &["H:sim:1"]));
    let begun = [join(18), join(7), register(WORKER), grab(WORKER)];
    let run = |is_told: bool| {
        let mut oracle = watching();
        judge(&mut oracle, &begun).expect("all is right");
        let [end, told] = done();
        for (conn, sent, answer) in [Some(end), is_told.then_some(told)].into_iter().flatten() {
            oracle.observe(conn, (&sent, sent.len()), &answer, 10).expect("an end");
            oracle.left(conn, answer.len());
        }
        oracle.restarted(Certain::Sent, 10);
        oracle.opened(WORKER, Protocol::Gearman);
        judge(&mut oracle, &[register(WORKER), grab(WORKER)])
    };
    run(false).expect("the end may be lost");
    let error = run(true).expect_err("the end was told");
    assert!(error.contains("was ended before"), "{error}");
}
