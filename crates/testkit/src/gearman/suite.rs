//! Plays many Gearman cases in parallel against one server, and collects every failure.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::case::Case;
use super::runner::{CaseContext, run_case};
use crate::socket::SocketWire;
use crate::suite::Outcome;
use crate::wire::Wire;

/// Waiting cases use no processor time, so more of them run at once than the machine has cores.
const CASES_AT_ONCE: usize = 16;

/// Plays all cases that `choose` selects against the server at `address`. Each call on one server
/// needs its own `name` of at most 20 letters, because the cases' functions and keys contain it.
///
/// The environment variable `LINESHAFT_CASE` limits the choice to names that contain its value.
pub fn play(
    cases: &[Case],
    name: &str,
    address: SocketAddr,
    choose: impl Fn(&Case) -> bool,
) -> Outcome {
    let narrowed = std::env::var("LINESHAFT_CASE").unwrap_or_default();
    let chosen: Vec<(usize, &Case)> = cases
        .iter()
        .enumerate()
        .filter(|(_, case)| choose(case) && case.name.contains(&narrowed))
        .collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..CASES_AT_ONCE.min(chosen.len()) {
            scope.spawn(|| {
                while let Some(&(index, case)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(reason) = play_one(case, format!("{name}{index}"), address) {
                        let mut failures = failures.lock().expect("no holder panics");
                        failures.push((case.name.clone(), reason));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no holder panicked");
    failures.sort();
    Outcome { played: chosen.len(), failures }
}

fn play_one(case: &Case, tag: String, address: SocketAddr) -> Result<(), String> {
    let mut wire = SocketWire::new(address);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    let unix_ms_at_zero = unix.as_millis() as u64 - wire.now_ms();
    let context = CaseContext { tag, unix_ms_at_zero };
    run_case(&mut wire, case, &context).map_err(|error| format!("{error:#}"))
}
