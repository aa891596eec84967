//! Plays the conformance cases through TLS. The replies must be the same as without TLS.

use anyhow::Result;
use testkit::conformance::lines::{Case, read_cases};
use testkit::conformance::suite;
use testkit::process::Program;
use testkit::tls::certificates::Authority;
use testkit::tls::{Client, Proxy};

use crate::programs;

#[test]
fn every_case_passes_in_memory() -> Result<()> {
    check(programs::lineshaft_in_memory(), |_| true)
}

#[test]
fn every_case_passes_with_a_log() -> Result<()> {
    check(programs::lineshaft_durable("data"), |case| !case.has_tag("memory"))
}

/// Plays the cases through a proxy that connects to the server with TLS.
fn check(program: Program, choose: impl Fn(&Case) -> bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::new(folder.path(), "authority")?;
    let server = program.with_tls(&authority.issue("server")?).start()?;
    let proxy = Proxy::start(Client::new(&authority.file, None)?, server.address())?;
    for file in ["cases.jsonl", "defects.jsonl"] {
        let cases = read_cases("beanstalk", file)?;
        suite::play(&cases, proxy.address, &choose).assert_all_passed("through TLS");
    }
    Ok(())
}
