//! How appends of a leader end: one test for each situation.

use std::sync::Arc;

use replica::claim::{Claim, Resignation};
use replica::node::{Act, Answer, End, Fault, Input, Setting, Subject};
use replica::record::{Header, Kind, PART_BYTES_MAX};
use replica::report::Report;

use crate::common::{OURS, Writer, origin};
use crate::rig::{LEASE_MS, ME, Mood, OpenAppend, Rig, busy, refused, setting, unknown};

fn kind(open: Option<&OpenAppend>) -> Kind {
    Header::decode(&open.expect("an append is open").record).unwrap().0.kind
}

fn is_faulty(rig: &Rig) -> bool {
    matches!(rig.acts.last(), Some(Act::Fault(_)))
}

#[test]
fn an_appended_group_is_acknowledged() {
    let mut rig = Rig::leader();
    let begun_ms = rig.now_ms;
    let first = rig.gather(b"a");
    let open = rig.open.as_ref().unwrap();
    assert_eq!((open.expect.tail, open.expect.claim, open.subject), (1, 1, Subject::Groups));
    rig.pass(30);
    rig.land();
    let until_ms = begun_ms + LEASE_MS;
    assert_eq!(rig.take_acts(), [Act::Acknowledged(1), Act::MayAnswerUntil(until_ms)]);
    assert_eq!(rig.node.reader().at(), first.at());
}

#[test]
fn groups_go_out_one_by_one() {
    let mut rig = Rig::leader();
    let mut writer = rig.writer();
    for body in [b"a", b"b", b"c"] {
        let group = writer.group(body.to_vec());
        rig.input(Input::Gathered(group));
    }
    for number in 1..=3 {
        assert_eq!(rig.appends, 1 + number, "one append is open");
        rig.land();
        assert!(rig.take_acts().contains(&Act::Acknowledged(u64::from(number))));
    }
    assert!(rig.open.is_none());
}

#[test]
fn another_place_is_a_fault() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.end(|id| Answer::Appended { id, seq: 3 });
    assert_eq!(rig.acts.last(), Some(&Act::Fault(Fault::Misplaced { seq: 3, expected: 2 })));
    assert!(!rig.node.leads());
}

#[test]
fn refused_does_not_mean_that_the_record_is_not_there() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    // The first attempt is undecided for long: the stream has no majority.
    let first = rig.end(unknown);
    for _ in 0..20 {
        while rig.open.is_none() {
            rig.pass(10);
        }
        let again = rig.end(refused);
        assert_eq!((again.expect, &again.record), (first.expect, &first.record));
        assert!(!rig.acts.contains(&Act::Acknowledged(1)));
    }
    while rig.open.is_none() {
        rig.pass(10);
    }
    // At last, the first attempt is decided.
    rig.stream.push(first.record);
    rig.end(refused);
    rig.pass(250);
    assert!(rig.acts.contains(&Act::Acknowledged(1)));
    assert!(rig.node.leads());
    assert_eq!(rig.node.reader().tail(), 2);
    // The lease counts from the first attempt, so it has ended.
    let Some(Act::MayAnswerUntil(until_ms)) = rig.acts.last() else { panic!("{:?}", rig.acts) };
    assert!(*until_ms < rig.now_ms);
}

#[test]
fn nothing_else_is_sent_while_the_stream_is_away() {
    let mut rig = Rig::leader();
    let first = rig.gather(b"a");
    let open = rig.end(unknown);
    rig.mood = Mood::Silent;
    let mut writer = Writer { at: first.at(), ..rig.writer() };
    rig.input(Input::Gathered(writer.group(b"b".to_vec())));
    rig.pass(60 * LEASE_MS);
    assert!(rig.open.is_none(), "an unknown outcome is not settled by time");
    rig.mood = Mood::Right;
    rig.pass(300);
    assert_eq!(rig.open.as_ref().unwrap().record, open.record);
    rig.land();
    rig.land();
    assert_eq!(rig.node.reader().at().number, 2);
}

#[test]
fn a_leader_that_was_cut_off_until_the_stream_was_trimmed_ends() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.end(unknown);
    rig.mood = Mood::Silent;
    // Another node claims, appends and trims. Only its last records are left.
    rig.first = 20;
    rig.stream = vec![Arc::from(&b"a later record"[..])];
    rig.pass(3 * LEASE_MS);
    assert!(rig.acts.is_empty(), "nothing is known yet");
    rig.mood = Mood::Right;
    rig.pass(300);
    assert_eq!(rig.acts.last(), Some(&Act::End(End::Overtaken)));
    assert!(!rig.node.leads());
}

