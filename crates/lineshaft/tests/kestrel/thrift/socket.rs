//! Plays the conformance cases over sockets, in all styles, in memory and with a log.

use std::thread;

use anyhow::Result;
use testkit::conformance::thrift::codec::STYLES;
use testkit::conformance::thrift::read_cases;
use testkit::conformance::{policies, suite};

use crate::programs::start_both;

#[test]
fn the_service_does_what_its_description_says() -> Result<()> {
    let cases = read_cases(&STYLES)?;
    let servers = start_both(&["kestrel-thrift"], policies::CONFIGURATION)?;
    // The cases wait for seconds. So both servers play them at the same time.
    thread::scope(|scope| {
        for (name, server) in &servers {
            let cases = &cases;
            scope.spawn(move || {
                suite::play(cases, server.address(), |_| true).assert_all_passed(name);
            });
        }
    });
    Ok(())
}
