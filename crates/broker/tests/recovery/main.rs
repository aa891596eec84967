//! Tests log folders with arbitrary bytes: random bytes with correct checksums, and the corpus of
//! the fuzz targets.

mod folder;
mod script;

use std::path::Path;
use std::sync::Arc;

use lineshaft_broker::{Broker, BrokerError, ClusterError, Millis, Options};
use log::{FaultDisk, Log, OpenError, Settings};
use proptest::collection::vec;
use proptest::prelude::*;
use replica::Lineage;

use script::{check, check_rules, files};

/// The entry OPEN: the log begins with segment 1, and ids below 100 are used.
fn opening() -> Vec<u8> {
    entry(1, 0, &[&[1, 0, 0, 0][..], &[100, 0, 0, 0, 0, 0, 0, 0]].concat())
}

fn entry(kind: u8, count: u8, contents: &[u8]) -> Vec<u8> {
    let mut entry = vec![16 + kind, count];
    entry.extend_from_slice(&(contents.len() as u16).to_le_bytes());
    entry.extend_from_slice(contents);
    entry
}

fn meta(id: u8, queue: u8, state: u8) -> Vec<u8> {
    let mut meta = vec![0; 40];
    (meta[0], meta[8], meta[36]) = (id, queue, state);
    meta
}

fn slot_bytes(index: u32, segment: u32) -> Vec<u8> {
    [index.to_le_bytes(), segment.to_le_bytes()].concat()
}

fn log_slot() -> impl Strategy<Value = Vec<u8>> {
    let index = prop_oneof![15 => 0..6_u32, 1 => Just(u32::MAX)];
    (index, 1..3_u32).prop_map(|(index, segment)| slot_bytes(index, segment))
}

