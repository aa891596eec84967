//! The conformance cases against Lineshaft over sockets, with and without a log.

use anyhow::Result;
use testkit::case::Corpus;
use testkit::suite;

use crate::programs;

#[test]
fn lineshaft_in_memory_passes_every_case() -> Result<()> {
    let server = programs::lineshaft_in_memory().start()?;
    let corpus = Corpus::read("beanstalk", "cases.jsonl")?;
    suite::play(&corpus, server.address(), |_| true).assert_all_passed();
    Ok(())
}

#[test]
fn lineshaft_with_a_log_passes_every_case() -> Result<()> {
    let server = programs::lineshaft_durable("data").start()?;
    let corpus = Corpus::read("beanstalk", "cases.jsonl")?;
    suite::play(&corpus, server.address(), |case| !case.has_tag("memory")).assert_all_passed();
    Ok(())
}

#[test]
fn lineshaft_in_memory_does_right_where_the_original_errs() -> Result<()> {
    let server = programs::lineshaft_in_memory().start()?;
    let corpus = Corpus::read("beanstalk", "defects.jsonl")?;
    suite::play(&corpus, server.address(), |_| true).assert_all_passed();
    Ok(())
}

#[test]
fn lineshaft_with_a_log_does_right_where_the_original_errs() -> Result<()> {
    let server = programs::lineshaft_durable("data").start()?;
    let corpus = Corpus::read("beanstalk", "defects.jsonl")?;
    suite::play(&corpus, server.address(), |_| true).assert_all_passed();
    Ok(())
}
