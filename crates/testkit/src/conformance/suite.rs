//! Plays many cases, and collects every failure.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::case::Playable;
use super::socket::SocketWire;
use crate::dialect::world::{InProcess, World};

/// Waiting cases use no processor time, so more of them run at once than the machine has cores.
const CASES_AT_ONCE: usize = 24;

/// The failed cases, with their reasons.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of cases that were played.
    pub played: usize,
    /// Name and reason.
    pub failures: Vec<(String, String)>,
}

impl Outcome {
    /// Panics with all failures, if there are any, or if no case was played. `server` says which
    /// server played them.
    #[track_caller]
    pub fn assert_all_passed(&self, server: &str) {
        assert!(self.played > 0, "no case was chosen");
        let mut report = String::new();
        for (name, reason) in &self.failures {
            writeln!(report, "  {name}: {reason}").expect("a string takes everything");
        }
        let failed = self.failures.len();
        assert!(failed == 0, "{server}: {failed} of {} cases failed\n{report}", self.played);
    }
}

/// Plays all cases that `choose` selects against the server at `address`, many at once.
///
/// The environment variable `LINESHAFT_CASE` limits the choice to names that contain its value.
pub fn play<C: Playable>(cases: &[C], address: SocketAddr, choose: impl Fn(&C) -> bool) -> Outcome {
    play_over(cases, &|| SocketWire::new(address), choose)
}

/// The same over wires that `connect` makes.
pub fn play_over<C: Playable>(
    cases: &[C],
    wire: &(impl Fn() -> SocketWire + Sync),
    choose: impl Fn(&C) -> bool,
) -> Outcome {
    let chosen = chosen(cases).filter(|(_, case)| choose(case));
    let (alone, together): (Vec<_>, Vec<_>) = chosen.partition(|(_, case)| case.plays_alone());
    let mut outcome = play_at_once(&together, wire, CASES_AT_ONCE);
    let others = play_at_once(&alone, wire, 1);
    outcome.played += others.played;
    outcome.failures.extend(others.failures);
    outcome.failures.sort();
    outcome
}

/// Plays all cases one after the other in simulated time. Each has a world of its own, whose broker
/// must be consistent at the end.
pub fn play_in_process<C: Playable, F>(cases: &[C], open: impl Fn(&C) -> InProcess<F>) -> Outcome
where
    F: FnMut(&mut World, Option<&str>) -> usize,
{
    let mut outcome = Outcome::default();
    for (_, case) in chosen(cases) {
        let mut wire = open(case);
        outcome.played += 1;
        if let Err(error) = case.play(&mut wire, "case") {
            outcome.failures.push((case.name(), format!("{error:#}")));
        }
        wire.world.broker.turn(wire.world.now).check_invariants();
    }
    outcome
}

/// The cases that `LINESHAFT_CASE` selects, with their numbers.
fn chosen<C: Playable>(cases: &[C]) -> impl Iterator<Item = (usize, &C)> {
    let narrowed = std::env::var("LINESHAFT_CASE").unwrap_or_default();
    cases.iter().enumerate().filter(move |(_, case)| case.name().contains(&narrowed))
}

fn play_at_once<C: Playable>(
    cases: &[(usize, &C)],
    wire: &(impl Fn() -> SocketWire + Sync),
    at_once: usize,
) -> Outcome {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(cases.len()) {
            scope.spawn(|| {
                while let Some((number, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = case.play(&mut wire(), &format!("case{number}")) {
                        let mut failures = failures.lock().expect("no holder panics");
                        failures.push((case.name(), format!("{error:#}")));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no holder panicked");
    Outcome { played: cases.len(), failures }
}
