//! Tests records with a broken promise, and similar records without a broken promise.

use super::{Certain, Oracle};
use crate::protocol::Protocol;

/// An oracle that watches three clients of beanstalkd.
fn watching() -> Oracle {
    let mut oracle = Oracle::new([true, false, false], true);
    (1..=3).for_each(|conn| oracle.opened(conn, Protocol::Beanstalk));
    oracle
}

/// Passes these calls to the oracle: connection, request, reply, time. Returns the oracle's result.
fn judge(oracle: &mut Oracle, calls: &[(u64, &str, &str, u64)]) -> Result<(), String> {
    calls.iter().try_for_each(|(conn, sent, answer, now)| {
        let answer = answer.replace('\n', "\r\n");
        let sent = sent.replace('\n', "\r\n");
        oracle.observe(*conn, (sent.as_bytes(), sent.len()), answer.as_bytes(), *now)?;
        oracle.left(*conn, answer.len());
        Ok(())
    })
}

fn assert_broken(calls: &[(u64, &str, &str, u64)], words: &str) {
    let error = judge(&mut watching(), calls).expect_err("a promise was broken");
    assert!(error.contains(words), "{error}");
    // Only the last call breaks a promise.
    let before = &calls[..calls.len() - 1];
    judge(&mut watching(), before).expect("nothing is wrong yet");
}

const PUT: (u64, &str, &str, u64) = (1, "put 5 0 2 1\na\n", "INSERTED 1\n", 10);
const PUT_NEXT: (u64, &str, &str, u64) = (1, "put 5 0 2 1\nb\n", "INSERTED 2\n", 11);
const TAKE: (u64, &str, &str, u64) = (2, "reserve\n", "RESERVED 1 1\na\n", 20);

#[test]
fn two_holders_are_noticed() {
    let again = |now| (3, "reserve-with-timeout 0\n", "RESERVED 1 1\na\n", now);
    assert_broken(&[PUT, TAKE, again(2019)], "holds it for 1 ms");
    judge(&mut watching(), &[PUT, TAKE, again(2020)]).expect("the lease is over");
}

#[test]
fn a_lease_that_was_touched_is_longer() {
    let touch = (2, "touch 1\n", "TOUCHED\n", 1000);
    let again = (3, "reserve-job 1\n", "RESERVED 1 1\na\n", 2500);
    assert_broken(&[PUT, TAKE, touch, again], "holds it for 500 ms");
}

#[test]
fn a_waiter_may_learn_late_of_a_hand_out() {
    let waits = (2, "reserve\n", "", 5);
    let other = (3, "reserve-with-timeout 0\n", "RESERVED 1 1\na\n", 2015);
    let late = (2, "", "RESERVED 1 1\na\n", 2016);
    judge(&mut watching(), &[waits, PUT, other, late]).expect("the first lease ended at 2010");
}

#[test]
fn the_second_of_two_equals_is_not_first() {
    let take = (2, "reserve\n", "RESERVED 2 1\nb\n", 20);
    assert_broken(&[PUT, PUT_NEXT, take], "was put before");
}

#[test]
fn another_body_is_noticed() {
    assert_broken(&[PUT, (2, "reserve\n", "RESERVED 1 1\nb\n", 20)], "another body");
    assert_broken(&[PUT, (2, "reserve-job 1\n", "RESERVED 1 1\nb\n", 20)], "another body");
    assert_broken(&[PUT, (2, "peek 1\n", "FOUND 1 1\nb\n", 20)], "another body");
}

#[test]
fn the_order_survives_a_crash() {
    let mut oracle = watching();
    judge(&mut oracle, &[PUT, PUT_NEXT]).expect("nothing is wrong yet");
    oracle.restarted(Certain::Sent, 40);
    oracle.opened(4, Protocol::Beanstalk);
    let take = (4, "reserve\n", "RESERVED 2 1\nb\n", 50);
    let error = judge(&mut oracle, &[take]).expect_err("job 1 comes first");
    assert!(error.contains("was put before"), "{error}");
}

#[test]
fn a_less_urgent_job_is_not_first() {
    let urgent = (1, "put 4 0 2 1\nb\n", "INSERTED 2\n", 11);
    assert_broken(&[PUT, urgent, TAKE], "comes before");
}

#[test]
fn a_ready_job_is_not_withheld() {
    assert_broken(&[PUT, (2, "reserve-with-timeout 0\n", "TIMED_OUT\n", 20)], "was ready");
    let pause = (1, "pause-tube default 1\n", "PAUSED\n", 11);
    let calls = [PUT, pause, (2, "reserve-with-timeout 0\n", "TIMED_OUT\n", 20)];
    judge(&mut watching(), &calls).expect("the queue is paused");
}

#[test]
fn a_buried_job_stays_until_it_is_kicked() {
    let bury = (2, "bury 1 5\n", "BURIED\n", 30);
    let again = (3, "reserve-with-timeout 0\n", "RESERVED 1 1\na\n", 40);
    assert_broken(&[PUT, TAKE, bury, again], "is buried");
    let kick = (1, "kick 1\n", "KICKED 1\n", 35);
    judge(&mut watching(), &[PUT, TAKE, bury, kick, again]).expect("it was kicked");
}

