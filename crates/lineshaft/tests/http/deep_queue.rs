//! Tests a queue with 5 million jobs, most of them in the log only. Each reply is compared with the
//! expected bytes, so the order of the jobs is checked, too. A second test has jobs that workers give back.
//!
//! In a fresh server, the first job has the number 1, and a client puts the others one after the
//! other. So the client knows all numbers in advance, and need not wait for a reply before it sends
//! the next request.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::RangeInclusive;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rustix::process::Signal;
use testkit::client::Client;

use crate::Site;
use crate::exposition::Page;
use crate::running::wait_for;

const JOBS: u64 = 5_000_000;
/// The requests of this many jobs are sent with one write.
const BATCH: u64 = 1_000;
/// Reads of the memory during a run. There is one after each of these parts of the jobs.
const PARTS: u64 = 50;

/// The number of bytes by which the resident memory can grow. A job takes about 100 bytes besides
/// its body of 100 bytes, so all jobs would take 1 GB, and 500 MB without their bodies. The limit
/// has these parts:
///
/// - 32 MiB: `memory.jobs` and `memory.bodies`.
/// - 60 MiB: three segments of 16 MiB with 110,000 jobs each, with their bodies. Jobs of a segment
///   stay in memory until the segment is full and its index file is written.
/// - 15 MiB: three bytes for each cold job.
/// - 43 MiB: the buffers of the log, the rows of an index file that is being written, and memory
///   that the allocator has not returned yet.
const GROWN_MAX: u64 = 150 << 20;

/// The end of each body. Before it, a body has the number of its job.
const REST: &str = concat!(
    "..............................................",
    "..............................................",
);

/// The jobs that the test removes from the middle of the queue.
const DELETED: u64 = 3_000_000;
const RESERVED_AND_DELETED: u64 = 3_456_789;
/// The jobs that the test uses, and leaves in the queue.
const KICKED: u64 = 4_000_001;
const PEEKED: u64 = 4_321_000;

fn body(id: u64) -> String {
    format!("{id:08}{REST}")
}

#[test]
fn a_queue_can_have_far_more_jobs_than_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("LINESHAFT_MEMORY_JOBS", "16MiB"),
        ("LINESHAFT_MEMORY_BODIES", "16MiB"),
        ("LINESHAFT_DATA_SEGMENT_SIZE", "16MiB"),
    ];
    let site = Site::start_with(folder.path(), &["--data", "d", "--sync", "never"], &settings);
    let memory = Memory::new(&site);
    let cold_jobs = || Page::read(&site.get("/metrics").body).value("lineshaft_cold_jobs") as u64;

    for part in parts(1..=JOBS) {
        exchange(&site, part, |id, requests, replies| {
            let _ = write!(requests, "put 0 0 600 100\r\n{id:08}{REST}\r\n");
            let _ = write!(replies, "INSERTED {id}\r\n");
        });
        memory.check("puts");
    }
    wait_for("most jobs to be cold", || (cold_jobs() > JOBS * 9 / 10).then_some(()));
    assert_eq!(ready_jobs(&site), JOBS);

    use_jobs_in_the_middle(&site);
    assert!(cold_jobs() > JOBS * 9 / 10, "single jobs do not bring the queue into memory");
    memory.check("requests for single jobs");

    for part in parts(1..=JOBS) {
        exchange(&site, part, |id, requests, replies| {
            if [DELETED, RESERVED_AND_DELETED].contains(&id) {
                return;
            }
            let _ = write!(requests, "reserve-with-timeout 0\r\ndelete {id}\r\n");
            let _ = write!(replies, "RESERVED {id} 100\r\n{id:08}{REST}\r\nDELETED\r\n");
        });
        memory.check("takes");
    }
    assert_eq!((ready_jobs(&site), cold_jobs()), (0, 0));
    let mut client = connect(&site);
    assert_eq!(client.reserve(0).unwrap(), None);
    assert_eq!(client.stats("stats").unwrap()["total-jobs"], JOBS.to_string());
}

/// The jobs of the next test. Their bodies are much longer than the entry of a change, so that changes
/// make too little garbage for reclaim.
const GIVEN_BACK: u64 = 100_000;

#[test]
fn jobs_that_workers_give_back_leave_the_memory_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("LINESHAFT_MEMORY_JOBS", "4MiB"),
        ("LINESHAFT_MEMORY_BODIES", "4MiB"),
        ("LINESHAFT_DATA_SEGMENT_SIZE", "4MiB"),
    ];
    let start = || Site::start_with(folder.path(), &["--data", "d", "--sync", "never"], &settings);
    let mut site = start();
    let body = "x".repeat(1000);
    exchange(&site, 1..=GIVEN_BACK, |id, requests, replies| {
        let _ = write!(requests, "put 0 0 600 1000\r\n{body}\r\n");
        let _ = write!(replies, "INSERTED {id}\r\n");
    });
    exchange(&site, 1..=GIVEN_BACK, |id, requests, replies| {
        let _ = write!(requests, "reserve-with-timeout 0\r\nrelease {id} 0 36000\r\n");
        let _ = write!(replies, "RESERVED {id} 1000\r\n{body}\r\nRELEASED\r\n");
    });
    let most_are_cold = |site: &Site| {
        let page = Page::read(&site.get("/metrics").body);
        (page.value("lineshaft_cold_jobs") as u64 > GIVEN_BACK / 2).then_some(())
    };
    wait_for("most jobs to be cold", || most_are_cold(&site));
    site.server.signal(Signal::KILL);
    site.server.wait();
    let site = start();
    wait_for("most jobs to be cold after a restart", || most_are_cold(&site));
    let stats = connect(&site).stats("stats-tube default").unwrap();
    assert_eq!(stats["current-jobs-delayed"], GIVEN_BACK.to_string());
}

