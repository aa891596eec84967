//! Tests the effect of gearmand's flags on clients and workers. The tests run with `lineshaft
//! gearmand` and with the original. So the original defines the expected results.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use testkit::process::Server;
use testkit::process::free_port;
use testkit::wait::until;

use crate::packet::{
    CAN_DO, ECHO_REQ, ECHO_RES, GRAB_JOB, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP, Peer, SUBMIT_JOB,
    WORK_COMPLETE, WORK_FAIL,
};
use crate::programs;

const ERROR: u32 = 19;
const CAN_DO_TIMEOUT: u32 = 23;
const WORK_EXCEPTION: u32 = 25;

/// The time limit of all waits here.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts Lineshaft with these flags, and the original if it is installed. Calls `look` with each
/// of them.
fn check(flags: &[&str], look: impl Fn(&Server)) -> Result<()> {
    for program in [Some(programs::lineshaft_as_gearmand()), programs::reference()] {
        let Some(program) = program.map(|program| program.with(flags)) else { continue };
        // The output is visible only if the test fails.
        eprintln!("with {program:?}");
        look(&program.start()?);
    }
    Ok(())
}

fn connect(server: &Server) -> Peer {
    Peer::connect(&server.address().to_string())
}

/// Checks that the server sent no message without a request: the next message must be the reply to
/// this request.
fn expect_silence(peer: &mut Peer) {
    peer.send(ECHO_REQ, &["silence"]);
    peer.expect(ECHO_RES);
}

/// Submits a foreground job and returns its handle.
fn submit(client: &mut Peer, function: &str) -> String {
    client.send(SUBMIT_JOB, &[function, "", "x"]);
    client.expect(JOB_CREATED).remove(0)
}

/// The functions of nine jobs, in the order in which one worker gets them.
fn order_of_nine(server: &Server) -> String {
    let (mut client, mut worker) = (connect(server), connect(server));
    for function in ["a", "b", "c"] {
        worker.send(CAN_DO, &[function]);
        for _ in 0..3 {
            client.submit_background(function, "x");
        }
    }
    let mut order = String::new();
    for _ in 0..9 {
        let job = worker.grab();
        worker.send(WORK_COMPLETE, &[&job[0], ""]);
        order.push_str(&job[1]);
    }
    order
}

#[test]
fn functions_take_turns_with_round_robin_only() -> Result<()> {
    check(&[], |server| assert_eq!(order_of_nine(server), "cccbbbaaa"))?;
    for flag in ["-R", "--round-robin"] {
        check(&[flag], |server| assert_eq!(order_of_nine(server), "cbacbacba"))?;
    }
    Ok(())
}

fn sleepers(server: &Server) -> [Peer; 3] {
    [(); 3].map(|()| {
        let mut worker = connect(server);
        worker.send(CAN_DO, &["f"]);
        worker.send(PRE_SLEEP, &[]);
        // The reply shows that the server has handled all earlier requests. So the worker sleeps.
        expect_silence(&mut worker);
        worker
    })
}

#[test]
fn a_job_wakes_all_sleepers_or_as_many_as_the_flag_says() -> Result<()> {
    check(&[], |server| {
        let mut workers = sleepers(server);
        connect(server).submit_background("f", "x");
        for worker in &mut workers {
            worker.expect(NOOP);
        }
    })?;
    check(&["-w", "1"], |server| {
        let mut workers = sleepers(server);
        let mut client = connect(server);
        for woken in 0..4 {
            client.submit_background("f", "x");
            for (index, worker) in workers.iter_mut().enumerate() {
                if index == woken {
                    worker.expect(NOOP);
                }
                expect_silence(worker);
            }
        }
    })?;
    check(&["--worker-wakeup=2"], |server| {
        let [mut first, mut second, mut third] = sleepers(server);
        let mut client = connect(server);
        client.submit_background("f", "x");
        first.expect(NOOP);
        second.expect(NOOP);
        expect_silence(&mut third);
        client.submit_background("f", "x");
        third.expect(NOOP);
    })
}

#[test]
fn a_job_fails_when_its_attempts_are_lost_with_their_workers() -> Result<()> {
    check(&["-j", "2"], |server| {
        let mut client = connect(server);
        let handle = submit(&mut client, "f");
        for attempt in 1..=2 {
            let mut worker = connect(server);
            worker.send(CAN_DO, &["f"]);
            assert_eq!(worker.grab(), [&handle, "f", "x"]);
            drop(worker);
            if attempt == 1 {
                let line = format!("{handle}\t1\t0\t0\n");
                until("one attempt is lost", || connect(server).ask("show jobs") == line);
            }
        }
        assert_eq!(client.expect(WORK_FAIL), [handle]);
        assert_eq!(connect(server).ask("show jobs"), ".\n");
    })
}

#[test]
fn a_job_fails_when_its_attempts_are_lost_by_time() -> Result<()> {
    check(&["--job-retries=2"], |server| {
        let (mut client, mut worker) = (connect(server), connect(server));
        let handle = submit(&mut client, "f");
        worker.send(CAN_DO_TIMEOUT, &["f", "1000"]);
        worker.grab();
        until("the first attempt is lost", || client.status(&handle).1 == "0");
        worker.grab();
        assert_eq!(client.expect(WORK_FAIL), [handle.as_str()]);
        worker.send(WORK_COMPLETE, &[&handle, "late"]);
        assert_eq!(worker.expect(ERROR)[0], "JOB_NOT_FOUND");
        worker.send(GRAB_JOB, &[]);
        worker.expect(NO_JOB);
    })
}

