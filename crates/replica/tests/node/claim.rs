//! When a node claims, and how a claim ends.

use replica::claim::{Claim, Reason};
use replica::node::{Act, CLAIM_IDS, End, Input, Setting, Subject};
use replica::record::{Header, Kind};

use crate::common::{Writer, origin};
use crate::rig::{LEASE_MS, Mood, Rig, refused, setting, unknown};

/// A stream whose leader is node 2, with one group.
fn led_by_2() -> (Writer, Vec<Vec<u8>>) {
    let mut writer = Writer::new(2);
    let mut stream = vec![writer.claim()];
    writer.epoch = 1;
    stream.push(writer.record(b"a"));
    (writer, stream)
}

/// A follower in such a stream.
fn follower() -> (Writer, Rig) {
    let (writer, stream) = led_by_2();
    let rig = Rig::new(stream);
    assert_eq!(rig.node.reader().at().number, 1);
    (writer, rig)
}

fn reason(rig: &Rig) -> Option<Reason> {
    let open = rig.open.as_ref()?;
    let (header, body) = Header::decode(&open.record).unwrap();
    assert_eq!((header.kind, open.subject), (Kind::Claim, Subject::Claims));
    assert_eq!((open.expect.tail, open.expect.claim), (rig.last(), header.epoch));
    Some(Claim::decode(body).unwrap().reason)
}

#[test]
fn the_first_leader_claims_an_empty_stream() {
    let mut rig = Rig::new(Vec::new());
    rig.pass(LEASE_MS);
    assert_eq!(reason(&rig), Some(Reason::First));
    let begun_ms = rig.now_ms - LEASE_MS;
    rig.land();
    let id_limit = 100 + CLAIM_IDS;
    let time_ms = origin().time_ms;
    let acts = rig.take_acts();
    assert_eq!(acts[0], Act::Lead { epoch: 1, at: origin(), time_ms, id_limit });
    let Act::MayAnswerUntil(until_ms) = acts[1] else { panic!("{acts:?}") };
    assert!((begun_ms..=rig.now_ms).contains(&(until_ms - LEASE_MS)));
    assert_eq!(rig.follows, None, "a leader does not follow");
}

#[test]
fn silence_is_a_reason_after_the_lease() {
    let (_, mut rig) = follower();
    rig.pass(LEASE_MS + 500);
    assert_eq!(reason(&rig), None);
    rig.pass(100);
    assert_eq!(reason(&rig), Some(Reason::Silence));
    rig.land();
    assert!(rig.node.leads());
    assert_eq!(rig.node.reader().epoch(), 3);
}

#[test]
fn a_leader_that_writes_is_not_silent() {
    let (writer, mut rig) = follower();
    for _ in 0..10 {
        rig.pass(LEASE_MS);
        rig.push(writer.alive());
        rig.deliver();
    }
    assert_eq!(rig.appends, 0);
}

#[test]
fn nobody_claims_while_the_stream_has_no_leader() {
    let (writer, mut rig) = follower();
    rig.mood = Mood::Silent;
    rig.pass(20 * LEASE_MS);
    assert_eq!(rig.appends, 0);
    // The stream works again. Its leader has time for the append that waited.
    rig.mood = Mood::Right;
    rig.pass(500);
    assert_eq!(rig.appends, 0);
    rig.push(writer.alive());
    rig.deliver();
    rig.pass(LEASE_MS);
    assert_eq!(rig.appends, 0);
    rig.pass(LEASE_MS);
    assert_eq!(reason(&rig), Some(Reason::Silence));
}

#[test]
fn a_node_that_is_behind_does_not_claim() {
    let (mut writer, mut rig) = follower();
    // The record exists, but is not delivered.
    rig.push(writer.record(b"b"));
    rig.pass(10 * LEASE_MS);
    assert_eq!(rig.appends, 0);
    // It is delivered, but not applied.
    rig.applies = false;
    rig.deliver();
    rig.pass(10 * LEASE_MS);
    assert_eq!(rig.appends, 0);
    rig.input(Input::Applied { number: 2, next_id: 100 });
    assert_eq!(reason(&rig), Some(Reason::Silence));
}

#[test]
fn only_a_recent_check_of_the_servers_counts() {
    let (_, mut rig) = follower();
    rig.input(Input::Guards(false));
    rig.pass(10 * LEASE_MS);
    assert_eq!(rig.appends, 0);
    let (_, mut rig) = follower();
    rig.mood = Mood::Silent;
    rig.pass(121_000);
    rig.mood = Mood::Right;
    rig.pass(10 * LEASE_MS);
    assert_eq!(rig.appends, 0);
    rig.input(Input::Guards(true));
    assert_eq!(reason(&rig), Some(Reason::Silence));
}

