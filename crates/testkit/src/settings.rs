//! Environment variables that set the length of tests.

use std::time::{SystemTime, UNIX_EPOCH};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The value of `LINESHAFT_SEED`, which repeats one run.
pub fn seed_to_repeat() -> Option<u64> {
    number("LINESHAFT_SEED")
}

/// The seed to repeat. If there is none, a fresh seed: one that the test command chose for this
/// state of the sources (`LINESHAFT_FRESH_SEED`), or one that changes from run to run.
pub fn seed() -> u64 {
    seed_to_repeat().unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let changing = || now.map_or(1, |now| now.as_millis() as u64);
        number("LINESHAFT_FRESH_SEED").unwrap_or_else(changing) % 1_000_000
    })
}

/// The seeds to play. If there is a seed to repeat, the run has only this seed. Otherwise
/// `LINESHAFT_SEEDS` sets the number of seeds. Every second seed is the same in each run. The other
/// seeds are fresh.
pub fn seeds(default: u64) -> Vec<u64> {
    if let Some(seed) = seed_to_repeat() {
        return vec![seed];
    }
    let count = number("LINESHAFT_SEEDS").unwrap_or(default);
    let fresh = 1_000_000 * (1 + seed());
    (0..count).map(|at| if at % 2 == 0 { 1 + at / 2 } else { fresh + at / 2 }).collect()
}

/// `LINESHAFT_ROUNDS`: how often a test kills a server, or how often it repeats a mass of
/// connections.
pub fn rounds(default: u64) -> u64 {
    number("LINESHAFT_ROUNDS").unwrap_or(default)
}
