//! Tests `lineshaft work`.
//!
//! A busy machine can delay any process by a second or two. So the tests do not rely on a fast
//! tool. They wait for each event before they continue.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rustix::process::Signal;

use super::gate::Gate;
use super::{Kind, Tool, World, wait_until};

/// Options for quick tests: no pause between attempts, and the tool ends when no job is left.
const QUICK: [&str; 3] = ["--drain", "--backoff", "0"];

fn work<'a>(queue: &'a str, options: &[&'a str], command: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["work", queue];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", command]);
    arguments
}

#[test]
fn the_command_gets_the_job_and_finishes_it() {
    for world in World::each() {
        world.run_well(&["put", "mail", "to=ann", "to=bob"], b"");
        let command = "echo $(cat) $LINESHAFT_JOB_ID $LINESHAFT_QUEUE $LINESHAFT_ATTEMPT";
        let output = world.run_well(&work("mail", &["--drain"], command), b"");
        assert_eq!(output.stdout, "to=ann 1 mail 1\nto=bob 2 mail 1\n");
        assert!(output.stderr.starts_with("lineshaft: 2 jobs done in "), "{output:?}");
        assert_eq!(world.stat("stats", "current-jobs-ready"), "0");
    }
}

#[test]
fn several_queues_are_served() {
    for world in World::each() {
        world.run_well(&["put", "a", "x"], b"");
        world.run_well(&["put", "b", "y"], b"");
        world.run_well(&["put", "default", "z"], b"");
        let command = "echo $LINESHAFT_QUEUE";
        let output = world.run_well(&["work", "a", "b", "--drain", "--", "sh", "-c", command], b"");
        assert_eq!(output.stdout, "a\nb\n");
        assert_eq!(world.stat("stats-tube default", "current-jobs-ready"), "1");
    }
}

#[test]
fn a_failing_job_is_tried_again_and_then_buried() {
    for world in World::each() {
        world.run_well(&["put", "--priority", "9", "mail", "x"], b"");
        let options = [&QUICK[..], &["--attempts", "3"]].concat();
        let output = world.run(&work("mail", &options, "echo $LINESHAFT_ATTEMPT; exit 3"), b"");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, "1\n2\n3\n");
        for line in [
            "job 1 of mail: exit code 3, attempt 1 of 3; next attempt in 0 s\n",
            "job 1 of mail: exit code 3, attempt 3 of 3; buried\n",
            "lineshaft: 0 jobs done, 2 given back, 1 buried in ",
        ] {
            assert!(output.stderr.contains(line), "{output:?}");
        }
        let values = ["state", "pri"].map(|key| world.stat("stats-job 1", key));
        assert_eq!(values, ["buried", "9"]);

        world.run_well(&["kick", "mail"], b"");
        let output = world.run(&work("mail", &options, "kill -9 $$"), b"");
        let past = "killed by signal 9, attempt 4, past the limit of 3; buried";
        assert!(output.stderr.contains(past), "{output:?}");
    }
}

#[test]
fn draining_waits_for_the_next_attempt() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let options = ["--drain", "--backoff", "1s", "--jobs", "2"];
        let output = world.run_well(&work("mail", &options, "[ $LINESHAFT_ATTEMPT = 2 ]"), b"");
        assert!(output.stderr.contains("1 job done, 1 given back"), "{output:?}");
    }
}

#[test]
fn commands_run_at_the_same_time() {
    for world in World::each() {
        world.run_well(&["put", "mail", "1", "2", "3", "4"], b"");
        let folder = world.path("started");
        std::fs::create_dir(&folder).unwrap();
        // Each command waits until all four commands have begun.
        let command = format!(
            "touch {folder}/$LINESHAFT_JOB_ID; \
         while [ $(ls {folder} | wc -l) -lt 4 ]; do sleep 0.02; done"
        );
        world.run_well(&work("mail", &["--drain", "--jobs", "4"], &command), b"");
    }
}

#[test]
fn the_lease_is_renewed_while_the_command_runs() {
    for world in World::each() {
        world.run_well(&["put", "--ttr", "3s", "mail", "x"], b"");
        let gate = Gate::new(&world);
        let tool = world.start(&work("mail", &["--drain"], &gate.command()));
        // The ttr is 3 s, and the lease is renewed once per second. So four renewals take longer
        // than the ttr.
        let renewals = || world.stat("stats", "cmd-touch").parse::<u64>().unwrap();
        wait_until("four renewals", || renewals() >= 4);
        gate.open();
        let output = tool.wait();
        assert!(output.stderr.starts_with("lineshaft: 1 job done"), "{output:?}");
    }
}

#[test]
fn the_first_ctrl_c_finishes_what_runs() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x", "y"], b"");
        let gate = Gate::new(&world);
        let tool = world.start(&work("mail", &[], &gate.command()));
        gate.wait_until_running();
        tool.signal(Signal::INT);
        tool.wait_for("stopping when the running commands end");
        gate.open();
        let output = tool.wait();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.contains("1 job done in"), "{output:?}");
        assert_eq!(world.stat("stats-tube mail", "current-jobs-ready"), "1");
    }
}

