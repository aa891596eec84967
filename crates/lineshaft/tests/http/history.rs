//! The history of the numbers survives a restart.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use testkit::client::Client;

use crate::Site;
use crate::running::wait_for;

/// The values of a series in the last hour.
fn values(site: &Site, series: &str) -> Vec<Option<f64>> {
    let answer = site.get(&format!("/api/v1/server/history?series={series}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let history: Value = serde_json::from_str(&answer.body).unwrap();
    history["series"][series].as_array().unwrap().iter().map(Value::as_f64).collect()
}

/// Waits until the server has added to its history.
fn wait_for_values(site: &Site, series: &str) {
    wait_for("a value", || values(site, series).iter().any(Option::is_some).then_some(()));
}

fn stop(mut site: Site) {
    site.server.signal(Signal::TERM);
    assert!(site.server.wait().success());
}

fn start(folder: &Path) -> Site {
    Site::start(folder, &["--data", "d"])
}

#[test]
fn a_restart_keeps_the_history_and_damage_only_loses_it() {
    let folder = tempfile::tempdir().unwrap();
    let site = start(folder.path());
    let mut client = Client::connect(site.beanstalk.parse().unwrap()).unwrap();
    client.put(0, 0, 60, b"x").unwrap();
    wait_for_values(&site, "ready");
    drop(client);
    stop(site);
    let file = folder.path().join("d/history");
    let whole = std::fs::read(&file).unwrap();
    let site = start(folder.path());
    // This is the first reply, so the present moment has no value of this process yet.
    assert!(values(&site, "connections").iter().any(Option::is_some));
    stop(site);
    for damaged in [&whole[..whole.len() / 2], b"", b"no history"] {
        std::fs::write(&file, damaged).unwrap();
        let site = start(folder.path());
        wait_for_values(&site, "ready");
        stop(site);
        assert!(std::fs::read(&file).unwrap().len() > 100, "it is written again");
    }
}
