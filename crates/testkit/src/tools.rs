//! Tools that tests need and that a machine can lack: the original servers, interpreters, and
//! permissions.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The test command sets this variable. A missing tool is then a failure. Without the variable, the
/// test is skipped.
pub const REQUIRE_TOOLS: &str = "LINESHAFT_REQUIRE_TOOLS";

/// This variable names a file. Each skipped test adds a line to the file, because the output of a
/// passing test is not shown.
pub const SKIPPED_FILE: &str = "LINESHAFT_SKIPPED_FILE";

/// The path of a program that the test needs. If the program is missing, prints that it is missing
/// and returns `None`, and the caller must skip the test. If tools are required, panics instead.
#[track_caller]
pub fn find_or_skip(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        skip(&format!("{program} is not installed; scripts/install-test-tools.sh installs it"));
    }
    found
}

/// Reports why a test is skipped. If tools are required, panics instead.
#[track_caller]
pub fn skip(reason: &str) {
    assert!(std::env::var_os(REQUIRE_TOOLS).is_none(), "{REQUIRE_TOOLS} is set, but {reason}");
    leave_out(reason);
}

/// Reports what a test leaves out because something cannot be installed, such as the permission to
/// mount. This is never a failure.
pub fn leave_out(reason: &str) {
    let test = std::env::var("NEXTEST_TEST_NAME").ok();
    let test =
        test.or_else(|| std::thread::current().name().map(str::to_owned)).unwrap_or_default();
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    let Some(path) = std::env::var_os(SKIPPED_FILE) else { return };
    // The line is one write, because other tests write to the same file at the same time.
    let written = File::options().create(true).append(true).open(path);
    written.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file can be written");
}

/// True if this process can mount file systems, and also file systems in files if `files` is set.
/// Otherwise reports what the test leaves out. If the process has the permission, a failed mount is
/// a failure of the test.
pub fn may_mount_or_skip(files: bool) -> bool {
    let missing = if !has_capability(CAP_SYS_ADMIN) {
        Some("this process may not mount file systems")
    } else if files && !Path::new("/dev/loop-control").exists() {
        Some("this machine has no loop devices")
    } else {
        None
    };
    missing.into_iter().for_each(leave_out);
    missing.is_none()
}

/// The number of the capability that includes the permission to mount, from `capabilities(7)`.
const CAP_SYS_ADMIN: u32 = 21;

/// True if the system grants this process a capability. Root has all capabilities, except in some
/// containers.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let granted = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let granted = granted.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    granted.is_some_and(|granted| granted >> number & 1 == 1)
}

/// Raises the limit of open files as far as the system allows. Servers that are started later
/// inherit the limit. Returns the limit.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit remains, and this function returns it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Finds a program. A name with a slash is a path. Any other name is searched in `PATH`, and then
/// in the folders of system programs.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).exists().then(|| program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(system);
    folders.map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn rights_are_those_of_the_process() {
        let is_root = rustix::process::geteuid().is_root();
        assert!(is_root || !has_capability(CAP_SYS_ADMIN));
        assert!(!has_capability(63), "there are fewer capabilities");
    }

    #[test]
    fn skipped_tests_are_noted_in_a_file() {
        // The environment belongs to a whole process. So this test starts itself in another
        // process.
        const IN_CHILD: &str = "LINESHAFT_TEST_LEAVES_OUT";
        if std::env::var_os(IN_CHILD).is_some() {
            leave_out("for a test");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");
        for _ in 0..2 {
            let ended = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tools::tests::skipped_tests_are_noted_in_a_file"])
                .env(IN_CHILD, "1")
                .env(SKIPPED_FILE, &file)
                .env("NEXTEST_TEST_NAME", "some_test")
                .output()
                .unwrap();
            assert!(ended.status.success(), "{ended:?}");
        }
        let noted = std::fs::read_to_string(&file).unwrap();
        assert_eq!(noted, "SKIPPED: some_test: for a test\n".repeat(2));
    }
}
