//! Tests one copy over a link that breaks, and with bytes that change on the way.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Broker, Millis, NewJob, Options, Settings, Since};
use log::FaultDisk;
use replica::Lineage;
use replica::group::At;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::Semaphore;

use super::receive::{Need, Progress, ReceiveError, receive};
use super::send::{Sending, Source};
use super::{Head, Held, Reply, Wish};
use crate::cluster::line;

const LINEAGE: Lineage = Lineage([7; 16]);
const NOW: Millis = Millis(1_000_000);
const DISK_BYTES: u64 = 64 << 20;
const JOBS: u64 = 24;
const FAST: u64 = 1 << 40;

fn options(disk: &FaultDisk) -> Options {
    let log = Settings { segment_bytes: 64 << 10, ..Settings::default() };
    Options::without_threads(Arc::new(disk.clone()), log)
}

fn node(disk: &FaultDisk) -> Broker {
    let options = Options { cluster: Some(LINEAGE), ..options(disk) };
    Broker::open(options, NOW).expect("the folder is that of a node").0
}

/// The folder of a node: the origin of a cluster, with this many jobs.
fn folder(seed: u64, jobs: u64) -> FaultDisk {
    let disk = FaultDisk::new(seed, DISK_BYTES);
    add_jobs(&disk, 0..jobs);
    make_origin(&disk);
    disk
}

/// Adds jobs to a folder that belongs to no cluster yet.
fn add_jobs(disk: &FaultDisk, numbers: Range<u64>) {
    let (alone, _) = Broker::open(options(disk), NOW).expect("the disk works");
    for number in numbers {
        let mut turn = alone.turn(NOW);
        let session = turn.open_session(0);
        let body = vec![number as u8; 20_000];
        let put = turn.caller(session).put(NewJob { ttr_s: 60, ..NewJob::default() }, body.into());
        put.value.expect("there is room");
        drop(turn);
        alone.commit_step(NOW).expect("the disk works");
        alone.prepare_step().expect("the disk works");
    }
    drop(alone);
    disk.restart();
}

fn make_origin(disk: &FaultDisk) {
    let options = options(disk);
    broker::offline::make_origin(options.disk, options.log, LINEAGE).expect("the disk works");
    disk.restart();
}

/// A node whose folder is copied.
struct Sender {
    source: Source,
    _broker: Broker,
    at: At,
    _hold: log::BackupHold,
}

fn sender(disk: &FaultDisk) -> Sender {
    let broker = node(disk);
    let hold = broker.begin_backup().expect("it has a log");
    while hold.point().is_none() {
        broker.commit_step(NOW).expect("the disk works");
    }
    let point = hold.point().expect("it is durable");
    let at = broker.stream().expect("it is a node").at();
    let source = Source { disk: Arc::new(disk.clone()), point, group: at.number, lineage: LINEAGE };
    Sender { source, _broker: broker, at, _hold: hold }
}

const NEED: Need = Need { lineage: LINEAGE, group: 0 };

/// What happens to the bytes of the sender.
#[derive(Copy, Clone, Debug, Default)]
struct Fault {
    /// The link ends after this many bytes.
    cut: Option<usize>,
    /// A bit of this byte changes.
    flip: Option<usize>,
}

/// Sends a copy to the folder of this disk. Returns also all bytes that the sender has sent.
async fn transfer(
    source: &Source,
    disk: &FaultDisk,
    need: Need,
    fault: Fault,
) -> (Result<Progress, ReceiveError>, Vec<u8>) {
    let (near, middle_near) = duplex(64 << 10);
    let (far, middle_far) = duplex(64 << 10);
    let receiving = async {
        let mut last = Progress::default();
        let mut tell = |progress| last = progress;
        let mut link = BufReader::new(near);
        let received = receive(&mut link, Arc::new(disk.clone()), need, &mut tell).await;
        received.map(|()| last)
    };
    let sending = async {
        let mut link = BufReader::new(far);
        let line = line::read(&mut link).await.expect("a request");
        assert!(line.starts_with("copy 1 "), "{line}");
        // The receiver notices a failure as the end of the link.
        let _ = source.send(&mut link, FAST, &|| Ok(())).await;
    };
    let (received, (), sent) =
        tokio::join!(receiving, sending, forward(middle_near, middle_far, fault));
    (received, sent)
}

