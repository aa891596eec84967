//! Tests of the store: what it keeps, its bounds, and what survives a restart.

use std::fs;

use broker::policy::{History, KeptBody};
use broker::{AttemptEnd, FailureCause, JobEnd, Millis};
use histogram::Histogram;
use proptest::prelude::*;

use super::*;
use crate::codec::tests::{some_attempt, some_entry};

/// The wall clock is ahead of the engine's time by this.
const AHEAD: u64 = 1_000_000;
const BOUNDS: Bounds = Bounds { bytes_max: 1 << 20, entries_max: 1000, index_bytes_max: 1 << 30 };

fn history() -> History {
    History { is_on: true, keep_ms: 10_000, jobs_max: 100, body: KeptBody::Full }
}

fn milestone(job: u64, at: u64, what: MilestoneKind) -> Milestone {
    Milestone { job: JobId(job), at: Millis(at), what }
}

fn taken(job: u64, at: u64) -> Milestone {
    let worker = b"192.0.2.1:7"[..].into();
    milestone(job, at, MilestoneKind::Taken { waited_ms: 3, worker })
}

fn failed(job: u64, at: u64, cause: FailureCause) -> Milestone {
    let (how, error) = (AttemptEnd::Failed(cause), b"no route"[..].into());
    milestone(job, at, MilestoneKind::Returned { how, error })
}

fn departure(why: JobEnd, history: History, body: &[u8]) -> Departure {
    Departure {
        queue: b"mail"[..].into(),
        history,
        why,
        to: None,
        created: Millis(5),
        priority: 9,
        ttr_s: 60,
        takes: 1,
        body_len: body.len(),
        body: (history.body != KeptBody::None).then(|| body.into()),
    }
}

fn left(job: u64, at: u64, why: JobEnd) -> Milestone {
    milestone(job, at, MilestoneKind::Left(Box::new(departure(why, history(), b"body"))))
}

/// A moment of the engine.
fn at(now: u64) -> Moment {
    Moment { now: Millis(now), wall: Millis(AHEAD + now) }
}

fn open(folder: Option<&Path>, bounds: Bounds, now: u64) -> Store {
    Store::open(folder, bounds, at(now))
}

fn add(store: &Store, milestones: Vec<Milestone>, now: u64) {
    store.add(milestones, 0, at(now));
}

/// Looks for the last entry of a job, however old it is.
fn look(store: &Store, job: u64) -> Lookup {
    store.find(JobId(job), &WhichEntry::default(), Millis(0))
}

fn found(store: &Store, job: u64) -> Entry {
    match look(store, job) {
        Lookup::Found(entry) => *entry,
        other => panic!("{other:?}"),
    }
}

fn jobs(store: &Store, which: WhichJobs, max: usize) -> (Vec<u64>, Option<u64>) {
    let page = store.page(b"mail", which, max, Millis(0));
    assert_eq!(page.unreadable, 0);
    (page.entries.iter().map(|entry| entry.job).collect(), page.next)
}

fn all(store: &Store) -> Vec<u64> {
    jobs(store, WhichJobs::default(), 1000).0
}

#[test]
fn an_entry_has_the_life_of_its_job() {
    let store = open(None, BOUNDS, 0);
    add(&store, vec![taken(7, 10), failed(7, 14, FailureCause::TimedOut), taken(7, 20)], 20);
    assert!(matches!(look(&store, 7), Lookup::Unknown), "the job is still there");
    add(&store, vec![left(7, 50, JobEnd::Done)], 50);
    let entry = found(&store, 7);
    assert_eq!((entry.created_at, entry.left_at), (AHEAD + 5, AHEAD + 50));
    assert_eq!((entry.why, &*entry.queue, entry.priority), (JobEnd::Done, &b"mail"[..], 9));
    let attempts: Vec<_> =
        entry.attempts.iter().map(|one| (one.taken_at - AHEAD, one.took_ms, one.end)).collect();
    let first = Some(AttemptEnd::Failed(FailureCause::TimedOut));
    assert_eq!(attempts, [(10, 4, first), (20, 30, None)]);
    assert_eq!(&*entry.attempts[0].worker, b"192.0.2.1:7");
    assert_eq!(&*entry.attempts[0].error, b"no route");
    assert_eq!(entry.body.whole(), Some(&b"body"[..]));
    assert_eq!((entry.waited_ms(), entry.ran_ms(), entry.total_ms()), (Some(6), Some(34), 45));
    let times = store.times(b"mail", Millis(0)).unwrap();
    assert_eq!((times.runs_ms.sum(), times.totals_ms.sum()), (34, 45));
    assert_eq!(store.times(b"other", Millis(0)), None);
}

