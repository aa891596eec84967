//! Plays the conformance cases over sockets, in all styles, in memory and with a log.

use anyhow::Result;
use testkit::conformance::thrift::codec::STYLES;
use testkit::conformance::thrift::read_cases;
use testkit::conformance::{policies, suite};

use crate::programs::start_both;

#[test]
fn the_service_does_what_its_description_says() -> Result<()> {
    let cases = read_cases(&STYLES)?;
    for (name, server) in start_both(&["kestrel-thrift"], policies::CONFIGURATION)? {
        suite::play(&cases, server.address(), |_| true).assert_all_passed(name);
    }
    Ok(())
}