/// The link between the two nodes. Returns the bytes that arrived from the sender.
async fn forward(mut near: DuplexStream, mut far: DuplexStream, fault: Fault) -> Vec<u8> {
    let mut sent = Vec::new();
    let (mut there, mut back) = (vec![0; 4096], vec![0; 4096]);
    loop {
        tokio::select! {
            read = far.read(&mut back) => {
                let read = read.unwrap_or(0);
                let begin = sent.len();
                if let Some(at) = fault.flip.filter(|at| (begin..begin + read).contains(at)) {
                    back[at - begin] ^= 16;
                }
                let passed = fault.cut.map_or(read, |cut| read.min(cut - begin));
                sent.extend_from_slice(&back[..passed]);
                let is_over = read == 0 || near.write_all(&back[..passed]).await.is_err();
                if is_over || fault.cut == Some(sent.len()) {
                    return sent;
                }
            }
            read = near.read(&mut there) => {
                let read = read.unwrap_or(0);
                if read == 0 || far.write_all(&there[..read]).await.is_err() {
                    return sent;
                }
            }
        }
    }
}

/// The places in what a sender has sent where a line or the bytes of a segment end.
fn message_ends(sent: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while at < sent.len() {
        let line_end = at + sent[at..].iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        let line = std::str::from_utf8(&sent[at..line_end - 1]).expect("text");
        ends.push(line_end);
        at = line_end;
        if let Some(head) = Head::decode(line) {
            at += head.bytes as usize;
            ends.push(at);
        }
    }
    ends
}

fn is_whole(disk: &FaultDisk) -> bool {
    disk.names().iter().any(|name| name == "copy-manifest")
}

/// Opens the folder as the next start does. Returns its place.
fn start(disk: &FaultDisk) -> At {
    disk.restart();
    let at = node(disk).stream().expect("it is a node").at();
    disk.restart();
    at
}

#[tokio::test]
async fn a_copy_ends_well_after_a_cut_at_every_message() {
    let sender = sender(&folder(1, JOBS));
    let old = folder(2, 1);
    let old_at = start(&old);
    let clean = old.fork();
    let (received, sent) = transfer(&sender.source, &clean, NEED, Fault::default()).await;
    let progress = received.expect("nothing fails");
    assert_eq!(progress.bytes, progress.total_bytes);
    assert_eq!(start(&clean), sender.at);
    let broker = node(&clean);
    broker
        .lead(1, JOBS + 1..JOBS + 100, Since::Wall { now: NOW, record: NOW })
        .expect("ids are left");
    assert_eq!(broker.turn(NOW).totals().ready, JOBS);

    let ends = message_ends(&sent);
    assert!(ends.len() > 8, "a few segments: {ends:?}");
    assert_eq!(ends.last(), Some(&sent.len()));
    let near = |end: &usize| [end - 1, *end, end + 1];
    let cuts: BTreeSet<usize> =
        ends.iter().flat_map(near).filter(|cut| *cut < sent.len()).collect();
    let mut resumed = 0;
    for cut in cuts {
        let disk = old.fork();
        let fault = Fault { cut: Some(cut), flip: None };
        let (received, _) = transfer(&sender.source, &disk, NEED, fault).await;
        let error = received.expect_err("the link was cut");
        assert!(matches!(error, ReceiveError::Link(_)), "cut at {cut}: {error}");
        assert!(!is_whole(&disk), "cut at {cut}");
        assert_eq!(start(&disk), old_at, "cut at {cut}: the old folder stays");
        let (received, again) = transfer(&sender.source, &disk, NEED, Fault::default()).await;
        received.expect("nothing fails");
        resumed += u32::from(again.len() < sent.len());
        assert_eq!(start(&disk), sender.at, "cut at {cut}");
        assert!(disk.names().iter().all(|name| !name.starts_with("copy-")), "cut at {cut}");
    }
    assert!(resumed > 6, "{resumed} attempts kept segments");
}