#[test]
fn the_policy_says_how_much_of_the_body_is_kept() {
    let store = open(None, BOUNDS, 0);
    for (job, body) in [(1, KeptBody::None), (2, KeptBody::Prefix(2)), (3, KeptBody::Prefix(99))] {
        let left = departure(JobEnd::Done, History { body, ..history() }, b"body");
        add(&store, vec![milestone(job, 9, MilestoneKind::Left(Box::new(left)))], 9);
    }
    let kept = |job| found(&store, job).body;
    assert_eq!((kept(1).len, kept(1).bytes), (4, None));
    assert_eq!((kept(2).bytes.as_deref(), kept(2).whole()), (Some(&b"bo"[..]), None));
    assert_eq!(kept(3).whole(), Some(&b"body"[..]));
}

#[test]
fn a_list_is_newest_first_and_has_pages() {
    let store = open(None, BOUNDS, 0);
    for job in 1..=9 {
        let why = if job % 3 == 0 { JobEnd::Failed } else { JobEnd::Done };
        add(&store, vec![left(job, job, why)], job);
    }
    let (first, next) = jobs(&store, WhichJobs::default(), 4);
    assert_eq!(first, [9, 8, 7, 6]);
    let (second, next) = jobs(&store, WhichJobs { before: next, ..WhichJobs::default() }, 4);
    assert_eq!(second, [5, 4, 3, 2]);
    let (third, next) = jobs(&store, WhichJobs { before: next, ..WhichJobs::default() }, 4);
    assert_eq!((third, next), (vec![1], None));
    let failed = WhichJobs { why: Some(JobEnd::Failed), before: None };
    assert_eq!(jobs(&store, failed, 2).0, [9, 6]);
    assert_eq!(store.page(b"mail", failed, 2, Millis(0)).total, 9);
    assert_eq!(store.page(b"other", failed, 2, Millis(0)).total, 0);
}

#[test]
fn old_entries_and_too_many_entries_go() {
    let store = open(None, BOUNDS, 0);
    for job in 1..=105 {
        add(&store, vec![left(job, job, JobEnd::Done)], job);
    }
    assert_eq!(all(&store).len(), 100, "as many as the policy keeps");
    assert!(matches!(look(&store, 5), Lookup::Unknown));
    add(&store, Vec::new(), 10_050);
    assert_eq!(all(&store).last(), Some(&50), "those that left 10 s ago are gone");
    add(&store, Vec::new(), 99_999);
    assert_eq!(all(&store), [0; 0]);
    let summary = store.summary();
    assert_eq!((summary.entries, summary.lost), (0, 0));
}

#[test]
fn a_job_that_leaves_twice_is_found_as_it_left_last() {
    let store = open(None, BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Dead), left(1, 20, JobEnd::Done)], 20);
    assert_eq!(found(&store, 1).why, JobEnd::Done);
    assert_eq!(all(&store), [1, 1]);
    add(&store, Vec::new(), 10_015);
    assert_eq!((found(&store, 1).why, all(&store)), (JobEnd::Done, vec![1]));
}

#[test]
fn a_restart_finds_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let store = open(Some(&path), BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done), taken(2, 11)], 11);
    add(&store, vec![failed(2, 12, FailureCause::Released)], 12);
    drop(store);
    for round in 0..3_u64 {
        let store = open(Some(&path), BOUNDS, 20);
        assert_eq!(found(&store, 1).body.whole(), Some(&b"body"[..]));
        add(&store, vec![left(10 + round, 20, JobEnd::Done)], 20);
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "an intact file gets more");
    let store = open(Some(&path), BOUNDS, 20);
    add(&store, vec![left(2, 30, JobEnd::Done)], 30);
    let attempts = found(&store, 2).attempts;
    assert_eq!(attempts.len(), 1, "attempts of an earlier process count");
    assert_eq!(attempts[0].end, Some(AttemptEnd::Failed(FailureCause::Released)));
    drop(store);
    let store = open(Some(&path), BOUNDS, 99_999);
    assert_eq!(all(&store), [0; 0], "too old by now");
}

