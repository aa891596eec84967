//! Checks what happens when the log opens any folder. It either opens the folder, or refuses it and
//! names a file. If the log opened the folder, it finds the same contents when it opens the folder
//! again, also by index files. If the log refused the folder, a repair saves all jobs that the repair reports, and then
//! the log opens the repaired folder. The tests and the fuzz target share this file.

use std::sync::Arc;

use lineshaft_broker::policy::Rules;
use lineshaft_broker::{Broker, BrokerError, Millis, Options};
use log::{
    Class, FaultDisk, Log, Meta, OpenError, RecoveryReport, Restored, RestoredBody, Settings,
};

use crate::folder;

const NOW: Millis = Millis(1_700_000_100_000);

/// Jobs and facts, in the order of the log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Found {
    jobs: Vec<Job>,
    facts: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Job {
    id: u64,
    queue: Vec<u8>,
    /// The job's priority, ttr, creation time, due time and state.
    numbers: [u64; 5],
    options: Vec<u8>,
    counters: Option<Vec<u8>>,
    body: Vec<u8>,
}

/// Makes the folder that a script describes (see `folder`), and checks it.
pub(crate) fn check(script: &[u8]) {
    let disk = folder::write(script);
    let untouched = disk.fork();
    match open(&disk) {
        Ok((found, report)) => check_opened(&untouched, &disk, &found, &report),
        Err(error) => check_refused(&untouched, &disk, &error),
    }
}

/// Checks that `decode` accepts or refuses any bytes without a panic. Accepted rules must be the
/// same after they are encoded and decoded again.
pub(crate) fn check_rules(bytes: &[u8]) {
    let Some(rules) = Rules::decode(bytes) else { return };
    let encoded = rules.encode();
    assert!(encoded.len() <= bytes.len(), "{} bytes became {}", bytes.len(), encoded.len());
    assert_eq!(Rules::decode(&encoded).as_ref(), Some(&rules));
    if rules.check().is_ok() {
        for name in [&b"a"[..], b"a+b", b"queue"] {
            rules.resolve(name, lineshaft_broker::policy::parent_name(name));
        }
    }
}

fn settings() -> Settings {
    Settings { segment_bytes: 64 << 10, ..Settings::default() }
}

fn indexed_settings() -> Settings {
    Settings { classify: Some(classify), ..settings() }
}

fn classify(meta: &Meta<'_>) -> Option<Class> {
    let is_listed = meta.ttr != 7;
    let key = (meta.priority.into(), meta.id);
    is_listed.then_some(Class { list: meta.state, key, next_key: key, band: 0 })
}

/// Opens the log and drops it at once, as if the process had ended.
fn open(disk: &FaultDisk) -> Result<(Found, RecoveryReport), OpenError> {
    let mut found = Found::default();
    let opened = Log::open(Arc::new(disk.clone()), settings(), NOW.0, &mut |one| found.add(&one));
    opened.map(|(_, report)| (found, report))
}

fn open_broker(disk: &FaultDisk) -> Result<(Broker, RecoveryReport), BrokerError> {
    Broker::open(Options::without_threads(Arc::new(disk.clone()), settings()), NOW)
}

fn check_opened(untouched: &FaultDisk, opened: &FaultDisk, found: &Found, report: &RecoveryReport) {
    assert_eq!(report.jobs, found.jobs.len() as u64);
    assert_eq!(report.facts, found.facts.len() as u64);
    // `log::salvage`, which reads a folder without changing it, finds the same contents.
    let mut salvaged = Found::default();
    let salvage = log::salvage(&untouched.fork(), &mut |one| salvaged.add(&one));
    let salvage = salvage.expect("what a start opens can be read");
    assert!(salvage.refusal.is_none() && salvage.losses.is_empty(), "{salvage:?}");
    assert_eq!(&salvaged, found);
    // Open the log again after a crash. It must have the same contents, because `open` returns only
    // when all its writes are durable.
    opened.crash();
    let (again, report_again) = open(opened).expect("what a start opened opens again");
    assert_eq!(&again, found);
    assert!(report_again.next_id >= report.next_id, "ids go on");
    assert_eq!((report_again.cut_bytes, report_again.cut_groups), (0, 0), "told of once");

    check_indexed(untouched, found);

    let disk = untouched.fork();
    let (broker, _) = match open_broker(&disk) {
        Ok(opened) => opened,
        Err(error @ (BrokerError::Meta(_) | BrokerError::Restore(_) | BrokerError::Cluster(_))) => {
            assert_eq!(
                files(untouched),
                files(&disk),
                "a start that {error} refuses changes nothing"
            );
            return;
        }
        Err(error @ (BrokerError::Log(_) | BrokerError::Thread(_))) => panic!("{error}"),
    };
    let turn = broker.turn(broker.last_time().max(NOW));
    turn.check_invariants();
    let now = turn.now();
    drop(turn);
    broker.commit_step(now).expect("the disk works");
    broker.close(now).expect("the disk works");
    let jobs = broker.turn(now).totals();
    drop(broker);
    disk.restart();
    let (broker, _) = open_broker(&disk).expect("what was opened and closed opens again");
    let turn = broker.turn(now);
    turn.check_invariants();
    let jobs_again = turn.totals();
    assert_eq!(
        jobs.ready + jobs.delayed + jobs.buried,
        jobs_again.ready + jobs_again.delayed + jobs_again.buried
    );
}

