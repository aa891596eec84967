//! Listings of jobs in memory and cold jobs. A listing loads no job.

use lineshaft_broker::{JobRow, ListCursor, ListLimits, RowBody};

use super::*;

const QUEUE: &[u8] = b"default";

/// All jobs of a list, with pages of this many rows. Nothing is loaded meanwhile.
fn list(broker: &Broker, state: State, limits: ListLimits) -> Vec<JobRow> {
    let before = broker.cold_jobs();
    let mut rows = Vec::new();
    let mut cursor = ListCursor::default();
    loop {
        let page = broker.list_jobs(NOW, (QUEUE, state), &cursor, limits).expect("it exists");
        assert!(page.rows.len() <= limits.rows && page.is_complete);
        assert_eq!(page.unreadable, 0);
        rows.extend(page.rows);
        match page.next {
            Some(next) => {
                assert_ne!(next, cursor, "each page makes progress");
                cursor = next;
            }
            None => break,
        }
    }
    assert_eq!(broker.cold_jobs(), before, "a listing loads no job");
    broker.turn(NOW).check_invariants();
    rows
}

fn ids(rows: &[JobRow]) -> Vec<JobId> {
    rows.iter().map(|row| row.facts.id).collect()
}

fn take_all(broker: &Broker) -> Vec<JobId> {
    let session = broker.turn(NOW).open_session(0);
    std::iter::from_fn(|| take(broker, session)).collect()
}

#[test]
fn pages_have_the_jobs_in_the_order_of_takes() {
    for (rows, blocks) in [(100, 8), (7, 1), (500, 100)] {
        let disk = log::FaultDisk::new(1, 64 << 20);
        let (broker, _, _) = with_cold_jobs(&disk);
        let listed = list(&broker, State::Ready, ListLimits { rows, blocks });
        assert!(listed.iter().any(|row| row.is_cold) && listed.iter().any(|row| !row.is_cold));
        assert_eq!(ids(&listed), take_all(&broker));
    }
}

#[test]
fn blocks_with_mixed_priorities_overlap() {
    let disk = log::FaultDisk::new(2, 64 << 20);
    let broker = open(&disk);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    let priority = |number: u64| (number * 7919 % 1000) as u32;
    put_jobs(&broker, session, |number| NewJob { priority: priority(number), ..NewJob::default() });
    cool(&broker);
    let listed = list(&broker, State::Ready, ListLimits { rows: 100, blocks: 2 });
    assert_eq!(listed.len() as u64, JOBS);
    assert_eq!(ids(&listed), take_all(&broker));
}

#[test]
fn delayed_and_buried_jobs_are_listed_in_their_order() {
    let disk = log::FaultDisk::new(3, 64 << 20);
    let broker = open(&disk);
    broker.add_mailbox(Arc::new(Events::default()));
    let session = broker.turn(NOW).open_session(0);
    let delay_s = |number: u64| 1000 + (number * 7919 % 1000) as u32;
    let put = put_jobs(&broker, session, |number| NewJob {
        delay_s: delay_s(number),
        ..NewJob::default()
    });
    cool(&broker);
    let limits = ListLimits { rows: 250, blocks: 4 };
    let listed = list(&broker, State::Delayed, limits);
    let mut expected: Vec<_> = (0..).zip(&put).map(|(number, id)| (delay_s(number), *id)).collect();
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids(&listed), expected);
    assert!(listed.iter().all(|row| row.time_left_ms >= 1_000_000));
    assert!(list(&broker, State::Ready, limits).is_empty());
    assert!(list(&broker, State::Buried, limits).is_empty());
}

