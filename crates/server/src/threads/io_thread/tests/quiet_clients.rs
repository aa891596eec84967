//! Turns, slices and rounds where quiet clients meet clients with much work.

use std::thread;
use std::time::{Duration, Instant};

use super::super::READ_BYTES_MIN;
use super::*;
use crate::threads::rests::Rests;

const LONG_JOB_BYTES: usize = 60_000;
/// A short request, and its reply.
const ASK: &str = "list-tube-used\r\n";
const ANSWER: &str = "USING default\r\n";

impl Rounds {
    fn is_beside_quiet(&self) -> bool {
        self.thread.is_beside_quiet()
    }

    fn forget_quiet(&self) {
        self.thread.shared.client_mix.forget_quiet();
    }
}

/// A thread with this many clients, and a job of 60,000 bytes.
fn with_a_long_job(clients: usize) -> (Rounds, Vec<UnixStream>) {
    let mut rounds = Rounds::new();
    let mut clients: Vec<UnixStream> = (0..clients).map(|_| rounds.connect()).collect();
    let body = "b".repeat(LONG_JOB_BYTES);
    let put = format!("put 0 0 60 {LONG_JOB_BYTES}\r\n{body}\r\n");
    clients[0].write_all(put.as_bytes()).unwrap();
    rounds.round();
    rounds.finish();
    assert_eq!(received(&mut clients[0]), "INSERTED 1\r\n");
    (rounds, clients)
}

/// A thread with 10 busy clients and a quiet one, each of which has sent something.
fn busy_and_quiet(count: usize) -> (Rounds, Vec<UnixStream>, UnixStream) {
    let mut rounds = Rounds::new();
    let mut busy: Vec<UnixStream> = (0..10).map(|_| rounds.connect()).collect();
    let mut quiet = rounds.connect();
    for client in &mut busy {
        client.write_all(ASK.repeat(count).as_bytes()).unwrap();
    }
    quiet.write_all(ASK.as_bytes()).unwrap();
    rounds.finish();
    received(&mut quiet);
    for client in &mut busy {
        assert_eq!(received(client), ANSWER.repeat(count));
    }
    (rounds, busy, quiet)
}

#[test]
fn turns_are_shorter_only_where_quiet_and_busy_clients_meet() {
    let mut rounds = Rounds::new();
    let mut quiet: Vec<UnixStream> = (0..10).map(|_| rounds.connect()).collect();
    let mut busy = rounds.connect();
    let send = |client: &mut UnixStream, rounds: &mut Rounds, count| {
        client.write_all(ASK.repeat(count).as_bytes()).unwrap();
        rounds.round();
        rounds.finish();
        received(client);
    };
    for client in &mut quiet {
        send(client, &mut rounds, 1);
    }
    assert!(!rounds.is_beside_quiet(), "nobody has much work");
    send(&mut busy, &mut rounds, 300);
    assert!(rounds.is_beside_quiet());
    // The end of a burst is short, but its client is not quiet.
    rounds.forget_quiet();
    send(&mut busy, &mut rounds, 1);
    assert!(!rounds.is_beside_quiet(), "only the busy client sends requests");
    send(&mut quiet[0], &mut rounds, 1);
    assert!(rounds.is_beside_quiet());
}

#[test]
fn the_end_of_a_short_input_does_not_wait_for_the_next_turn() {
    let (mut rounds, _busy, mut quiet) = busy_and_quiet(300);
    let body = "b".repeat(900);
    quiet.write_all(format!("put 0 0 60 900\r\n{body}\r\n").as_bytes()).unwrap();
    assert_eq!(rounds.feed_batch_late(true), 0, "the put is held back");
}

#[test]
fn clients_with_long_replies_are_not_quiet() {
    let (mut rounds, mut clients) = with_a_long_job(3);
    // The first request of each client is short. Its reply shows that the client has much work.
    for _ in 0..2 {
        rounds.forget_quiet();
        for client in &mut clients {
            client.write_all(b"peek 1\r\n").unwrap();
            rounds.round();
            rounds.finish();
            received(client);
        }
    }
    assert!(!rounds.is_beside_quiet(), "all clients are alike");
}

#[test]
fn a_quiet_client_of_another_thread_counts() {
    let mut rounds = Rounds::new();
    let mut other = rounds.beside();
    let (mut busy, mut quiet) = (rounds.connect(), other.connect());
    busy.write_all("list-tube-used\r\n".repeat(300).as_bytes()).unwrap();
    rounds.round();
    rounds.finish();
    assert!(!rounds.is_beside_quiet(), "nobody is quiet");
    quiet.write_all(b"list-tube-used\r\n").unwrap();
    other.round();
    assert!(rounds.is_beside_quiet());
    assert!(other.is_beside_quiet());
}

