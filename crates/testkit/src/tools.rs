//! Tools that tests need and a machine may lack: the original servers, interpreters, system rights.

use std::path::{Path, PathBuf};

/// Set by the test command: a missing tool is then a failure instead of a skipped test.
pub const REQUIRE_TOOLS: &str = "LINESHAFT_REQUIRE_TOOLS";

/// The path of a program that the test cannot do without; `None` means that the test is to be
/// skipped, which was said on stderr. Panics instead of skipping when tools are required.
#[track_caller]
pub fn find_or_skip(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        skip(&format!("{program} is not installed; scripts/install-test-tools.sh installs it"));
    }
    found
}

/// Says why a test is skipped, or panics when tools are required.
#[track_caller]
pub fn skip(reason: &str) {
    assert!(std::env::var_os(REQUIRE_TOOLS).is_none(), "{REQUIRE_TOOLS} is set, but {reason}");
    eprintln!("SKIPPED: {reason}");
}

/// The path of a program: itself when it holds a slash, else looked up in `PATH` and the folders of
/// system programs.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).exists().then(|| program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(system);
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}
