//! Pairs of policies on one queue, and what clients of all dialects see of them. The table of all
//! pairs is in docs/reliability.md.

use std::num::NonZeroU32;

use broker::policy::{Backoff, DeadTarget, Per, Rate, Rule, Rules, Setting};

use crate::crossing::Clients;

const CAN_DO: u32 = 1;
const SUBMIT_JOB: u32 = 7;
const GRAB_JOB: u32 = 9;
const WORK_FAIL: u32 = 14;
const SUBMIT_JOB_BG: u32 = 18;

const TAKE: &str = "reserve-with-timeout 0\r\n";
const TIMED_OUT: &str = "TIMED_OUT\r\n";
const RESERVED: &str = "RESERVED 1 1\r\na\r\n";
/// What a worker of Gearman gets if there is no job.
const NO_JOB: &str = "10 ";
const ITEM: &str = "VALUE q 0 1\r\na\r\nEND\r\n";

fn clients(settings: impl IntoIterator<Item = Setting>) -> Clients {
    Clients::with(Rules(vec![Rule::new(["q"], settings)]))
}

fn unique() -> Setting {
    Setting::UniqueBy(Some("body".parse().expect("it is a key")))
}

/// A job each second, and never two at once.
fn rate() -> Setting {
    Setting::Rate(NonZeroU32::new(1000).map(|milli| Rate { milli, per: Per::Second }))
}

fn slots(limit: u32) -> Setting {
    Setting::Concurrency(NonZeroU32::new(limit))
}

/// A job is tried again so often, at once.
fn retries(limit: u32) -> [Setting; 3] {
    [Setting::Retries(true), Setting::RetryLimit(limit), Setting::RetryBackoff(Backoff::None)]
}

