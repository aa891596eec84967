//! Plays the conformance cases through TLS. The replies are the same as without it.

use anyhow::Result;
use testkit::certificates::Authority;
use testkit::gearman::case::read_cases;
use testkit::gearman::suite;
use testkit::tls::{Client, Proxy};

use crate::programs;

#[test]
fn every_case_passes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::new(folder.path(), "authority")?;
    let identity = authority.issue("server")?;
    for (_, program) in programs::lineshaft() {
        let server = program.with_tls(&identity).start()?;
        let proxy = Proxy::start(Client::new(&authority.file, None)?, server.address())?;
        for file in ["cases.jsonl", "defects.jsonl"] {
            suite::play(&read_cases(file)?, "c", proxy.address, |_| true).assert_all_passed();
        }
    }
    Ok(())
}