#[tokio::test]
async fn damaged_bytes_are_noticed() {
    let sender = sender(&folder(3, JOBS));
    let old = folder(4, 0);
    let old_at = start(&old);
    let clean = old.fork();
    let (_, sent) = transfer(&sender.source, &clean, NEED, Fault::default()).await;
    let ends = message_ends(&sent);
    // The segments begin after every second line.
    let segments = ends[1..].iter().step_by(2);
    for begin in segments {
        for at in [0, 20, 80, 5000] {
            let disk = old.fork();
            let flip = Some(begin + at);
            let fault = Fault { cut: None, flip };
            let (received, _) = transfer(&sender.source, &disk, NEED, fault).await;
            let error = received.expect_err("a bit has changed");
            assert!(matches!(error, ReceiveError::Wrong(_)), "{flip:?}: {error}");
            assert!(!is_whole(&disk), "{flip:?}");
            assert_eq!(start(&disk), old_at, "{flip:?}");
            let (received, _) = transfer(&sender.source, &disk, NEED, Fault::default()).await;
            received.expect("nothing is damaged now");
            assert_eq!(start(&disk), sender.at, "{flip:?}");
        }
    }
}

#[tokio::test]
async fn segments_of_two_nodes_do_not_mix() {
    // Two nodes whose logs begin with the same bytes, as if one had sent a copy to the other.
    let one = FaultDisk::new(9, DISK_BYTES);
    add_jobs(&one, 0..9);
    let other = one.fork();
    for (disk, jobs) in [(&one, 9..JOBS), (&other, 100..100 + JOBS)] {
        add_jobs(disk, jobs);
        make_origin(disk);
    }
    let (one, other) = (sender(&one), sender(&other));
    let old = folder(10, 0);
    let (_, sent) = transfer(&one.source, &old.fork(), NEED, Fault::default()).await;
    for cut in message_ends(&sent).into_iter().filter(|cut| *cut < sent.len()) {
        let disk = old.fork();
        let fault = Fault { cut: Some(cut), flip: None };
        transfer(&one.source, &disk, NEED, fault).await.0.expect_err("the link was cut");
        let (received, _) = transfer(&other.source, &disk, NEED, Fault::default()).await;
        if let Err(error) = received {
            assert!(matches!(error, ReceiveError::Wrong(_)), "cut at {cut}: {error}");
            assert!(!is_whole(&disk), "cut at {cut}");
            let (received, _) = transfer(&other.source, &disk, NEED, Fault::default()).await;
            received.expect("the copy begins anew");
        }
        assert_eq!(start(&disk), other.at, "cut at {cut}");
    }
}

#[tokio::test]
async fn copies_that_do_not_fit_are_refused() {
    let sender = sender(&folder(5, 4));
    let disk = folder(6, 0);
    let names = disk.names();
    let other = Need { lineage: Lineage([8; 16]), group: 0 };
    let (received, _) = transfer(&sender.source, &disk, other, Fault::default()).await;
    assert!(matches!(received, Err(ReceiveError::OtherLineage)), "{received:?}");
    let ahead = Need { lineage: LINEAGE, group: 9 };
    let (received, _) = transfer(&sender.source, &disk, ahead, Fault::default()).await;
    assert!(matches!(received, Err(ReceiveError::Behind { theirs: 0, ours: 9 })), "{received:?}");
    disk.set_capacity(disk.used() + 4096);
    let (received, _) = transfer(&sender.source, &disk, NEED, Fault::default()).await;
    assert!(matches!(received, Err(ReceiveError::NoRoom { .. })), "{received:?}");
    assert_eq!(disk.names(), names, "nothing was written");
    // The last segment has its full size on the disk, although its zeros do not arrive.
    let (bytes, zeros) = sender.source.size().await.expect("the disk works");
    assert!(zeros > 1, "{zeros} zeros");
    let extra = super::receive::ROOM_EXTRA_BYTES;
    disk.set_capacity(disk.used() + bytes + extra + zeros / 2);
    let (received, _) = transfer(&sender.source, &disk, NEED, Fault::default()).await;
    assert!(matches!(received, Err(ReceiveError::NoRoom { .. })), "{received:?}");
    assert_eq!(disk.names(), names, "nothing was written");
    disk.set_capacity(disk.used() + bytes + extra + zeros);
    let (received, _) = transfer(&sender.source, &disk, NEED, Fault::default()).await;
    received.expect("there is room");
}

