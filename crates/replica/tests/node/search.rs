//! Where a node begins to read.

use replica::group::At;
use replica::node::{Act, Fault};
use replica::reader::ReadError;
use replica::record::Header;

use crate::common::{Writer, origin};
use crate::rig::{Mood, Rig, setting};

/// A stream of many groups with two leaders, and the place after each group.
fn history() -> (Vec<Vec<u8>>, Vec<At>) {
    let mut writer = Writer::new(2);
    let mut stream = Vec::new();
    let mut places = vec![origin()];
    for claim in 0..2 {
        stream.push(Writer { node: 2 + claim, ..writer }.claim());
        let former = writer;
        writer.node = 2 + claim;
        writer.epoch = stream.len() as u64;
        for group in 0..100_u64 {
            stream.push(writer.record(&group.to_le_bytes()));
            places.push(writer.at);
            stream.extend((0..group % 3).map(|_| writer.alive()));
            if claim == 1 && group % 40 == 7 {
                // A late record with a low number, and one with a high number.
                let mut late = former;
                stream.push(late.alive());
                late.at.number += 60;
                stream.push(late.record(b"late"));
            }
        }
    }
    (stream, places)
}

#[test]
fn every_folder_finds_its_place() {
    let (stream, places) = history();
    for at in &places {
        let rig = Rig::with(setting(), *at, 1, stream.clone());
        let applied: Vec<u64> = rig
            .acts
            .iter()
            .filter_map(|act| match act {
                Act::Apply(group) => Some(group.number),
                Act::Follows(..) => None,
                act => panic!("{act:?}"),
            })
            .collect();
        assert_eq!(applied, (at.number + 1..=200).collect::<Vec<_>>(), "from {}", at.number);
        assert!(rig.node.reader().leader().is_some_and(|(node, _)| *node == 3));
    }
}

#[test]
fn a_folder_finds_its_place_in_a_trimmed_stream() {
    let (stream, places) = history();
    // A trim never removes the last claim, which is record 201.
    for cut in [1, 2, 50, 160, 200] {
        // What a reader of the removed records has reached.
        let gone = Rig::new(stream[..cut].to_vec()).node.reader().at().number;
        for at in &places {
            let rig = Rig::with(setting(), *at, cut as u64 + 1, stream[cut..].to_vec());
            let fetches = rig.acts.last() == Some(&Act::Fetch);
            // A folder whose last group was the last one removed may be lucky.
            if at.number != gone {
                assert_eq!(fetches, at.number < gone || at.number == 0, "{} of {gone}", at.number);
            }
            assert!(fetches || rig.node.reader().at().number == 200);
        }
    }
}

#[test]
fn a_late_record_misleads_no_search() {
    let mut writer = Writer::new(2);
    let mut stream = vec![writer.claim()];
    writer.epoch = 1;
    stream.push(writer.record(b"first"));
    let former = writer;
    stream.push(Writer { node: 3, ..writer }.claim());
    (writer.node, writer.epoch) = (3, stream.len() as u64);
    let mut places = Vec::new();
    for _ in 0..1000 {
        stream.push(writer.record(b"group"));
        places.push(writer.at);
    }
    let late = former;
    let last = places.last().expect("there are groups").number;
    // Each place in turn has the late record: also those that a binary search reads first.
    for at in (3..stream.len()).step_by(7).chain([251, 501, 502, 751]) {
        let mut stream = stream.clone();
        stream.insert(at, late.alive());
        for place in places.iter().step_by(83) {
            let rig = Rig::with(setting(), *place, 1, stream.clone());
            let bad = rig.acts.iter().find(|act| !matches!(act, Act::Apply(_) | Act::Follows(..)));
            assert_eq!(bad, None, "group {}, a late record at {at}", place.number);
            assert_eq!(rig.node.reader().at().number, last);
        }
        // Trimmed: a folder from before needs a copy.
        let rig = Rig::with(setting(), places[20], 101, stream[100..].to_vec());
        assert!(at < 200 || rig.acts == [Act::Fetch], "a late record at {at}: {:?}", rig.acts);
    }
}

#[test]
fn a_folder_of_another_history_is_found_out_in_few_reads() {
    let mut writer = Writer::new(2);
    let mut stream = vec![writer.claim()];
    writer.epoch = 1;
    let mut at = writer.at;
    for number in 0..20_000_u32 {
        stream.push(writer.record(&number.to_le_bytes()));
        if number == 9_000 {
            at = writer.at;
        }
    }
    at.chain.0 ^= 1;
    let rig = Rig::with(setting(), at, 1, stream);
    assert!(matches!(rig.acts[..], [Act::Fault(Fault::Read(ReadError::Diverged { .. }))]));
    assert!(rig.reads < 300, "{} reads", rig.reads);
}

