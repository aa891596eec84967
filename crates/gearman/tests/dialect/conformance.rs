//! Plays the conformance cases against the dialect in this process, on simulated time.

use anyhow::{Result, ensure};
use broker::Millis;
use testkit::gearman::case::read_cases;
use testkit::gearman::runner::{Surroundings, run_case};
use testkit::suite::Outcome;
use testkit::wire::{ConnectionId, Received, Wire};

use crate::world::World;

struct InProcess(World);

impl Wire for InProcess {
    fn connect(&mut self) -> Result<ConnectionId> {
        Ok(ConnectionId(self.0.connect()))
    }

    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Result<()> {
        ensure!(!self.0.has_ended(connection.0), "the server has ended the connection");
        self.0.send(connection.0, bytes);
        Ok(())
    }

    fn half_close(&mut self, connection: ConnectionId) -> Result<()> {
        self.0.half_close(connection.0);
        Ok(())
    }

    fn close(&mut self, connection: ConnectionId) {
        self.0.close(connection.0);
    }

    fn receive(&mut self, connection: ConnectionId, wait_ms_max: u64) -> Received {
        let limit = Millis(self.0.now.0 + wait_ms_max);
        loop {
            if self.0.has_ended(connection.0) {
                return Received::End;
            }
            let bytes = self.0.take_received(connection.0);
            if !bytes.is_empty() {
                return Received::Bytes(bytes);
            }
            if self.0.now >= limit {
                return Received::Nothing;
            }
            self.0.advance_to_next(limit);
        }
    }

    fn advance(&mut self, ms: u64) {
        self.0.advance(ms);
    }

    fn now_ms(&self) -> u64 {
        self.0.now.0
    }
}

/// Each case has a server of its own.
fn play(file: &str) {
    let surroundings = Surroundings { tag: "case".to_owned(), unix_ms_at_zero: 0 };
    let mut outcome = Outcome::default();
    for case in read_cases(file).expect("the corpus is readable") {
        let mut wire = InProcess(World::new());
        outcome.played += 1;
        if let Err(error) = run_case(&mut wire, &case, &surroundings) {
            outcome.failures.push((case.name, format!("{error:#}")));
        }
        wire.0.broker.turn(wire.0.now).check_invariants();
    }
    outcome.assert_all_passed();
}

#[test]
fn the_dialect_answers_like_the_original() {
    play("cases.jsonl");
}

#[test]
fn the_dialect_does_right_where_the_original_errs() {
    play("defects.jsonl");
}
