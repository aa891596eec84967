//! Tests an import into a folder that no server uses. The disk crashes at each of its calls.

use std::sync::Arc;

use lineshaft_broker::offline::{
    self, Added, Contents, ForeignJob, ImportError, Importer, OriginError,
};
use lineshaft_broker::{
    Broker, BrokerError, ClusterError, Counters, EngineSetup, JobFacts, JobId, Millis, NewJob,
    Options, Settings, Since, State, Tags,
};
use log::FaultDisk;
use replica::Lineage;

/// The wall clock.
const WALL: Millis = Millis(1_700_000_000_000);
const JOBS: u64 = 40;
const CHUNK: usize = 7;

fn settings() -> Settings {
    Settings { segment_bytes: 64 << 10, ..Settings::default() }
}

fn open(disk: &FaultDisk) -> Importer {
    let disk = Arc::new(disk.clone());
    Importer::open(disk, settings(), EngineSetup::default(), WALL).expect("it opens").0
}

fn job(id: u64, body: &[u8]) -> ForeignJob<'_> {
    ForeignJob {
        queue: b"mail",
        items: false,
        id: Some(id),
        priority: 1024,
        state: State::Ready,
        created: Some(Millis(WALL.0 - 5000)),
        due: Millis(0),
        buried: 0,
        ttr_s: 60,
        delay_s: 0,
        counters: Counters::default(),
        expires: None,
        by_clock: false,
        tags: None,
        unique: None,
        body,
    }
}

/// All jobs of a folder, sorted by their numbers.
fn jobs(disk: &FaultDisk) -> (Vec<(JobFacts, Vec<u8>)>, Contents) {
    let mut jobs = Vec::new();
    let copy = disk.fork();
    // Remove the lock, because no process uses the copy.
    copy.restart();
    let contents = offline::read(&copy, &mut |kept| {
        assert_eq!(kept.queue, b"mail");
        jobs.push((kept.facts, kept.body.to_vec()));
    });
    jobs.sort_by_key(|(facts, _)| facts.id);
    (jobs, contents.expect("the folder is readable"))
}

fn ids(disk: &FaultDisk) -> Vec<u64> {
    jobs(disk).0.iter().map(|(facts, _)| facts.id.0).collect()
}

/// The body of a job. The bodies of all jobs together fill several segments.
fn body(id: u64) -> Vec<u8> {
    vec![id as u8; 3000 + 500 * id as usize]
}

/// Imports all jobs that are left. The record of the import is the number of imported jobs.
fn import(disk: &FaultDisk) -> Result<(), ImportError> {
    let disk = Arc::new(disk.clone());
    let opened = Importer::open(disk, settings(), EngineSetup::default(), WALL);
    // The disk can already crash when the folder is opened.
    let Ok((importer, _)) = opened else { return Err(ImportError::Full) };
    let records = importer.records();
    let done = records.first().map_or(0, |(name, value)| {
        assert_eq!(name, b"test");
        u64::from_le_bytes(value[..].try_into().expect("a number"))
    });
    let numbers = importer.numbers(Some((1, JOBS)), true);
    let numbers = offline::Numbers { kept: 1..=JOBS, by_id: true, ..numbers };
    importer.reserve(&numbers, 0)?;
    let left: Vec<u64> = (done + 1..=JOBS).collect();
    for chunk in left.chunks(CHUNK) {
        let bodies: Vec<Vec<u8>> = chunk.iter().map(|id| body(*id)).collect();
        let jobs = chunk.iter().zip(&bodies).map(|(id, body)| job(*id, body));
        let jobs: Vec<ForeignJob<'_>> = jobs.collect();
        let record = chunk.last().expect("chunks are not empty").to_le_bytes();
        let added = importer.add(&numbers, &jobs, (b"test", &record), 0)?;
        assert!(added.iter().all(|added| *added == Added::Kept), "{added:?}");
    }
    importer.close(0)?;
    Ok(())
}

