//! Tests `lineshaft gearmand` with the service files, scripts and habits of the original's
//! operators.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::packet::{
    CAN_DO, GRAB_JOB, JOB_CREATED, NO_JOB, NOOP, PRE_SLEEP, Peer, SUBMIT_JOB, SUBMIT_JOB_BG,
    SUBMIT_JOB_EPOCH, SUBMIT_JOB_HIGH_BG, WORK_COMPLETE, WORK_FAIL,
};
use crate::running::{Running, command, finish, wait_for};

/// With these options, a test does not use the system's folders or the ports of other tests.
const LOCAL: [&str; 8] = ["-L", "127.0.0.1", "-p", "0", "-P", "pid", "-l", "log"];

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["gearmand"], &LOCAL[..], arguments].concat()
}

/// Starts the server and waits for its address.
fn start(folder: &Path, arguments: &[&str]) -> (Running, String) {
    let mut server = Running::spawn(command(folder, &with(arguments)));
    let address = server.gearmand_address();
    (server, address)
}

/// Returns the exit code, standard output and standard error.
fn ended(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let finished = finish(command(folder, &[&["gearmand"], arguments].concat()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = finished.status.code().expect("no signal ended it");
    (code, text(&finished.stdout), text(&finished.stderr))
}

#[test]
fn called_by_the_originals_name_it_takes_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let mut starting = command(folder.path(), &LOCAL);
    starting.arg0("/usr/sbin/gearmand");
    let mut server = Running::spawn(starting);
    let mut peer = Peer::connect(&server.gearmand_address());
    assert_eq!(peer.ask("verbose"), "OK ERROR\n");
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    assert_eq!(pid, format!("{}\n", server.process_id()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert!(!folder.path().join("pid").exists());
}

#[test]
fn arguments_are_checked_with_the_originals_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    assert_eq!(ended(place, &["--check-args"]), (0, String::new(), String::new()));
    assert_eq!(ended(place, &["--check-args", "-q", "bogus", "-r", "bogus"]).0, 0);
    for (arguments, message) in [
        (&["--bogus"][..], "gearmand: unrecognised option '--bogus'\n"),
        (&["word"], "gearmand: unrecognised option 'word'\n"),
        (&["--verbose", "loud"], "gearmand: Invalid value for --verbose supplied\n"),
        (&["--config-file", "none"], "gearmand: Could not open configuration file.\n"),
        (&["-r", "bogus"], "gearmand: Unknown protocol module : bogus\n"),
        (
            &["-r", "http", "-L", "unix:s", "-l", "log"],
            "gearmand: -r http needs a port, and -L names a unix socket\n",
        ),
    ] {
        let (code, _, stderr) = ended(place, arguments);
        assert_eq!((code, stderr.as_str()), (1, message));
    }
    let (code, _, stderr) =
        ended(place, &["-L", "127.0.0.1", "-p", "0", "-l", "stderr", "-P", "/nonexistent/pid"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("Could not open pid file for writing: /nonexistent/pid"), "{stderr}");
    let (code, _, stderr) = ended(place, &["-l", "stderr", "-P", "pid", "-q", "bogus"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("Error while initializing the queue : bogus"), "{stderr}");
    assert!(!place.join("pid").exists());
}

#[test]
fn help_and_version_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stdout, _) = ended(folder.path(), &["--help"]);
    assert!(code == 0 && stdout.contains("-w, --worker-wakeup ARG"), "{stdout}");
    let (code, stdout, _) = ended(folder.path(), &["-V"]);
    assert!(code == 0 && stdout.starts_with("\ngearmand 1.1.20"), "{stdout}");
}

#[test]
fn the_configuration_file_and_the_environment_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(
        folder.path().join("conf"),
        "-L 127.0.0.1 --pid-file=pid\n-l stderr --verbose NOTICE --job-handle-prefix PFX\n",
    )
    .unwrap();
    let mut starting = command(folder.path(), &["gearmand", "--config-file", "conf"]);
    starting.env("GEARMAND_PORT", free.port().to_string());
    let mut server = Running::spawn(starting);
    assert_eq!(server.gearmand_address(), free.to_string());
    let mut peer = Peer::connect(&free.to_string());
    assert_eq!(peer.ask("verbose"), "OK NOTICE\n");
    assert_eq!(peer.submit_background("f", ""), "PFX:1");
}

#[test]
fn a_port_that_becomes_free_soon_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let arguments =
        ["gearmand", "-L", "127.0.0.1", "-p", &port, "-P", "pid", "-l", "log", "--verbose", "INFO"];
    let mut server = Running::spawn(command(folder.path(), &arguments));
    wait_for("the first attempt", || {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        log.contains("in use, trying again").then_some(())
    });
    drop(taken);
    assert_eq!(server.gearmand_address(), address.to_string());
}