#[test]
fn damage_loses_only_what_is_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Some(folder.path()), BOUNDS, 0);
    for job in 1..=3 {
        add(&store, vec![left(job, 10, JobEnd::Done)], 10);
    }
    drop(store);
    let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    let third = bytes.len() / 3;
    bytes[third + 20] ^= 1;
    fs::write(&file, &bytes).unwrap();
    fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
    let store = open(Some(folder.path()), BOUNDS, 0);
    assert_eq!(all(&store), [1]);
    add(&store, vec![left(4, 11, JobEnd::Done)], 11);
    drop(store);
    // The damaged file gets no more, so the new entry is not behind the damage.
    let store = open(Some(folder.path()), BOUNDS, 0);
    assert_eq!(all(&store), [4, 1]);
    fs::remove_file(&file).unwrap();
    let store = open(Some(folder.path()), BOUNDS, 0);
    assert_eq!(all(&store), [4]);
}

#[test]
fn the_oldest_files_go_if_there_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let many = History { keep_ms: 1 << 40, jobs_max: 1 << 40, ..history() };
    let fill = |bounds: Bounds, jobs: std::ops::Range<u64>| {
        let store = open(Some(path), bounds, 0);
        for job in jobs {
            let left = departure(JobEnd::Done, many, &[b'x'; 1000]);
            add(&store, vec![milestone(job, job, MilestoneKind::Left(Box::new(left)))], job);
        }
        (all(&store).len(), store.summary())
    };
    let (count, summary) = fill(BOUNDS, 0..2000);
    assert!((800..1000).contains(&count), "{count}");
    assert!(summary.file_bytes <= BOUNDS.bytes_max, "{summary:?}");
    let (count, summary) = fill(Bounds { entries_max: 300, ..BOUNDS }, 2000..2300);
    assert!((200..=300).contains(&count), "{count}");
    assert_eq!(summary.entries, count as u64);
}

#[test]
fn the_counted_memory_grows_and_shrinks_with_the_entries() {
    let store = open(None, Bounds { bytes_max: 1 << 30, entries_max: 1 << 20, ..BOUNDS }, 0);
    let many = History { jobs_max: 1 << 40, ..history() };
    let empty = store.summary().memory_bytes;
    for job in 0..1000 {
        let left = departure(JobEnd::Done, many, b"body");
        add(&store, vec![milestone(job, 10, MilestoneKind::Left(Box::new(left)))], 10);
    }
    let full = store.summary().memory_bytes;
    assert!(full > empty + 100_000, "{empty} {full}");
    add(&store, Vec::new(), 99_999);
    assert!(store.summary().memory_bytes < full / 10);
}

#[test]
fn the_first_queues_have_times_of_their_own() {
    let store = open(None, BOUNDS, 0);
    for number in 0..150_u64 {
        let queue = format!("q{number}").into_bytes().into();
        let left = Departure { queue, ..departure(JobEnd::Done, history(), b"") };
        add(&store, vec![milestone(number, 25, MilestoneKind::Left(Box::new(left)))], 25);
    }
    let times = store.times_since_start();
    assert_eq!(times.len(), TIMED_QUEUES_MAX + 1);
    let (other, all) = &times[0];
    assert_eq!((other, all.totals_ms.count(), all.totals_ms.sum()), (&None, 50, 50 * 20));
}

#[test]
fn a_folder_that_cannot_be_made_is_no_failed_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let store = open(Some(&file), BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done)], 10);
    assert_eq!(all(&store), [1], "it is in memory");
}