/// Entries with few different values, so that they often refer to each other and are valid.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let job = (1..99_u8, 0..2_u8, 1..5_u8);
    prop_oneof![
        2 => (0..3_u8, "[a-c+]{0,3}")
            .prop_map(|(number, name)| entry(2, 0, &[&[number, 0, 0, 0], name.as_bytes()].concat())),
        8 => job.clone().prop_map(|(id, queue, state)| entry(3, 1, &meta(id, queue, state))),
        1 => (log_slot(), job.clone()).prop_map(|(slot, (id, queue, state))| {
            entry(4, 1, &[slot, meta(id, queue, state)].concat())
        }),
        2 => (log_slot(), job).prop_map(|(slot, (id, queue, state))| {
            entry(5, 0, &[slot, meta(id, queue, state)].concat())
        }),
        2 => log_slot().prop_map(|slot| entry(6, 0, &[slot, vec![7; 24]].concat())),
        2 => log_slot().prop_map(|slot| entry(7, 1, &slot)),
        1 => ("[ab]{0,2}", "[ab]{0,2}").prop_map(|(key, value)| {
            entry(9, 0, &[&[key.len() as u8, 0, 0, 0], key.as_bytes(), value.as_bytes()].concat())
        }),
        1 => Just([vec![0, 1], opening()].concat()),
        1 => (0..64_u8).prop_map(|shift| vec![12, shift]),
        4 => Just(vec![0]),
        1 => vec(any::<u8>(), 1..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_folder_opens_for_good_or_is_refused_by_name(
        seed in any::<u8>(),
        pieces in vec(piece(), 0..30),
    ) {
        check(&[vec![seed], opening(), pieces.concat()].concat());
    }

    #[test]
    fn random_bytes_are_rules_or_not(bytes in vec(prop_oneof![0..3_u8, any::<u8>()], 0..60)) {
        check_rules(&bytes);
    }
}

fn open(script: &[u8]) -> Result<(), OpenError> {
    let disk = Arc::new(folder::write(script));
    let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
    Log::open(disk, settings, 1_700_000_100_000, &mut |_| ()).map(|_| ())
}

#[test]
fn the_end_of_a_slot_that_its_segment_has_no_room_for_is_refused() {
    // A FINISH and a COPY in the second segment.
    for (index, is_refused) in [(0, false), (1, true), (5000, true), (u32::MAX, true)] {
        let slot = slot_bytes(index, 1);
        for end in [entry(7, 1, &slot), entry(4, 1, &[slot.clone(), meta(2, 0, 1)].concat())] {
            let name = entry(2, 0, &[0, 0, 0, 0, b'a']);
            let first = [opening(), name.clone(), entry(3, 1, &meta(1, 0, 1))].concat();
            let script = [vec![1], first, vec![0, 1], opening(), name, end].concat();
            check(&script);
            let opened = open(&script);
            assert_eq!(opened.is_err(), is_refused, "{index}: {opened:?}");
            assert!(matches!(opened, Ok(()) | Err(OpenError::Damaged { .. })), "{opened:?}");
        }
    }
}

#[test]
fn a_time_that_no_clock_shows_is_refused() {
    // The time is 2^(64 - shift) - 1, or a few milliseconds later.
    for (shift, later, is_refused) in
        [(0, 0, true), (1, 0, true), (11, 1, true), (11, 0, false), (12, 50, false)]
    {
        let script = [vec![1, 12, shift, 4, later], opening()].concat();
        check(&script);
        let opened = open(&script);
        assert_eq!(opened.is_err(), is_refused, "{shift} {later}: {opened:?}");
        assert!(matches!(opened, Ok(()) | Err(OpenError::Damaged { .. })), "{opened:?}");
    }
}

#[test]
fn a_folder_with_an_option_of_a_newer_version_is_refused_and_not_changed() {
    let mut job = meta(1, 0, 1);
    // Two bytes of options: a second byte of bits follows, and this version does not know its bit.
    job[38] = 2;
    job.extend_from_slice(&[1 << 7, 1 << 7]);
    let name = entry(2, 0, &[0, 0, 0, 0, b'a']);
    let disk = folder::write(&[vec![1], opening(), name, entry(3, 1, &job)].concat());
    let error = refused_twice(&disk);
    assert!(matches!(error, BrokerError::Meta(_)), "{error:?}");
}

#[test]
fn a_folder_with_an_id_that_no_job_can_have_is_refused_and_not_changed() {
    let limit = entry(10, 0, &(1_u64 << 60).to_le_bytes());
    let disk = folder::write(&[vec![1], opening(), limit].concat());
    let error = refused_twice(&disk);
    assert!(matches!(error, BrokerError::Restore(_)), "{error:?}");
}

/// Opens a folder twice that the broker refuses. Checks that this changes no file.
fn refused_twice(disk: &FaultDisk) -> BrokerError {
    let before = files(disk);
    let open = || {
        let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
        let options = Options::without_threads(Arc::new(disk.clone()), settings);
        let refused = Broker::open(options, Millis(1_700_000_100_000)).map(|_| ());
        assert!(files(disk) == before, "the start changed a file");
        disk.restart();
        refused.expect_err("the folder is refused")
    };
    open();
    open()
}

#[test]
fn a_node_does_not_start_at_a_time_that_no_clock_shows() {
    let lineage = Lineage([7; 16]);
    let place = |time_ms: u64| {
        let mut value = [&lineage.0[..], &replica::record::FORMAT.to_le_bytes()].concat();
        for word in [0, 0, 0, 0, 0, time_ms, 0] {
            value.extend_from_slice(&word.to_le_bytes());
        }
        value
    };
    for time_ms in [u64::MAX, log::TIME_MS_MAX + 1] {
        let fact = [&[7_u8, 0, 0, 0][..], b"cluster", &place(time_ms)].concat();
        let disk = folder::write(&[vec![1], opening(), entry(9, 0, &fact)].concat());
        let settings = Settings { segment_bytes: 64 << 10, ..Settings::default() };
        let options = Options::without_threads(Arc::new(disk), settings);
        let options = Options { cluster: Some(lineage), ..options };
        let opened = Broker::open(options, Millis(1_700_000_100_000)).map(|_| ());
        let is_refused = matches!(opened, Err(BrokerError::Cluster(ClusterError::Unknown)));
        assert!(is_refused, "{opened:?}");
    }
}

#[test]
fn the_fuzz_corpus_opens_or_is_refused_by_name() {
    for (target, check) in [("recovery", check as fn(&[u8])), ("policies", check_rules)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut played = 0;
        for file in std::fs::read_dir(folder).expect("the corpus is in the repository") {
            let file = file.expect("the folder is readable").path();
            check(&std::fs::read(file).expect("the file is readable"));
            played += 1;
        }
        assert!(played >= 5, "only {played} files in {target}");
    }
}