#[test]
fn a_crash_at_any_call_leaves_whole_chunks_and_the_record_knows_them() {
    let whole = FaultDisk::new(1, 64 << 20);
    import(&whole).expect("the disk works");
    let mut interrupted = 0;
    for call in 0..whole.calls() {
        let disk = FaultDisk::new(call, 64 << 20);
        disk.crash_at(call);
        let ended = import(&disk);
        if !disk.has_crashed() {
            ended.expect("the disk works");
            continue;
        }
        disk.restart();
        let (found, contents) = jobs(&disk);
        let record = contents
            .imports
            .get(&b"test"[..])
            .map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("a number")));
        assert_eq!(found.len() as u64, record, "crash at call {call}");
        interrupted += u64::from(record > 0 && record < JOBS);
        import(&disk).expect("the disk works again");
        let (found, _) = jobs(&disk);
        let wanted = (1..=JOBS).map(|id| (id, body(id)));
        let found = found.into_iter().map(|(facts, body)| (facts.id.0, body));
        assert!(found.eq(wanted), "crash at call {call}");
    }
    assert!(interrupted > 10, "only {interrupted} crashes were in the middle");
}

#[test]
fn facts_come_as_they_were() {
    let disk = FaultDisk::new(1, 64 << 20);
    let importer = open(&disk);
    let numbers = importer.numbers(Some((3, 9)), true);
    assert!(numbers.by_id && numbers.kept == (1..=9));
    importer.reserve(&numbers, 0).expect("there is room");
    let counters = Counters { takes: 4, kicks: 2, ..Counters::default() };
    let delayed = ForeignJob {
        state: State::Delayed,
        due: Millis(WALL.0 + 60_000),
        by_clock: true,
        delay_s: 7,
        ..job(5, b"delayed")
    };
    let buried = |id, place| ForeignJob { state: State::Buried, buried: place, ..job(id, b"b") };
    let late = ForeignJob { expires: Some(Millis(WALL.0 + 1)), counters, ..job(3, b"late") };
    let all = [late, delayed, buried(7, 1), buried(8, 0), job(9, b"x")];
    let added = importer.add(&numbers, &all, (b"r", b"1"), 0).expect("there is room");
    assert_eq!(added, [Added::Kept; 5]);
    importer.close(0).expect("the disk works");
    let found = jobs(&disk).0;
    let [late, delayed, second, first, plain] = &found[..] else { panic!("five jobs") };
    let (late, delayed) = (&late.0, &delayed.0);
    assert_eq!(
        (late.expires, late.wall, late.counters),
        (Some(Millis(WALL.0 + 1)), None, counters)
    );
    assert_eq!((delayed.state, delayed.due), (State::Delayed, Millis(WALL.0 + 60_000)));
    assert_eq!((delayed.wall, delayed.delay_s), (Some(Millis(WALL.0 + 60_000)), 7));
    assert!(first.0.buried_order < second.0.buried_order);
    assert_eq!((plain.0.created, plain.0.order), (Millis(WALL.0 - 5000), 9));

    // The server assigns only numbers above all imported numbers.
    disk.restart();
    let options = Options::without_threads(Arc::new(disk.clone()), settings());
    let broker = Broker::open(options, WALL).expect("it opens").0;
    let mut turn = broker.turn(WALL);
    let session = turn.open_session(0);
    let put = turn.caller(session).put(NewJob::default(), b"new"[..].into());
    assert_eq!(put.value, Ok(JobId(10)));
}

#[test]
fn numbers_keys_and_equal_jobs_are_not_taken_twice() {
    let disk = FaultDisk::new(1, 64 << 20);
    let importer = open(&disk);
    let numbers = importer.numbers(Some((2, 5)), true);
    let keyed = |id, unique, body| {
        let tags = Some(Tags { unique, reducer: b"" });
        ForeignJob { tags, ..job(id, body) }
    };
    let first = [job(2, b"two"), keyed(5, b"key", b"five")];
    importer.add(&numbers, &first, (b"r", b"1"), 0).expect("there is room");
    let numbers = offline::Numbers { again: true, ..importer.numbers(Some((2, 7)), true) };
    assert!(!numbers.by_id && numbers.kept == (6..=7));
    importer.reserve(&numbers, 0).expect("there is room");
    let again = [
        job(2, b"two"),
        job(2, b"other"),
        job(7, b"seven"),
        keyed(6, b"key", b"six"),
        job(4, b"4"),
    ];
    let added = importer.add(&numbers, &again, (b"r", b"2"), 0).expect("there is room");
    let [two, other, seven, six, four] = added[..] else { panic!("five results") };
    assert_eq!((two, seven, six), (Added::Present, Added::Kept, Added::Joined(JobId(5))));
    let (Added::New(other), Added::New(four)) = (other, four) else { panic!("{added:?}") };
    assert_eq!(importer.records(), [(b"r".to_vec(), b"2".to_vec())]);
    importer.close(0).expect("the disk works");
    assert_eq!(ids(&disk), [2, 5, 7, other.0, four.0]);
    let order = |wanted: u64| {
        let found = jobs(&disk).0;
        let job = found.iter().find(|(facts, _)| facts.id.0 == wanted).expect("it is there");
        job.0.order
    };
    assert!(order(other.0) < order(7) && order(7) < order(four.0), "the order of the source");
}