#[test]
fn a_stale_record_in_the_way_is_passed() {
    let mut former = Writer::new(2);
    let mut rig = Rig::new(vec![former.claim()]);
    former.epoch = 1;
    rig.input(Input::Promote);
    rig.land();
    rig.gather(b"a");
    let stale = former.record(b"never accepted");
    rig.push(stale);
    let first = rig.end(refused);
    rig.pass(300);
    assert_eq!(rig.node.counts().stale, 1);
    let again = rig.open.as_ref().unwrap();
    assert_eq!(again.record, first.record, "the same bytes");
    assert_eq!((again.expect.tail, again.expect.claim), (3, 2), "at the next place");
    rig.land();
    assert!(rig.acts.contains(&Act::Acknowledged(1)));
}

#[test]
fn a_stale_claim_in_the_way_is_named_by_the_next_conditions() {
    // The stream knows the last claim, but not whether it counts.
    let overtaken = Writer::new(3).claim();
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.push(overtaken);
    rig.end(refused);
    rig.pass(300);
    let again = rig.open.as_ref().unwrap();
    assert_eq!((again.expect.tail, again.expect.claim), (2, 2));
    // The leader's own claim becomes the last one again. Otherwise a trim could remove it, and a new
    // reader would not find out who leads.
    assert_eq!(kind(rig.open.as_ref()), Kind::Renewal);
    rig.land();
    assert_eq!(kind(rig.open.as_ref()), Kind::Group);
    rig.land();
    assert!(rig.open.is_none());
    assert_eq!((rig.node.reader().epoch(), rig.node.reader().claim()), (1, 3));
    // A node that begins behind the renewal knows it, too.
    let at = rig.node.reader().at();
    let other = Setting { node: 2, incarnation: 8, ..setting() };
    let stream = rig.stream.iter().map(|record| record.to_vec()).collect();
    let mut follower = Rig::with(other, at, 1, stream);
    assert!(matches!(follower.acts.last(), Some(Act::Follows(ME, _))));
    follower.input(Input::Promote);
    let claim = follower.open.as_ref().unwrap();
    assert_eq!((claim.expect.tail, claim.expect.claim), (4, 3));
}

#[test]
fn a_claim_of_another_node_deposes() {
    for answer in [refused, unknown] {
        let mut rig = Rig::leader();
        rig.gather(b"a");
        let other = Writer { node: 2, ..rig.writer() };
        rig.push(other.claim());
        rig.end(answer);
        rig.pass(300);
        assert_eq!(rig.acts.last(), Some(&Act::End(End::Deposed(2))));
        rig.input(Input::Promote);
        rig.pass(100 * LEASE_MS);
        assert!(rig.open.is_none(), "a process leads at most once");
    }
}

#[test]
fn a_claim_after_the_own_group_deposes_after_the_acknowledgement() {
    let mut rig = Rig::leader();
    let group = rig.gather(b"a");
    let open = rig.land_silently();
    let other = Writer { node: 2, at: group.at(), ..rig.writer() };
    rig.push(other.claim());
    rig.answer(unknown(open.id));
    rig.pass(300);
    assert!(rig.acts.contains(&Act::Acknowledged(1)), "it is in the stream");
    rig.pass(LEASE_MS);
    rig.end(refused);
    rig.pass(300);
    assert_eq!(rig.acts.last(), Some(&Act::End(End::Deposed(2))));
}

#[test]
fn somebody_else_in_the_own_epoch_is_a_fault() {
    let mut rig = Rig::leader();
    let mut double = rig.writer();
    rig.gather(b"a");
    rig.push(double.record(b"b"));
    rig.end(refused);
    rig.pass(300);
    assert_eq!(rig.acts.last(), Some(&Act::Fault(Fault::Imitated { seq: 2 })));
}

#[test]
fn busy_means_wait() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    let first = rig.end(busy);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let begun_ms = rig.now_ms;
        while rig.open.is_none() {
            rig.pass(1);
        }
        waits.push(rig.now_ms - begun_ms);
        let again = rig.end(busy);
        assert_eq!((again.expect, &again.record), (first.expect, &first.record));
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64]);
    rig.pass(64);
    rig.land();
    assert!(rig.acts.contains(&Act::Acknowledged(1)));
}

#[test]
fn an_old_tail_is_no_loss_until_it_stays() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.land();
    rig.gather(b"b");
    rig.end(unknown);
    rig.mood = Mood::Old(1);
    rig.pass(59_000);
    assert!(!is_faulty(&rig) && rig.open.is_none());
    rig.mood = Mood::Right;
    rig.pass(300);
    rig.land();
    rig.gather(b"c");
    rig.end(unknown);
    rig.mood = Mood::Old(1);
    rig.pass(59_000);
    assert!(!is_faulty(&rig), "it counts from the last right answer");
    rig.pass(2_000);
    assert_eq!(rig.acts.last(), Some(&Act::Fault(Fault::StreamLost { ours: 3, last: 1 })));
}

