//! Sends random sequences of commands to Debian's beanstalkd and to Lineshaft at the same time.
//! Every reply must be the same.

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
    compare(&programs::lineshaft_durable("data"), "lineshaft_with_a_log", fewer)
}

/// Tests the harness: it must find no difference between two instances of the original.
#[test]
fn the_original_says_what_the_original_says() -> Result<()> {
    let Some(program) = programs::reference() else { return Ok(()) };
    compare(&program, "the_original", settings::seeds(SEEDS_DEFAULT).into_iter().take(4))
}

fn compare(subject: &Program, test: &str, seeds: impl IntoIterator<Item = u64>) -> Result<()> {
    let Some(original) = programs::reference() else { return Ok(()) };
    differential::compare(
        &format!("beanstalk differential::{test}"),
        seeds,
        steps::generate,
        |steps| Pair::new(Side::new(original.start()?)?, Side::new(subject.start()?)?).play(steps),
    )
}
