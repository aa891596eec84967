//! Plays the conformance cases against Lineshaft over sockets, in memory and with a log.

use anyhow::Result;
use testkit::conformance::lines::read_cases;
use testkit::conformance::policies;
use testkit::conformance::socket::SocketWire;
use testkit::conformance::suite::play_over;

use crate::programs::start_both;

/// Cases with the tag `maxopen1` need another limit of open reads. So they run on a server that has
/// only this policy.
const ONE_OPEN_READ: &str = "[[policy]]\nmatch = \"*\"\nopen = { max = 1 }\n";

#[test]
fn lineshaft_answers_like_the_original() -> Result<()> {
    check("cases.jsonl")
}

#[test]
fn lineshaft_does_right_where_the_original_errs() -> Result<()> {
    check("defects.jsonl")
}

#[test]
fn one_open_read_may_be_the_limit() -> Result<()> {
    play("cases.jsonl", ONE_OPEN_READ, |is_for_one| is_for_one)
}

fn check(file: &str) -> Result<()> {
    play(file, policies::CONFIGURATION, |is_for_one| !is_for_one)
}

fn play(file: &str, config: &str, choose: fn(bool) -> bool) -> Result<()> {
    let cases = read_cases("kestrel", file)?;
    for (name, server) in start_both(&["kestrel", "kestrel-text"], config)? {
        let ports = [("text", server.address_of("kestrel-text"))];
        let wire = || SocketWire::new(server.address()).with_ports(&ports);
        let outcome = play_over(&cases, &wire, |case| choose(case.has_tag("maxopen1")));
        outcome.assert_all_passed(name);
    }
    Ok(())
}