#[test]
fn lost_attempts_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, address) = start(folder.path(), &["-j", "2"]);
    let mut client = Peer::connect(&address);
    client.send(SUBMIT_JOB, &["f", "", "x"]);
    let handle = client.expect(JOB_CREATED).remove(0);
    for _ in 0..2 {
        let mut worker = Peer::connect(&address);
        worker.send(CAN_DO, &["f"]);
        wait_for("the job", || worker.try_grab());
    }
    assert_eq!(client.expect(WORK_FAIL), [handle]);
}

#[test]
fn sigusr1_ends_it_when_the_last_job_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = start(folder.path(), &["--verbose", "INFO"]);
    let mut client = Peer::connect(&address);
    client.submit_background("f", "1");
    let mut worker = Peer::connect(&address);
    worker.send(CAN_DO, &["f"]);
    let first = worker.grab();
    server.signal(Signal::USR1);
    wait_for("the end of listening", || TcpStream::connect(&address).is_err().then_some(()));
    // Existing clients and workers can continue.
    client.submit_background("f", "2");
    worker.send(WORK_COMPLETE, &[&first[0], ""]);
    let second = worker.grab();
    worker.send(WORK_COMPLETE, &[&second[0], ""]);
    client.expect_end();
    assert_eq!(server.wait().code(), Some(0));
    assert!(!folder.path().join("pid").exists());
}

#[test]
fn sigusr1_ends_an_idle_one_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, _) = start(folder.path(), &[]);
    server.signal(Signal::USR1);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn sigusr1_leaves_jobs_that_the_log_keeps_for_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-q", "libsqlite3", "--libsqlite3-db", "queue.db"];
    let (mut server, address) = start(folder.path(), &arguments);
    let mut client = Peer::connect(&address);
    let kept = client.submit_background("f", "");
    client.send(SUBMIT_JOB, &["g", "", "x"]);
    let handle = client.expect(JOB_CREATED).remove(0);
    let mut worker = Peer::connect(&address);
    worker.send(CAN_DO, &["g"]);
    server.signal(Signal::USR1);
    wait_for("the end of listening", || TcpStream::connect(&address).is_err().then_some(()));
    // A client waits for this job. So the server runs until a worker has finished the job.
    let taken = worker.grab();
    worker.send(WORK_COMPLETE, &[&taken[0], ""]);
    assert_eq!(client.expect(WORK_COMPLETE)[0], handle);
    client.expect_end();
    assert_eq!(server.wait().code(), Some(0));

    let (_server, address) = start(folder.path(), &arguments);
    assert_eq!(Peer::connect(&address).status(&kept).0, "1");
}

#[test]
fn sighup_reopens_the_log_file() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = start(folder.path(), &["--verbose", "INFO"]);
    let (log, moved) = (folder.path().join("log"), folder.path().join("log.1"));
    std::fs::rename(&log, &moved).unwrap();
    server.signal(Signal::HUP);
    wait_for("the new file", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("log file reopened").then_some(())
    });
}

