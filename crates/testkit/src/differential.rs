//! Sends the same random steps to two servers, and compares the replies. A test provides the steps
//! and plays them. This file chooses the seeds, reduces a failing sequence, and reports it.
//!
//! `LINESHAFT_SEEDS` sets the number of sequences. `LINESHAFT_SEED` selects one sequence.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The time limit for the reduction of a failing sequence.
const SHRINKING: Duration = Duration::from_secs(40);

/// The conversation of a sequence, up to the point where the sequence stopped.
#[derive(Debug, Default)]
pub struct Transcript(String);

impl Transcript {
    /// All lines.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Adds a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

/// The result of a sequence.
#[derive(Debug)]
pub struct Outcome {
    /// The first difference between the servers.
    pub difference: Option<String>,
    /// The conversation up to the first difference.
    pub transcript: Transcript,
}

/// Plays the sequence of each seed. At the first difference, removes all steps that are not needed
/// for the difference, and panics. `test` is the binary and the name of the test, for the command
/// that repeats the failure.
pub fn compare<S: Clone>(
    test: &str,
    seeds: impl IntoIterator<Item = u64>,
    generate: impl Fn(u64) -> Vec<S>,
    play: impl Fn(&[S]) -> Result<Outcome>,
) -> Result<()> {
    for seed in seeds {
        let steps = generate(seed);
        let Some(difference) = play(&steps)?.difference else { continue };
        let outcome = shrink(steps, SHRINKING, &play)?;
        panic!(
            "seed {seed}: {difference}\n\nShortest sequence found that shows a difference:\n{}\nReplay: \
             LINESHAFT_SEED={seed} cargo nextest run -p lineshaft --test {test}",
            outcome.transcript.text()
        );
    }
    Ok(())
}

/// Removes smaller and smaller parts of the sequence, while a difference remains. Returns the
/// outcome of the shortest sequence.
fn shrink<S: Clone>(
    mut steps: Vec<S>,
    limit: Duration,
    play: impl Fn(&[S]) -> Result<Outcome>,
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