#[test]
fn a_delayed_job_keeps_its_unique_key_for_all_dialects() {
    let mut clients = clients([unique()]);
    clients.beanstalk("put 5 3 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.gearman(SUBMIT_JOB_BG, "q||a", "8 H:vm:1");
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    clients.beanstalk(TAKE, TIMED_OUT);
    clients.world.advance(3000);
    clients.kestrel("get q\r\n", ITEM);
    clients.kestrel("get q\r\n", "END\r\n");
}

#[test]
fn a_dead_letter_has_no_unique_key_and_comes_back_only_if_it_is_free() {
    let dead = Setting::DeadQueue(DeadTarget::Queue(b"dead"[..].into()));
    let mut clients = clients([unique(), dead].into_iter().chain(retries(0)));
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk(TAKE, RESERVED);
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk("release 1 5 0\r\n", "RELEASED\r\n");
    clients.kestrel("set q 0 0 1\r\na\r\n", "STORED\r\n");
    let redrive = |clients: &mut Clients| {
        let now = clients.world.now;
        let mut turn = clients.world.broker.turn(now);
        let session = turn.open_session(0);
        let redriven = turn.caller(session).redrive(broker::JobId(1)).value;
        redriven.map_err(|refusal| refusal.to_string())
    };
    let refused = redrive(&mut clients).expect_err("another job has the key");
    assert!(refused.contains("key"), "{refused}");
    clients.kestrel("get q\r\n", ITEM);
    assert_eq!(redrive(&mut clients), Ok(()));
    clients.beanstalk("put 5 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    clients.beanstalk(TAKE, RESERVED);
}

#[test]
fn each_retry_takes_a_token() {
    let mut clients = clients([rate()].into_iter().chain(retries(9)));
    clients.beanstalk("put 5 0 1 1\r\na\r\n", "INSERTED 1\r\n");
    let again = |clients: &mut Clients| {
        clients.beanstalk(TAKE, TIMED_OUT);
        clients.world.advance(999);
        clients.beanstalk(TAKE, TIMED_OUT);
        clients.kestrel("get q\r\n", "END\r\n");
        clients.world.advance(1);
    };
    again(&mut clients);
    clients.beanstalk(TAKE, RESERVED);
    clients.beanstalk("release 1 5 0\r\n", "RELEASED\r\n");
    again(&mut clients);
    clients.kestrel("get q/open\r\n", ITEM);
    clients.kestrel("get q/abort\r\n", "END\r\n");
    again(&mut clients);
    // The ttr ends at the moment of the next token.
    clients.beanstalk(TAKE, RESERVED);
    clients.world.advance(1000);
    clients.gearman(CAN_DO, "q", "");
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
    clients.gearman(WORK_FAIL, "H:vm:1", "");
    again(&mut clients);
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
}

#[test]
fn a_full_queue_takes_back_what_it_has_handed_out() {
    for retries in [vec![], retries(9).to_vec()] {
        let mut clients = clients([Setting::JobsMax(Some(1))].into_iter().chain(retries));
        let ready = |clients: &mut Clients| {
            let stats = clients.world.say(clients.tube, "stats-tube q\r\n");
            let name = "current-jobs-ready: ";
            let count = stats.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            count.expect("the tube exists")
        };
        clients.beanstalk("put 5 0 2 1\r\na\r\n", "INSERTED 1\r\n");
        for end in ["release", "ttr", "abort", "lost"] {
            match end {
                "abort" => clients.kestrel("get q/open\r\n", ITEM),
                "lost" => {
                    let other = clients.world.connect_memcache();
                    assert_eq!(clients.world.say(other, "get q/open\r\n"), ITEM);
                    clients.kestrel("set q 0 0 1\r\nb\r\n", "STORED\r\n");
                    clients.world.close(other);
                }
                _ => clients.beanstalk(TAKE, RESERVED),
            }
            if end != "lost" {
                clients.kestrel("set q 0 0 1\r\nb\r\n", "STORED\r\n");
            }
            match end {
                "release" => clients.beanstalk("release 1 5 0\r\n", "RELEASED\r\n"),
                "ttr" => clients.world.advance(2000),
                "abort" => clients.kestrel("get q/abort\r\n", "END\r\n"),
                _ => {}
            }
            assert_eq!(ready(&mut clients), "2", "{end}");
            clients.beanstalk("put 5 0 60 1\r\nc\r\n", "DRAINING\r\n");
            // The other item ends. Job 1 comes first, also if its priority is not lower.
            clients.kestrel("get q/open\r\n", ITEM);
            let other = clients.world.connect_memcache();
            assert_eq!(clients.world.say(other, "get q\r\n"), "VALUE q 0 1\r\nb\r\nEND\r\n");
            clients.world.close(other);
            clients.kestrel("get q/abort\r\n", "END\r\n");
        }
    }
}

#[test]
fn foreground_jobs_have_rates_and_slots_but_neither_retries_nor_dead_letters() {
    let dead = Setting::DeadQueue(DeadTarget::Queue(b"dead"[..].into()));
    let mut clients = clients([rate(), slots(1), dead].into_iter().chain(retries(0)));
    clients.gearman(CAN_DO, "q", "");
    clients.gearman(SUBMIT_JOB, "q||a", "8 H:vm:1");
    clients.gearman(SUBMIT_JOB, "q||b", "8 H:vm:2");
    clients.gearman(GRAB_JOB, "", NO_JOB);
    clients.world.advance(1000);
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
    clients.world.advance(1000);
    // There is a token, but no slot.
    clients.gearman(GRAB_JOB, "", NO_JOB);
    clients.gearman(WORK_FAIL, "H:vm:1", "14 H:vm:1");
    clients.beanstalk("peek 1\r\n", "NOT_FOUND\r\n");
    // A foreground job whose worker is lost goes to the next one. It never dies.
    let worker = clients.world.connect_memcache();
    for _ in 0..3 {
        assert_eq!(clients.world.say(worker, "get q/open\r\n"), "VALUE q 0 1\r\nb\r\nEND\r\n");
        assert_eq!(clients.world.say(worker, "get q/abort\r\n"), "END\r\n");
        clients.gearman(GRAB_JOB, "", NO_JOB);
        clients.world.advance(1000);
    }
    clients.kestrel("get dead\r\n", "END\r\n");
    clients.gearman(GRAB_JOB, "", "11 H:vm:2|q|b");
}

#[test]
fn a_background_job_that_fails_without_retries_ends() {
    let mut clients = clients([rate(), slots(1)]);
    clients.gearman(SUBMIT_JOB_BG, "q||a", "8 H:vm:1");
    clients.gearman(SUBMIT_JOB_BG, "q||b", "8 H:vm:2");
    clients.gearman(CAN_DO, "q", "");
    clients.world.advance(1000);
    clients.gearman(GRAB_JOB, "", "11 H:vm:1|q|a");
    clients.gearman(WORK_FAIL, "H:vm:1", "");
    clients.beanstalk("peek 1\r\n", "NOT_FOUND\r\n");
    clients.beanstalk("peek-buried\r\n", "NOT_FOUND\r\n");
    clients.world.advance(1000);
    clients.gearman(GRAB_JOB, "", "11 H:vm:2|q|b");
}

#[test]
fn a_child_has_the_limits_of_its_parent_and_its_own_over_them() {
    let mut clients = Clients::with(Rules(vec![
        Rule::new(["q"], [slots(1)].into_iter().chain(retries(0))),
        Rule::new(["q+wide"], [slots(2)]),
    ]));
    for child in ["q+plain", "q+wide"] {
        clients.kestrel(&format!("get {child}\r\n"), "END\r\n");
    }
    for body in ["a", "b", "c"] {
        clients.kestrel(&format!("set q 0 0 1\r\n{body}\r\n"), "STORED\r\n");
    }
    let readers = [0, 1, 2].map(|_| clients.world.connect_memcache());
    for (child, limit) in [("q+plain", 1), ("q+wide", 2)] {
        for (at, reader) in readers.into_iter().enumerate() {
            let body = ["a", "b", "c"][at];
            let wanted = if at < limit {
                format!("VALUE {child} 0 1\r\n{body}\r\nEND\r\n")
            } else {
                "END\r\n".to_owned()
            };
            assert_eq!(clients.world.say(reader, &format!("get {child}/open\r\n")), wanted);
        }
        // Both have the retries of their parent: the first failure buries.
        clients.world.say(readers[0], &format!("get {child}/abort\r\n"));
        clients.beanstalk(&format!("use {child}\r\n"), &format!("USING {child}\r\n"));
        let buried = clients.world.say(clients.tube, "peek-buried\r\n");
        assert!(buried.starts_with("FOUND ") && buried.ends_with("\r\na\r\n"), "{buried}");
    }
}