#[test]
fn many_ends_stay_within_the_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { bytes_max: 4 << 20, entries_max: 20_000, index_bytes_max: 1 << 30 };
    let store = open(Some(folder.path()), bounds, 0);
    let many = History { jobs_max: 1 << 40, ..history() };
    for round in 0..8_u64 {
        let jobs = round * 32_768..(round + 1) * 32_768;
        let ends = jobs.flat_map(|job| {
            let left = departure(JobEnd::Done, many, b"body");
            [taken(job, 10), milestone(job, 11, MilestoneKind::Left(Box::new(left)))]
        });
        add(&store, ends.collect(), 11);
        let summary = store.summary();
        assert!((10_000..=20_000).contains(&summary.entries), "{summary:?}");
        assert!(summary.memory_bytes < 8 << 20, "{summary:?}");
        let on_disk = fs::read_dir(folder.path()).unwrap();
        let bytes: u64 = on_disk.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert_eq!((bytes, summary.lost), (summary.file_bytes, 0));
        assert!(bytes <= bounds.bytes_max, "{summary:?}");
    }
    let newest = store.page(b"mail", WhichJobs::default(), 1, Millis(0));
    assert_eq!(newest.entries[0].job, 8 * 32_768 - 1);
}

#[test]
fn long_names_of_many_queues_do_not_fill_the_memory() {
    let bounds = Bounds { bytes_max: 256 << 20, entries_max: 1 << 20, index_bytes_max: 4 << 20 };
    let folder = tempfile::tempdir().unwrap();
    let fill = |store: &Store, rounds: std::ops::Range<u64>| {
        for job in rounds.flat_map(|round| round * 1000..(round + 1) * 1000) {
            let name = format!("{job:08000}").into_bytes().into();
            let left = Departure { queue: name, ..departure(JobEnd::Done, history(), b"") };
            add(store, vec![milestone(job, 10, MilestoneKind::Left(Box::new(left)))], 11);
        }
    };
    let store = open(Some(folder.path()), bounds, 0);
    fill(&store, 0..6);
    let summary = store.summary();
    assert!(summary.memory_bytes < 2 * bounds.index_bytes_max, "{summary:?}");
    drop(store);
    let store = open(Some(folder.path()), bounds, 0);
    let summary = store.summary();
    assert!(summary.memory_bytes < 2 * bounds.index_bytes_max, "{summary:?}");
    drop(store);
    let store = open(None, bounds, 0);
    fill(&store, 0..6);
    let summary = store.summary();
    assert!(summary.memory_bytes <= 24 << 20, "the files are in memory, too: {summary:?}");
}

#[test]
fn a_long_body_does_not_displace_all_others() {
    let store = open(None, BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done)], 10);
    let long = departure(JobEnd::Done, history(), &vec![b'x'; 2 << 20]);
    add(&store, vec![milestone(2, 10, MilestoneKind::Left(Box::new(long)))], 10);
    assert_eq!(all(&store), [2, 1]);
    let body = found(&store, 2).body;
    assert_eq!((body.len, body.bytes), (2 << 20, None));
}

#[test]
fn a_write_that_was_cut_loses_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Some(folder.path()), BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done)], 10);
    let before = store.summary().file_bytes;
    add(&store, vec![left(2, 10, JobEnd::Done)], 10);
    drop(store);
    let file = folder.path().join("0000000001");
    let bytes = fs::read(&file).unwrap();
    for cut in before as usize + 1..bytes.len() {
        fs::remove_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        fs::write(&file, &bytes[..cut]).unwrap();
        let store = open(Some(folder.path()), BOUNDS, 0);
        assert_eq!(all(&store), [1], "cut at {cut}");
        add(&store, vec![left(3, 11, JobEnd::Done)], 11);
        drop(store);
        let store = open(Some(folder.path()), BOUNDS, 0);
        assert_eq!(all(&store), [3, 1], "cut at {cut}");
    }
}

#[test]
fn files_that_cannot_be_read_are_no_failed_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let store = open(Some(path), BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done)], 10);
    drop(store);
    fs::create_dir(path.join("0000000002")).unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("0000000003")).unwrap();
    let store = open(Some(path), BOUNDS, 0);
    assert_eq!(all(&store), [1]);
    add(&store, vec![left(2, 11, JobEnd::Done)], 11);
    assert_eq!((all(&store), store.summary().lost), (vec![2, 1], 0));
    assert!(path.join("0000000004").exists(), "the names of the others are taken");
}