#[test]
fn an_idle_worker_stops_at_once() {
    for world in World::each() {
        let tool = world.start(&work("mail", &["--jobs", "3"], "true"));
        wait_until("three waiting", || world.stat("stats", "current-waiting") == "3");
        tool.signal(Signal::TERM);
        let output = tool.wait();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.contains("0 jobs done in"), "{output:?}");
    }
}

#[test]
fn the_second_ctrl_c_gives_the_job_back() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let pid_file = world.path("pid");
        // A child process of the command must end together with the command.
        let command =
            format!("sleep 100 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait");
        let tool = world.start(&work("mail", &[], &command));
        wait_until("the command", || Path::new(&pid_file).exists());
        tool.signal(Signal::INT);
        tool.wait_for("again to stop them");
        tool.signal(Signal::INT);
        let output = tool.wait();
        assert_eq!(output.status.code(), Some(130));
        assert!(output.stderr.contains("job 1 of mail: stopped and given back"), "{output:?}");
        let values = ["state", "releases"].map(|key| world.stat("stats-job 1", key));
        assert_eq!(values, ["ready", "1"]);
        let child = std::fs::read_to_string(pid_file).unwrap();
        let process = format!("/proc/{}", child.trim());
        wait_until("the command's child to end", || !Path::new(&process).exists());
    }
}

#[test]
fn a_command_that_cannot_run_stops_the_work() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let output = world.run(&["work", "mail", "--", "/no/such/program"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(
            output.stderr.contains("cannot run `/no/such/program`: No such file"),
            "{output:?}"
        );
        // The failed start has not used an attempt.
        let values = ["state", "reserves"].map(|key| world.stat("stats-job 1", key));
        assert_eq!(values, ["ready", "0"]);
        let output = world.run(&["work", "mail", "--", "no-such-program"], b"");
        assert!(output.stderr.contains("cannot run `no-such-program`: No such file"), "{output:?}");
        let output = world.run(&["work", "mail", "--", "/usr"], b"");
        assert!(output.stderr.contains("cannot run `/usr`: permission denied"), "{output:?}");
    }
}

#[test]
fn a_command_that_takes_too_long_is_stopped_and_its_job_has_failed() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        // The command ends with exit code 0 after SIGTERM. The job fails nevertheless, because it
        // reached the time limit.
        let command = "trap 'exit 0' TERM; sleep 100 & wait";
        let options = ["--drain", "--timeout", "1s", "--attempts", "1"];
        let output = world.run(&work("mail", &options, command), b"");
        assert_eq!(output.status.code(), Some(1));
        let stopped = "job 1 of mail: stopped after 1 s (--timeout), attempt 1 of 1; buried\n";
        assert!(output.stderr.contains(stopped), "{output:?}");
        assert_eq!(world.stat("stats-job 1", "state"), "buried");
    }
}

#[test]
fn a_job_that_kills_its_workers_is_buried() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        for _ in 0..3 {
            // Each connection ends while it holds the job.
            wait_until("the job", || world.client("mail").reserve(0).unwrap().is_some());
        }
        wait_until("the job to be back", || world.stat("stats-job 1", "state") == "ready");
        let output = world.run(&work("mail", &["--drain", "--attempts", "3"], "echo ran"), b"");
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""), "{output:?}");
        assert!(output.stderr.contains("too many workers were lost; buried"), "{output:?}");
        assert_eq!(world.stat("stats-job 1", "state"), "buried");
    }
}

#[test]
fn a_job_of_a_server_that_lost_it_is_stopped() {
    for mut world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let gate = Gate::new(&world);
        let tool = world.start(&work("mail", &[], &gate.command()));
        gate.wait_until_running();
        world.restart();
        tool.wait_for("job 1 of mail: lost its lease");
        gate.forget_run();
        // The worker must continue with the next job.
        world.run_well(&["put", "mail", "y"], b"");
        gate.wait_until_running();
        tool.signal(Signal::INT);
        tool.wait_for("again to stop them");
        tool.signal(Signal::INT);
        let output = tool.wait();
        assert!(output.stderr.contains("0 jobs done, 1 given back, 1 lost"), "{output:?}");
    }
}

#[test]
fn a_job_of_a_restarted_server_is_taken_back() {
    for mut world in World::each_durable() {
        world.run_well(&["put", "mail", "x"], b"");
        let gate = Gate::new(&world);
        let command = gate.command() + "; echo ran";
        let tool = world.start(&work("mail", &[], &command));
        gate.wait_until_running();
        world.restart();
        tool.wait_for("reconnected and took it back");
        gate.open();
        wait_until("the job to be finished", || world.stat("stats-job 1", "state").is_empty());
        tool.signal(Signal::INT);
        let output = tool.wait();
        assert_eq!(output.stdout, "ran\n");
        assert!(output.stderr.contains("1 job done in"), "{output:?}");
    }
}

