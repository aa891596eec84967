//! Tests records of Kestrel's items with a broken promise, and similar records without a broken
//! promise.

use broker::policy::{OnDuplicate, Rule, Rules, Setting};

use crate::oracle::{Certain, Oracle};
use crate::protocol::{Kestrel, Protocol};

/// Connection, request, reply, time.
type Call = (u64, &'static str, &'static str, u64);

/// An oracle that watches three clients of Kestrel.
fn watching() -> Oracle {
    let mut oracle = Oracle::new([false, false, true], true);
    (1..=3).for_each(|conn| oracle.opened(conn, Protocol::Kestrel(Kestrel::Memcache)));
    oracle
}

fn judge(oracle: &mut Oracle, calls: &[Call]) -> Result<(), String> {
    calls.iter().try_for_each(|(conn, sent, answer, now)| {
        let answer = answer.replace('\n', "\r\n");
        let sent = sent.replace('\n', "\r\n");
        oracle.observe(*conn, (sent.as_bytes(), sent.len()), answer.as_bytes(), *now)?;
        oracle.left(*conn, answer.len());
        Ok(())
    })
}

/// Checks that the last call breaks a promise, and that all earlier calls keep all promises.
fn assert_broken_in(mut oracle: Oracle, calls: &[Call], words: &str) {
    let (last, before) = calls.split_last().expect("there is a last one");
    judge(&mut oracle, before).expect("nothing is wrong yet");
    let error = judge(&mut oracle, &[*last]).expect_err("a promise was broken");
    assert!(error.contains(words), "{error}");
}

fn assert_broken(calls: &[Call], words: &str) {
    assert_broken_in(watching(), calls, words);
}

fn assert_kept(calls: &[Call]) {
    judge(&mut watching(), calls).expect("every promise was kept");
}

const PUT: Call = (1, "set q 0 0 9\nthe first\n", "STORED\n", 10);
const PUT_NEXT: Call = (1, "set q 0 0 8\nthe next\n", "STORED\n", 11);
const OPEN: Call = (2, "get q/open\n", "VALUE q 0 9\nthe first\nEND\n", 20);
const CLOSE: Call = (2, "get q/close\n", "END\n", 30);
const ABORT: Call = (2, "get q/abort\n", "END\n", 30);
const TAKE: Call = (3, "get q\n", "VALUE q 0 9\nthe first\nEND\n", 40);
const TAKE_NEXT: Call = (3, "get q\n", "VALUE q 0 8\nthe next\nEND\n", 40);
const FIND_NONE: Call = (3, "get q\n", "END\n", 40);

#[test]
fn an_item_open_at_two_clients_is_noticed() {
    assert_broken(&[PUT, OPEN, TAKE], "connection 2 has it open");
    assert_kept(&[PUT, OPEN, ABORT, TAKE]);
}

#[test]
fn an_item_that_was_confirmed_does_not_come_back() {
    assert_broken(&[PUT, OPEN, CLOSE, TAKE], "was ended before");
    assert_broken(&[PUT, TAKE, TAKE], "was ended before");
}

#[test]
fn an_item_that_was_aborted_is_not_withheld() {
    assert_broken(&[PUT, FIND_NONE], "item 0 was there");
    assert_broken(&[PUT, OPEN, ABORT, FIND_NONE], "item 0 was there");
    assert_kept(&[PUT, OPEN, CLOSE, FIND_NONE]);
}

#[test]
fn an_item_whose_reader_is_gone_comes_back() {
    let mut oracle = watching();
    judge(&mut oracle, &[PUT, OPEN]).expect("nothing is wrong yet");
    oracle.closed(2, 30);
    assert_broken_in(oracle, &[FIND_NONE], "item 0 was there");
}

#[test]
fn items_that_come_back_in_slices_are_there_when_all_is_settled() {
    let short = || {
        let mut oracle = watching();
        oracle.slices_are_short();
        judge(&mut oracle, &[PUT, OPEN]).expect("nothing is wrong yet");
        oracle.closed(2, 30);
        oracle
    };
    judge(&mut short(), &[FIND_NONE]).expect("it may not be back yet");
    let mut oracle = short();
    oracle.settled(35);
    assert_broken_in(oracle, &[FIND_NONE], "item 0 was there");
}

#[test]
fn an_unanswered_flush_can_end_an_item_that_comes_back_before_a_restart() {
    let restarted = |flush: &[Call]| {
        let mut oracle = watching();
        oracle.slices_are_short();
        judge(&mut oracle, &[PUT, OPEN]).expect("nothing is wrong yet");
        judge(&mut oracle, flush).expect("nothing is wrong yet");
        oracle.closed(2, 30);
        oracle.restarted(Certain::Sent, 35);
        oracle.opened(3, Protocol::Kestrel(Kestrel::Memcache));
        oracle
    };
    judge(&mut restarted(&[(1, "flush_all\n", "", 25)]), &[FIND_NONE]).expect("it was flushed");
    assert_broken_in(restarted(&[]), &[FIND_NONE], "item 0 was there");
}

