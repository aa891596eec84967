//! Many clients that are cut off at once cause few messages.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::Dispatch;

use super::*;

const CLIENTS: usize = 3;

/// Messages of the test's thread.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<u8>>>);

impl io::Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Messages {
    fn dispatch(&self) -> Dispatch {
        let messages = self.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false);
        Dispatch::new(lines.with_writer(move || messages.clone()).finish())
    }

    /// Returns the lines with this text that are written during the work.
    fn during(text: &str, work: impl FnOnce()) -> Vec<String> {
        let (messages, others) = (Messages::default(), Messages::default());
        // If there is only one dispatch, another test's thread can turn a message off for all threads
        // when it is the first to come to this message. So there are two.
        let (dispatch, _other) = (messages.dispatch(), others.dispatch());
        tracing::dispatcher::with_default(&dispatch, work);
        let bytes = messages.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lines = String::from_utf8(bytes).unwrap();
        lines.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

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
    let lines = Messages::during("cut off an unfinished command", || {
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
    let lines = Messages::during("cut off a slow reader", || {
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