/// Checks that a start by index files finds the same contents, in the log and in the broker.
fn check_indexed(untouched: &FaultDisk, found: &Found) {
    let disk = untouched.fork();
    let open = |add: &mut dyn FnMut(Restored<'_>)| {
        let opened = Log::open(Arc::new(disk.clone()), indexed_settings(), NOW.0, add);
        opened.expect("what a start opens can be opened by index files").0
    };
    let log = open(&mut |_| ());
    // A segment that has no index is read as usual.
    let written = (0..9).filter(|_| matches!(log.index_step(), Ok(Some(_)))).count();
    drop(log);
    disk.restart();
    let plain = disk.fork();
    let mut again = Found::default();
    let log = open(&mut |one| again.add(&one));
    assert_eq!(log.indexed().len(), written, "each index file is used");
    let mut sorted = found.clone();
    sorted.jobs.sort();
    again.jobs.sort();
    assert_eq!(again, sorted);
    drop(log);

    disk.restart();
    let options = Options::without_threads(Arc::new(disk.clone()), indexed_settings());
    match (Broker::open(options, NOW), open_broker(&plain)) {
        (Ok((by_index, _)), Ok((broker, _))) => {
            let turn = by_index.turn(by_index.last_time());
            turn.check_invariants();
            assert_eq!(turn.totals(), broker.turn(broker.last_time()).totals());
        }
        (by_index, broker) => assert!(by_index.is_err() && broker.is_err()),
    }
}

fn check_refused(untouched: &FaultDisk, refused: &FaultDisk, error: &OpenError) {
    assert!(!error.to_string().is_empty());
    if !matches!(error, OpenError::Failed(_)) {
        assert_eq!(files(untouched), files(refused), "a refused start changes nothing");
    }
    assert!(open_broker(&untouched.fork()).is_err(), "the broker opened what the log refused");
    let mut salvaged = Found::default();
    let Ok(salvage) = log::salvage(&untouched.fork(), &mut |one| salvaged.add(&one)) else {
        return;
    };
    assert!(salvage.refusal.is_some(), "a start is refused, but the log is said to be whole");
    let repaired = FaultDisk::new(7, 64 << 20);
    log::repair(&untouched.fork(), Arc::new(repaired.clone()), &|_| true)
        .expect("what can be read can be repaired");
    repaired.restart();
    let (found, _) = open(&repaired).expect("what was repaired opens");
    assert_eq!(found.jobs.len(), salvaged.jobs.len());
    assert_eq!(found.facts.len(), salvaged.facts.len());
}

pub(crate) fn files(disk: &FaultDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

impl Found {
    fn add(&mut self, restored: &Restored<'_>) {
        match *restored {
            Restored::Job { queue, meta, counters, body, .. } => {
                self.jobs.push(Job::new(queue, &meta, counters, &body));
            }
            Restored::Block { queue, ref rows, .. } => {
                for row in rows.read().expect("the rows can be read").iter() {
                    let (meta, body) = (row.meta(), rows.body(row));
                    self.jobs.push(Job::new(queue, &meta, None, &body));
                }
            }
            Restored::Fact { key, value, .. } => self.facts.push((key.to_vec(), value.to_vec())),
        }
    }
}

impl Job {
    fn new(
        queue: &[u8],
        meta: &Meta<'_>,
        counters: Option<&[u8]>,
        body: &RestoredBody<'_>,
    ) -> Self {
        Self {
            id: meta.id,
            queue: queue.to_vec(),
            numbers: [
                meta.priority.into(),
                meta.ttr.into(),
                meta.created_ms,
                meta.due_ms,
                meta.state.into(),
            ],
            options: meta.options.to_vec(),
            counters: counters.map(<[u8]>::to_vec),
            body: body.read().expect("the body can be read").to_vec(),
        }
    }
}
