//! Tests the parser of Kestrel's journals. The tests write their journals as the specification
//! describes them (spec kestrel 4).

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use lineshaft_import::{Backlog, kestrel};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const REMOVE: [u8; 1] = [1];
/// Opens a read with the next free xid.
const OPEN_NEXT: [u8; 1] = [3];

/// The operations whose record contains an xid, the number of a read.
const SAVE_XID: u8 = 4;
const GIVE_BACK: u8 = 5;
const CONFIRM: u8 = 6;
const ADD_XID: u8 = 7;
const CONTINUE: u8 = 8;
const OPEN: u8 = 9;

fn item(created_ms: i64, expires_ms: i64, data: &[u8]) -> Vec<u8> {
    let size = (16 + data.len() as i32).to_le_bytes();
    [&size[..], &created_ms.to_le_bytes(), &expires_ms.to_le_bytes(), data].concat()
}

fn add(data: &[u8]) -> Vec<u8> {
    [vec![2], item(1_700_000_000_000, 0, data)].concat()
}

fn with(operation: u8, xid: i32) -> Vec<u8> {
    [&[operation][..], &xid.to_le_bytes()].concat()
}

fn data(backlog: &Backlog) -> Vec<String> {
    let text = |job| String::from_utf8(backlog.body(job).unwrap()).unwrap();
    backlog.jobs.iter().map(text).collect()
}

fn read(records: &[Vec<u8>]) -> Vec<String> {
    let backlog = kestrel::parse(&records.concat());
    assert_eq!(backlog.losses, []);
    data(&backlog)
}

#[test]
fn the_example_of_the_specification_is_read() {
    let example = "0211000000 0068e5cf8b010000 0000000000000000 78 0901000000";
    let digits: String = example.split(' ').collect();
    let digits = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    let backlog = kestrel::parse(&bytes);
    assert_eq!(data(&backlog), ["x"]);
    let job = &backlog.jobs[0];
    assert_eq!((job.created_ms, job.expires_ms), (Some(1_700_000_000_000), None));
    assert_eq!(read(&[bytes, with(CONFIRM, 1)]), [""; 0]);
}

#[test]
fn every_operation_does_what_it_says() {
    let old = [&[0][..], &6_i32.to_le_bytes(), &1_700_000_000_i32.to_le_bytes(), b"hi"].concat();
    let backlog = kestrel::parse(&old);
    assert_eq!(data(&backlog), ["hi"]);
    assert_eq!(backlog.jobs[0].expires_ms, Some(1_700_000_000_000));
    assert_eq!(backlog.jobs[0].created_ms, None);

    let three = [add(b"a"), add(b"b"), add(b"c")].concat();
    assert_eq!(read(&[three.clone(), REMOVE.into()]), ["b", "c"]);
    // The items of open reads are first, in the order of the xids.
    assert_eq!(read(&[three.clone(), with(OPEN, 7), with(OPEN, 3)]), ["b", "a", "c"]);
    let given = [three.clone(), with(OPEN, 7), with(OPEN, 8), with(GIVE_BACK, 7), with(CONFIRM, 8)];
    assert_eq!(read(&given), ["a", "c"]);
    let continued = [with(CONTINUE, 7), item(5, 9, b"d")].concat();
    assert_eq!(read(&[three.clone(), with(OPEN, 7), continued]), ["b", "c", "d"]);
    let old_open = [three.clone(), with(SAVE_XID, -1), OPEN_NEXT.into(), with(CONFIRM, 1)];
    assert_eq!(read(&old_open), ["b", "c"], "0 is no number of a read");
    let rewritten = [with(ADD_XID, 5), item(1, 2, b"e")].concat();
    assert_eq!(read(&[three, rewritten, with(CONFIRM, 99), with(GIVE_BACK, 99)]).len(), 4);
}