#[test]
fn a_delayed_job_is_not_early() {
    let put = (1, "put 5 1 2 1\na\n", "INSERTED 1\n", 10);
    let take = |now| (2, "reserve-with-timeout 0\n", "RESERVED 1 1\na\n", now);
    assert_broken(&[put, take(1009)], "is due in 1 ms");
    judge(&mut watching(), &[put, take(1010)]).expect("it is due");
}

#[test]
fn a_job_ends_once() {
    let delete = (2, "delete 1\n", "DELETED\n", 30);
    assert_broken(&[PUT, TAKE, delete, (3, "delete 1\n", "DELETED\n", 31)], "ended before");
    assert_broken(&[PUT, TAKE, delete, (3, "peek 1\n", "FOUND 1 1\na\n", 31)], "ended before");
}

#[test]
fn a_job_that_was_acknowledged_does_not_vanish() {
    assert_broken(&[PUT, (2, "peek 1\n", "NOT_FOUND\n", 20)], "not ended");
    let mut oracle = watching();
    judge(&mut oracle, &[PUT]).expect("nothing is wrong yet");
    oracle.check_all_ended().expect_err("it was never ended");
}

#[test]
fn after_a_crash_acknowledged_changes_remain_and_others_are_uncertain() {
    let delete = (2, "delete 1\n", "DELETED\n", 30);
    let sees = (4, "peek 1\n", "FOUND 1 1\na\n", 50);
    for (left, is_open) in [(Certain::Sent, false), (Certain::Nothing, true), (Certain::All, false)]
    {
        let mut oracle = watching();
        judge(&mut oracle, &[PUT, TAKE, delete]).expect("nothing is wrong yet");
        if left == Certain::All {
            oracle.stopped_cleanly();
        }
        oracle.restarted(left, 40);
        oracle.opened(4, Protocol::Beanstalk);
        assert_eq!(judge(&mut oracle, &[sees]).is_ok(), is_open, "{left:?}");
    }
    let mut oracle = watching();
    let put = b"put 5 0 2 1\r\na\r\n";
    oracle.observe(1, (put, put.len()), b"INSERTED 1\r\n", 10).expect("a put is right");
    oracle.restarted(Certain::Sent, 40);
    oracle.check_all_ended().expect("the acknowledgement never left the server");
}

/// Makes these calls, and then a crash. Every change with a reply survives the crash. Checks that
/// after the crash, the oracle accepts that a worker gets no job.
fn assert_may_be_set_aside_after_a_crash(calls: &[(u64, &str, &str, u64)], wall: u64) {
    let mut oracle = watching();
    judge(&mut oracle, calls).expect("nothing is wrong yet");
    oracle.closed(2, 60);
    oracle.restarted(Certain::Sent, wall);
    oracle.opened(4, Protocol::Beanstalk);
    let none = (4, "reserve-with-timeout 0\n", "TIMED_OUT\n", wall + 10);
    judge(&mut oracle, &[none]).expect("the job may be set aside again");
}

#[test]
fn a_request_that_makes_room_is_not_refused() {
    assert_broken(&[PUT, TAKE, (2, "delete 1\n", "OUT_OF_MEMORY\n", 30)], "needs no room");
    judge(&mut watching(), &[(1, "put 5 0 2 1\na\n", "OUT_OF_MEMORY\n", 10)])
        .expect("a put may be");
}

#[test]
fn a_crash_may_undo_a_kick_whose_reply_was_not_sent() {
    let bury = (2, "bury 1 5\n", "BURIED\n", 30);
    let kick = |id| (3, id, "", 40);
    let again = (2, "reserve-with-timeout 0\n", "RESERVED 1 1\na\n", 50);
    // The kick has no reply yet when client 2 gets the job. Then client 2 disconnects.
    assert_may_be_set_aside_after_a_crash(&[PUT, TAKE, bury, kick("kick 100\n"), again], 70);
    let by_number = (2, "reserve-job 1\n", "RESERVED 1 1\na\n", 50);
    assert_may_be_set_aside_after_a_crash(&[PUT, TAKE, bury, by_number], 70);
}

#[test]
fn a_clock_that_was_set_back_may_delay_a_job_again() {
    let put = (1, "put 5 1 2 1\na\n", "INSERTED 1\n", 10_000);
    let take = (2, "reserve-with-timeout 0\n", "RESERVED 1 1\na\n", 11_010);
    assert_may_be_set_aside_after_a_crash(&[put, take], 9000);
}

#[test]
fn a_moved_job_is_expected_in_its_new_queue() {
    let watch = (2, "watch b\nignore default\n", "WATCHING 2\nWATCHING 1\n", 12);
    let nothing = |conn| (conn, "reserve-with-timeout 0\n", "TIMED_OUT\n", 20);
    let mut oracle = watching();
    judge(&mut oracle, &[PUT, watch, nothing(2)]).expect("the job is in another queue");
    oracle.moved(1, "b", 15);
    judge(&mut oracle, &[nothing(3)]).expect("the job has left the queue");
    let error = judge(&mut oracle, &[nothing(2)]).expect_err("the job is in this queue");
    assert!(error.contains("was ready"), "{error}");
}