#[test]
fn a_get_makes_no_queue_where_memory_is_limited() {
    let mut oracle = watching();
    oracle.memory_is_limited();
    let child = |now| (2, "get q+c\n", "END\n", now);
    judge(&mut oracle, &[child(5), PUT, child(20)]).expect("there may have been no room for it");
}

#[test]
fn an_item_does_not_overtake_another() {
    assert_broken(&[PUT, PUT_NEXT, TAKE_NEXT], "item 0 was put before it");
    assert_broken(&[PUT, PUT_NEXT, OPEN, ABORT, TAKE_NEXT], "item 0 was put before it");
    assert_kept(&[PUT, PUT_NEXT, OPEN, TAKE_NEXT]);
}

#[test]
fn an_item_that_no_client_put_is_noticed() {
    assert_broken(&[TAKE], "no client put the item");
    let other = (3, "get other\n", "VALUE other 0 9\nthe first\nEND\n", 40);
    assert_broken(&[PUT, other], "was put into q");
}

#[test]
fn an_item_that_expired_is_not_handed_out() {
    let put = (1, "set q 0 1 9\nthe first\n", "STORED\n", 10);
    let take = |now| (3, "get q\n", "VALUE q 0 9\nthe first\nEND\n", now);
    assert_broken(&[put, take(1011)], "expired 1 ms ago");
    assert_kept(&[put, take(1010)]);
    assert_kept(&[put, (3, "get q\n", "END\n", 1011)]);
}

#[test]
fn a_child_that_misses_an_item_is_noticed() {
    let child = (2, "get q+c\n", "END\n", 5);
    let none = (2, "get q+c\n", "END\n", 20);
    assert_broken(&[child, PUT, none], "the copy of item 0 was there");
    // The child was created after the put, or removed before it.
    assert_kept(&[PUT, none]);
    assert_kept(&[child, (3, "delete q+c\n", "DELETED\n", 6), PUT, none]);
}

#[test]
fn a_waiter_at_a_child_may_get_its_reply_after_the_removal() {
    let waits = (2, "get q+c/t=1000\n", "", 5);
    let removes = (3, "delete q+c\n", "DELETED\n", 6);
    let hears = (2, "", "END\n", 7);
    assert_kept(&[waits, removes, hears, PUT, (3, "get q+c\n", "END\n", 20)]);
}

#[test]
fn a_removed_queue_takes_its_open_reads_along() {
    let removes = (3, "delete q\n", "DELETED\n", 21);
    let put = (1, "set q 0 0 9\nthe other\n", "STORED\n", 22);
    let open = (2, "get q/open\n", "VALUE q 0 9\nthe other\nEND\n", 23);
    // The close can be for either of the two reads.
    assert_kept(&[PUT, OPEN, removes, put, open, CLOSE, FIND_NONE]);
}

#[test]
fn a_waiter_may_hear_of_its_item_after_the_removal_of_the_queue() {
    let waits = (2, "get q+c/open/t=1000\n", "", 5);
    let removes = (3, "delete q+c\n", "DELETED\n", 20);
    let hears = (2, "", "VALUE q+c 0 9\nthe first\nEND\n", 21);
    let aborts = (2, "get q+c/abort\n", "END\n", 22);
    let none = (3, "get q+c\n", "END\n", 23);
    assert_kept(&[waits, PUT, removes, hears, aborts, none]);
    assert_broken(&[waits, PUT, hears, aborts, none], "the copy of item 0 was there");
}

#[test]
fn a_read_that_timed_out_leaves_open_what_the_next_close_is_about() {
    let again = (2, "get q/open\n", "VALUE q 0 9\nthe first\nEND\n", 200);
    let close = (2, "get q/close\n", "END\n", 201);
    let take = (3, "get q\n", "VALUE q 0 9\nthe first\nEND\n", 301);
    let calls = [PUT, OPEN, again, close, take];
    judge(&mut under(Setting::OpenTimeout(Some(100))), &calls).expect("nothing is certain");
}

fn under(setting: Setting) -> Oracle {
    let mut oracle = watching();
    oracle.policies_changed(&Rules(vec![Rule::new(["q"], [setting])]));
    oracle
}

#[test]
fn limits_are_kept() {
    let calls = [PUT, PUT_NEXT];
    assert_broken_in(under(Setting::JobsMax(Some(1))), &calls, "was full with 1 items");
    judge(&mut under(Setting::JobsMax(Some(2))), &calls).expect("there was room");
    assert_broken_in(under(Setting::BytesMax(Some(9))), &calls, "was full with 1 items");
    judge(&mut under(Setting::BytesMax(Some(10))), &calls).expect("there was room");
    assert_broken_in(under(Setting::ItemBytesMax(Some(8))), &[PUT], "takes no item of 9 bytes");
    judge(&mut under(Setting::ItemBytesMax(Some(9))), &calls).expect("both are small");
    // An open item does not count for the limit.
    judge(&mut under(Setting::JobsMax(Some(1))), &[PUT, OPEN, PUT_NEXT]).expect("there was room");
}