/// Asks a node for a copy. Returns its first line.
async fn ask(sending: &Sending, broker: &Broker, refusal: Option<&str>) -> String {
    let (near, far) = duplex(64 << 10);
    let (mut near, mut far) = (BufReader::new(near), BufReader::new(far));
    let serving = async {
        // The end of the link ends the copy.
        let _ = sending.serve(&mut far, broker, LINEAGE, refusal).await;
    };
    let asking = async {
        let line = line::read(&mut near).await.expect("an answer");
        drop(near);
        line
    };
    tokio::join!(serving, asking).1
}

#[tokio::test]
async fn a_node_sends_one_copy_at_a_time() {
    let disk = folder(7, 4);
    let broker = node(&disk);
    broker.commit_step(NOW).expect("the disk works");
    let shared: Arc<dyn log::Disk> = Arc::new(disk.clone());
    let sending = Sending { disk: shared, bytes_per_s: FAST, place: Semaphore::new(1) };
    assert_eq!(ask(&sending, &broker, Some("no")).await, "error no");
    let held = ask(&sending, &broker, None).await;
    let Some(Reply::Held(held)) = Reply::decode(&held) else { panic!("{held}") };
    assert_eq!((held.lineage, held.group), (LINEAGE, 0));
    let place = sending.place.try_acquire().expect("the copy has ended");
    assert_eq!(ask(&sending, &broker, None).await, "busy");
    drop(place);
    assert!(ask(&sending, &broker, None).await.starts_with("held 2 "));
}

#[tokio::test]
async fn the_rate_is_bounded_and_a_copy_ends_when_the_log_needs_its_files() {
    let sender = sender(&folder(8, JOBS));
    let run = async |bytes_per_s, check: &(dyn Fn() -> std::io::Result<()> + Sync)| {
        let (near, far) = duplex(64 << 10);
        let (mut near, mut far) = (near, BufReader::new(far));
        near.write_all(b"from 1\n").await.expect("the link works");
        let mut sent = Vec::new();
        let sending = async {
            let ended = sender.source.send(&mut far, bytes_per_s, check).await;
            drop(far);
            ended
        };
        let (ended, read) = tokio::join!(sending, near.read_to_end(&mut sent));
        read.expect("the link works");
        ended.map(|()| sent.len())
    };
    let begun = Instant::now();
    let bytes_per_s = 4 << 20;
    let bytes = run(bytes_per_s, &|| Ok(())).await.expect("nothing fails");
    let least = Duration::from_secs_f64((bytes - 4096) as f64 / bytes_per_s as f64);
    assert!(begun.elapsed() >= least, "{bytes} bytes in {:?}", begun.elapsed());
    let needed = || Err(std::io::Error::other("the log needs the files"));
    run(FAST, &needed).await.expect_err("the files are not held any more");
}

#[test]
fn lines_are_read_as_they_were_written() {
    let point =
        "log 00070707070707070707070707070707 first 3 end 7 123456".parse().expect("a point");
    let lineage = Lineage([0x0b; 16]);
    let held = Held { lineage, group: 17, bytes: u64::MAX, zeros: 5, point };
    for reply in [Reply::Held(held), Reply::Busy, Reply::Refused("no such thing".to_owned())] {
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
    }
    for wish in [Wish::Wait, Wish::From(3)] {
        assert_eq!(Wish::decode(&wish.encode()), Some(wish));
    }
    let held = Reply::Held(held).encode();
    for line in ["", "held", "held 2", "held 2 07 1 1 1 log", &held[..held.len() - 7]] {
        assert_eq!(Reply::decode(line), None, "{line}");
    }
    // The first form of this line did not have the zeros.
    let first_form = held.replace("held 2", "held 1").replace(" 5 log", " log");
    assert_eq!(Reply::decode(&first_form), None, "{first_form}");
    let head = Head { size: 9, bytes: 7 };
    assert_eq!(Head::decode(&head.encode()), Some(head));
    for line in ["", "segment 9", "segment 9 10", "segment 9 7 1"] {
        assert_eq!(Head::decode(line), None, "{line}");
    }
    for line in ["", "from", "from x", "from 4294967296", "wait 1"] {
        assert_eq!(Wish::decode(line), None, "{line}");
    }
}
