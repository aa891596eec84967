//! Tests the tools with both protocols on one server. A job is put with one protocol, and taken
//! with the other protocol.

use super::{drain, start_worker, stop};
use crate::{World, wait_until};

#[test]
fn a_beanstalk_job_is_done_by_a_gearman_worker_or_buried() {
    let (world, beanstalk) = World::both_protocols();
    let put = ["put", "--server", &beanstalk, "f", "good", "bad"];
    world.run_well(&put, b"");
    let output = drain(&world, &["f"], "read -r x; [ $x = good ]");
    assert!(output.stderr.contains("1 job done, 1 failed in"), "{output:?}");
    let peek = ["peek", "--quiet", "--server", &beanstalk, "f", "--state", "buried"];
    assert_eq!(world.run_well(&peek, b"").stdout, "bad");
}

#[test]
fn a_gearman_client_gets_the_end_from_a_beanstalk_worker_and_no_result() {
    let (world, beanstalk) = World::both_protocols();
    let command = "read -r x; echo $x; [ $x = good ]";
    let work = ["work", "--server", &beanstalk, "f", "--attempts", "1", "--", "sh", "-c", command];
    let worker = world.start(&work);
    let output = world.run(&["put", "f", "--wait", "good", "bad"], b"");
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("argument 2 failed"), "{output:?}");
    let output = stop(worker);
    assert_eq!(output.stdout, "good\nbad\n");
}

#[test]
fn a_silent_command_loses_a_beanstalk_job_at_its_ttr_and_one_that_reports_keeps_it() {
    let (world, beanstalk) = World::both_protocols();
    world.run_well(&["put", "--server", &beanstalk, "--ttr", "3s", "f", "x"], b"");
    let report = "for i in 1 2 3 4 5; do sleep 1; echo progress: $i/5 >&2; done";
    let output = drain(&world, &["f"], report);
    assert!(output.stderr.contains("1 job done in"), "{output:?}");

    world.run_well(&["put", "--server", &beanstalk, "--ttr", "1s", "f", "x"], b"");
    let gate = crate::gate::Gate::new(&world);
    let worker = start_worker(&world, &["f"], &[], &gate.command());
    gate.wait_until_running();
    wait_until("the ttr", || world.admin("status").starts_with("f\t1\t0\t1\n"));
    gate.open();
    worker.wait_for("done, but the server had dropped it or given it to another worker");
    wait_until("the job to be done again", || world.admin("status").starts_with("f\t0\t0\t1\n"));
    let output = stop(worker);
    // With this short ttr, the job may have run a second time.
    let summary = output.stderr.lines().last().unwrap_or_default();
    assert!(summary.starts_with("lineshaft: 1 job done, "), "{output:?}");
    assert!(summary.contains(" lost in "), "{output:?}");
}