#[test]
fn the_policy_of_a_queue_is_that_of_its_own_name() {
    // The same body was put into another queue before.
    let other = (1, "set other 0 0 9\nthe first\n", "STORED\n", 9);
    judge(&mut under(Setting::JobsMax(Some(0))), &[other]).expect("that queue has no limit");
    assert_broken_in(under(Setting::JobsMax(Some(0))), &[other, PUT], "was full with 0 items");
}

#[test]
fn an_item_is_not_older_than_its_queue_allows() {
    let take = |now| (3, "get q\n", "VALUE q 0 9\nthe first\nEND\n", now);
    let setting = || Setting::AgeMax(Some(500));
    assert_broken_in(under(setting()), &[PUT, take(511)], "older than 500 ms");
    judge(&mut under(setting()), &[PUT, take(510)]).expect("it is young enough");
    let mut retries = watching();
    let settings = [setting(), Setting::Retries(true)];
    retries.policies_changed(&Rules(vec![Rule::new(["q"], settings)]));
    judge(&mut retries, &[PUT, OPEN, ABORT, take(900)]).expect("it waited for its retry");
}

#[test]
fn only_an_item_that_may_have_another_body_can_outlive_its_body() {
    let put = (1, "set q 0 1 9\nthe first\n", "STORED\n", 10);
    let take = |now| (3, "get q\n", "VALUE q 0 9\nthe first\nEND\n", now);
    let unique = |pattern: &str, answer| {
        let by = Some("body".parse().expect("it is a key"));
        let mut oracle = watching();
        let settings = [Setting::UniqueBy(by), Setting::OnDuplicate(answer)];
        oracle.policies_changed(&Rules(vec![Rule::new([pattern], settings)]));
        oracle
    };
    assert_broken_in(unique("q", OnDuplicate::Bump), &[put, take(1011)], "expired 1 ms ago");
    assert_broken_in(unique("r", OnDuplicate::ReplaceBody), &[put, take(1011)], "expired 1 ms ago");
    judge(&mut unique("q", OnDuplicate::ReplaceBody), &[put, take(1011)])
        .expect("it has its own end");
}

#[test]
fn a_queue_behind_an_alias_is_not_emptied() {
    let mut oracle = watching();
    judge(&mut oracle, &[PUT]).expect("nothing is wrong yet");
    let alias = Setting::Alias(Box::new([b"other".as_slice().into()]));
    oracle.policies_changed(&Rules(vec![Rule::new(["q"], [alias])]));
    judge(&mut oracle, &[(2, "flush q\n", "END\n", 20)]).expect("the alias ignores it");
    oracle.policies_changed(&Rules::default());
    judge(&mut oracle, &[TAKE]).expect("it was hidden, not ended");
}

#[test]
fn an_item_that_was_acknowledged_is_there_in_the_end() {
    let mut oracle = watching();
    judge(&mut oracle, &[(2, "get q+c\n", "END\n", 5), PUT]).expect("nothing is wrong yet");
    let error = oracle.check_all_ended().expect_err("both copies are missing");
    assert!(error.contains("must be in [\"q\", \"q+c\"]"), "{error}");
    let mut oracle = watching();
    judge(&mut oracle, &[PUT, TAKE]).expect("nothing is wrong yet");
    oracle.check_all_ended().expect("it was taken");
}

#[test]
fn after_a_crash_acknowledged_changes_remain_and_others_are_uncertain() {
    let take = (4, "get q\n", "VALUE q 0 9\nthe first\nEND\n", 50);
    let none = (4, "get q\n", "END\n", 50);
    let after = |calls: &[Call], left: Certain, last: Call| {
        let mut oracle = watching();
        judge(&mut oracle, calls).expect("nothing is wrong yet");
        oracle.restarted(left, 40);
        oracle.opened(4, Protocol::Kestrel(Kestrel::Memcache));
        judge(&mut oracle, &[last])
    };
    after(&[PUT, OPEN, CLOSE], Certain::Sent, take).expect_err("the reply to the close was sent");
    after(&[PUT, OPEN, CLOSE], Certain::Nothing, take).expect("the close may be lost");
    after(&[PUT, OPEN], Certain::Sent, take).expect("an open read comes back");
    after(&[PUT, OPEN], Certain::Sent, none).expect_err("an open read comes back");
    after(&[PUT], Certain::Nothing, none).expect("the put may be lost");
    // The server may have given the item to the waiting client, although the client received no
    // reply.
    after(&[(2, "get q/t=100\n", "", 5), PUT], Certain::Sent, none)
        .expect("it may have been taken");
}