#[test]
fn an_input_of_a_few_kib_alone_is_not_much_work() {
    for (bytes, is_much) in [(3_000, false), (5_000, true)] {
        let mut rounds = Rounds::new();
        let (mut quiet, mut other) = (rounds.connect(), rounds.connect());
        quiet.write_all(b"list-tube-used\r\n").unwrap();
        let put = format!("put 0 0 60 {bytes}\r\n{}\r\n", "b".repeat(bytes));
        other.write_all(put.as_bytes()).unwrap();
        rounds.thread.sockets.look();
        // Without a turn, whose time would count.
        rounds.thread.take_ready();
        rounds.thread.read();
        assert!(rounds.thread.let_short_inputs_first());
        assert_eq!(rounds.thread.is_beside_quiet(), is_much, "{bytes}");
    }
}

/// Lets one client wait for the log, and lets another send many commands. Returns whether the first
/// one gets its reply from a round whose turn cannot begin.
fn replies_before_the_turn(is_quiet: bool, is_released: bool) -> bool {
    let clock = Clock::start();
    let disk = Arc::new(FaultDisk::new(1, 64 << 20));
    let options = Options::without_threads(disk, Settings::default());
    let broker = Broker::open(options, clock.now()).unwrap().0;
    let mut rounds = Rounds::with(broker.clone());
    let (mut first, mut busy) = (rounds.connect(), rounds.connect());
    first.write_all(b"put 0 0 60 1\r\nx\r\n").unwrap();
    busy.write_all("list-tube-used\r\n".repeat(300).as_bytes()).unwrap();
    rounds.round();
    rounds.finish();
    assert_eq!(received(&mut first), "", "the log has not released the reply");
    assert!(rounds.is_beside_quiet());
    if !is_quiet {
        rounds.forget_quiet();
    }
    if is_released {
        broker.commit_step(clock.now()).unwrap();
    }
    busy.write_all("list-tube-used\r\n".repeat(300).as_bytes()).unwrap();
    first.set_nonblocking(false).unwrap();
    // If it must come, a slow machine gets more time.
    let patience = if is_quiet && is_released { 30_000 } else { 300 };
    first.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
    // While this turn lasts, the turn of the round cannot begin.
    let turn = broker.turn(clock.now());
    let reply = thread::scope(|scope| {
        scope.spawn(|| rounds.round());
        let reply = received(&mut first);
        drop(turn);
        reply
    });
    rounds.finish();
    assert!(["", "INSERTED 1\r\n"].contains(&&*reply), "{reply:?}");
    !reply.is_empty()
}

#[test]
fn beside_quiet_clients_released_replies_leave_before_the_next_turn() {
    assert!(replies_before_the_turn(true, true));
    assert!(!replies_before_the_turn(true, false), "the log has not released it");
    assert!(!replies_before_the_turn(false, true), "a write of its own costs time");
}

#[test]
fn long_replies_leave_in_pieces_while_others_are_served() {
    let (mut rounds, mut clients) = with_a_long_job(20);
    let mut quiet = rounds.connect();
    for client in &mut clients {
        client.write_all(&b"peek 1\r\n".repeat(10)).unwrap();
    }
    quiet.write_all(b"list-tube-used\r\n").unwrap();
    rounds.round();
    assert_eq!(received(&mut quiet), "USING default\r\n");
    let mut bytes: Vec<usize> = clients.iter_mut().map(|client| received(client).len()).collect();
    // Without the limit, the sockets would take twelve times as many bytes.
    let sent = bytes.iter().sum::<usize>();
    assert!((256 << 10..(256 + 128) << 10).contains(&sent), "{sent}");
    let all = 10 * ("FOUND 1 60000\r\n\r\n".len() + LONG_JOB_BYTES);
    for _ in 0..200 {
        rounds.round();
        for (client, bytes) in clients.iter_mut().zip(&mut bytes) {
            *bytes += received(client).len();
        }
    }
    assert_eq!(bytes, [all; 20]);
    assert!(!rounds.thread.has_more(), "the thread spins");
}

#[test]
fn without_quiet_clients_a_round_sends_more_of_long_replies() {
    let (mut rounds, mut clients) = with_a_long_job(20);
    // The first reply of each client shows that it has much work.
    for client in &mut clients {
        client.write_all(b"peek 1\r\n").unwrap();
    }
    rounds.round();
    rounds.finish();
    for client in &mut clients {
        received(client);
        client.write_all(&b"peek 1\r\n".repeat(10)).unwrap();
    }
    rounds.forget_quiet();
    rounds.round();
    let sent = clients.iter_mut().map(|client| received(client).len()).sum::<usize>();
    assert!((1 << 20..(1 << 20) + (128 << 10)).contains(&sent), "{sent}");
}