proptest! {
    /// Compares the xids of reads with those that a search one by one finds. The xids are near 0,
    /// and near the two ends of their range.
    #[test]
    fn a_read_gets_the_next_free_xid(
        steps in vec(
            (
                select(vec![SAVE_XID, CONFIRM, OPEN, OPEN_NEXT[0]]),
                select(vec![i32::MIN, i32::MIN + 1, -2, -1, 0, 1, 2, i32::MAX - 1, i32::MAX]),
            ),
            0..100,
        )
    ) {
        let mut records = Vec::new();
        let mut waiting: VecDeque<String> = VecDeque::new();
        let mut open: BTreeMap<i32, String> = BTreeMap::new();
        let mut last_xid = 0_i32;
        for (number, (operation, xid)) in steps.into_iter().enumerate() {
            if operation == SAVE_XID {
                records.push(with(SAVE_XID, xid));
                last_xid = xid;
                continue;
            }
            if operation == CONFIRM {
                records.push(with(CONFIRM, xid));
                open.remove(&xid);
                continue;
            }
            records.push(add(number.to_string().as_bytes()));
            waiting.push_back(number.to_string());
            if operation == OPEN {
                records.push(with(OPEN, xid));
                last_xid = xid;
            } else {
                records.push(OPEN_NEXT.into());
                last_xid = last_xid.wrapping_add(1);
                while last_xid == 0 || open.contains_key(&last_xid) {
                    last_xid = last_xid.wrapping_add(1);
                }
            }
            let item = waiting.pop_front().unwrap();
            if let Some(other) = open.insert(last_xid, item) {
                waiting.push_front(other);
            }
        }
        let wanted: Vec<String> = open.into_values().chain(waiting).collect();
        prop_assert_eq!(read(&records), wanted);
    }
}

/// If each search walked along the open reads, this test would exceed its time limit.
#[test]
fn a_search_for_a_free_xid_does_not_walk_along_open_reads() {
    const READS: usize = 200_000;
    let opened = [add(b""), OPEN_NEXT.into()].concat().repeat(READS);
    let searched = [with(SAVE_XID, 0), OPEN_NEXT.into()].concat().repeat(READS);
    let last = [add(b"last"), with(SAVE_XID, 0), OPEN_NEXT.into()].concat();
    let journal = [opened, searched, last].concat();
    assert_eq!(kestrel::parse(&journal).jobs.len(), READS + 1);
    let confirmed = [journal, with(CONFIRM, READS as i32 + 1)].concat();
    let backlog = kestrel::parse(&confirmed);
    assert_eq!(backlog.jobs.len(), READS);
    assert!(backlog.jobs.iter().all(|job| job.body_bytes() == 0), "the last read was confirmed");
}

/// After a cut at any byte, exactly the complete records are read.
#[test]
fn every_prefix_gives_exactly_its_whole_records() {
    let continued = [with(CONTINUE, 1), item(5, 0, b"more")].concat();
    let records = [add(b"first"), add(b""), with(OPEN, 1), continued, vec![1], add(b"last")];
    let whole = records.concat();
    let mut ends = vec![0];
    for record in &records {
        ends.push(ends[ends.len() - 1] + record.len());
    }
    for len in 0..=whole.len() {
        let backlog = kestrel::parse(&whole[..len]);
        let complete = ends.iter().filter(|end| **end <= len).count() - 1;
        assert_eq!(backlog.jobs, kestrel::parse(&records[..complete].concat()).jobs);
        let place = format!("queue at offset {}", ends[complete]);
        let named: Vec<&str> = backlog.losses.iter().map(|loss| &*loss.place).collect();
        let wanted = if len == ends[complete] { vec![] } else { vec![&*place] };
        assert_eq!(named, wanted, "of {len} bytes");
    }
}

#[test]
fn broken_records_are_named() {
    for (bytes, what) in [
        (&[77][..], "unknown operation 77"),
        (&[2, 15, 0, 0, 0, 1, 1], "invalid length 15"),
        (&[2, 0xFF, 0xFF, 0xFF, 0xFF], "invalid length -1"),
        (&[2, 0xFF, 0xFF, 0xFF, 0x7F], "more than"),
        (&[9, 1, 0], "cut off"),
    ] {
        let backlog = kestrel::parse(&[&add(b"good")[..], bytes].concat());
        assert_eq!(data(&backlog), ["good"]);
        assert!(backlog.losses[0].what.contains(what), "{:?}", backlog.losses);
    }
}

/// Makes a folder with these files.
fn folder(files: &[(&str, &[Vec<u8>])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, records) in files {
        std::fs::write(folder.path().join(name), records.concat()).unwrap();
    }
    folder
}

fn queues(files: &[(&str, &[Vec<u8>])]) -> Vec<(String, Vec<String>)> {
    let backlog = kestrel::open(folder(files).path()).unwrap();
    assert_eq!(backlog.losses, []);
    let names =
        backlog.queues.iter().map(|queue| String::from_utf8_lossy(&queue.name).into_owned());
    let data = data(&backlog);
    let of = |number: usize| {
        let jobs = backlog.jobs.iter().zip(&data);
        let jobs = jobs.filter(|(job, _)| job.queue as usize == number);
        jobs.map(|(_, data)| data.clone()).collect()
    };
    names.enumerate().map(|(number, name)| (name, of(number))).collect()
}

