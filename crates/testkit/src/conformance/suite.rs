//! Plays many cases, and collects their failures.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::case::Playable;
use super::socket::SocketWire;
use crate::dialect::world::{InProcess, World};

/// The number of cases that run at the same time. It is larger than the number of cores, because
/// cases that wait use no processor time.
const CASES_AT_ONCE: usize = 24;

/// The failed cases, with their reasons.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of cases that were played.
    pub played: usize,
    /// The name and the reason of each failed case.
    pub failures: Vec<(String, String)>,
    /// The number of times that a job became cold. Only for cases in simulated time.
    pub cooled: u64,
}

impl Outcome {
    /// Panics if a case has failed, or if no case was played. The message contains all failures.
    /// `server` describes the server for the message.
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

/// Plays cases against the server at `address`, many of them at the same time. `choose` selects the
/// cases.
///
/// The environment variable `LINESHAFT_CASE` also limits the cases: the name of a case must contain
/// the value of the variable.
pub fn play<C: Playable>(cases: &[C], address: SocketAddr, choose: impl Fn(&C) -> bool) -> Outcome {
    play_over(cases, &|| SocketWire::new(address), choose)
}

/// Plays cases like [`play`], over the wires that `wire` makes.
pub fn play_over<C: Playable>(
    cases: &[C],
    wire: &(impl Fn() -> SocketWire + Sync),
    choose: impl Fn(&C) -> bool,
) -> Outcome {
    let chosen = chosen(cases).filter(|(_, case)| choose(case));
    let (alone, together): (Vec<_>, Vec<_>) = chosen.partition(|(_, case)| case.plays_alone());
    let mut failures = play_at_once(&together, wire, CASES_AT_ONCE, "case");
    failures.extend(play_at_once(&alone, wire, 1, "case"));
    // A case expects events within some hundred milliseconds. If a busy machine stops the server
    // for longer, the case fails although the server has no error. So failed cases are played
    // again, one after the other.
    let failed: Vec<_> = failures.iter().map(|failure| failure.case).collect();
    for Failure { case: (_, case), reason } in failures {
        eprintln!("{} failed, and is played again: {reason}", case.name());
    }
    let failures = play_at_once(&failed, wire, 1, "again");
    let failures = failures.into_iter().map(|failure| (failure.case.1.name(), failure.reason));
    let mut failures: Vec<_> = failures.collect();
    failures.sort();
    Outcome { played: alone.len() + together.len(), failures, cooled: 0 }
}

/// Plays all cases in simulated time, one after the other. Each case has a world of its own. The
/// world's broker must be consistent at the end.
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
        outcome.cooled += wire.world.cooled();
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

/// Plays these cases, `at_once` of them at the same time. The names of their queues begin with
/// `tag`.
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
