//! Plays many cases in parallel against one server, and collects every failure.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Case, Corpus};
use crate::runner::run_case;
use crate::socket::SocketWire;

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
    /// Panics with all failures, if there are any, or if `choose` selected no case.
    #[track_caller]
    pub fn assert_all_passed(&self) {
        assert!(self.played > 0, "no case was chosen");
        let mut report = String::new();
        for (name, reason) in &self.failures {
            writeln!(report, "  {name}: {reason}").expect("a string takes everything");
        }
        let failed = self.failures.len();
        assert!(failed == 0, "{failed} of {} cases failed\n{report}", self.played);
    }
}

/// Plays all cases that `choose` selects against the server at `address`.
///
/// The environment variable `LINESHAFT_CASE` limits the choice to names that contain its value.
pub fn play(corpus: &Corpus, address: SocketAddr, choose: impl Fn(&Case) -> bool) -> Outcome {
    play_over(corpus, &|| SocketWire::new(address), choose)
}

/// The same over wires that `connect` makes.
pub fn play_over(
    corpus: &Corpus,
    wire: &(impl Fn() -> SocketWire + Sync),
    choose: impl Fn(&Case) -> bool,
) -> Outcome {
    let narrowed = std::env::var("LINESHAFT_CASE").unwrap_or_default();
    let chosen = corpus.cases.iter().filter(|case| choose(case) && case.name.contains(&narrowed));
    let (alone, together): (Vec<&Case>, Vec<&Case>) =
        chosen.partition(|case| case.has_tag("alone"));
    let mut outcome = play_at_once(corpus, wire, &together, CASES_AT_ONCE);
    let others = play_at_once(corpus, wire, &alone, 1);
    outcome.played += others.played;
    outcome.failures.extend(others.failures);
    outcome.failures.sort();
    outcome
}

fn play_at_once(
    corpus: &Corpus,
    wire: &(impl Fn() -> SocketWire + Sync),
    cases: &[&Case],
    at_once: usize,
) -> Outcome {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(reason) = play_one(corpus, wire(), case) {
                        let mut failures = failures.lock().expect("no holder panics");
                        failures.push((case.name.clone(), reason));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no holder panicked");
    Outcome { played: cases.len(), failures }
}

fn play_one(corpus: &Corpus, mut wire: SocketWire, case: &Case) -> Result<(), String> {
    // Names of cases are unique, and a tube ends with its case. So each case has a new tube.
    let tube = format!("case-{}", case.name);
    run_case(&mut wire, corpus, case, &tube).map_err(|error| format!("{error:#}"))
}