#[test]
fn the_files_of_a_queue_are_read_in_their_order() {
    let files = [
        ("q", &[add(b"4"), REMOVE.into()][..]),
        ("q.200", &[add(b"2")]),
        ("q.1000", &[add(b"3")]),
        ("q.1000~~5", &[add(b"unfinished")]),
    ];
    let wanted = ["3", "4"].map(str::to_owned).to_vec();
    assert_eq!(queues(&files), [("q".to_owned(), wanted)]);
}

#[test]
fn the_newest_pack_replaces_older_files() {
    let files = [
        ("q.100", &[add(b"old")][..]),
        ("q.150.pack", &[add(b"older pack")]),
        ("q.200", &[add(b"old")]),
        ("q.200.pack", &[add(b"packed")]),
        ("q.300", &[add(b"newer")]),
    ];
    let wanted = ["packed", "newer"].map(str::to_owned).to_vec();
    assert_eq!(queues(&files), [("q".to_owned(), wanted)]);

    let backlog = kestrel::open(folder(&files).path()).unwrap();
    let names = |paths: &[PathBuf]| -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        paths.iter().map(name).collect()
    };
    assert_eq!(names(&backlog.sources), ["q.200.pack", "q.300"]);
    assert_eq!(names(&backlog.superseded), ["q.150.pack", "q.100", "q.200"]);
    let without_older = kestrel::open(folder(&files[3..]).path()).unwrap();
    assert!(without_older.superseded.is_empty());
    assert_eq!(without_older.fingerprint, backlog.fingerprint);
}

#[test]
fn children_and_empty_queues_are_queues() {
    let files = [
        ("news", &[add(b"n")][..]),
        ("news+archive", &[add(b"n")]),
        ("news+empty", &[]),
        ("lock", &[]),
        ("0000000001.seg", &[add(b"of Lineshaft")]),
        ("spare-3", &[b"LINESHFT of Lineshaft".to_vec()]),
        ("blank-4", &[vec![0; 100]]),
    ];
    let one = || vec!["n".to_owned()];
    let wanted = [("news", one()), ("news+archive", one()), ("news+empty", vec![])];
    assert_eq!(queues(&files), wanted.map(|(name, items)| (name.to_owned(), items)));
}

#[test]
fn queues_can_have_the_names_of_files_of_lineshaft() {
    let names = ["blank-", "blank-2", "history", "lock", "manifest", "spare-parts"];
    let item = [add(b"x")];
    let files = names.map(|name| (name, &item[..]));
    let wanted = names.map(|name| (name.to_owned(), vec!["x".to_owned()]));
    assert_eq!(queues(&files), wanted);
}

#[test]
fn a_folder_that_a_server_has_used_is_the_same_source() {
    let folder = folder(&[("q", &[add(b"x")])]);
    let before = kestrel::open(folder.path()).unwrap();
    for (name, content) in [
        ("0000000001.seg", &b"LINESHFT"[..]),
        ("0000000001.idx", b"LINESIDX"),
        ("0000000002.idx-new", b""),
        ("history", b"LSHIST\n1"),
        ("history.new", b"LSHIST"),
        ("listen.json", b"{}"),
        ("listen.json.new", b""),
        ("lock", b""),
        ("manifest", b"lineshaft backup 1\n"),
        ("spare-1", b"LINESHFT"),
        ("tokens.toml", b""),
        ("tokens.toml.new", b""),
    ] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let after = kestrel::open(folder.path()).unwrap();
    assert_eq!(after.losses, []);
    assert_eq!((after.queues, after.sources), (before.queues, before.sources));
    assert_eq!(after.fingerprint, before.fingerprint);
}

#[test]
fn a_journal_with_items_is_found() {
    let found = |files: &[(&str, &[Vec<u8>])]| {
        let folder = folder(files);
        let file = kestrel::file_with_items(folder.path()).unwrap()?;
        Some(file.file_name().unwrap().to_str().unwrap().to_owned())
    };
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[("q", &[add(b"a"), add(b"b"), REMOVE.into()])]), Some("q".into()));
    assert_eq!(found(&[("lock", &[add(b"a")])]), Some("lock".into()));
    let emptied: [(&str, &[Vec<u8>]); 2] = [("q.1700", &[add(b"a")]), ("q", &[REMOVE.into()])];
    assert_eq!(found(&emptied), None);
    assert_eq!(found(&[("README", &[b"text".to_vec()])]), None);
    assert_eq!(found(&[("torn", &[add(b"abc")[..22].to_vec()])]), None);
}
