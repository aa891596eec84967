//! Plays the conformance cases through TLS. The replies must be the same as without TLS.

use anyhow::Result;
use testkit::conformance::gearman::read_cases;
use testkit::conformance::suite;
use testkit::tls::certificates::Authority;
use testkit::tls::{Client, Proxy};

use crate::programs;

#[test]
fn every_case_passes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::new(folder.path(), "authority")?;
    let identity = authority.issue("server")?;
    for (name, program) in programs::lineshaft() {
        let server = program.with_tls(&identity).start()?;
        let proxy = Proxy::start(Client::new(&authority.file, None)?, server.address())?;
        for file in ["cases.jsonl", "defects.jsonl"] {
            suite::play(&read_cases(file)?, proxy.address, |_| true).assert_all_passed(name);
        }
    }
    Ok(())
}