#[test]
fn a_queue_that_is_kept_survives_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-q", "libsqlite3", "--libsqlite3-db", "queue.db", "--libsqlite3-table=t"];
    let (mut server, address) = start(folder.path(), &arguments);
    let mut client = Peer::connect(&address);
    let handle = client.submit_background("f", "");
    server.signal(Signal::KILL);
    server.wait();
    assert!(folder.path().join("queue.db.lineshaft").is_dir());

    let (mut server, address) = start(folder.path(), &arguments);
    assert!(server.stderr().contains("--libsqlite3-table is ignored"));
    let mut client = Peer::connect(&address);
    assert_eq!(client.status(&handle).0, "1");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));

    std::fs::write(folder.path().join("queue.db"), "SQLite format 3").unwrap();
    let (code, _, stderr) = ended(folder.path(), &with(&arguments)[1..]);
    assert!(code == 1 && stderr.contains("lineshaft import gearmand"), "{stderr}");
}

/// The lines of a listing in alphabetical order, without the final dot.
fn listing(address: &str, command: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{command}\n").as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut lines: Vec<String> = lines.take_while(|line| line != ".").collect();
    lines.sort();
    lines
}

#[test]
fn queued_scheduled_and_running_jobs_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-q", "libsqlite3", "--libsqlite3-db", "queue.db"];
    let (mut server, address) = start(folder.path(), &arguments);
    let (mut client, mut worker) = (Peer::connect(&address), Peer::connect(&address));
    worker.send(CAN_DO, &["f"]);
    client.submit_background("f", "running");
    worker.grab();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let soon = now() + 3;
    for (kind, arguments) in [
        (SUBMIT_JOB_BG, &["f", "u1", "normal"][..]),
        (SUBMIT_JOB_HIGH_BG, &["f", "u2", "high"]),
        (SUBMIT_JOB_EPOCH, &["soon", "", &soon.to_string(), "x"]),
        (SUBMIT_JOB_EPOCH, &["late", "", &(soon + 3600).to_string(), "x"]),
        // After the crash, no client waits for this job.
        (SUBMIT_JOB, &["f", "", "foreground"]),
    ] {
        client.send(kind, arguments);
        client.expect(JOB_CREATED);
    }
    server.signal(Signal::KILL);
    server.wait();

    let (_server, address) = start(folder.path(), &arguments);
    let kept = ["f\t1\t2\t0\t0", "late\t0\t1\t0\t0", "soon\t0\t1\t0\t0"];
    assert_eq!(listing(&address, "prioritystatus"), kept);
    let mut worker = Peer::connect(&address);
    worker.send(CAN_DO, &["f"]);
    let workloads: Vec<String> = (0..3).map(|_| worker.grab().remove(2)).collect();
    assert_eq!(workloads, ["high", "running", "normal"]);
    worker.send(CAN_DO, &["late"]);
    worker.send(GRAB_JOB, &[]);
    worker.expect(NO_JOB);
    worker.send(CAN_DO, &["soon"]);
    worker.send(PRE_SLEEP, &[]);
    worker.expect(NOOP);
    assert_eq!(worker.grab()[1], "soon");
    assert!(now() >= soon, "it came too early");
}

#[test]
fn without_a_queue_type_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = start(folder.path(), &[]);
    Peer::connect(&address).submit_background("f", "x");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let (_server, address) = start(folder.path(), &[]);
    let mut worker = Peer::connect(&address);
    worker.send(CAN_DO, &["f"]);
    worker.send(GRAB_JOB, &[]);
    worker.expect(NO_JOB);
}

/// Kills the process when the test ends, even if the test fails.
struct Ending(Pid);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn in_the_background_the_start_is_over_when_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let finished = finish(command(folder.path(), &with(&["-d"])));
    let said = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(finished.status.code(), Some(0), "{said}");
    let (_, said) = said.split_once(" on ").unwrap();
    let (address, _) = said.split_once(',').unwrap();
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let server = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let ending = Ending(server);
    let mut peer = Peer::connect(address);
    assert_eq!(peer.ask("getpid"), format!("OK {pid}"));
    kill_process(server, Signal::TERM).unwrap();
    wait_for("the end", || test_kill_process(server).is_err().then_some(()));
    std::mem::forget(ending);
    assert!(!folder.path().join("pid").exists());
}

#[test]
fn a_start_in_the_background_that_fails_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) = ended(folder.path(), &with(&["-d", "-q", "bogus"])[1..]);
    assert_eq!(code, 1);
    assert!(stderr.contains("Error while initializing the queue : bogus"), "{stderr}");
}
