//! Tests the load loop. A small server replies INSERTED to each line of a put.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::modes::{put_drivers, take_drivers};

/// Starts a server that accepts `connections` one after another, and serves each on a thread. Every
/// `put` of a one-byte body gets INSERTED, in pieces if `piecemeal` is set. The server ends when
/// its clients have disconnected.
fn server(connections: usize, piecemeal: bool) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (mut stream, _) = listener.accept().expect("client connects");
                stream.set_nodelay(true).expect("an open socket");
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        let puts = memchr::memchr_iter(b'p', &buffer[..length]).count();
                        let empty = memchr::memchr_iter(b'v', &buffer[..length]).count();
                        let reply =
                            ["INSERTED 1\r\n".repeat(puts), "TIMED_OUT\r\n".repeat(empty)].concat();
                        let pieces = if piecemeal {
                            reply.as_bytes().chunks(5)
                        } else {
                            reply.as_bytes().chunks(9999)
                        };
                        for piece in pieces {
                            if stream.write_all(piece).is_err() {
                                return;
                            }
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    (address, thread)
}

fn plan(address: SocketAddr, drivers: Vec<Box<dyn Driver>>, meter: &Meter) -> LoadPlan<'_> {
    LoadPlan {
        address,
        drivers,
        depth: 4,
        count: Some(1000),
        duration: Duration::from_secs(20),
        least: 0,
        warm_up: Duration::ZERO,
        rate: None,
        spin: false,
        server_pid: None,
        meter,
    }
}

#[test]
fn a_counted_closed_loop_does_exactly_that_many() {
    for piecemeal in [false, true] {
        let (address, thread) = server(3, piecemeal);
        let meter = Meter::hidden();
        let report =
            run(plan(address, put_drivers("default", 3, 1), &meter)).expect("the load runs");
        assert_eq!((report.finished, report.failed, report.missed), (1000, 0, 0));
        assert!(report.latency.max_us >= report.latency.p50_us);
        assert_eq!(report.timeline.iter().sum::<u32>(), 1000);
        assert!(!report.curve.is_empty());
        thread.join().expect("the server ends with its clients");
    }
}

#[test]
fn an_open_loop_keeps_to_its_rate() {
    let (address, thread) = server(2, false);
    let meter = Meter::hidden();
    let mut plan = plan(address, put_drivers("default", 2, 1), &meter);
    plan.count = None;
    plan.rate = Some(2000.0);
    plan.duration = Duration::from_millis(250);
    let report = run(plan).expect("the load runs");
    // There are never more operations than are due. There are fewer only if the machine stalled.
    assert!((1..=501).contains(&report.finished), "{report:?}");
    thread.join().expect("the server ends with its clients");
}

#[test]
fn a_timed_run_goes_on_until_enough_has_ended() {
    let (address, thread) = server(2, false);
    let meter = Meter::hidden();
    let mut plan = plan(address, put_drivers("default", 2, 1), &meter);
    plan.count = None;
    plan.duration = Duration::ZERO;
    plan.least = 100;
    let report = run(plan).expect("the load runs");
    assert!(report.finished >= 100, "{report:?}");
    thread.join().expect("the server ends with its clients");
}

#[test]
fn an_empty_queue_ends_the_run() {
    let (address, thread) = server(2, false);
    let meter = Meter::hidden();
    let mut plan = plan(address, take_drivers("default", 2), &meter);
    plan.count = None;
    let report = run(plan).expect("the load runs");
    assert_eq!(report.finished, 0);
    assert!(report.missed > 0 && report.seconds < 10.0, "{report:?}");
    thread.join().expect("the server ends with its clients");
}