#[test]
fn a_tail_from_before_the_newest_records_is_no_loss() {
    let mut rig = Rig::leader();
    rig.mood = Mood::Slow;
    for _ in 0..20 {
        while rig.late.is_none() {
            rig.pass(100);
            if rig.open.is_some() {
                rig.land();
            }
        }
        rig.gather(b"a");
        rig.land();
        let answer = rig.late.take().unwrap();
        rig.answer(answer);
    }
    assert!(!is_faulty(&rig), "the stream has all records");
}

#[test]
fn an_idle_leader_keeps_its_lease() {
    let mut rig = Rig::leader();
    rig.pass(LEASE_MS / 4 - 1);
    assert!(rig.open.is_none());
    rig.pass(1);
    assert_eq!(kind(rig.open.as_ref()), Kind::Alive);
    rig.land();
    assert_eq!(rig.acts, [Act::MayAnswerUntil(rig.now_ms + LEASE_MS)]);
    for _ in 0..4095 {
        assert!(!rig.acts.contains(&Act::Cut));
        rig.pass(LEASE_MS / 4);
        rig.land();
    }
    assert!(rig.acts.contains(&Act::Cut), "an empty group makes a trim possible");
}

#[test]
fn a_group_of_several_parts_is_acknowledged_once() {
    let mut rig = Rig::leader();
    let group = rig.gather(&vec![7; 2 * PART_BYTES_MAX + 1]);
    for part in 0..3 {
        assert_eq!(rig.open.as_ref().unwrap().record[..], group.record(part, OURS, ME)[..]);
        assert!(!rig.acts.contains(&Act::Acknowledged(1)));
        rig.pass(10);
        rig.land();
    }
    let acknowledged = rig.acts.iter().filter(|act| **act == Act::Acknowledged(1)).count();
    let renewed = rig.acts.iter().filter(|act| matches!(act, Act::MayAnswerUntil(_))).count();
    assert_eq!((acknowledged, renewed), (1, 3));
    // A follower reads the same group.
    let records = rig.stream.iter().map(|record| record.to_vec()).collect();
    let other = Setting { node: 2, incarnation: 8, ..setting() };
    let follower = Rig::with(other, origin(), 1, records);
    assert!(follower.acts.last() == Some(&Act::Apply(group)));
}

#[test]
fn a_resignation_is_the_last_record() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.input(Input::Resign { successor: 2, next_id: 55 });
    rig.land();
    let open = rig.land_silently();
    let (header, body) = Header::decode(&open.record).unwrap();
    assert_eq!((header.kind, header.number, header.id_limit), (Kind::Resign, 1, 55));
    assert_eq!(Resignation::decode(body), Ok(Resignation { successor: 2 }));
    rig.answer(unknown(open.id));
    rig.pass(300);
    assert_eq!(rig.acts.last(), Some(&Act::End(End::Resigned)));
    rig.pass(10 * LEASE_MS);
    assert!(rig.open.is_none());
}

#[test]
fn a_trim_behind_the_own_claim_renews_it() {
    let mut rig = Rig::leader();
    let body = vec![1; 400 << 10];
    for _ in 0..600 {
        rig.gather(&body);
        rig.land();
    }
    let report = Report { node: 2, epoch: 1, durable: 500, needs: 500, ..Report::default() };
    rig.bytes = rig.stream.iter().map(|record| record.len() as u64).sum();
    rig.input(Input::Durable(600));
    rig.input(Input::Reported { report, is_live: true });
    rig.take_acts();
    let mut passed_ms = 0;
    while rig.open.is_none() || kind(rig.open.as_ref()) != Kind::Renewal {
        if rig.open.is_some() {
            rig.land();
        }
        rig.pass(100);
        passed_ms += 100;
        assert!(passed_ms < 30_000, "the trim is due");
    }
    // Clients do not wait for the renewal: the next group gathers meanwhile.
    let group = rig.gather(b"in the same epoch");
    let open = rig.land_silently();
    let (header, body) = Header::decode(&open.record).unwrap();
    let (_, first) = Header::decode(&rig.stream[0]).unwrap();
    assert_eq!(Claim::decode(body), Claim::decode(first), "the same owner");
    assert_eq!((header.epoch, open.subject, open.expect.claim), (1, Subject::Claims, 1));
    let renewal = rig.last();
    rig.answer(Answer::Appended { id: open.id, seq: renewal });
    assert_eq!(rig.open.as_ref().unwrap().expect.claim, renewal, "the fence names the renewal");
    rig.land();
    assert!(rig.acts.contains(&Act::Acknowledged(group.number)));
    assert_eq!(rig.node.reader().epoch(), 1);
    rig.pass(12_000);
    if rig.open.is_some() {
        rig.land();
    }
    assert_eq!(rig.trims.len(), 1);
    assert!((450..=501).contains(&rig.trims[0]), "{:?}", rig.trims);
    // A node that begins behind the trim finds its place, its epoch and its leader.
    let first = rig.trims[0];
    let stream = rig.stream[first as usize - 1..].iter().map(|record| record.to_vec()).collect();
    let other = Setting { node: 2, incarnation: 8, ..setting() };
    let mut follower = Rig::with(other, group.at(), first, stream);
    assert!(matches!(follower.acts.last(), Some(Act::Follows(ME, _))), "{:?}", follower.acts);
    assert_eq!((follower.node.reader().epoch(), follower.node.reader().claim()), (1, renewal));
    follower.input(Input::Promote);
    assert_eq!(follower.open.as_ref().unwrap().expect.claim, renewal);
}

