//! The programs under test: Lineshaft from this build, and Debian's gearmand.

use std::path::PathBuf;

use testkit::process::Program;
use testkit::tls::certificates::Identity;
use testkit::tools;

/// The original's binary as Debian installs it.
const REFERENCE: &str = "/usr/sbin/gearmand";

/// `lineshaft serve` with only a Gearman listener, in memory and with a log, with one I/O thread
/// and with three. The names are for failure messages.
pub(crate) fn lineshaft() -> Vec<(&'static str, Program)> {
    vec![("in memory", lineshaft_in_memory()), ("with a log", lineshaft_durable("data"))]
}

/// `lineshaft serve --memory` with a Gearman listener and one I/O thread.
pub(crate) fn lineshaft_in_memory() -> Program {
    Program::serve_gearman(lineshaft_path(), &["--memory"]).with_io_threads(1)
}

/// `lineshaft serve` with its data in `folder` of the server's own folder, a Gearman listener and
/// three I/O threads.
pub(crate) fn lineshaft_durable(folder: &str) -> Program {
    Program::serve_gearman(lineshaft_path(), &["--data", folder]).with_io_threads(3)
}

/// `lineshaft gearmand`, which takes the original's flags.
pub(crate) fn lineshaft_as_gearmand() -> Program {
    Program::like_gearmand(lineshaft_path(), &["gearmand", "-l", "stderr", "-P", "gearmand.pid"])
}

/// The same with `--ssl` and this certificate.
pub(crate) fn lineshaft_as_gearmand_with_tls(identity: &Identity) -> Program {
    let Identity { certificate, key } = identity;
    lineshaft_as_gearmand()
        .with(&["--ssl"])
        .with(&["--ssl-certificate".as_ref(), certificate.as_os_str()])
        .with(&["--ssl-key".as_ref(), key.as_os_str()])
}

/// The original. `None` if it is not installed and the test can be skipped.
pub(crate) fn reference() -> Option<Program> {
    let path = tools::find_or_skip(REFERENCE)?;
    // It runs in its own folder, where it writes the file with its process id. Its messages go to
    // stderr.
    Some(Program::like_gearmand(path, &["-l", "stderr", "-P", "gearmand.pid"]))
}

/// Lineshaft's binary. `LINESHAFT_BIN` names another one, such as a release build.
fn lineshaft_path() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_lineshaft").into();
    std::env::var_os("LINESHAFT_BIN").map_or_else(built, PathBuf::from)
}
