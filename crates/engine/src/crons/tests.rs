//! Tests of the values: their bytes, and what a table refuses.

use super::*;

pub(super) fn entry(name: &str) -> CronEntry {
    CronEntry {
        name: name.as_bytes().into(),
        queue: b"reports"[..].into(),
        cron: "0 3 * * *".parse().expect("a cron expression"),
        zone: "Europe/Berlin".parse().expect("a time zone"),
        body: b"nightly"[..].into(),
        overlap: Overlap::Replace,
        catch_up: CatchUp::All,
        jitter_ms: 5000,
        line: 7,
    }
}

#[test]
fn entries_and_states_come_back_from_their_bytes() {
    let plain = CronEntry {
        overlap: Overlap::Skip,
        catch_up: CatchUp::None,
        body: b""[..].into(),
        ..entry("plain")
    };
    let other = CronEntry { overlap: Overlap::Queue, catch_up: CatchUp::One, ..entry("other") };
    let table = CronTable(vec![entry("nightly"), plain, other]);
    assert_eq!(table.check(), Ok(()));
    let bytes = table.encode();
    assert_eq!(CronTable::decode(&bytes), Some(table));
    for end in 0..bytes.len() {
        assert_eq!(CronTable::decode(&bytes[..end]), None);
    }
    assert_eq!(CronTable::decode(&[&bytes[..], b"x"].concat()), None);
    let (fired, job) = (Some(Millis(5)), Some(JobId(7)));
    for state in [
        CronState { last: Millis(9), fired, job },
        CronState { last: Millis(9), fired: None, job: None },
    ] {
        assert_eq!(CronState::decode(&state.encode()), Some(state));
    }
    assert_eq!(CronState::decode(b""), None);
    assert_eq!(CronState::decode(&[1; 24]), None);
    assert_eq!(CronState::decode(&[2; 25]), None);
}

#[test]
fn tables_that_cannot_be_obeyed_are_refused() {
    let refused = |entries| CronTable(entries).check().expect_err("it has an error");
    let named = |name: &str| entry(name);
    assert_eq!(refused(vec![named("")]), CronTableError::Name { line: 7 });
    assert_eq!(refused(vec![named(&"n".repeat(201))]), CronTableError::Name { line: 7 });
    let same = CronTableError::SameName { line: 7, name: "a".into() };
    assert_eq!(refused(vec![named("a"), named("b"), named("a")]), same);
    let no_queue = CronEntry { queue: b""[..].into(), ..named("a") };
    assert_eq!(refused(vec![no_queue]), CronTableError::Queue { line: 7 });
    let large = CronEntry { body: vec![b'x'; CRONS_BYTES_MAX].into(), ..named("a") };
    assert_eq!(refused(vec![large]), CronTableError::TooLarge);
    let many = (0..=CRONS_MAX).map(|at| named(&format!("{at}"))).collect();
    assert_eq!(refused(many), CronTableError::TooMany { line: 7 });
}

#[test]
fn the_jitter_depends_on_the_name_and_the_instant_only() {
    let due = |name: &str, at: u64| entry(name).next(Millis(at)).expect("there is a next one");
    let day = 24 * 3_600_000;
    let lates: BTreeSet<u64> = (0..100)
        .map(|night| {
            let (instant, due_at) = due("a", night * day);
            assert!((0..=5000).contains(&(due_at.0 - instant.0)));
            assert_eq!(due("a", night * day), (instant, due_at));
            due_at.0 - instant.0
        })
        .collect();
    assert!(lates.len() > 80, "{lates:?}");
    assert_ne!(due("a", 0).1, due("b", 0).1);
    let exact = CronEntry { jitter_ms: 0, ..entry("a") };
    let (instant, due_at) = exact.next(Millis(0)).expect("there is a next one");
    assert_eq!(instant, due_at);
}
