//! What clients of all dialects see of the policy `retries`. They send their usual commands.

use broker::policy::{DeadTarget, Rule, Rules, Setting};

use crate::crossing::Clients;

const CAN_DO: u32 = 1;
const GRAB_JOB: u32 = 9;
const SUBMIT_JOB: u32 = 7;
const SUBMIT_JOB_BG: u32 = 18;
const WORK_FAIL: u32 = 14;
const WORK_EXCEPTION: u32 = 25;

const TAKE: &str = "reserve-with-timeout 0\r\n";
const TIMED_OUT: &str = "TIMED_OUT\r\n";
const RESERVED: &str = "RESERVED 1 1\r\na\r\n";
/// What a worker of Gearman gets if there is no job.
const NO_JOB: &str = "10 ";

/// Clients of a server that tries each job of `q` twice, the second time after a second.
fn clients() -> Clients {
    let retries = [
        Setting::Retries(true),
        Setting::RetryLimit(1),
        Setting::RetryBase(1000),
        Setting::RetryJitter(0),
    ];
    Clients::with(Rules(vec![Rule::new(["q*"], retries)]))
}

fn stat(clients: &mut Clients, name: &str) -> String {
    let stats = clients.world.say(clients.tube, "stats-job 1\r\n");
    let line = stats.lines().find(|line| line.starts_with(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("{name} in {stats}")).to_owned()
}

#[test]
fn beanstalk_sees_a_delayed_job_and_then_a_buried_job() {
    let mut clients = clients();
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk(TAKE, RESERVED);
    clients.beanstalk("release 1 5 0\r\n", "RELEASED\r\n");
    assert_eq!(stat(&mut clients, "state"), "state: delayed");
    assert_eq!(stat(&mut clients, "delay"), "delay: 0");
    clients.beanstalk(TAKE, TIMED_OUT);
    clients.beanstalk("peek-delayed\r\n", "FOUND 1 1\r\na\r\n");
    clients.world.advance(1000);
    clients.beanstalk(TAKE, RESERVED);
    // The connection ends.
    let tube = clients.tube;
    clients.world.close(tube);
    clients.kestrel("get q\r\n", "END\r\n");
    clients.world.advance(60_000);
    clients.kestrel("get q\r\n", "END\r\n");
}

#[test]
fn beanstalk_kicks_what_has_failed_too_often() {
    let mut clients = clients();
    clients.beanstalk("put 5 0 1 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk(TAKE, RESERVED);
    clients.world.advance(2000);
    // The ttr ended after a second, and the delay after another one.
    clients.beanstalk(TAKE, RESERVED);
    clients.world.advance(60_000);
    assert_eq!(stat(&mut clients, "state"), "state: buried");
    assert_eq!(stat(&mut clients, "timeouts"), "timeouts: 2");
    assert_eq!(stat(&mut clients, "buries"), "buries: 0");
    clients.beanstalk("peek-buried\r\n", "FOUND 1 1\r\na\r\n");
    clients.beanstalk("kick 1\r\n", "KICKED 1\r\n");
    clients.beanstalk(TAKE, RESERVED);
    clients.beanstalk("release 1 5 7\r\n", "RELEASED\r\n");
    assert_eq!(stat(&mut clients, "state"), "state: delayed");
    // The original rounds down.
    assert_eq!(stat(&mut clients, "time-left"), "time-left: 6");
}

#[test]
fn gearman_tries_a_background_job_again() {
    let mut clients = clients();
    clients.gearman(SUBMIT_JOB_BG, "q||a", "8 H:vm:1");
    clients.gearman(CAN_DO, "q", "");
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
    clients.gearman(WORK_FAIL, "H:vm:1", "");
    clients.gearman(GRAB_JOB, "", NO_JOB);
    clients.world.advance(1000);
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
    clients.gearman(WORK_FAIL, "H:vm:1", "");
    clients.world.advance(60_000);
    clients.gearman(GRAB_JOB, "", NO_JOB);
    clients.beanstalk("peek-buried\r\n", "FOUND 1 1\r\na\r\n");
}

#[test]
fn gearman_fails_a_foreground_job_at_once() {
    let mut clients = clients();
    clients.gearman(CAN_DO, "q", "");
    clients.gearman(SUBMIT_JOB, "q||a", "8 H:vm:1");
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
    clients.gearman(WORK_FAIL, "H:vm:1", "14 H:vm:1");
    clients.beanstalk("peek 1\r\n", "NOT_FOUND\r\n");
}

#[test]
fn kestrel_gets_an_aborted_item_again_later() {
    let mut clients = clients();
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    let item = "VALUE q 0 1\r\na\r\nEND\r\n";
    clients.kestrel("get q/open\r\n", item);
    clients.kestrel("get q/abort\r\n", "END\r\n");
    clients.kestrel("get q/open\r\n", "END\r\n");
    clients.world.advance(1000);
    clients.kestrel("get q/open\r\n", item);
    let kestrel = clients.kestrel;
    clients.world.close(kestrel);
    clients.world.advance(60_000);
    clients.beanstalk(TAKE, TIMED_OUT);
    clients.beanstalk("peek-buried\r\n", "FOUND 1 1\r\na\r\n");
}

#[test]
fn every_dialect_can_read_the_queue_of_dead_letters() {
    let target = DeadTarget::Queue(b"dead.{name}"[..].into());
    let settings = [Setting::Retries(true), Setting::RetryLimit(0), Setting::DeadQueue(target)];
    let mut clients = Clients::with(Rules(vec![Rule::new(["q"], settings)]));
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk("put 5 0 60 1\r\nb\r\n", "INSERTED 2\r\n");
    clients.gearman(SUBMIT_JOB_BG, "q||c", "8 H:vm:3");
    clients.beanstalk(TAKE, RESERVED);
    clients.beanstalk("release 1 5 0\r\n", "RELEASED\r\n");
    clients.gearman(CAN_DO, "q", "");
    clients.gearman(GRAB_JOB, "", "11 H:vm:2|q|b");
    clients.gearman(WORK_EXCEPTION, "H:vm:2|it broke", "");
    let item = "VALUE q 0 1\r\nc\r\nEND\r\n";
    clients.kestrel("get q/open\r\n", item);
    clients.kestrel("get q/abort\r\n", "END\r\n");
    clients.kestrel("get q\r\n", "END\r\n");
    clients.kestrel("get dead.q\r\n", "VALUE dead.q 0 1\r\na\r\nEND\r\n");
    clients.beanstalk("watch dead.q\r\n", "WATCHING 3\r\n");
    clients.beanstalk(TAKE, "RESERVED 2 1\r\nb\r\n");
    clients.beanstalk("release 2 5 0\r\n", "RELEASED\r\n");
    clients.beanstalk(TAKE, "RESERVED 2 1\r\nb\r\n");
    clients.gearman(CAN_DO, "dead.q", "");
    clients.gearman(GRAB_JOB, "", "11 H:vm:3|dead.q|c");
    let now = clients.world.now;
    let turn = clients.world.broker.turn(now);
    let facts = turn.job_status(broker::JobId(2)).value.expect("it is leased").facts;
    let death = facts.death.expect("it has failed");
    assert_eq!((&*death.origin, &*death.error), (&b"q"[..], &b"it broke"[..]));
}
