//! Tests that an import takes every job exactly once, even if it is killed again and again.

use std::fs;
use std::path::Path;

use testkit::client::Client;
use testkit::wait;

use super::{all, command, done, exported, run, serve};

const JOBS: usize = 3000;

/// Creates a folder with JSON lines, and with a configuration for small segments. With small
/// segments, an import has many chunks.
fn prepare(place: &Path) {
    fs::write(place.join("lineshaft.toml"), "[data]\nsegment_size = \"256KiB\"\n").unwrap();
    let line = |number| {
        let body = format!("{number:0>2000}");
        let state = if number % 7 == 3 { "buried" } else { "ready" };
        format!(
            "{{\"queue\":\"mail\",\"id\":{},\"state\":\"{state}\",\"body\":\"{body}\"}}\n",
            number + 1
        )
    };
    let lines: String = (0..JOBS).map(line).collect();
    fs::write(place.join("jobs"), lines).unwrap();
}

/// A number as the reports show it.
fn text(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:0>3}", number / 1000, number % 1000),
    }
}

fn log_files(data: &Path) -> usize {
    let is_segment = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".seg");
    let files = fs::read_dir(data).into_iter().flatten();
    files.filter(|file| is_segment(&file.as_ref().unwrap().file_name())).count()
}

#[test]
fn a_killed_import_continues_and_takes_no_job_twice() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    prepare(place);
    let import = ["import", "jsonl", "jobs"];
    let data = place.join("lineshaft-data");
    let mut taken = Vec::new();
    for part in 1..=3 {
        let mut child = command(place, &import).spawn().unwrap();
        // Kill the import when it has written another file of the log.
        let files = log_files(&data).max(1) + 1;
        wait::until("the import writes, or ends", || {
            log_files(&data) > files || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let there = exported(place, "lineshaft-data");
        assert!(there.len() + taken.len() <= JOBS, "part {part}: {} jobs", there.len());
        // Between two runs of the import, a server runs, and some of the jobs are taken.
        let server = serve(place, "lineshaft-data", &["beanstalk"]);
        let mut client = Client::on_tube(server.address(), "mail").unwrap();
        for _ in 0..100 {
            let Some(job) = client.reserve(0).unwrap() else { break };
            client.expect(&format!("delete {}", job.id), "DELETED").unwrap();
            taken.push(job.id);
        }
        server.kill();
    }
    let (code, said) = run(place, &import);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it continues now") || said.contains("nothing to do"), "{said}");
    let jobs = exported(place, "lineshaft-data");
    let left = all(&jobs, "id").iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    let mut ids = [taken, left].concat();
    ids.sort_unstable();
    let wanted: Vec<u64> = (1..=JOBS as u64).collect();
    assert_eq!(ids, wanted, "every job is there once, with its number");
    for job in &jobs {
        let id = job["id"].as_u64().unwrap();
        assert_eq!(job["body"], format!("{:0>2000}", id - 1));
    }
    let said = done(place, &["log", "check", "lineshaft-data"]);
    assert!(said.contains("intact"), "{said}");
}

#[test]
fn a_full_log_stops_an_import_which_continues_when_there_is_room() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    prepare(place);
    let small = "[data]\nsegment_size = \"256KiB\"\nmax_bytes = \"4MiB\"\n";
    fs::write(place.join("lineshaft.toml"), small).unwrap();
    let (code, said) = run(place, &["import", "jsonl", "jobs"]);
    assert!(code == 74 && said.contains("run the same command again"), "{code} {said}");
    let there = exported(place, "lineshaft-data").len();
    assert!((1..JOBS).contains(&there), "{there} jobs");
    fs::write(place.join("lineshaft.toml"), "[data]\nsegment_size = \"256KiB\"\n").unwrap();
    let said = done(place, &["import", "jsonl", "jobs"]);
    assert!(said.contains("it continues now"), "{said}");
    assert!(
        said.contains(&format!("{} jobs: imported, or left out, before", text(there))),
        "{said}"
    );
    assert_eq!(exported(place, "lineshaft-data").len(), JOBS);
}

#[test]
fn an_interrupted_import_with_again_continues_too() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    // The jobs have no numbers, so the import cannot see that it has taken a job before.
    let line = |number: usize| format!("{{\"queue\":\"mail\",\"body\":\"{number:0>2000}\"}}\n");
    let lines: String = (0..JOBS).map(line).collect();
    fs::write(place.join("jobs"), lines).unwrap();
    let small = "[data]\nsegment_size = \"256KiB\"\nmax_bytes = \"4MiB\"\n";
    fs::write(place.join("lineshaft.toml"), small).unwrap();
    let import = ["import", "jsonl", "jobs", "--again"];
    let (code, said) = run(place, &import);
    assert_eq!(code, 74, "{said}");
    fs::write(place.join("lineshaft.toml"), "[data]\nsegment_size = \"256KiB\"\n").unwrap();
    let said = done(place, &import);
    assert!(said.contains("it continues now"), "{said}");
    assert_eq!(exported(place, "lineshaft-data").len(), JOBS);
}