#[test]
fn files_that_could_not_be_read_stay_for_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("0000000001"), "damaged").unwrap();
    let (len, sum) = (1_u32.to_le_bytes(), crc32fast::hash(b"?").to_le_bytes());
    let of_later_version = [&len[..], &sum, b"?"].concat();
    fs::write(path.join("0000000002"), of_later_version).unwrap();
    // A folder can be opened like a file, but its bytes cannot be read.
    std::os::unix::fs::symlink(".", path.join("0000000003")).unwrap();
    fs::write(path.join("0000000004"), "").unwrap();
    let store = open(Some(path), BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done)], 10);
    assert_eq!(all(&store), [1]);
    add(&store, Vec::new(), 99_999);
    let names: Vec<String> = files(path).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["0000000001", "0000000002", "0000000003"]);
}

#[test]
fn too_many_files_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(Some(folder.path()), BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done)], 10);
    drop(store);
    let first = folder.path().join("0000000001");
    for number in 2..=200 {
        fs::copy(&first, folder.path().join(format!("{number:010}"))).unwrap();
    }
    let store = open(Some(folder.path()), BOUNDS, 0);
    assert!(fs::read_dir(folder.path()).unwrap().count() <= FILES_MAX);
    assert_eq!((first.exists(), all(&store).len()), (false, 100));
}

#[test]
fn a_start_does_not_hold_entries_that_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let many = History { jobs_max: 1 << 40, ..history() };
    let store = open(Some(folder.path()), BOUNDS, 0);
    for job in 0..900 {
        let left = departure(JobEnd::Done, many, &[b'x'; 500]);
        add(&store, vec![milestone(job, 10, MilestoneKind::Left(Box::new(left)))], 10);
    }
    drop(store);
    let store = open(Some(folder.path()), Bounds { entries_max: 200, ..BOUNDS }, 20);
    let summary = store.summary();
    assert!(summary.entries <= 200 && summary.entries > 50, "{summary:?}");
    assert_eq!(all(&store)[0], 899);
}

/// The bytes of all files in a folder, by their names.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let name = |file: &fs::DirEntry| file.file_name().into_string().unwrap();
    let found = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        found.map(|file| (name(&file), file.metadata().unwrap().len())).collect();
    files.sort();
    files
}

#[test]
fn attempts_at_jobs_that_have_not_left_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let failed_at = |at| failed(1, at, FailureCause::TimedOut);
    let store = open(Some(folder.path()), BOUNDS, 0);
    add(&store, vec![taken(1, 10), failed_at(11), left(2, 12, JobEnd::Done)], 12);
    // All entries of the file are too old, and the attempt is not.
    add(&store, Vec::new(), 99_999);
    assert_eq!(store.summary().entries, 0);
    for round in 0..3 {
        drop(open(Some(folder.path()), BOUNDS, 100_000 + round));
        fs::write(folder.path().join(format!("{:010}", 2 + round)), "").unwrap();
    }
    let store = open(Some(folder.path()), BOUNDS, 100_010);
    add(
        &store,
        vec![taken(1, 100_020), failed_at(100_021), left(1, 100_030, JobEnd::Done)],
        100_030,
    );
    assert_eq!(found(&store, 1).attempts.len(), 2);
    drop(store);
    // The entry has them from now on.
    let store = open(Some(folder.path()), BOUNDS, 100_040);
    assert_eq!((found(&store, 1).attempts.len(), store.summary().memory_bytes > 0), (2, true));
    assert_eq!(files(folder.path()).len(), 1, "{:?}", files(folder.path()));
    add(&store, Vec::new(), 999_999);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn attempts_at_jobs_that_have_gone_hold_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let failed_at = |job, at| failed(job, at, FailureCause::TimedOut);
    let store = open(Some(folder.path()), BOUNDS, 0);
    add(&store, (1..=5).flat_map(|job| [taken(job, 10), failed_at(job, 11)]).collect(), 11);
    // The process ends before it writes that the jobs have left.
    drop(store);
    let store = open(Some(folder.path()), BOUNDS, 20);
    assert!(!store.is_idle());
    let next = |max| store.next_pending(max).iter().map(|job| job.0).collect::<Vec<_>>();
    assert_eq!((next(3), next(3), next(9)), (vec![1, 2, 3], vec![4, 5], vec![1, 2, 3, 4, 5]));
    store.forget(&[JobId(1), JobId(2), JobId(4), JobId(5), JobId(9)]);
    assert_eq!((next(9), files(folder.path()).len()), (vec![3], 1));
    store.forget(&[JobId(3)]);
    assert!(store.is_idle() && files(folder.path()).is_empty());
    assert_eq!(next(9), [0; 0]);
}

