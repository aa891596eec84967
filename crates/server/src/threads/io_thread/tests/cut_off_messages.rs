//! Many clients that are cut off at once cause few messages.

use std::time::Duration;

use super::*;
use crate::process::captured_messages::during;

const CLIENTS: usize = 3;

fn count_leaving(rounds: &mut Rounds) -> usize {
    let places = rounds.thread.connections.all();
    let is_leaving = |place: &u32| rounds.thread.connections.get(*place).unwrap().in_leaving;
    places.iter().map(is_leaving).filter(|leaves| *leaves).count()
}

#[test]
fn one_message_tells_of_many_unfinished_commands_that_are_cut_off() {
    let mut rounds = Rounds::new();
    let _clients: Vec<UnixStream> = (0..CLIENTS).map(|_| rounds.connect()).collect();
    for place in rounds.thread.connections.all() {
        let held = Held { unfinished_bytes: 10, ..Held::default() };
        rounds.thread.account.change(Held::default(), held);
        rounds.thread.connections.get(place).unwrap().counted = held;
    }
    let lines = during("cut off an unfinished command", || {
        rounds.thread.cut_off(1000, Excess::Unfinished);
    });
    assert_eq!(count_leaving(&mut rounds), CLIENTS);
    let count = format!("count={CLIENTS}");
    assert!(lines.len() == 1 && lines[0].contains(&count), "{lines:?}");
}

#[test]
fn one_message_tells_of_many_slow_readers_that_are_cut_off() {
    let mut config = Config::default();
    config.limits.unsent_time = Duration::ZERO;
    let broker = Broker::memory(broker::EngineSetup::default(), Millis(0));
    let mut rounds = Rounds::configured(Protocol::Beanstalk, broker, &config);
    let mut clients: Vec<UnixStream> = (0..CLIENTS).map(|_| rounds.connect()).collect();
    let body = "b".repeat(60_000);
    clients[0].write_all(format!("put 0 0 60 60000\r\n{body}\r\n").as_bytes()).unwrap();
    rounds.round();
    rounds.finish();
    let lines = during("cut off a slow reader", || {
        for client in &mut clients {
            client.write_all("peek 1\r\n".repeat(100).as_bytes()).unwrap();
        }
        rounds.round();
        rounds.finish();
        rounds.thread.housekeeping_at = Some(Millis(0));
        rounds.thread.housekeep();
        rounds.finish();
    });
    rounds.round();
    assert_eq!(rounds.thread.shared.limits.open(), 0);
    assert!(lines.len() == 1 && lines[0].contains("count=1"), "{lines:?}");
}