#[test]
fn a_process_that_is_gone_is_replaced_soon() {
    let (writer, mut rig) = follower();
    rig.input(Input::LeaderGone(5));
    rig.pass(LEASE_MS / 3);
    assert_eq!(rig.appends, 0, "process 5 does not lead");
    rig.input(Input::LeaderGone(102));
    rig.pass(100);
    assert_eq!(reason(&rig), Some(Reason::ProcessGone));

    let (_, mut rig) = follower();
    rig.input(Input::LeaderGone(102));
    rig.push(writer.alive());
    rig.deliver();
    rig.pass(LEASE_MS / 3);
    assert_eq!(rig.appends, 0, "a record arrived later");
}

/// A claim waits until all groups are applied.
#[test]
fn a_follower_hurries_while_nobody_may_lead() {
    let hurries = |rig: &Rig| rig.node.hurries(rig.now_ms);
    let (writer, mut rig) = follower();
    rig.pass(LEASE_MS / 4);
    rig.push(writer.alive());
    rig.deliver();
    rig.pass(LEASE_MS / 2 - 1);
    assert!(!hurries(&rig), "the leader may be idle");
    rig.pass(1);
    assert!(hurries(&rig), "it is silent");
    rig.push(writer.alive());
    rig.deliver();
    assert!(!hurries(&rig), "it writes again");
    rig.input(Input::LeaderGone(102));
    assert!(hurries(&rig), "its process is gone");
    rig.pass(300);
    rig.land();
    assert!(rig.node.leads() && !hurries(&rig));

    let (writer, mut rig) = follower();
    rig.push(writer.resign());
    rig.deliver();
    assert!(hurries(&rig), "it has resigned");
    let (mut writer, mut rig) = follower();
    // Without this group, the claim would come at once.
    rig.applies = false;
    rig.push(writer.record(b"b"));
    rig.deliver();
    rig.input(Input::Promote);
    assert!(hurries(&rig), "an operator wants a claim");
}

/// A firewall can refuse connections to a leader that lives.
#[test]
fn a_process_that_refuses_connections_is_replaced_only_if_it_is_silent() {
    let (writer, mut rig) = follower();
    for _ in 0..10 {
        // An idle leader writes four times in its lease.
        for _ in 0..15 {
            rig.input(Input::LeaderRefuses(102));
            rig.pass(LEASE_MS / 60);
        }
        rig.push(writer.alive());
        rig.deliver();
    }
    assert_eq!(rig.appends, 0, "the leader writes");
    rig.pass(LEASE_MS);
    assert_eq!(rig.appends, 0, "a record arrived later");

    // The stream works again. Its leader has time for the append that waited.
    let (writer, mut rig) = follower();
    rig.mood = Mood::Silent;
    rig.input(Input::LeaderRefuses(102));
    rig.pass(20 * LEASE_MS);
    rig.mood = Mood::Right;
    rig.pass(500);
    assert_eq!(rig.appends, 0);
    rig.push(writer.alive());
    rig.deliver();
    rig.pass(LEASE_MS / 4);
    assert_eq!(rig.appends, 0, "the leader writes again");

    let (_, mut rig) = follower();
    rig.input(Input::LeaderRefuses(5));
    rig.pass(LEASE_MS);
    assert_eq!(rig.appends, 0, "process 5 does not lead");

    let (_, mut rig) = follower();
    rig.input(Input::LeaderRefuses(102));
    rig.pass(LEASE_MS / 2 - 50);
    assert_eq!(rig.appends, 0, "it may be idle");
    rig.pass(LEASE_MS / 2);
    assert_eq!(reason(&rig), Some(Reason::ProcessGone));
}

#[test]
fn the_successor_claims_first() {
    let (mut writer, mut rig) = follower();
    // It names node 2.
    rig.push(writer.resign());
    rig.deliver();
    rig.pass(300);
    assert_eq!(rig.appends, 0);
    rig.pass(100);
    assert_eq!(reason(&rig), Some(Reason::Resigned));

    writer.node = 3;
    let (_, stream) = led_by_2();
    let named = Setting { node: 2, ..setting() };
    let mut rig = Rig::with(named, origin(), 1, stream);
    rig.push(writer.resign());
    rig.deliver();
    assert_eq!(reason(&rig), Some(Reason::Resigned));
}

#[test]
fn an_order_needs_no_silence() {
    let (_, stream) = led_by_2();
    let passive = Setting { can_lead: false, ..setting() };
    let mut rig = Rig::with(passive, origin(), 1, stream);
    rig.pass(10 * LEASE_MS);
    assert_eq!(rig.appends, 0, "this node does not lead without an order");
    rig.input(Input::Promote);
    assert_eq!(reason(&rig), Some(Reason::Forced));
}