#[test]
fn each_entry_of_a_job_can_be_found() {
    let store = open(None, BOUNDS, 0);
    let leaves = |queue: &[u8], at, why| {
        let left = Departure { queue: queue.into(), ..departure(why, history(), b"body") };
        milestone(1, at, MilestoneKind::Left(Box::new(left)))
    };
    add(&store, vec![leaves(b"mail", 10, JobEnd::Dead), leaves(b"dead", 20, JobEnd::Moved)], 20);
    add(&store, vec![leaves(b"mail", 30, JobEnd::Done)], 30);
    let find = |queue: Option<&[u8]>, left_at: Option<u64>| {
        let queue = queue.map(<[u8]>::to_vec);
        let which = WhichEntry { queue, left_at: left_at.map(|at| AHEAD + at) };
        match store.find(JobId(1), &which, Millis(30)) {
            Lookup::Found(entry) => Some((entry.why, entry.left_at - AHEAD)),
            Lookup::Unknown | Lookup::Unreadable => None,
        }
    };
    assert_eq!(find(None, None), Some((JobEnd::Done, 30)));
    assert_eq!(find(Some(b"mail"), None), Some((JobEnd::Done, 30)));
    assert_eq!(find(Some(b"dead"), None), Some((JobEnd::Moved, 20)));
    assert_eq!(find(Some(b"mail"), Some(10)), Some((JobEnd::Dead, 10)));
    assert_eq!(find(Some(b"mail"), Some(20)), None);
    assert_eq!(find(Some(b"other"), None), None);
}

#[test]
fn what_a_policy_does_not_keep_is_not_shown() {
    let store = open(None, BOUNDS, 0);
    add(&store, vec![left(1, 10, JobEnd::Done), left(2, 5_000, JobEnd::Done)], 5_000);
    let which = WhichEntry::default();
    for (now, kept) in [(10_010, 2), (10_011, 1), (15_001, 0)] {
        let now = Millis(now);
        let page = store.page(b"mail", WhichJobs::default(), 10, now);
        assert_eq!((page.entries.len(), page.total, page.next), (kept, kept as u64, None));
        assert_eq!(matches!(store.find(JobId(1), &which, now), Lookup::Found(_)), kept == 2);
        assert_eq!(store.departure(JobId(2), now).is_some(), kept > 0);
        let times = store.times(b"mail", now);
        assert_eq!(times.map_or(0, |times| times.totals_ms.count()), kept as u64);
    }
}

#[test]
fn a_read_for_good_is_a_take() {
    let store = open(None, BOUNDS, 0);
    let left = Departure { takes: 0, ..departure(JobEnd::Done, history(), b"item") };
    add(&store, vec![taken(1, 10), milestone(1, 10, MilestoneKind::Left(Box::new(left)))], 10);
    assert_eq!((found(&store, 1).takes, found(&store, 1).attempts.len()), (1, 1));
}

#[test]
fn memory_knows_how_a_job_left() {
    let store = open(None, BOUNDS, 0);
    let to = Some(b"other"[..].into());
    let moved = Departure { to, ..departure(JobEnd::Moved, history(), b"body") };
    add(&store, vec![milestone(1, 10, MilestoneKind::Left(Box::new(moved)))], 10);
    let known = store.try_departure(JobId(1), Millis(10)).unwrap().unwrap();
    let wanted = (&b"mail"[..], JobEnd::Moved, true, AHEAD + 10);
    assert_eq!((&*known.queue, known.why, known.has_moved, known.left_at), wanted);
    assert_eq!(store.try_departure(JobId(2), Millis(10)), Ok(None));
    let writing = store.lock();
    assert_eq!(store.try_departure(JobId(1), Millis(10)), Err(Busy));
    drop(writing);
}