#[test]
fn beside_quiet_clients_a_round_reads_from_few_busy_ones() {
    let count = 300;
    let (mut rounds, mut busy, mut quiet) = busy_and_quiet(count);
    for client in &mut busy {
        client.write_all(ASK.repeat(count).as_bytes()).unwrap();
    }
    // Its request is the last that arrives.
    quiet.write_all(ASK.as_bytes()).unwrap();
    rounds.round();
    assert_eq!(received(&mut quiet), ANSWER);
    let left = rounds.thread.busy_reads.len();
    assert!((1..busy.len()).contains(&left), "it read from all or none: {left} are left");
    rounds.finish();
    for client in &mut busy {
        assert_eq!(received(client), ANSWER.repeat(count));
        client.write_all(ASK.repeat(count).as_bytes()).unwrap();
    }
    // Without the quiet client, a round reads from all.
    rounds.forget_quiet();
    rounds.round();
    assert!(rounds.thread.busy_reads.is_empty());
    assert!(busy.iter_mut().all(|client| received(client).starts_with(ANSWER)));
}

#[test]
fn beside_quiet_clients_only_busy_ones_rest() {
    let (mut rounds, mut busy, mut quiet) = busy_and_quiet(300);
    // A client whose command waits for a later turn, and one that is not read.
    busy[1].write_all(&b"list-tubes\r\n".repeat(1_000)).unwrap();
    rounds.round();
    assert!(!rounds.thread.resumed.is_empty());
    let before = received(&mut busy[1]).len();
    rounds.thread.rests.let_busy_rest(Instant::now() + Duration::from_hours(1));
    busy[0].write_all(ASK.as_bytes()).unwrap();
    quiet.write_all(ASK.as_bytes()).unwrap();
    rounds.round();
    assert_eq!(received(&mut quiet), ANSWER);
    assert_eq!((received(&mut busy[0]), received(&mut busy[1])), Default::default());
    assert!(!rounds.thread.has_more(), "the thread spins");
    assert!(rounds.thread.wait_end().is_some(), "the thread does not wake");
    rounds.thread.rests = Rests::default();
    rounds.finish();
    assert_eq!(received(&mut busy[0]), ANSWER);
    let reply = "OK 14\r\n---\n- default\n\r\n";
    assert_eq!(before + received(&mut busy[1]).len(), 1_000 * reply.len());
    assert!(rounds.thread.wait_end().is_none());
}

#[test]
fn quiet_clients_are_read_first_but_leave_room_for_a_busy_one() {
    let (mut rounds, mut busy, mut quiet) = busy_and_quiet(100);
    rounds.forget_quiet();
    // All of their bytes together do not fit into one round.
    for client in &mut busy {
        client.write_all(ASK.repeat(1_000).as_bytes()).unwrap();
    }
    quiet.write_all(ASK.as_bytes()).unwrap();
    rounds.round();
    assert_eq!(received(&mut quiet), ANSWER);
    rounds.finish();

    // A client that was quiet sends as much as fits into a round.
    quiet.write_all(ASK.repeat(5_000).as_bytes()).unwrap();
    for client in &mut busy {
        received(client);
        client.write_all(ASK.as_bytes()).unwrap();
    }
    rounds.round();
    let served = busy.iter_mut().map(received).filter(|replies| !replies.is_empty()).count();
    assert!(served >= 1, "no busy client was read");
}

#[test]
fn beside_quiet_clients_the_first_read_from_a_client_is_short() {
    let (mut rounds, _busy, mut quiet) = busy_and_quiet(300);
    let count = 2_000;
    quiet.write_all(ASK.repeat(count).as_bytes()).unwrap();
    rounds.round();
    let in_one_round = received(&mut quiet).len();
    assert!((1..=READ_BYTES_MIN).contains(&in_one_round), "{in_one_round} bytes of replies");
    rounds.finish();
    assert_eq!(in_one_round + received(&mut quiet).len(), ANSWER.len() * count);
}

#[test]
fn a_round_reads_once_from_a_connection_whose_client_becomes_busy() {
    let mut rounds = Rounds::new();
    let mut client = rounds.connect();
    client.write_all(ASK.as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    rounds.thread.sockets.look();
    rounds.thread.now_ms = rounds.thread.shared.clock.now().0;
    rounds.thread.take_ready();
    let place = rounds.thread.reads[0];
    rounds.thread.connections.get(place).unwrap().busy_until = u64::MAX;
    rounds.thread.read();
    assert_eq!(rounds.thread.batch.len(), 1, "its bytes and its end are two inputs");
}