#[test]
fn a_renewal_of_a_deposed_leader_is_refused() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.land();
    // A late claim that does not count asks for a renewal.
    rig.push(Writer::new(3).claim());
    rig.gather(b"b");
    rig.end(refused);
    rig.pass(300);
    assert_eq!(kind(rig.open.as_ref()), Kind::Renewal);
    // Before the renewal arrives, another node claims.
    let other = Writer { node: 2, ..rig.writer() };
    rig.push(other.claim());
    let renewal = rig.end(refused);
    assert_ne!(renewal.expect.claim, rig.last(), "the stream refuses it");
    rig.pass(300);
    assert_eq!(rig.acts.last(), Some(&Act::End(End::Deposed(2))));
}

#[test]
fn a_renewal_that_comes_twice_is_passed() {
    let mut rig = Rig::leader();
    rig.gather(b"a");
    rig.land();
    rig.push(Writer::new(3).claim());
    rig.gather(b"b");
    rig.end(refused);
    rig.pass(300);
    let renewal = rig.land_silently();
    rig.push(renewal.record.to_vec());
    rig.answer(Answer::Appended { id: renewal.id, seq: renewal.expect.tail + 1 });
    rig.end(refused);
    rig.pass(300);
    while rig.open.is_some() {
        rig.land();
    }
    assert!(rig.acts.contains(&Act::Acknowledged(2)), "{:?}", rig.acts);
    assert!(rig.node.leads());
}

#[test]
fn a_renewal_does_not_come_between_the_parts_of_a_group() {
    let mut rig = Rig::leader();
    rig.gather(&vec![7; 2 * PART_BYTES_MAX + 1]);
    rig.land();
    rig.push(Writer::new(3).claim());
    rig.end(refused);
    rig.pass(300);
    for expected in [Kind::Group, Kind::Group, Kind::Renewal] {
        assert_eq!(kind(rig.open.as_ref()), expected);
        rig.land();
    }
    assert!(rig.acts.contains(&Act::Acknowledged(1)));
}

#[test]
fn a_leader_whose_folder_hangs_yields_to_a_node_whose_folder_works() {
    let mut rig = Rig::leader();
    rig.flushes = false;
    for _ in 0..3 {
        rig.gather(b"a");
        rig.land();
    }
    let pass = |rig: &mut Rig, seconds: u32| {
        for _ in 0..seconds {
            rig.pass(1000);
            while rig.open.is_some() {
                rig.land();
            }
        }
        rig.take_acts().iter().filter(|act| **act == Act::Yield).count()
    };
    assert_eq!(pass(&mut rig, 60), 0, "nobody else can lead");
    let report = Report { node: 2, epoch: 1, durable: 0, ..Report::default() };
    rig.input(Input::Reported { report, is_live: true });
    assert_eq!(pass(&mut rig, 60), 0, "the other folder is not better");
    // The folder works again, slowly.
    for number in 1..=3 {
        rig.input(Input::Durable(number));
        rig.input(Input::Reported { report: Report { durable: 3, ..report }, is_live: true });
        assert_eq!(pass(&mut rig, 9), 0, "it makes progress");
    }
    rig.gather(b"b");
    rig.land();
    rig.gather(b"c");
    rig.land();
    rig.input(Input::Reported { report: Report { durable: 4, ..report }, is_live: true });
    for _ in 0..60 {
        assert_eq!(pass(&mut rig, 1), 0, "the other folder is better, but it hangs, too");
        rig.input(Input::Reported { report: Report { durable: 4, ..report }, is_live: true });
    }
    rig.input(Input::Durable(4));
    let report = Report { durable: 5, ..report };
    rig.input(Input::Reported { report: Report { cannot_lead: true, ..report }, is_live: true });
    assert_eq!(pass(&mut rig, 60), 0, "the other node would not lead");
    rig.input(Input::Reported { report, is_live: true });
    assert_eq!(pass(&mut rig, 60), 1, "it yields once");
    rig.input(Input::Resign { successor: 2, next_id: 200 });
    rig.land();
    assert_eq!(rig.acts.last(), Some(&Act::End(End::Resigned)));
}
