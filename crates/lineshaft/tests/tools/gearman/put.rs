//! Tests `lineshaft put` with Gearman: background jobs and results.

use std::io::{Read, Write};

use rustix::process::Signal;
use testkit::process::free_port;

use super::connection::{Connection, WORK_DATA, WORK_EXCEPTION, WORK_WARNING};
use super::{drain, start_worker, stop};
use crate::{Tool, World, wait_until};

#[test]
fn a_result_is_printed_as_it_is() {
    for world in World::each_gearman() {
        let worker = start_worker(&world, &["wc"], &[], "wc -l");
        let output = world.run_well(&["put", "wc", "--wait", "--whole"], b"a\nb\nc\n");
        assert_eq!(output.stdout.trim(), "3");
        assert!(output.stderr.starts_with("1 job done by wc in "), "{output:?}");
        let none = world.run_well(&["put", "wc", "--wait", "--quiet"], b"");
        assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", ""));
        let output = stop(worker);
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.contains("1 job done in"), "{output:?}");
        assert_eq!(output.stdout, "", "the client has it");
    }
}

#[test]
fn a_person_who_waits_for_a_worker_gets_a_hint() {
    for world in World::each_gearman() {
        let slow = "sleep 4; cat";
        let _worker = world.start(&["work", "f", "--protocol", "gearman", "--", "sh", "-c", slow]);
        wait_until("the worker", || world.admin("status").starts_with("f\t0\t0\t1\n"));
        let Some(output) = world.run_on_terminal("put f --wait x", b"") else { return };
        let hint = "lineshaft: no result yet; if no worker of f runs, start one";
        let (before, result) = output.stdout.split_once("-- cat\r\n").unwrap();
        assert!(before.starts_with(hint), "{output:?}");
        assert!(result.starts_with('x') && !result.contains(hint), "{output:?}");
    }
}

#[test]
fn results_come_in_the_order_of_the_jobs() {
    for world in World::each_gearman() {
        let gate = world.path("gate");
        // The first job ends only after the last job has ended.
        let command = format!(
            "read -r x; case $x in \
             first) while [ ! -e {gate} ]; do sleep 0.02; done;; last) touch {gate};; esac; \
             echo $x"
        );
        let worker = start_worker(&world, &["f"], &["--jobs", "2"], &command);
        let output = world.run_well(&["put", "f", "--wait"], b"first\nmiddle\nlast\n");
        assert_eq!(output.stdout, "first\nmiddle\nlast\n");
        stop(worker);
    }
}

#[test]
fn many_jobs_go_through_the_window() {
    for world in World::each_gearman() {
        let worker = start_worker(&world, &["f"], &["--jobs", "8"], "cat; echo");
        let numbers: Vec<String> = (1..=400).map(|number| number.to_string()).collect();
        let lines = numbers.join("\n") + "\n";
        let output = world.run_well(&["put", "f", "--wait"], lines.as_bytes());
        assert_eq!(output.stdout, lines);
        assert!(output.stderr.starts_with("400 jobs done by f in "), "{output:?}");
        stop(worker);
    }
}

#[test]
fn a_failed_job_is_named_and_the_others_are_done() {
    for world in World::each_gearman() {
        let command = "read -r x; [ $x != bad ] && echo $x";
        let worker = start_worker(&world, &["f"], &[], command);
        let output = world.run(&["put", "f", "--wait", "good", "bad", "fine"], b"");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stdout, "good\nfine\n");
        assert!(output.stderr.contains("2 jobs done by f in "), "{output:?}");
        let failed = "lineshaft: argument 2 failed: the worker reported a failure\n";
        assert!(output.stderr.ends_with(failed), "{output:?}");
        let output = stop(worker);
        assert!(output.stderr.contains(" of f: exit code 1; failed\n"), "{output:?}");
        assert!(output.stderr.contains("2 jobs done, 1 failed in "), "{output:?}");
    }
}

