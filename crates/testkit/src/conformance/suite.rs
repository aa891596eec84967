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
    let mut failures = play_at_once(&together, wire, CASES_AT_ONCE, "case");
    failures.extend(play_at_once(&alone, wire, 1, "case"));
    // A case says what happens within some hundred milliseconds. If the machine stood still for as
    // long, that proves nothing. So the failed cases have a second chance, one after the other.
    let failed: Vec<_> = failures.iter().map(|failure| failure.case).collect();
    for Failure { case: (_, case), reason } in failures {
        eprintln!("{} failed, and is played again: {reason}", case.name());
    }
    let failures = play_at_once(&failed, wire, 1, "again");
    let failures = failures.into_iter().map(|failure| (failure.case.1.name(), failure.reason));
    let mut failures: Vec<_> = failures.collect();
    failures.sort();
    Outcome { played: alone.len() + together.len(), failures }
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

/// A case that failed once.
struct Failure<'a, C> {
    case: (usize, &'a C),
    reason: String,
}

/// Plays these cases, `at_once` of them at a time. `tag` begins the names of their queues.
fn play_at_once<'a, C: Playable>(
    cases: &[(usize, &'a C)],
    wire: &(impl Fn() -> SocketWire + Sync),
    at_once: usize,
    tag: &str,
) -> Vec<Failure<'a, C>> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = case.1.play(&mut wire(), &format!("{tag}{}", case.0)) {
                        let failure = Failure { case: *case, reason: format!("{error:#}") };
                        failures.lock().expect("no holder panics").push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no holder panicked")
}
