//! Tests the threads that load bodies. One file of the log can be read only while its gate is open.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use lineshaft_broker::{Broker, JobBody, Millis, NewJob, Options, Patience, Take};
use log::{Disk, DiskFile, FaultDisk, Space};

const NOW: Millis = Millis(1_000_000);
const SLOW: &str = "0000000001.seg";

/// The reads of the slow file wait until the gate is open.
#[derive(Debug, Default)]
struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set_closed(&self, is_closed: bool) {
        *self.is_closed.lock().expect("no test panics here") = is_closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().expect("no test panics here");
        drop(self.changed.wait_while(is_closed, |is_closed| *is_closed));
    }
}

#[derive(Clone, Debug)]
struct GatedDisk {
    disk: FaultDisk,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl Disk for GatedDisk {
    fn folder(&self) -> String {
        self.disk.folder()
    }
    fn lock(&self) -> io::Result<bool> {
        self.disk.lock()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(name)?;
        Ok(if name == SLOW { Arc::new(GatedFile { file, gate: self.gate.clone() }) } else { file })
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }
    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }
    fn copies_on_write(&self) -> bool {
        self.disk.copies_on_write()
    }
    fn random(&self) -> io::Result<u64> {
        self.disk.random()
    }
}

impl DiskFile for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.gate.pass();
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn shrink(&self, len: u64) -> io::Result<()> {
        self.file.shrink(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn links(&self) -> io::Result<u64> {
        self.file.links()
    }
}

/// Waits for a condition.
fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::yield_now();
    }
}

fn put_all(broker: &Broker, queue: &[u8]) {
    let session = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(session).use_queue(queue);
    for number in 0..300_u32 {
        // A thread of the log prepares the next segment.
        wait("there is room", || {
            let body = number.to_le_bytes().repeat(500);
            broker.turn(NOW).caller(session).put(NewJob::default(), body.into()).value.is_ok()
        });
    }
}

fn take(broker: &Broker, queue: &[u8]) -> JobBody {
    let session = broker.turn(NOW).open_session(0);
    let mut turn = broker.turn(NOW);
    let _ = turn.caller(session).watch(queue);
    match turn.caller(session).take(Patience::None).value {
        Take::Granted(handout) => handout.body,
        other => panic!("{other:?}"),
    }
}

/// Opens a broker that keeps no body in memory.
fn open(disk: &GatedDisk) -> Broker {
    let log = log::Settings { segment_bytes: 256 << 10, ..log::Settings::default() };
    let options = Options::without_threads(Arc::new(disk.clone()), log);
    let clock: lineshaft_broker::Clock = Arc::new(|| NOW);
    let options = Options { clock: Some(clock), bodies_bytes_max: Some(0), ..options };
    Broker::open(options, NOW).expect("the disk is empty").0
}

#[test]
fn a_stop_ends_although_a_body_waits_for_a_descriptor() {
    let disk = GatedDisk { disk: FaultDisk::new(1, 64 << 20), gate: Arc::default() };
    let broker = open(&disk);
    put_all(&broker, b"queue");
    wait("all bodies leave the memory", || broker.turn(NOW).log_stats().stored_jobs == 300);
    disk.disk.set_fail_opens(true);
    let refused = disk.disk.refused_opens();
    let taken = take(&broker, b"queue");
    wait("an attempt fails", || disk.disk.refused_opens() > refused);
    broker.close(NOW).expect("no file must be opened for this");
    let JobBody::Loading(loading) = &taken else { panic!("{taken:?}") };
    assert!(loading.body().is_none() && !loading.has_failed());
}

#[test]
fn no_client_waits_for_the_disk_of_another_queue() {
    let disk = GatedDisk { disk: FaultDisk::new(1, 64 << 20), gate: Arc::default() };
    let broker = open(&disk);
    for queue in [b"slow", b"fast"] {
        put_all(&broker, queue);
    }
    wait("all bodies leave the memory", || broker.turn(NOW).log_stats().stored_jobs == 600);
    disk.gate.set_closed(true);
    let slow: Vec<_> = (0..9).map(|_| take(&broker, b"slow")).collect();
    let fast: Vec<_> = (0..9).map(|_| take(&broker, b"fast")).collect();
    wait("the fast queue is served", || fast.iter().all(|body| body.resident().is_some()));
    assert!(slow.iter().all(|body| body.resident().is_none()), "the gate is closed");
    disk.gate.set_closed(false);
    wait("the slow queue is served", || slow.iter().all(|body| body.resident().is_some()));
    for bodies in [slow, fast] {
        for (number, body) in (0_u32..).zip(bodies) {
            let body = body.resident().expect("it was loaded");
            assert_eq!(**body, *number.to_le_bytes().repeat(500));
        }
    }
    broker.close(NOW).expect("the disk works");
}