#[test]
fn data_warnings_and_exceptions_are_printed_when_they_come() {
    for world in World::each_gearman() {
        let put = world.start(&["put", "f", "--wait", "x"]);
        let mut worker = Connection::open(&world);
        let handle = worker.take("f");
        worker.send(WORK_DATA, &[&handle, b"part\n"]);
        wait_until("the part", || put.printed("stdout") == "part\n");
        worker.send(WORK_WARNING, &[&handle, b"careful"]);
        wait_until("the warning", || put.printed("stderr") == "argument 1: careful\n");
        worker.send(WORK_EXCEPTION, &[&handle, b"it broke\n"]);
        let output = put.wait();
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), "part\n"));
        assert!(output.stderr.contains("argument 1: it broke\n0 jobs done by f"), "{output:?}");
    }
}

#[test]
fn jobs_of_one_key_are_one_job() {
    for world in World::each_gearman() {
        // There is no worker. So all jobs are submitted before the first one ends.
        let put = world.start(&["put", "f", "--wait", "--unique", "-", "x", "y", "x"]);
        wait_until("the jobs", || world.admin("status").starts_with("f\t2\t0\t0\n"));
        let background = ["put", "f", "--protocol", "gearman", "--unique", "-", "--ids", "x"];
        let joined = world.run_well(&background, b"");
        assert!(world.admin("status").starts_with("f\t2\t0\t0\n"), "{joined:?}");
        let output = drain(&world, &["f"], "cat; echo");
        assert!(output.stderr.contains("2 jobs done in"), "{output:?}");
        assert_eq!(put.wait().stdout, "x\ny\nx\n");
    }
}

#[test]
fn jobs_in_the_background_are_put_and_named() {
    for world in World::each_gearman() {
        let output = world.run_well(&["put", "--protocol", "gearman", "--ids", "f"], b"a\nb\n");
        let handles: Vec<&str> = output.stdout.lines().collect();
        assert_eq!(handles.len(), 2);
        assert!(handles.iter().all(|handle| handle.starts_with("H:")), "{handles:?}");
        assert!(output.stderr.starts_with("2 jobs put into f in "), "{output:?}");
        let command = "echo \"$LINESHAFT_QUEUE $LINESHAFT_JOB_ID $(cat)\" >&2";
        let output = drain(&world, &["f"], command);
        for (handle, body) in handles.iter().zip(["a", "b"]) {
            assert!(output.stderr.contains(&format!("f {handle} {body}\n")), "{output:?}");
        }
        assert!(output.stderr.ends_with(" s\n"), "{output:?}");
    }
}

#[test]
fn urgent_jobs_come_first_and_late_ones_later() {
    for world in World::each_gearman() {
        let put = ["put", "--protocol", "gearman", "f"];
        for priority in ["low", "4294967295", "normal", "2147483648", "high", "0"] {
            world.run_well(&[&put[..], &["--priority", priority, priority]].concat(), b"");
        }
        let output = drain(&world, &["f"], "echo \"job $(cat)\" >&2");
        let order: Vec<&str> =
            output.stderr.lines().filter_map(|line| line.strip_prefix("job ")).collect();
        assert_eq!(order, ["high", "0", "normal", "2147483648", "low", "4294967295"]);

        world.run_well(&[&put[..], &["--delay", "1h", "x"]].concat(), b"");
        let output = drain(&world, &["f"], "cat");
        assert!(output.stderr.contains("0 jobs done in"), "{output:?}");
        assert!(world.admin("status").starts_with("f\t1\t0\t"), "{}", world.admin("status"));
    }
}

