//! Sends random sequences of packets and admin commands to Debian's gearmand and to Lineshaft at
//! the same time. Every connection must receive the same messages from both servers.

mod message;
mod pair;
mod side;
mod steps;

use anyhow::Result;
use testkit::process::Program;
use testkit::{differential, settings};

use crate::programs;
use pair::Pair;
use side::Side;

/// The default number of sequences per test.
const SEEDS_DEFAULT: u64 = 20;

#[test]
fn lineshaft_in_memory_says_what_the_original_says() -> Result<()> {
    compare(&programs::lineshaft_in_memory(), "lineshaft_in_memory", settings::seeds(SEEDS_DEFAULT))
}

#[test]
fn lineshaft_with_a_log_says_what_the_original_says() -> Result<()> {
    // Here every sequence starts a server with a folder of its own. This takes longer, so there are
    // fewer sequences.
    let fewer = settings::seeds(SEEDS_DEFAULT).into_iter().step_by(3);
    compare(&programs::lineshaft_durable(), "lineshaft_with_a_log", fewer)
}

/// Tests the harness: it must find no difference between two instances of the original.
#[test]
fn the_original_says_what_the_original_says() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    compare(&program, "the_original", settings::seeds(SEEDS_DEFAULT).into_iter().take(4))
}

/// Tests the harness: it must detect a server that serves a worker's functions in another order.
#[test]
fn the_comparison_finds_a_difference() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    let steps = steps::generate(1);
    let [original, subject] = [program.clone(), program.with(&["--round-robin"])];
    let pair = Pair::new(Side::new(original.start()?)?, Side::new(subject.start()?)?);
    let outcome = pair.play(&steps)?;
    let difference = outcome.difference.unwrap_or_default();
    assert!(difference.contains("packet 11") || difference.contains("packet 31"), "{difference}");
    Ok(())
}

fn compare(subject: &Program, test: &str, seeds: impl IntoIterator<Item = u64>) -> Result<()> {
    let Some(original) = programs::reference() else { return Ok(()) };
    differential::compare(
        &format!("gearman differential::{test}"),
        seeds,
        steps::generate,
        |steps| Pair::new(Side::new(original.start()?)?, Side::new(subject.start()?)?).play(steps),
    )
}
