//! Tests `lineshaft work` as a worker of Gearman functions.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::connection::{
    Connection, SUBMIT_JOB, WORK_COMPLETE, WORK_DATA, WORK_FAIL, WORK_STATUS, WORK_WARNING,
};
use super::{drain, start_worker, stop};
use crate::gate::Gate;
use crate::{World, wait_until};

/// Puts background jobs.
fn put(world: &World, function: &str, bodies: &[&str]) {
    let arguments = [&["put", "--quiet", "--protocol", "gearman", function][..], bodies].concat();
    world.run_well(&arguments, b"");
}

#[test]
fn the_error_output_is_warnings_and_progress() {
    for world in World::each_gearman() {
        let command =
            "echo 'progress: 3/10' >&2; echo careful >&2; echo 'progress: 40%' >&2; printf end";
        let worker = start_worker(&world, &["f"], &[], command);
        let mut client = Connection::open(&world);
        client.send(SUBMIT_JOB, &[b"f", b"", b"x"]);
        let (_, handle) = client.next();
        let with_handle = |rest: &[u8]| [&handle[..], b"\0", rest].concat();
        for (kind, rest) in [
            (WORK_STATUS, &b"3\x0010"[..]),
            (WORK_WARNING, b"careful\n"),
            (WORK_STATUS, b"40\x00100"),
            (WORK_COMPLETE, b"end"),
        ] {
            assert_eq!(client.next(), (kind, with_handle(rest)));
        }
        let output = stop(worker);
        assert!(output.stderr.starts_with("careful\nlineshaft: stopping"), "{output:?}");
    }
}

#[test]
fn a_failing_command_fails_its_job_for_good() {
    for world in World::each_gearman() {
        put(&world, "f", &["x"]);
        let mut client = Connection::open(&world);
        client.send(SUBMIT_JOB, &[b"f", b"", b"y"]);
        let (_, handle) = client.next();
        let output = drain(&world, &["f"], "echo why >&2; exit 7");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains(" of f: exit code 7; failed\n"), "{output:?}");
        assert!(output.stderr.contains("0 jobs done, 2 failed in "), "{output:?}");
        assert_eq!(client.next(), (WORK_WARNING, [&handle[..], b"\0why\n"].concat()));
        assert_eq!(client.next(), (WORK_FAIL, handle));
    }
}

#[test]
fn a_long_result_comes_in_pieces() {
    for world in World::each_gearman() {
        let mut client = Connection::open(&world);
        client.send(SUBMIT_JOB, &[b"f", b"", b"x"]);
        let (_, handle) = client.next();
        // The result is longer than 16 MiB, the size of a piece.
        let command = "head -c 17000000 /dev/zero";
        let worker = start_worker(&world, &["f"], &[], command);
        let data_bytes = |body: Vec<u8>| body.len() - handle.len() - 1;
        let (kind, body) = client.next();
        assert_eq!((kind, data_bytes(body)), (WORK_DATA, 16 * 1024 * 1024));
        let (kind, body) = client.next();
        assert_eq!((kind, data_bytes(body)), (WORK_COMPLETE, 17_000_000 - 16 * 1024 * 1024));
        let put = world.run_well(&["put", "f", "--wait", "x"], b"");
        assert_eq!(put.stdout.len(), 17_000_000);
        stop(worker);
    }
}

#[test]
fn the_output_of_what_outlives_the_command_is_not_waited_for() {
    for world in World::each_gearman() {
        let gate = Gate::new(&world);
        let command = format!("({}) & echo end", gate.command());
        let worker = start_worker(&world, &["f"], &[], &command);
        let output = world.run_well(&["put", "f", "--wait", "x"], b"");
        assert_eq!(output.stdout, "end\n");
        gate.open();
        stop(worker);
    }
}

#[test]
fn the_first_function_is_tried_first() {
    for world in World::each_gearman() {
        put(&world, "b", &["1", "2"]);
        put(&world, "a", &["3"]);
        put(&world, "other", &["4"]);
        let output = drain(&world, &["a", "b"], "echo \"job $LINESHAFT_QUEUE $(cat)\" >&2");
        let order: Vec<&str> =
            output.stderr.lines().filter_map(|line| line.strip_prefix("job ")).collect();
        assert_eq!(order, ["a 3", "b 1", "b 2"]);
        assert!(world.admin("status").contains("other\t1\t0\t0\n"));
    }
}

#[test]
fn a_sleeping_worker_is_woken_and_commands_run_at_the_same_time() {
    for world in World::each_gearman() {
        let folder = world.path("started");
        std::fs::create_dir(&folder).unwrap();
        // Each command waits until all three commands have begun.
        let command = format!(
            "touch {folder}/$$; while [ $(ls {folder} | wc -l) -lt 3 ]; do sleep 0.02; done; cat"
        );
        let worker = start_worker(&world, &["f"], &["--jobs", "3"], &command);
        wait_until("three workers", || world.admin("status").starts_with("f\t0\t0\t3\n"));
        let output = world.run_well(&["put", "f", "--wait", "a", "b", "c"], b"");
        assert_eq!(output.stdout, "abc");
        let output = stop(worker);
        assert!(output.stderr.contains("3 jobs done in"), "{output:?}");
    }
}

