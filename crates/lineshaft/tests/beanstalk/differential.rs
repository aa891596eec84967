//! Sends random sequences of commands to Debian's beanstalkd and to Lineshaft at once. Every reply
//! must be the same.
//!
//! `LINESHAFT_SEEDS` sets the number of sequences. `LINESHAFT_SEED` plays one of them. The test
//! reduces a failing sequence to the steps that matter before it prints it.

mod pair;
mod shrink;
mod side;
mod steps;

use std::time::Duration;

use anyhow::Result;
use testkit::process::Program;

use crate::{programs, settings};
use pair::{Outcome, Pair};
use side::Side;
use steps::Step;

/// The default number of sequences per test.
const SEEDS_DEFAULT: u64 = 20;

/// The time limit for the reduction of a failing sequence.
const SHRINKING: Duration = Duration::from_secs(40);

#[test]
fn lineshaft_in_memory_says_what_the_original_says() -> Result<()> {
    compare(&programs::lineshaft_in_memory(), "lineshaft_in_memory", settings::seeds(SEEDS_DEFAULT))
}

#[test]
fn lineshaft_with_a_log_says_what_the_original_says() -> Result<()> {
    // Every sequence starts a server with its own folder, which takes longer.
    let fewer = settings::seeds(SEEDS_DEFAULT).into_iter().step_by(3);
    compare(&programs::lineshaft_durable("data"), "lineshaft_with_a_log", fewer)
}

/// Tests the harness: it must find no difference between two originals.
#[test]
fn the_original_says_what_the_original_says() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    compare(&program, "the_original", settings::seeds(SEEDS_DEFAULT).into_iter().take(4))
}

fn compare(subject: &Program, test: &str, seeds: impl IntoIterator<Item = u64>) -> Result<()> {
    let Some(original) = programs::reference() else { return Ok(()) };
    let play = |steps: &[Step]| -> Result<Outcome> {
        let original = Side::new(original.start()?)?;
        let subject = Side::new(subject.start()?)?;
        Pair::new(original, subject).play(steps)
    };
    for seed in seeds {
        let steps = steps::generate(seed);
        let Some(difference) = play(&steps)?.difference else { continue };
        let outcome = shrink::shrink(steps, SHRINKING, play)?;
        panic!(
            "seed {seed}: {difference}\n\nShortest sequence found that shows a difference:\n{}\nReplay: \
             LINESHAFT_SEED={seed} cargo nextest run -p lineshaft --test beanstalk differential::{test}",
            outcome.transcript.text()
        );
    }
    Ok(())
}