#[test]
fn equal_jobs_of_two_servers_are_two_jobs() {
    let disk = FaultDisk::new(1, 64 << 20);
    let importer = open(&disk);
    for (server, wanted) in [(b"1", [1, 2]), (b"2", [3, 4])] {
        let numbers = importer.numbers(Some((1, 2)), true);
        importer.reserve(&numbers, 0).expect("there is room");
        let jobs = [job(1, b"same"), job(2, b"same")];
        let added = importer.add(&numbers, &jobs, (server, b"1"), 0).expect("there is room");
        let got = [0_usize, 1].map(|index| match added[index] {
            Added::Kept => jobs[index].id,
            Added::New(id) => Some(id.0),
            Added::Joined(_) | Added::Present => None,
        });
        assert_eq!(got, wanted.map(Some), "{added:?}");
    }
    importer.close(0).expect("the disk works");
    assert_eq!(ids(&disk), [1, 2, 3, 4]);
}

#[test]
fn a_full_disk_refuses_a_whole_chunk() {
    let disk = FaultDisk::new(1, 2 << 20);
    let importer = open(&disk);
    let numbers = importer.numbers(None, false);
    assert!(numbers.kept.is_empty());
    let body = vec![1; 30_000];
    let chunk = [ForeignJob { id: None, ..job(1, &body) }; 3];
    let mut chunks = 0;
    let refused = loop {
        match importer.add(&numbers, &chunk, (b"r", b"1"), 0) {
            Ok(_) => chunks += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ImportError::Full) && chunks > 3, "{refused} after {chunks}");
    importer.close(0).expect("the disk works");
    assert_eq!(jobs(&disk).0.len(), 3 * chunks);
}

#[test]
fn a_folder_becomes_the_origin_of_one_cluster() {
    let disk = FaultDisk::new(1, 64 << 20);
    import(&disk).expect("the disk works");
    disk.restart();
    let shared = || Arc::new(disk.clone());
    let lineage = Lineage([7; 16]);
    assert_eq!(offline::place(&disk).expect("the folder is readable"), None);
    disk.restart();
    let at = offline::make_origin(shared(), settings(), lineage).expect("the disk works");
    assert_eq!((at.number, at.jobs), (0, JOBS));
    disk.restart();
    assert_eq!(offline::place(&disk).expect("the folder is readable"), Some((lineage, at)));
    assert_eq!(ids(&disk), (1..=JOBS).collect::<Vec<u64>>());

    disk.restart();
    let again = offline::make_origin(shared(), settings(), Lineage([8; 16]));
    let Err(OriginError::Open(BrokerError::Cluster(error))) = again else { panic!("{again:?}") };
    assert_eq!(error, ClusterError::AlreadyAMember);
    disk.restart();
    let alone = Broker::open(Options::without_threads(shared(), settings()), WALL);
    let Err(BrokerError::Cluster(error)) = alone else { panic!("{alone:?}") };
    assert_eq!(error, ClusterError::Member);
    disk.restart();
    let options = Options::without_threads(shared(), settings());
    let options = Options { cluster: Some(lineage), ..options };
    let (broker, _) = Broker::open(options, WALL).expect("the folder is that of a node");
    assert_eq!(broker.stream().map(|stream| stream.at()), Some(at));
    broker
        .lead(1, JOBS + 1..JOBS + 100, Since::Wall { now: WALL, record: Millis(0) })
        .expect("ids are left");
    let next = broker.turn(WALL).totals();
    assert_eq!(next.ready, JOBS);
}