#[test]
fn the_first_ctrl_c_finishes_what_runs_and_the_second_gives_it_back() {
    for world in World::each_gearman() {
        put(&world, "f", &["x", "y"]);
        let gate = Gate::new(&world);
        let worker = start_worker(&world, &["f"], &[], &gate.command());
        gate.wait_until_running();
        worker.signal(Signal::INT);
        worker.wait_for("stopping when the running commands end");
        gate.open();
        let output = worker.wait();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.contains("1 job done in"), "{output:?}");
        wait_until("the other job", || world.admin("status").starts_with("f\t1\t0\t0\n"));

        let pid_file = world.path("pid");
        // A child process of the command must end together with the command.
        let command =
            format!("sleep 100 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait");
        let worker = start_worker(&world, &["f"], &[], &command);
        wait_until("the command", || Path::new(&pid_file).exists());
        worker.signal(Signal::INT);
        worker.wait_for("again to stop them");
        worker.signal(Signal::INT);
        let output = worker.wait();
        assert_eq!(output.status.code(), Some(130));
        assert!(output.stderr.contains(" of f: stopped and given back\n"), "{output:?}");
        let child = std::fs::read_to_string(pid_file).unwrap();
        let process = format!("/proc/{}", child.trim());
        wait_until("the command's child to end", || !Path::new(&process).exists());
        wait_until("the job to be back", || world.admin("status").starts_with("f\t1\t0\t0\n"));
    }
}

#[test]
fn a_job_of_a_server_that_went_away_is_stopped_and_the_worker_comes_back() {
    for mut world in World::each_gearman() {
        put(&world, "f", &["x"]);
        let gate = Gate::new(&world);
        let worker = start_worker(&world, &["f"], &[], &gate.command());
        gate.wait_until_running();
        world.restart();
        worker.wait_for("; stopping its command");
        worker.wait_for("dropped or given to another worker; command stopped");
        gate.forget_run();
        put(&world, "f", &["y"]);
        gate.wait_until_running();
        gate.open();
        wait_until("the end", || world.admin("status").starts_with("f\t0\t0\t1\n"));
        let output = stop(worker);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("1 job done, 1 lost in "), "{output:?}");
    }
}

#[test]
fn an_idle_worker_connects_again() {
    for mut world in World::each_gearman() {
        let worker = start_worker(&world, &["f"], &["--jobs", "2"], "cat");
        wait_until("two workers", || world.admin("status").starts_with("f\t0\t0\t2\n"));
        let address = world.end();
        worker.wait_for("trying again until it works");
        world.start_again(address);
        worker.wait_for(&format!("connected to {address} again"));
        let output = world.run_well(&["put", "f", "--wait", "x"], b"");
        assert_eq!(output.stdout, "x");
        assert!(stop(worker).status.success());
    }
}

#[test]
fn a_job_that_the_server_forgot_counts_as_lost() {
    // With the original, a worker can continue and finish a cancelled job. So the test uses only
    // Lineshaft.
    let world = World::lineshaft_gearman();
    let output = world.run_well(&["put", "--protocol", "gearman", "--ids", "f", "x"], b"");
    let handle = output.stdout.trim();
    let gate = Gate::new(&world);
    let worker = start_worker(&world, &["f"], &[], &gate.command());
    gate.wait_until_running();
    assert_eq!(world.admin(&format!("cancel job {handle}")), "OK\r\n");
    gate.open();
    let lost = format!(
        "job {handle} of f: done, but the server had dropped it or given it to another worker: it \
         may run once more\n"
    );
    worker.wait_for(&lost);
    let output = stop(worker);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.contains("0 jobs done, 1 lost in "), "{output:?}");
}

#[test]
fn a_job_whose_result_cannot_be_delivered_is_tried_again_less_and_less_often() {
    let mut world = World::lineshaft_gearman();
    let limit = "LINESHAFT_LIMITS_GEARMAN_PACKET_SIZE";
    world.program = world.program.clone().with_environment(limit, "8KiB");
    world.server = Some(world.program.start().unwrap());
    put(&world, "f", &["x"]);
    let started = Instant::now();
    // The server closes a connection that sends a longer packet.
    let worker = start_worker(&world, &["f"], &[], "head -c 10000 /dev/zero");
    let lost = || worker.printed("stderr").matches("could not report it to the server").count();
    wait_until("four attempts", || lost() >= 4);
    let pauses = Duration::from_millis(250 + 500 + 1000);
    assert!(started.elapsed() >= pauses, "{}", worker.printed("stderr"));
    let output = stop(worker);
    assert!(output.stderr.contains("0 jobs done, "), "{output:?}");
}

#[test]
fn a_command_that_takes_too_long_fails_its_job() {
    for world in World::each_gearman() {
        let command = "trap 'exit 0' TERM; sleep 100 & wait";
        let worker = start_worker(&world, &["f"], &["--timeout", "1s"], command);
        let mut client = Connection::open(&world);
        client.send(SUBMIT_JOB, &[b"f", b"", b"x"]);
        let (_, handle) = client.next();
        assert_eq!(client.next(), (WORK_FAIL, handle));
        worker.wait_for(" of f: stopped after 1 s (--timeout); failed\n");
        let output = stop(worker);
        assert!(output.stderr.contains("0 jobs done, 1 failed in "), "{output:?}");
    }
}

#[test]
fn a_command_that_cannot_run_stops_the_work() {
    for world in World::each_gearman() {
        put(&world, "f", &["x"]);
        let work = ["work", "--protocol", "gearman", "f", "--", "/no/such/program"];
        let output = world.run(&work, b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("cannot run `/no/such/program`: No such file"));
        wait_until("the job to be back", || world.admin("status").starts_with("f\t1\t0\t0\n"));
    }
}