#[test]
fn a_claim_that_comes_too_late_is_given_up() {
    let (mut writer, mut rig) = follower();
    rig.input(Input::Promote);
    rig.push(writer.record(b"b"));
    rig.end(refused);
    rig.pass(300);
    assert_eq!(rig.node.reader().at().number, 2, "it read the record that was faster");
    // The order still holds.
    assert_eq!(reason(&rig), Some(Reason::Forced));
    rig.deliver();
    let other = Writer { node: 3, ..writer };
    rig.push(other.claim());
    rig.end(refused);
    rig.pass(300);
    assert_eq!(rig.appends, 2, "another node leads now");
    assert_eq!(rig.node.reader().epoch(), 4);
    assert!(matches!(rig.acts.last(), Some(Act::Follows(3, _))));
}

#[test]
fn an_unknown_claim_is_settled_by_the_stream() {
    // It landed.
    let (_, mut rig) = follower();
    rig.input(Input::Promote);
    let open = rig.land_silently();
    rig.answer(unknown(open.id));
    rig.pass(300);
    assert!(rig.node.leads());
    // It did not: the same bytes again.
    let (_, mut rig) = follower();
    rig.input(Input::Promote);
    let first = rig.end(unknown);
    rig.pass(300);
    let again = rig.open.as_ref().unwrap();
    assert_eq!((again.expect, &again.record), (first.expect, &first.record));
    rig.land();
    assert!(rig.node.leads());
    // The follower sees it before any answer comes.
    let (_, mut rig) = follower();
    rig.input(Input::Promote);
    let open = rig.land_silently();
    rig.deliver();
    assert!(rig.node.leads());
    rig.answer(unknown(open.id));
    assert!(rig.node.leads());
}

#[test]
fn a_claim_that_was_given_up_but_landed_ends_the_process() {
    let (writer, mut rig) = follower();
    rig.pass(LEASE_MS + 600);
    assert_eq!(reason(&rig), Some(Reason::Silence));
    rig.push(writer.alive());
    rig.deliver();
    let given_up = rig.end(unknown);
    rig.pass(LEASE_MS);
    assert!(rig.open.is_none(), "the leader is alive");
    // The stream ignores the conditions, as after a power failure.
    rig.push(given_up.record.to_vec());
    rig.deliver();
    assert_eq!(rig.acts.last(), Some(&Act::End(End::LateClaim)));
    assert!(!rig.node.leads());
}

/// Another node had given its claim up, and the claim landed nevertheless. So its process ends, but
/// the leader before it has a lease, and may not know of the claim yet.
#[test]
fn the_lease_before_a_late_claim_is_respected() {
    let (writer, mut rig) = follower();
    let claim = |rig: &mut Rig| {
        rig.push(writer.alive());
        rig.deliver();
        rig.push(Writer { node: 3, ..writer }.claim());
        rig.deliver();
        rig.last()
    };
    claim(&mut rig);
    rig.input(Input::LeaderGone(103));
    rig.pass(LEASE_MS);
    assert_eq!(rig.appends, 0, "the leader before may answer");
    rig.pass(600);
    assert_eq!(reason(&rig), Some(Reason::ProcessGone));

    // A leader that has written something knows of its claim, and so it was right.
    let (_, mut rig) = follower();
    let epoch = claim(&mut rig);
    rig.push(Writer { node: 3, epoch, ..writer }.alive());
    rig.deliver();
    rig.input(Input::LeaderGone(103));
    rig.pass(100);
    assert_eq!(reason(&rig), Some(Reason::ProcessGone));
}

#[test]
fn the_next_append_waits_for_the_answer_to_the_last_one() {
    let (writer, mut rig) = follower();
    rig.input(Input::Promote);
    rig.push(writer.alive());
    rig.deliver();
    assert_eq!(rig.appends, 1, "the first claim has no answer yet");
    rig.end(unknown);
    assert_eq!(rig.appends, 2);
}

#[test]
fn a_new_folder_never_makes_the_first_claim() {
    let new = Setting { has_place: false, ..setting() };
    let mut rig = Rig::with(new.clone(), origin(), 1, Vec::new());
    rig.pass(10 * LEASE_MS);
    rig.input(Input::Promote);
    rig.pass(10 * LEASE_MS);
    assert_eq!(rig.appends, 0);
    // Behind another leader, it is a node like any other.
    let (_, stream) = led_by_2();
    let mut rig = Rig::with(new, origin(), 1, stream);
    rig.pass(LEASE_MS + 600);
    assert_eq!(reason(&rig), Some(Reason::Silence));
}

#[test]
fn a_node_whose_folder_hangs_does_not_claim() {
    let (mut writer, mut rig) = follower();
    rig.flushes = false;
    rig.push(writer.record(b"b"));
    for _ in 0..10 {
        rig.push(writer.alive());
        rig.deliver();
        rig.pass(1000);
    }
    rig.pass(20 * LEASE_MS);
    rig.input(Input::Promote);
    assert_eq!(rig.appends, 0);
    assert!(rig.node.folder_hangs(rig.now_ms));
    rig.input(Input::Durable(2));
    assert_eq!(reason(&rig), Some(Reason::Forced));
}