#[test]
fn steps_of_the_wall_clock_change_no_ages_and_no_lengths() {
    let store = open(None, BOUNDS, 0);
    add(&store, vec![taken(1, 10), left(1, 15, JobEnd::Done), taken(2, 20)], 20);
    for (now, wall) in [(30, 1 << 40), (40, 7), (50, AHEAD)] {
        store.add(Vec::new(), 0, Moment { now: Millis(now), wall: Millis(wall) });
        assert_eq!(all(&store), [1], "the wall clock says {wall}");
    }
    store.add(vec![left(2, 55, JobEnd::Done)], 0, Moment { now: Millis(60), wall: Millis(9_060) });
    let entry = found(&store, 2);
    let (ran, total) = (entry.ran_ms(), entry.total_ms());
    assert_eq!((ran, total, entry.left_at), (Some(35), 50, 9_055));
    // An entry of the future counts as one of the start.
    let folder = tempfile::tempdir().unwrap();
    add(&open(Some(folder.path()), BOUNDS, 0), vec![left(1, 900_000, JobEnd::Done)], 900_000);
    let store = open(Some(folder.path()), BOUNDS, 100);
    add(&store, Vec::new(), 10_101);
    assert_eq!(all(&store), [0; 0]);
}

#[test]
fn jobs_that_nobody_took_have_no_times_of_attempts() {
    let store = open(None, BOUNDS, 0);
    add(&store, vec![left(1, 25, JobEnd::Expired), taken(2, 10), left(2, 30, JobEnd::Done)], 30);
    assert_eq!((found(&store, 1).waited_ms(), found(&store, 1).ran_ms()), (None, None));
    let since_start = store.times_since_start().remove(0).1;
    for times in [store.times(b"mail", Millis(30)).unwrap(), since_start] {
        let counts = [&times.waits_ms, &times.runs_ms, &times.totals_ms].map(Histogram::count);
        assert_eq!((counts, times.waits_ms.sum()), ([1, 1, 2], 3));
    }
}

/// A record of a file, with any numbers.
fn some_record() -> impl Strategy<Value = Vec<u8>> {
    let attempt = (0..4_u64, some_attempt()).prop_map(|(job, attempt)| {
        let mut bytes = Vec::new();
        put_attempt(&mut bytes, job, &attempt);
        bytes
    });
    let entry = (0..4_u64, some_entry()).prop_map(|(job, entry)| {
        let mut bytes = Vec::new();
        put_entry(&mut bytes, &Entry { job, queue: b"mail"[..].into(), ..entry });
        bytes
    });
    prop_oneof![attempt, entry]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_file_stops_the_server(
        records in proptest::collection::vec(some_record(), 0..6),
        names in proptest::collection::btree_set(prop_oneof![0..3_u32, Just(u32::MAX), any::<u32>()], 1..4),
        damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
        now in prop_oneof![0..1_000_000_u64, any::<u64>()],
        wall: u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = records.concat();
        if let Some((place, byte)) = damage.filter(|_| !bytes.is_empty()) {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        for name in names {
            fs::write(folder.path().join(format!("{name:010}")), &bytes).unwrap();
        }
        let moment = Moment { now: Millis(now), wall: Millis(wall) };
        let store = Store::open(Some(folder.path()), BOUNDS, moment);
        let again = [taken(1, now), failed(1, now, FailureCause::Released), taken(1, now)];
        let ends = (0..4).map(|job| left(job, now, JobEnd::Done));
        store.add(again.into_iter().chain(ends).collect(), 1, moment);
        for job in 0..4 {
            let _ = store.departure(JobId(job), moment.now);
            if let Lookup::Found(entry) = look(&store, job) {
                let _ = (entry.waited_ms(), entry.ran_ms(), entry.total_ms());
            }
        }
        let page = store.page(b"mail", WhichJobs::default(), 100, moment.now);
        prop_assert_eq!(page.unreadable, 0);
        let _ = (store.times(b"mail", moment.now), store.times_since_start(), store.summary());
        store.add(Vec::new(), 0, Moment { now: Millis(u64::MAX), wall: Millis(0) });
    }
}