#[test]
fn a_read_that_nobody_answers_says_nothing_about_the_record() {
    let (stream, places) = history();
    let mut rig = Rig::with(setting(), places[9], 1, stream);
    rig.mood = Mood::Mute;
    rig.restart(places[9]);
    rig.pass(200_000);
    assert_eq!((&rig.acts[..], rig.follows), (&[][..], None));
    rig.mood = Mood::Right;
    rig.pass(300);
    rig.deliver();
    assert_eq!(rig.node.reader().at().number, 200);
}

#[test]
fn an_empty_stream_is_right_for_a_new_cluster_only() {
    let rig = Rig::new(Vec::new());
    assert_eq!(rig.follows, Some(1));
    let (_, places) = history();
    let mut rig = Rig::with(setting(), places[5], 1, Vec::new());
    rig.pass(59_000);
    assert!(rig.acts.is_empty(), "a server that is cut off could say this");
    rig.pass(3_000);
    assert_eq!(rig.acts, [Act::Fault(Fault::FolderAhead { number: 5 })]);
}

#[test]
fn a_stream_that_is_too_short_is_a_fault_in_the_end() {
    let (stream, places) = history();
    let mut rig = Rig::with(setting(), places[150], 1, stream[..100].to_vec());
    rig.pass(59_000);
    assert!(rig.acts.is_empty());
    // The right server answers again.
    rig.stream = stream.into_iter().map(Into::into).collect();
    rig.pass(300);
    rig.deliver();
    assert_eq!(rig.node.reader().at().number, 200);
}

#[test]
fn another_history_is_a_fault() {
    let (stream, places) = history();
    let mut at = places[120];
    at.chain.0 ^= 1;
    let rig = Rig::with(setting(), at, 1, stream.clone());
    let Some(Act::Fault(Fault::Read(ReadError::Diverged { number, .. }))) = rig.acts.last() else {
        panic!("{:?}", rig.acts);
    };
    assert_eq!(*number, 120);
    let mut damaged = stream;
    for record in &mut damaged {
        record[30] ^= 1;
    }
    let rig = Rig::with(setting(), places[120], 1, damaged);
    assert!(matches!(rig.acts.last(), Some(Act::Fault(Fault::Read(_)))));
}

#[test]
fn a_node_waits_for_the_stream() {
    let (stream, places) = history();
    let mut rig = Rig::with(setting(), places[9], 1, stream);
    let found = rig.node.clone();
    rig.mood = Mood::Silent;
    rig.restart(places[9]);
    rig.pass(10_000);
    assert_eq!(rig.follows, None);
    rig.mood = Mood::Right;
    rig.pass(300);
    rig.deliver();
    assert_eq!(rig.node.reader(), found.reader());
}

#[test]
fn records_that_were_trimmed_while_reading_need_a_copy() {
    let (stream, places) = history();
    let mut rig = Rig::with(setting(), places[9], 1, stream[..20].to_vec());
    let bytes = stream[25].clone().into();
    rig.answer(replica::node::Answer::Record { seq: 26, bytes });
    assert_eq!(rig.acts.last(), Some(&Act::Fetch));
}

#[test]
fn a_lost_record_is_a_fault_in_the_end() {
    let (stream, places) = history();
    // The record before the place of the folder.
    let found = Rig::with(setting(), places[120], 1, stream.clone());
    assert!(found.acts.iter().all(|act| !matches!(act, Act::Fault(_))));
    let lost = stream.iter().position(|record| {
        let (header, _) = Header::decode(record).unwrap();
        header.number == 120
    });
    let lost = lost.unwrap() as u64 - 3;
    let mut rig = Rig::new(Vec::new());
    rig.stream = stream.into_iter().map(Into::into).collect();
    rig.lost = Some(lost);
    rig.restart(places[120]);
    rig.pass(30_000);
    assert!(rig.acts.is_empty(), "nobody has answered, perhaps");
    rig.mood = Mood::Silent;
    rig.pass(500);
    rig.mood = Mood::Right;
    rig.pass(59_000);
    assert!(rig.acts.is_empty(), "it counts while the stream answers");
    rig.pass(3_000);
    assert_eq!(rig.acts, [Act::Fault(Fault::RecordLost { seq: lost })]);
}

#[test]
fn a_record_that_was_removed_is_not_lost() {
    let (stream, places) = history();
    let mut rig = Rig::new(Vec::new());
    rig.stream = stream.into_iter().map(Into::into).collect();
    rig.lost = Some(200);
    rig.restart(places[120]);
    rig.pass(50_000);
    assert!(rig.acts.is_empty());
    // A trim removes the record.
    rig.stream.drain(..200);
    rig.first = 201;
    rig.pass(1_000);
    rig.deliver();
    let end = rig.acts.last();
    assert!(!matches!(end, None | Some(Act::Fault(_))), "{end:?}");
}