#[test]
fn a_listing_shows_facts_and_bodies_of_cold_jobs() {
    let disk = log::FaultDisk::new(4, 64 << 20);
    let (broker, _, put) = with_cold_jobs(&disk);
    let listed = list(&broker, State::Ready, ListLimits { rows: 500, blocks: 8 });
    for row in listed.iter().step_by(97) {
        let number = put.iter().position(|id| *id == row.facts.id).expect("it was put");
        let expected = format!("{number:04}").repeat(25).into_bytes();
        let body = match &row.body {
            RowBody::Resident(body) => body.clone(),
            RowBody::Stored(stored) => broker.read_body(stored).expect("the disk works"),
        };
        assert_eq!((&body[..], row.body_len), (&expected[..], expected.len()));
        assert_eq!(row.facts.state, State::Ready);
        assert!(row.is_durable && row.time_left_ms == 0 && row.unique.is_empty());
    }
}

#[test]
fn jobs_that_end_between_two_pages_are_left_out() {
    let disk = log::FaultDisk::new(5, 64 << 20);
    let (broker, _, put) = with_cold_jobs(&disk);
    let limits = ListLimits { rows: 100, blocks: 8 };
    let list = |cursor: &ListCursor| {
        broker.list_jobs(NOW, (QUEUE, State::Ready), cursor, limits).expect("it exists")
    };
    let first = list(&ListCursor::default());
    let session = broker.turn(NOW).open_session(0);
    // This also loads the blocks of these jobs.
    for id in &put[100..150] {
        while !broker.turn(NOW).caller(session).is_job_at_hand(*id) {
            assert!(broker.load_step(NOW));
        }
        broker.turn(NOW).caller(session).finish(*id).value.expect("no session holds it");
    }
    let second = list(&first.next.expect("there are more"));
    assert_eq!(
        (ids(&first.rows), ids(&second.rows)),
        (put[..100].to_vec(), put[150..250].to_vec())
    );
}

#[test]
fn a_damaged_index_file_leaves_its_jobs_out_and_changes_nothing() {
    let disk = log::FaultDisk::new(6, 64 << 20);
    let (broker, _, put) = with_cold_jobs(&disk);
    let segment = broker.turn(NOW).job_segment(put[put.len() - 1]) - 1;
    let index = format!("{segment:010}.idx");
    let bytes = disk.bytes(&index).expect("the file exists");
    disk.set_bytes(&index, vec![0; bytes.len()]);
    let mut unreadable = 0;
    let mut listed = Vec::new();
    let mut cursor = Some(ListCursor::default());
    while let Some(at) = cursor {
        let limits = ListLimits { rows: 500, blocks: 4 };
        let page = broker.list_jobs(NOW, (QUEUE, State::Ready), &at, limits).expect("it exists");
        unreadable += page.unreadable;
        listed.extend(ids(&page.rows));
        cursor = page.next;
    }
    assert!(unreadable > 200, "{unreadable} jobs cannot be read");
    assert_eq!(listed.len() as u64 + unreadable, JOBS);
    assert!(broker.index_error().is_none(), "a look notes no damage");
    disk.set_bytes(&index, bytes);
    assert_eq!(take_all(&broker), put);
}

#[test]
fn a_cursor_shows_no_jobs_of_another_queue() {
    let disk = log::FaultDisk::new(8, 64 << 20);
    let (broker, _, _) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(session).use_queue(b"other");
    let limits = ListLimits { rows: 10, blocks: 1 };
    let first = ListCursor::default();
    let page = broker.list_jobs(NOW, (QUEUE, State::Ready), &first, limits).expect("it exists");
    let mut cursor = page.next.expect("there are more");
    // All blocks of the first segments.
    cursor.open = (1..4).flat_map(|segment| (0..8).map(move |number| (segment, number))).collect();
    cursor.after = None;
    let page = broker.list_jobs(NOW, (b"other", State::Ready), &cursor, limits);
    assert!(page.expect("a session uses it").rows.is_empty());
}

#[test]
fn a_queue_that_does_not_exist_has_no_page() {
    let disk = log::FaultDisk::new(7, 64 << 20);
    let broker = open(&disk);
    let limits = ListLimits { rows: 10, blocks: 1 };
    let page = broker.list_jobs(NOW, (b"nosuch", State::Ready), &ListCursor::default(), limits);
    assert!(page.is_none());
}
