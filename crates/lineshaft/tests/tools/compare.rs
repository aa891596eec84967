//! Tests short runs of `lineshaft bench`. Only the format of the output is checked.

use serde_json::Value;
use testkit::tools;

use super::{BEANSTALKD, Kind, World};

#[test]
fn takes_and_idle_connections_are_measured() {
    let world = World::new(Kind::Lineshaft, false).unwrap();
    let pid = world.server().process_id().to_string();
    world.run_well(&["bench", "put", "--count", "50", "--connections", "2", "--warm-up", "0"], b"");
    let take = ["bench", "take", "--count", "50", "--connections", "2", "--warm-up", "0", "--json"];
    let taken = world.run_well(&take, b"").stdout;
    let taken: Value = serde_json::from_str(&taken).unwrap();
    assert_eq!((&taken["finished"], &taken["failed"]), (&50.into(), &0.into()), "{taken}");
    assert_eq!(world.stat("stats", "cmd-delete"), "50", "{taken}");
    let idle = ["bench", "idle", "--connections", "20", "--server-pid", &pid, "--json"];
    let idle = world.run_well(&idle, b"").stdout;
    let idle: Value = serde_json::from_str(&idle).unwrap();
    assert_eq!(idle["connections"], 20, "{idle}");
    assert!(idle["resident_after"].as_u64() > Some(0), "{idle}");
}

/// The comparison writes the page on performance. This test finds errors in its code before the
/// next real comparison.
#[test]
fn a_comparison_writes_its_page_and_plots() {
    if [BEANSTALKD, "redis-server"].iter().any(|program| tools::find_or_skip(program).is_none()) {
        return;
    }
    let world = World::new(Kind::Lineshaft, false).unwrap();
    let (page, scratch) = (world.path("page.md"), world.path(""));
    let rows = ["--quick", "--rounds", "1", "--rows", "T1", "--seconds", "0.2", "--json"];
    let files = ["--beanstalkd", BEANSTALKD, "--write", &page, "--scratch", &scratch];
    let output = world.run(&[&["bench", "compare"][..], &rows, &files].concat(), b"");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(result["sync_time"]["p50_us"].as_f64() > Some(0.0), "{result}");
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{result}");
    assert!(rows[0]["id"] == "T1" && rows[0]["error"].is_null(), "{result}");
    assert!(rows[0]["ours"].as_f64() > Some(0.0), "{result}");
    // On a busy machine, the row can be below its floor.
    let is_below = rows[0]["verdict"] == "below";
    assert_eq!(output.status.code(), Some(i32::from(is_below)), "{output:?}");
    assert_eq!(output.stderr.contains("T1 (put, 50×1): "), is_below, "{output:?}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("](page/rates.svg)\n"), "{page}");
    let plot = std::fs::read_to_string(world.path("page/rates.svg")).unwrap();
    assert!(plot.starts_with("<svg ") && plot.contains(">beanstalkd</text>"), "{plot}");
    let row = page.lines().find(|line| line.starts_with("| T1 |")).unwrap();
    assert!(row.contains("beanstalkd") && row.contains("k/s"), "{row}");
}

#[test]
fn a_comparison_that_cannot_measure_a_row_fails() {
    let world = World::new(Kind::Lineshaft, false).unwrap();
    let scratch = world.path("");
    let rows = ["--quick", "--rounds", "1", "--rows", "T1", "--seconds", "0.2"];
    let files = ["--beanstalkd", "/nowhere/beanstalkd", "--scratch", &scratch];
    let output = world.run(&[&["bench", "compare"][..], &rows, &files].concat(), b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("T1 (put, 50×1): not measured"), "{output:?}");
    assert!(output.stdout.contains("fdatasync"), "the machine is shown: {output:?}");
}

#[test]
fn a_load_is_drawn() {
    let world = World::new(Kind::Lineshaft, false).unwrap();
    for (mode, panel) in [
        (["put", "--count", "50"], ">Rate</text>"),
        (["trip", "--seconds", "0.2"], ">Latency</text>"),
    ] {
        let plot = world.path("plot.svg");
        world.run_well(&[&["bench"][..], &mode, &["--plot", &plot]].concat(), b"");
        let text = std::fs::read_to_string(&plot).unwrap();
        assert!(text.starts_with("<svg ") && text.contains(panel), "{text}");
    }
}