/// Requests that name a job work wherever the job is.
fn use_jobs_in_the_middle(site: &Site) {
    let mut client = connect(site);
    let job = client.peek(&format!("peek {PEEKED}")).unwrap().unwrap();
    assert_eq!((job.id, job.body), (PEEKED, body(PEEKED).into_bytes()));
    let stats = client.stats(&format!("stats-job {}", PEEKED + 1)).unwrap();
    assert_eq!((stats["id"].as_str(), stats["state"].as_str()), ("4321001", "ready"));

    client.expect(&format!("delete {DELETED}"), "DELETED").unwrap();
    client.expect(&format!("delete {DELETED}"), "NOT_FOUND").unwrap();
    client.expect(&format!("peek {DELETED}"), "NOT_FOUND").unwrap();

    let reserve = |client: &mut Client, id: u64| {
        client.expect(&format!("reserve-job {id}"), &format!("RESERVED {id} 100")).unwrap();
        assert_eq!(client.read_body(100).unwrap(), body(id).into_bytes());
    };
    reserve(&mut client, RESERVED_AND_DELETED);
    client.expect(&format!("delete {RESERVED_AND_DELETED}"), "DELETED").unwrap();

    // Only buried and delayed jobs can be kicked.
    client.expect(&format!("kick-job {KICKED}"), "NOT_FOUND").unwrap();
    reserve(&mut client, KICKED);
    client.expect(&format!("bury {KICKED} 0"), "BURIED").unwrap();
    client.expect(&format!("kick-job {KICKED}"), "KICKED").unwrap();
    client.expect(&format!("peek {}", JOBS + 1), "NOT_FOUND").unwrap();
    assert_eq!(ready_jobs(site), JOBS - 2);
}

fn connect(site: &Site) -> Client {
    Client::connect(site.beanstalk.parse().unwrap()).unwrap()
}

fn ready_jobs(site: &Site) -> u64 {
    connect(site).stats("stats-tube default").unwrap()["current-jobs-ready"].parse().unwrap()
}

fn parts(ids: RangeInclusive<u64>) -> impl Iterator<Item = RangeInclusive<u64>> {
    let step = JOBS / PARTS;
    ids.step_by(step as usize).map(move |first| first..=first + step - 1)
}

/// Sends the requests for jobs on a new connection, and compares the replies. The function `write`
/// adds the requests for one job, and the expected replies.
fn exchange(
    site: &Site,
    ids: RangeInclusive<u64>,
    write: impl Fn(u64, &mut String, &mut String) + Send,
) {
    let mut replies = TcpStream::connect(&site.beanstalk).unwrap();
    let mut requests = replies.try_clone().unwrap();
    replies.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let (expect, expected) = sync_channel::<String>(16);
    let send = move || {
        for first in ids.clone().step_by(BATCH as usize) {
            let (mut batch, mut expected) = (String::new(), String::new());
            for id in first..=(*ids.end()).min(first + BATCH - 1) {
                write(id, &mut batch, &mut expected);
            }
            // If one of these fails, the other thread has ended, and says why.
            if expect.send(expected).is_err() || requests.write_all(batch.as_bytes()).is_err() {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(send);
        let result = expected.iter().try_for_each(|expected| read_exactly(&mut replies, &expected));
        drop(expected);
        // The other thread may be in the middle of a write.
        replies.shutdown(Shutdown::Both).unwrap();
        result.unwrap();
    });
}

fn read_exactly(replies: &mut TcpStream, expected: &str) -> Result<(), String> {
    let mut came = vec![0; expected.len()];
    replies.read_exact(&mut came).map_err(|error| format!("instead of a reply: {error}"))?;
    if came == expected.as_bytes() {
        return Ok(());
    }
    let pairs = || came.iter().zip(expected.as_bytes());
    let at = pairs().take_while(|(came, expected)| came == expected).count();
    let near = at.saturating_sub(150)..(at + 150).min(came.len());
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[near.clone()]).into_owned();
    Err(format!("got {}, expected {}", text(&came), text(expected.as_bytes())))
}

/// The resident memory of a server, compared with that of its start.
struct Memory {
    process: u32,
    before: u64,
}

impl Memory {
    fn new(site: &Site) -> Memory {
        let process = site.server.process_id();
        Memory { process, before: resident_bytes(process) }
    }

    /// Waits until the memory is below the limit. On a busy machine, the puts can be faster than the
    /// thread that builds index files.
    fn check(&self, when: &str) {
        let grown = || resident_bytes(self.process).saturating_sub(self.before);
        wait_for(&format!("little memory after {when}"), || (grown() < GROWN_MAX).then_some(()));
    }
}

fn resident_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}
