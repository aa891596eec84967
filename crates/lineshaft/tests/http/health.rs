//! Tests the liveness and readiness checks.

use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::Site;
use crate::request::Peer;
use crate::running::{Running, command, wait_for};

#[test]
fn a_server_that_is_up_is_live_and_ready() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &[]);
    for page in ["/health/live", "/health/ready", "/health/ready?verbose=1"] {
        let answer = site.get(page);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert!(answer.headers["content-type"].starts_with("text/plain"), "{answer:?}");
    }
    let index = site.get("/");
    assert_eq!(index.status, 200);
    for page in ["/health/live", "/health/ready", "/metrics"] {
        assert!(index.body.contains(page), "{}", index.body);
    }
}

#[test]
fn a_server_that_drains_lives_and_is_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--memory"]);
    site.server.signal(Signal::USR1);
    let answer = wait_for("the drain", || {
        let answer = site.get("/health/ready");
        (answer.status != 200).then_some(answer)
    });
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, "not ready: draining: new jobs are refused\n")
    );
    assert_eq!(site.get("/health/live").status, 200);
    let metrics = site.get("/metrics").body;
    assert!(metrics.contains("\nlineshaft_ready 0\n"), "{metrics}");
    assert!(metrics.contains("\nlineshaft_draining 1\n"), "{metrics}");
}

#[test]
fn a_listener_may_be_a_unix_socket_or_off() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--memory", "--beanstalk", "unix:b", "--http", "unix:h"];
    let _server = Running::start(folder.path(), &arguments);
    let stream = UnixStream::connect(folder.path().join("h")).unwrap();
    assert_eq!(Peer::over(stream).ask("GET", "/health/live").status, 200);

    let arguments = ["serve", "--memory", "--beanstalk", "127.0.0.1:0", "--http", "off"];
    let mut without = Running::start(folder.path(), &arguments);
    without.address();
    assert!(!without.stdout().contains("http"), "{}", without.stdout());
}

#[test]
fn the_listen_file_says_where_and_the_default_is_local() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path(), &["--data", "d"]);
    let file = std::fs::read(folder.path().join("d/listen.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(said["http"][0], site.http.as_str());

    let mut showing = command(folder.path(), &["config", "show"]);
    let shown = showing.env_remove("LINESHAFT_LISTEN_HTTP").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("127.0.0.1:7300"), "{shown}");
}
