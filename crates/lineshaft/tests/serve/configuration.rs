//! Tests `lineshaft config`, and the settings that a reload with SIGHUP applies.

use rustix::process::Signal;

use crate::running::{Running, command, finish};

#[test]
fn check_says_ok_or_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lineshaft.toml");
    std::fs::write(&file, "io_threads = 2\n").unwrap();
    let finished = finish(command(folder.path(), &["config", "check"]));
    assert_eq!(String::from_utf8_lossy(&finished.stdout), "lineshaft.toml: ok\n");
    std::fs::write(&file, "io_threads = 0\nio_thread = 1\n").unwrap();
    let finished = finish(command(folder.path(), &["config", "check", "lineshaft.toml"]));
    assert_eq!(finished.status.code(), Some(78));
    assert_eq!(
        String::from_utf8_lossy(&finished.stderr),
        "lineshaft.toml:1:14: io_threads: `0` is not a number from 1 to 64\n\
         lineshaft.toml:2:1: unknown key `io_thread`; did you mean `io_threads`?\n"
    );
}

#[test]
fn show_says_where_each_value_came_from() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lineshaft.toml"), "io_threads = 2\n").unwrap();
    let mut showing = command(folder.path(), &["config", "show"]);
    showing.env("LINESHAFT_DATA_SYNC", "50ms");
    let shown = String::from_utf8(finish(showing).stdout).unwrap();
    let has = |line: &str, origin: &str| {
        shown.lines().any(|shown| shown.starts_with(line) && shown.ends_with(origin))
    };
    assert!(has("io_threads = 2 ", "# lineshaft.toml:1"), "{shown}");
    assert!(has("sync = \"50ms\" ", "# environment LINESHAFT_DATA_SYNC"), "{shown}");
    assert!(has("beanstalk = \"127.0.0.1:11300\" ", "# default"), "{shown}");
}

#[test]
fn a_file_is_named_with_or_without_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let text = "io_threads = 2\n[[policy]]\nmatch = \"mail\"\nlimits.jobs = 7\n";
    std::fs::write(folder.path().join("other.toml"), text).unwrap();
    for (arguments, expected) in [
        (&["config", "check"][..], "other.toml: ok"),
        (&["config", "show"], "# other.toml:1"),
        (&["policy", "show", "mail"], "other.toml:"),
    ] {
        for naming in [&["other.toml"][..], &["--config", "other.toml"]] {
            let arguments = [arguments, naming].concat();
            let finished = finish(command(folder.path(), &arguments));
            let stdout = String::from_utf8(finished.stdout).unwrap();
            assert!(stdout.contains(expected), "{arguments:?}: {stdout}");
        }
        let twice = [arguments, &["other.toml", "--config", "other.toml"]].concat();
        assert_eq!(finish(command(folder.path(), &twice)).status.code(), Some(2));
    }
}

#[test]
fn sighup_takes_over_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lineshaft.toml");
    std::fs::write(&file, "[limits]\nconnections = 5\n").unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "127.0.0.1:0"];
    let server = Running::start(folder.path(), &arguments);

    std::fs::write(&file, "[limits]\nconnections = 6\n[messages]\nlevel = \"debug\"\n").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_stderr("configuration reloaded");
    assert!(server.stderr().contains("limits.connections is now 6"), "{}", server.stderr());

    std::fs::write(&file, "io_threads = 7\n[limits]\nconnections = 8\n").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_stderr("nothing changed: these keys need a restart: io_threads");

    std::fs::write(&file, "[limits]\nconnections = 0\n").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_stderr("limits.connections: `0` is neither");
    assert!(!server.stderr().contains("connections is now 8"));
}
