//! Clients that ask for more bodies from the log than the loader may load at once.

use broker::JobId;

use super::*;

/// A thread whose broker has this many jobs in its log alone, and the numbers of these jobs. Their
/// bodies are of the largest size, so the loader loads one of them at a time.
fn with_stored_jobs(count: usize, body_bytes: u32) -> (Rounds, Broker, Vec<JobId>) {
    let disk = Arc::new(FaultDisk::new(1, 1 << 30));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, Clock::start().now()).unwrap().0;
    let mut config = Config::default();
    config.limits.beanstalk_job_bytes = body_bytes;
    config.limits.gearman_packet_bytes = body_bytes;
    config.limits.kestrel_item_bytes = body_bytes;
    config.limits.unsent_total_bytes = 0;
    let rounds = Rounds::configured(Protocol::Beanstalk, broker.clone(), &config);
    rounds.thread.shared.limits.apply_to(&broker);
    broker.set_bodies_limit(Some(0));
    let now = rounds.thread.shared.clock.now();
    let others = broker.add_mailbox(Arc::new(Inbox::default()));
    let mut turn = broker.turn(now);
    let session = turn.open_session(others);
    let mut put = || {
        let body = vec![b'x'; body_bytes as usize];
        turn.caller(session).put(NewJob::default(), body.into()).value.unwrap()
    };
    let ids = (0..count).map(|_| put()).collect();
    drop(turn);
    broker.commit_step(now).unwrap();
    broker.prepare_step().unwrap();
    // Bodies leave the memory at the end of a turn. The first look at a body spares it.
    for _ in 0..8 {
        drop(broker.turn(now));
    }
    assert_eq!(broker.turn(now).log_stats().stored_jobs, count as u64);
    (rounds, broker, ids)
}

impl Rounds {
    fn serve(&mut self) {
        self.round();
        self.finish();
    }

    fn load_step(&self) -> bool {
        let shared = &self.thread.shared;
        shared.broker.load_step(shared.clock.now())
    }
}

fn peek(id: JobId) -> Vec<u8> {
    format!("peek {}\r\n", id.0).into_bytes()
}

#[test]
fn clients_that_wait_for_many_stored_bodies_hold_up_no_others() {
    let body_bytes = 60_000;
    let (mut rounds, _, ids) = with_stored_jobs(6, body_bytes);
    let mut peekers: Vec<UnixStream> = ids.iter().map(|_| rounds.connect()).collect();
    for (peeker, id) in peekers.iter_mut().zip(&ids) {
        peeker.write_all(&peek(*id)).unwrap();
    }
    rounds.serve();
    let mut other = rounds.connect();
    let mut check_other = |rounds: &mut Rounds| {
        other.write_all(b"list-tube-used\r\n").unwrap();
        rounds.round();
        assert_eq!(received(&mut other), "USING default\r\n");
    };
    check_other(&mut rounds);
    let limits = rounds.thread.shared.limits.clone();
    assert!(limits.held.flowing_bytes() < 1000, "they are not in memory");
    let mut answered = 0;
    while answered < ids.len() {
        assert!(rounds.load_step(), "a client waits for ever");
        rounds.serve();
        check_other(&mut rounds);
        let so_far = answered;
        let replies = peekers.iter_mut().map(received);
        answered += replies.filter(|reply| reply.len() >= body_bytes as usize).count();
        assert_eq!(answered, so_far + 1, "the loader does not wait for readers");
    }
    assert!(!rounds.load_step());
}

#[test]
fn a_client_whose_body_waits_behind_many_gets_no_further_replies() {
    let (mut rounds, broker, ids) = with_stored_jobs(1, 60_000);
    let mut client = rounds.connect();
    client.write_all(&[&peek(ids[0])[..], b"put 0 0 60 1\r\ny\r\n"].concat()).unwrap();
    rounds.serve();
    let puts = |rounds: &Rounds| broker.turn(rounds.thread.shared.clock.now()).totals().puts;
    assert_eq!(puts(&rounds), 1);
    assert!(!rounds.thread.has_more(), "the thread spins");
    assert!(rounds.load_step());
    rounds.serve();
    assert_eq!(puts(&rounds), 2);
    assert!(received(&mut client).len() > 60_000);
}

#[test]
fn a_slow_reader_holds_up_no_loads() {
    // The buffers of a socket have room for less.
    let (mut rounds, _, ids) = with_stored_jobs(2, 700_000);
    let mut clients: Vec<UnixStream> = ids.iter().map(|_| rounds.connect()).collect();
    for (client, id) in clients.iter_mut().zip(&ids) {
        client.write_all(&peek(*id)).unwrap();
    }
    rounds.serve();
    assert!(rounds.load_step());
    assert!(!rounds.load_step(), "a body that the thread has not seen counts");
    rounds.serve();
    assert!(rounds.thread.connections.iter().any(Connection::is_stuck));
    assert!(rounds.load_step(), "the other client waits for ever");
}