#[test]
fn a_command_is_stopped_when_another_worker_has_its_job() {
    // The original misses the ends of some leases (defect D1), so the test cannot use it.
    let world = World::new(Kind::Lineshaft, false).unwrap();
    world.run_well(&["put", "--ttr", "1s", "mail", "x"], b"");
    let gate = Gate::new(&world);
    let tool = world.start(&work("mail", &[], &gate.command()));
    gate.wait_until_running();
    // A stopped worker does not renew the lease, like a worker on a machine that hangs.
    tool.signal(Signal::STOP);
    let mut other = world.client("mail");
    // Bury the job, so that the stopped worker cannot take it again. The ttr is so short that the
    // lease can end before the bury. Then repeat both commands.
    wait_until("the other worker", || {
        other.reserve(1).unwrap().is_some() && other.command("bury 1 0").unwrap() == "BURIED"
    });
    tool.signal(Signal::CONT);
    tool.wait_for("job 1 of mail: lost its lease");
    tool.signal(Signal::INT);
    let output = tool.wait();
    // With this short ttr, the job may have run more than once.
    let summary = output.stderr.lines().last().unwrap_or_default();
    assert!(summary.starts_with("lineshaft: 0 jobs done, "), "{output:?}");
    assert!(summary.contains(" lost in "), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(world.stat("stats-job 1", "state"), "buried", "as the other worker left it");
}

#[test]
fn ctrl_c_ends_a_worker_whose_server_is_away() {
    for mut world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let gate = Gate::new(&world);
        let tool = world.start(&work("mail", &[], &gate.command()));
        gate.wait_until_running();
        world.end();
        tool.wait_for("trying again until it works");
        gate.open();
        // When the command has ended, the tool does not wait for the server. The command may still
        // run at this moment, but the test's result is the same.
        tool.signal(Signal::INT);
        let output = tool.wait();
        let lost =
            "job 1 of mail: done, but could not report it to the server: it may run once more";
        assert!(output.stderr.contains(lost), "{output:?}");
        assert!(output.stderr.contains("0 jobs done, 1 lost in"), "{output:?}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn ctrl_c_ends_an_idle_worker_whose_server_is_away() {
    for mut world in World::each() {
        let tool = world.start(&work("mail", &["--jobs", "2"], "true"));
        wait_until("two waiting", || world.stat("stats", "current-waiting") == "2");
        world.end();
        tool.wait_for("trying again until it works");
        tool.signal(Signal::INT);
        let output = tool.wait();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.contains("lineshaft: stopping\n"), "no command runs: {output:?}");
    }
}

#[test]
fn draining_gives_up_when_the_server_stays_away() {
    for mut world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let gate = Gate::new(&world);
        let options = ["--drain", "--give-up-after", "1s", "--jobs", "2"];
        let tool = world.start(&work("mail", &options, &gate.command()));
        gate.wait_until_running();
        let address = world.end();
        tool.wait_for("trying again for 1 s");
        gate.open();
        let output = tool.wait();
        assert_eq!(output.status.code(), Some(1));
        let gave_up = format!("gave up: could not connect to {address} for 1 s\n");
        assert!(output.stderr.ends_with(&gave_up), "{output:?}");
        assert!(output.stderr.contains("0 jobs done, 1 lost in"), "{output:?}");
    }
}

/// A server that hands out one job. The name of the job's queue could change a terminal.
fn forged_beanstalkd() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut has_job = true;
        for command in BufReader::new(stream.try_clone().unwrap()).lines() {
            let reply = match command.unwrap().split(' ').next() {
                Some("watch" | "ignore") => "WATCHING 1\r\n".to_owned(),
                Some("reserve-with-timeout") if std::mem::take(&mut has_job) => {
                    "RESERVED 1 1\r\nx\r\n".to_owned()
                }
                Some("stats-job") => {
                    let yaml =
                        "---\ntube: a\u{1b}]0;b\u{7}\u{202e}\nreserves: 1\nttr: 60\npri: 0\n";
                    format!("OK {}\r\n{yaml}\r\n", yaml.len())
                }
                Some("delete") => "DELETED\r\n".to_owned(),
                _ => "TIMED_OUT\r\n".to_owned(),
            };
            (&stream).write_all(reply.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn a_server_cannot_change_the_terminal() {
    let server = forged_beanstalkd().to_string();
    let arguments = work("q", &["--drain", "--verbose", "--server", &server], "true");
    let output = Tool::start("", &arguments).wait();
    assert!(output.stderr.contains("job 1 of a\\x1b]0;b\\x07\\u202e: done in "), "{output:?}");
    assert!(!output.stderr.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{output:?}");
}