#[test]
fn a_full_queue_is_named() {
    for world in World::each_gearman() {
        let put = ["put", "--protocol", "gearman", "f", "a", "b", "c"];
        world.admin("create function f");
        world.admin("maxqueue f 2");
        let output = world.run(&put, b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stderr.contains("2 jobs put into f in "), "{output:?}");
        let full = "argument 3 refused: f is full (QUEUE_ERROR)";
        assert!(output.stderr.contains(full), "{output:?}");
        let output = world.run(&["put", "--wait", "f", "a"], b"");
        assert!(output.stderr.contains("argument 1 refused: f is full"), "{output:?}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_server_that_goes_away_leaves_no_result() {
    for mut world in World::each_gearman() {
        let put = world.start(&["put", "f", "--wait", "x", "y"]);
        wait_until("the jobs", || world.admin("status").starts_with("f\t2\t"));
        world.end();
        let output = put.wait();
        assert_eq!(output.status.code(), Some(1));
        let gone = "lineshaft: no result of argument 1 and of later ones: the server closed the \
                    connection\n";
        assert!(output.stderr.ends_with(gone), "{output:?}");
    }
}

#[test]
fn a_server_that_goes_away_is_noticed_while_the_input_is_idle() {
    for mut world in World::each_gearman() {
        let mut put = world.start(&["put", "f", "--wait"]);
        let mut input = put.child.stdin.take().unwrap();
        input.write_all(b"x\n").unwrap();
        wait_until("the job", || world.admin("status").starts_with("f\t1\t"));
        world.end();
        let output = put.wait();
        drop(input);
        assert_eq!(output.status.code(), Some(1));
        let gone = "lineshaft: no result of line 1 and of later ones: the server closed the \
                    connection\n";
        assert!(output.stderr.ends_with(gone), "{output:?}");
    }
}

#[test]
fn an_unread_result_ends_the_wait_with_an_error() {
    for world in World::each_gearman() {
        let (mut put, output) = world.start_piped(&["put", "f", "--wait"]);
        let mut input = put.child.stdin.take().unwrap();
        input.write_all(b"x\ny\n").unwrap();
        drop(output);
        let mut worker = Connection::open(&world);
        let handle = worker.take("f");
        worker.send(WORK_DATA, &[&handle, b"part\n"]);
        let output = put.wait();
        drop(input);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let reason = "lineshaft: cannot print the result of line 1; put stops waiting for it and for later \
                      ones: ";
        assert!(output.stderr.contains(reason), "{output:?}");
    }
}

#[test]
fn an_interrupt_ends_the_wait_while_the_results_are_not_read() {
    for world in World::each_gearman() {
        let (put, mut output) = world.start_piped(&["put", "f", "--wait", "x"]);
        let mut worker = Connection::open(&world);
        let handle = worker.take("f");
        // It does not fit into a pipe.
        worker.send(WORK_DATA, &[&handle, &vec![b'x'; 256 * 1024]]);
        output.read_exact(&mut [0]).unwrap();
        put.signal(Signal::INT);
        let ended = put.wait();
        drop(output);
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let rest = "lineshaft: interrupted; put waits for no more results\n";
        assert!(ended.stderr.ends_with(rest), "{ended:?}");
    }
}

#[test]
fn the_wrong_protocol_is_recognised() {
    for world in World::each_gearman() {
        for arguments in [&["put", "f", "x"][..], &["work", "f", "--", "true"], &["stats"]] {
            let output = world.run(arguments, b"");
            assert_eq!(output.status.code(), Some(1));
            let hint = "to put or work at a Gearman server, say --protocol gearman\n";
            assert!(output.stderr.starts_with("lineshaft: not a beanstalkd server: "));
            assert!(output.stderr.ends_with(hint), "{output:?}");
        }
    }
    for world in World::each() {
        let work = ["work", "--protocol", "gearman", "f", "--", "true"];
        for arguments in [&["put", "--wait", "f", "x"][..], &work] {
            let output = world.run(arguments, b"");
            assert_eq!(output.status.code(), Some(1));
            assert!(output.stderr.starts_with("lineshaft: not a Gearman server: "));
            assert!(output.stderr.contains("name the server's Gearman address"), "{output:?}");
        }
    }
}

#[test]
fn options_of_the_other_protocol_are_refused() {
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let gearman = ["put", "f", "x", "--protocol", "gearman"];
    for (arguments, reason) in [
        (
            &["put", "f", "x", "--wait", "--protocol", "beanstalk"][..],
            "--wait: the beanstalkd protocol",
        ),
        (
            &["put", "f", "x", "--unique", "k", "--protocol", "beanstalk"],
            "--unique: the beanstalkd protocol",
        ),
        (&[&gearman[..], &["--ttr", "5s"]].concat(), "--ttr: a Gearman job has none"),
        (
            &[&gearman[..], &["--delay", "5s", "--priority", "high"]].concat(),
            "--delay: a delayed Gearman",
        ),
        (&["put", "f", "x", "--wait", "--delay", "5s"], "cannot be used with"),
        (
            &["work", "f", "--protocol", "gearman", "--attempts", "3", "--", "true"],
            "--attempts: a Gearman job that failed has ended",
        ),
    ] {
        let output = Tool::start(&address, arguments).wait();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stderr.contains(reason), "{output:?}");
    }
}
