//! The programs under test: Lineshaft from this build, and Debian's gearmand.

use std::path::PathBuf;

use testkit::process::{self, Program};
use testkit::tls::certificates::Identity;
use testkit::tools;

/// The original's binary as Debian installs it.
const REFERENCE: &str = "/usr/sbin/gearmand";

/// `lineshaft serve` with only a Gearman listener, in memory and with a log.
pub(crate) fn lineshaft() -> [(&'static str, Program); 2] {
    Program::serve_both_ways(&["gearman"], lineshaft_path())
}

/// `lineshaft serve` in memory.
pub(crate) fn lineshaft_in_memory() -> Program {
    lineshaft()[0].1.clone()
}

/// `lineshaft serve` with a log.
pub(crate) fn lineshaft_durable() -> Program {
    lineshaft()[1].1.clone()
}

/// `lineshaft gearmand`, which takes the original's flags.
pub(crate) fn lineshaft_as_gearmand() -> Program {
    Program::like_gearmand(lineshaft_path(), &["gearmand", "-l", "stderr", "-P", "gearmand.pid"])
}

/// `lineshaft gearmand` with `--ssl` and this certificate.
pub(crate) fn lineshaft_as_gearmand_with_tls(identity: &Identity) -> Program {
    let Identity { certificate, key } = identity;
    lineshaft_as_gearmand()
        .with(&["--ssl"])
        .with(&["--ssl-certificate".as_ref(), certificate.as_os_str()])
        .with(&["--ssl-key".as_ref(), key.as_os_str()])
}

/// The original. `None` if it is not installed, and the test can be skipped.
pub(crate) fn reference() -> Option<Program> {
    let path = tools::find_or_skip(REFERENCE)?;
    // The original runs in a folder of its own, and writes its process id file there. Its messages
    // are on standard error.
    Some(Program::like_gearmand(path, &["-l", "stderr", "-P", "gearmand.pid"]))
}

pub(crate) fn lineshaft_path() -> PathBuf {
    process::lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"))
}
