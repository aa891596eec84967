//! Reduces a failing sequence to the steps that matter.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::pair::Outcome;
use super::steps::Step;

/// Removes smaller and smaller parts of the sequence while a difference remains. Returns the result
/// of the shortest sequence.
pub(crate) fn shrink(
    mut steps: Vec<Step>,
    limit: Duration,
    play: impl Fn(&[Step]) -> Result<Outcome>,
) -> Result<Outcome> {
    let started = Instant::now();
    let mut best = play(&steps)?;
    let mut part = steps.len() / 2;
    while part > 0 && started.elapsed() < limit {
        let mut from = 0;
        let mut shorter_found = false;
        while from < steps.len() && started.elapsed() < limit {
            let mut candidate = steps.clone();
            candidate.drain(from..steps.len().min(from + part));
            let outcome = play(&candidate)?;
            if outcome.difference.is_some() {
                steps = candidate;
                best = outcome;
                shorter_found = true;
            } else {
                from += part;
            }
        }
        if !shorter_found || part > 1 {
            part /= 2;
        }
    }
    Ok(best)
}