#[test]
fn a_start_that_the_cluster_refuses_changes_no_file() {
    let disk = FaultDisk::new(1, 64 << 20);
    import(&disk).expect("the disk works");
    disk.restart();
    let files = || disk.names().iter().map(|name| disk.bytes(name)).collect::<Vec<_>>();
    let refused = |cluster| {
        let before = files();
        let options = Options::without_threads(Arc::new(disk.clone()), settings());
        let opened = Broker::open(Options { cluster, ..options }, WALL);
        assert!(files() == before, "the start changed a file");
        disk.restart();
        let Err(BrokerError::Cluster(error)) = opened else { panic!("{opened:?}") };
        error
    };
    let lineage = Lineage([7; 16]);
    assert_eq!(refused(Some(lineage)), ClusterError::NotAMember);
    let origin = offline::make_origin(Arc::new(disk.clone()), settings(), lineage);
    origin.expect("the disk works");
    disk.restart();
    assert_eq!(refused(None), ClusterError::Member);
    assert_eq!(refused(Some(Lineage([8; 16]))), ClusterError::OtherLineage);
}

#[test]
fn an_empty_folder_can_be_an_origin() {
    let disk = FaultDisk::new(1, 64 << 20);
    let lineage = Lineage([7; 16]);
    let at = offline::make_origin(Arc::new(disk.clone()), settings(), lineage);
    let at = at.expect("the disk works");
    assert_eq!((at.number, at.jobs, at.state), (0, 0, 0));
    disk.restart();
    assert_eq!(offline::place(&disk).expect("the folder is readable"), Some((lineage, at)));
}

#[test]
fn a_folder_leaves_its_cluster_and_keeps_its_jobs() {
    let disk = FaultDisk::new(1, 64 << 20);
    import(&disk).expect("the disk works");
    disk.restart();
    let shared = || Arc::new(disk.clone());
    let lineage = Lineage([7; 16]);
    let at = offline::make_origin(shared(), settings(), lineage).expect("the disk works");
    disk.restart();
    let audited = offline::audit(&disk).expect("the folder is readable");
    assert!(audited.is_right(), "{audited:?}");
    assert_eq!((audited.place, audited.jobs), (Some((lineage, at)), JOBS));

    disk.restart();
    let other = offline::leave(shared(), settings(), Lineage([8; 16]));
    let Err(OriginError::Open(BrokerError::Cluster(error))) = other else { panic!("{other:?}") };
    assert_eq!(error, ClusterError::OtherLineage);
    disk.restart();
    let left = offline::leave(shared(), settings(), lineage).expect("the disk works");
    assert_eq!(left, at);
    disk.restart();
    assert_eq!(offline::place(&disk).expect("the folder is readable"), None);
    disk.restart();
    let audited = offline::audit(&disk).expect("the folder is readable");
    assert!(!audited.is_right(), "it belongs to no cluster");
    assert_eq!((audited.place, audited.jobs, audited.state), (None, JOBS, at.state));

    disk.restart();
    let (broker, _) = Broker::open(Options::without_threads(shared(), settings()), WALL)
        .expect("a server that is alone can use it");
    assert_eq!(broker.turn(WALL).totals().ready, JOBS);
    drop(broker);
    disk.restart();
    offline::make_origin(shared(), settings(), Lineage([9; 16])).expect("it can begin another one");
}

#[test]
fn a_folder_that_lost_jobs_is_not_right() {
    let disk = FaultDisk::new(1, 64 << 20);
    let lineage = Lineage([7; 16]);
    offline::make_origin(Arc::new(disk.clone()), settings(), lineage).expect("the disk works");
    disk.restart();
    // Somebody writes a job without the cluster.
    let shared = Arc::new(disk.clone());
    let mut no_facts = |_: log::Begin<'_>| 0;
    let mut restore = |_: log::Restored<'_>| Ok::<(), log::OpenError>(());
    let opened = log::Log::open_at(
        shared,
        settings(),
        &mut no_facts,
        &mut restore,
        &mut |_| Ok(()),
        &mut |_| (),
    );
    let (log, _) = opened.expect("it opens");
    let queue = log::QueueRef { number: 0, name: b"mail" };
    let meta = log::Meta {
        id: 1,
        priority: 0,
        ttr: 60,
        created_ms: 0,
        due_ms: 0,
        state: State::Ready as u8,
        options: &[],
    };
    log.put(0, queue, &meta, b"body");
    log.close(0, 2).expect("the disk works");
    disk.restart();
    let audited = offline::audit(&disk).expect("the folder is readable");
    assert_eq!(audited.jobs, 1);
    assert!(audited.place.is_some() && !audited.is_right(), "{audited:?}");
}
