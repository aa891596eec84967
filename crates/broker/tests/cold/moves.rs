//! Jobs that move to another queue: cold jobs, and power failures.

use super::*;

/// Moves the first job of this state of the queue that the session uses.
fn move_first(broker: &Broker, session: SessionId, state: State) -> Option<Answer<JobId>> {
    while !broker.turn(NOW).caller(session).is_at_hand(Need::Used(state)) {
        assert!(broker.load_step(NOW), "the job that the session needs is loaded");
    }
    let mut turn = broker.turn(NOW);
    let id = turn.caller(session).first_used_id(state).value.ok()?;
    let moved = turn.caller(session).move_job(id, b"other");
    Some(moved.map(|moved| {
        moved.expect("there is room");
        id
    }))
}

#[test]
fn cold_jobs_move_in_order_and_stay_there_after_a_restart() {
    let disk = log::FaultDisk::new(61, 64 << 20);
    let (broker, _, ids) = with_cold_jobs(&disk);
    let session = broker.turn(NOW).open_session(0);
    for id in &ids {
        let moved = move_first(&broker, session, State::Ready).expect("there are more jobs");
        assert_eq!(moved.value, *id);
        if id.0 % 100 == 0 {
            work(&broker);
            // The moved jobs become cold, too.
            while broker.index_step().expect("the disk works") {}
            while broker.cool_step(NOW) {}
        }
    }
    assert!(move_first(&broker, session, State::Ready).is_none());
    broker.turn(NOW).check_invariants();
    work(&broker);
    drop(broker);
    disk.restart();
    let broker = open(&disk);
    broker.turn(NOW).check_invariants();
    let session = broker.turn(NOW).open_session(0);
    broker.turn(NOW).caller(session).watch(b"other");
    let taken: Vec<JobId> = std::iter::from_fn(|| take(&broker, session)).collect();
    assert_eq!(taken, ids);
}

#[test]
fn a_power_failure_leaves_each_job_in_one_queue() {
    const COUNT: u64 = 40;
    for call in 1.. {
        let disk = log::FaultDisk::new(62, 64 << 20);
        let broker = open(&disk);
        broker.add_mailbox(Arc::new(Events::default()));
        let session = broker.turn(NOW).open_session(0);
        for number in 0..COUNT {
            let delay_s = if number % 2 == 0 { 0 } else { 100 };
            let job = NewJob { delay_s, ..NewJob::default() };
            let put = broker.turn(NOW).caller(session).put(job, b"x"[..].into());
            put.value.expect("there is room");
        }
        work(&broker);
        disk.crash_at(disk.calls() + call);
        let (mut replies, mut is_whole) = (Vec::new(), true);
        while is_whole && (replies.len() as u64) < COUNT {
            let state = if replies.len() % 2 == 0 { State::Ready } else { State::Delayed };
            replies.push(move_first(&broker, session, state).expect("there are more jobs"));
            if replies.len() % 4 == 0 {
                let committed = broker.commit_step(NOW).is_ok();
                is_whole = committed && broker.prepare_step().is_ok() && !disk.has_crashed();
            }
        }
        let released = broker.released();
        drop(broker);
        disk.plan_nothing();
        disk.restart();
        let broker = open(&disk);
        let turn = broker.turn(NOW);
        turn.check_invariants();
        let totals = turn.totals();
        assert_eq!((totals.ready, totals.delayed), (COUNT / 2, COUNT / 2), "at call {call}");
        for id in (1..=COUNT).map(JobId) {
            let status = turn.job_status(id).value.expect("no job is lost");
            let queue = turn.queue_name(status.queue);
            let reply = replies.iter().find(|reply| reply.value == id);
            let is_promised = reply.is_some_and(|reply| reply.after.is_reached(released));
            assert!(queue == b"other" || queue == b"default" && !is_promised, "at call {call}");
        }
        if is_whole {
            assert!(call > 10, "the moves need some calls of the disk");
            return;
        }
    }
}