#[test]
fn without_a_limit_a_job_has_any_number_of_attempts() -> Result<()> {
    check(&["-j", "0"], |server| {
        let mut client = connect(server);
        let handle = submit(&mut client, "f");
        for _ in 0..10 {
            let mut worker = connect(server);
            worker.send(CAN_DO, &["f"]);
            until("the job comes back", || worker.try_grab().is_some());
        }
        let mut worker = connect(server);
        worker.send(CAN_DO, &["f"]);
        until("the job comes back", || worker.try_grab().is_some());
        worker.send(WORK_COMPLETE, &[&handle, "done"]);
        assert_eq!(client.expect(WORK_COMPLETE), [handle, "done".to_owned()]);
    })
}

#[test]
fn exceptions_go_unrequested_only_with_the_flag() -> Result<()> {
    let raise = |server: &Server| {
        let (mut client, mut worker) = (connect(server), connect(server));
        let handle = submit(&mut client, "f");
        worker.send(CAN_DO, &["f"]);
        worker.grab();
        worker.send(WORK_EXCEPTION, &[&handle, "boom"]);
        (client, handle)
    };
    check(&["--exceptions"], |server| {
        let (mut client, handle) = raise(server);
        assert_eq!(client.expect(WORK_EXCEPTION), [handle, "boom".to_owned()]);
    })?;
    check(&[], |server| {
        let (mut client, handle) = raise(server);
        // The original sends an extra NUL after the handle.
        assert_eq!(client.expect(WORK_FAIL)[0], handle);
    })
}

#[test]
fn handles_begin_with_the_prefix() -> Result<()> {
    check(&["--job-handle-prefix", "PFX"], |server| {
        let mut client = connect(server);
        assert_eq!(client.submit_background("f", "x"), "PFX:1");
        assert_eq!(submit(&mut client, "f"), "PFX:2");
        assert_eq!(client.status("PFX:1").0, "1");
        assert_eq!(client.status("H:other:1").0, "0");
    })
}

/// Sends a request by HTTP. The caller reads the answer later.
fn request(port: u16, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    stream.write_all(format!("{head}\r\n{length}\r\n{body}").as_bytes()).unwrap();
    stream
}

/// Returns the status line, the job's outcome, and the body.
fn answer(mut stream: TcpStream) -> (String, String, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let outcome = head.lines().find_map(|line| line.strip_prefix("X-Gearman-Command: "));
    let status = head.lines().next().unwrap_or_default();
    (status.to_owned(), outcome.unwrap_or_default().to_owned(), body.to_owned())
}

fn found(status: &str, outcome: &str, body: &str) -> (String, String, String) {
    (status.to_owned(), outcome.to_owned(), body.to_owned())
}

#[test]
fn jobs_come_by_http_with_the_protocol_flag() -> Result<()> {
    const OK: &str = "HTTP/1.0 200 OK";
    let port = free_port()?;
    check(&["-r", "http", "--http-port", &port.to_string()], |server| {
        let mut worker = connect(server);
        worker.send(CAN_DO, &["f"]);
        let large = "x".repeat(100_000);
        let waiting = request(port, "POST //f HTTP/1.0", &large);
        let mut job = None;
        until("the job", || {
            job = worker.try_grab();
            job.is_some()
        });
        let job = job.unwrap_or_default();
        assert_eq!((job[1].as_str(), job[2].len()), ("f", large.len()));
        worker.send(WORK_COMPLETE, &[&job[0], "done"]);
        assert_eq!(answer(waiting), found(OK, "WORK_COMPLETE", "done"));

        let background =
            "PUT /b?x=%20 HTTP/1.1\r\nX-Gearman-Background: true\r\nX-Gearman-Priority: low";
        assert_eq!(answer(request(port, background, "1")), found(OK, "JOB_CREATED", ""));
        let high =
            "POST /b?x=%20 HTTP/1.1\r\nX-Gearman-Background: true\r\nX-Gearman-Priority: high";
        assert_eq!(answer(request(port, high, "2")), found(OK, "JOB_CREATED", ""));
        let mut other = connect(server);
        other.send(CAN_DO, &["b?x=%20"]);
        assert_eq!([other.grab().remove(2), other.grab().remove(2)], ["2", "1"]);
        let nowhere = answer(request(port, "GET / HTTP/1.0", ""));
        assert_eq!(nowhere, found("HTTP/1.0 404 NOT_FOUND", "", ""));
    })
}

#[test]
fn outcomes_come_by_http() -> Result<()> {
    const OK: &str = "HTTP/1.0 200 OK";
    let port = free_port()?;
    check(&["--protocol=http", &format!("--http-port={port}")], |server| {
        let mut worker = connect(server);
        worker.send(CAN_DO, &["f"]);
        for (kind, arguments, wanted) in [
            (WORK_COMPLETE, &["result"][..], found(OK, "WORK_COMPLETE", "result")),
            (WORK_COMPLETE, &[""], found(OK, "WORK_COMPLETE", "")),
            (WORK_FAIL, &[], found(OK, "WORK_FAIL", "")),
        ] {
            let waiting = request(port, "GET /f HTTP/1.0", "");
            until("the job", || connect(server).ask("status").starts_with("f\t1\t"));
            let job = worker.grab();
            worker.send(kind, &[&[job[0].as_str()], arguments].concat());
            assert_eq!(answer(waiting), wanted);
        }
    })
}
