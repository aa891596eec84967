//! Tests `lineshaft log` after a refused start, as an operator would use it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::ask;
use crate::running::{Running, command, finish};

const SERVE: [&str; 5] = ["serve", "--data", "d", "--beanstalk", "127.0.0.1:0"];

/// Returns the exit code, and standard output and standard error together.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let finished = finish(command(folder, arguments));
    let said = [finished.stdout, finished.stderr].concat();
    let code = finished.status.code().expect("no signal ended it");
    (code, String::from_utf8_lossy(&said).into_owned())
}

/// The names of all files, with their bytes.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|file| {
        let file = file.unwrap();
        (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

#[test]
fn a_damaged_log_is_repaired_into_another_folder_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("lineshaft.toml"), "[data]\nsegment_size = \"256KiB\"\n").unwrap();
    let mut server = Running::start(folder, &SERVE);
    let body = "b".repeat(1000);
    ask(&server.address(), &format!("put 0 0 60 1000\r\n{body}\r\n").repeat(10));
    let (code, said) = run(folder, &["log", "check", "d"]);
    assert!(code == 75 && said.contains("locked by another process"), "{code} {said}");
    server.signal(Signal::TERM);
    server.wait();

    let (code, said) = run(folder, &["log", "check", "d"]);
    assert!(code == 0 && said.contains("intact") && said.contains(" 10 jobs"), "{code} {said}");

    // This changes bytes in the body of one job.
    let segment = folder.join("d/0000000001.seg");
    File::options().write(true).open(&segment).unwrap().write_all_at(b"damage", 7000).unwrap();
    let (code, said) = run(folder, &SERVE);
    assert!(code == 65 && said.contains("`lineshaft log repair`"), "{code} {said}");
    let before = contents(&folder.join("d"));
    let (code, said) = run(folder, &["log", "check", "d"]);
    assert!(code == 65 && said.contains("0000000001.seg at offset"), "{code} {said}");
    let json = |arguments: &[&str], code: i32| -> serde_json::Value {
        let finished = finish(command(folder, arguments));
        assert_eq!(finished.status.code(), Some(code));
        serde_json::from_slice(&finished.stdout).unwrap()
    };
    let checked = json(&["log", "check", "d", "--json"], 65);
    assert_eq!((&checked["intact"], &checked["jobs"]), (&false.into(), &9.into()), "{checked}");
    let loss = &checked["losses"][0];
    assert!(loss["file"].as_str().unwrap().ends_with("0000000001.seg"), "{checked}");
    assert_eq!(loss["jobs_max"], 1, "{checked}");
    assert!(checked["refusal"].as_str().unwrap().contains("0000000001.seg"), "{checked}");
    let repaired = json(&["log", "repair", "d", "as-json", "--json"], 0);
    assert!(repaired["copy"].as_str().unwrap().ends_with("/as-json"), "{repaired}");
    let checked = json(&["log", "check", "as-json", "--json"], 0);
    let found = serde_json::json!([checked["intact"], checked["jobs"], checked["refusal"]]);
    assert_eq!(found, serde_json::json!([true, 9, null]), "{checked}");
    let (code, said) = run(folder, &["log", "repair", "d", "saved"]);
    assert!(code == 0 && said.contains("one job at most"), "{code} {said}");
    assert!(said.contains("saved is a new log with 9 jobs"), "{said}");
    assert_eq!(contents(&folder.join("d")), before);
    // The name ends with a slash, because a shell completes it so. Or the folder already exists.
    fs::create_dir(folder.join("there")).unwrap();
    fs::create_dir(folder.join("linked")).unwrap();
    symlink("linked", folder.join("link")).unwrap();
    for (copy, named) in [("new/", "new"), ("there/.", "there"), ("link", "linked")] {
        let (code, said) = run(folder, &["log", "repair", "d", copy]);
        assert!(code == 0, "{copy}: {code} {said}");
        assert!(said.contains(&format!("/{named} is a new log")), "{copy}: {said}");
        assert!(folder.join(named).join("0000000001.seg").exists(), "{copy}");
    }

    let mut server =
        Running::start(folder, &["serve", "--data", "saved", "--beanstalk", "127.0.0.1:0"]);
    let peeks: Vec<String> = (1..=10).map(|id| format!("peek {id}\r\n")).collect();
    let said = ask(&server.address(), &peeks.concat());
    assert_eq!(said.matches("FOUND").count(), 9 + 1, "{said}");
    assert_eq!(said.matches(&body).count(), 9, "{said}");
    server.signal(Signal::TERM);
    server.wait();
}

#[test]
fn a_log_of_more_files_than_a_process_may_open_at_first_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("d")).unwrap();
    for number in 1..=40 {
        fs::write(folder.join(format!("d/{number:010}.seg")), [0; 5000]).unwrap();
    }
    let check = command(folder, &["log", "check", "d"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -S -n 30 && exec \"$0\" log check d"]).arg(check.get_program());
    limited.current_dir(folder);
    let finished = finish(limited);
    let said = String::from_utf8_lossy(&finished.stderr);
    assert_eq!(finished.status.code(), Some(65), "{said}");
}

#[test]
fn a_repair_refuses_a_folder_that_is_in_use_or_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("empty")).unwrap();
    fs::create_dir(folder.join("used")).unwrap();
    fs::write(folder.join("used/file"), "").unwrap();
    for (from, to, why) in [
        ("empty", "new", "empty has no log"),
        ("empty", "used", "used is not empty"),
        ("empty", "empty/new", "new is inside"),
        ("none", "new", "cannot open none"),
        ("empty", "new/..", "cannot rename new/.."),
        ("empty", "/proc", "/proc is a mount point"),
    ] {
        let (code, said) = run(folder, &["log", "repair", from, to]);
        assert!(code == 1 && said.contains(why), "{from} {to}: {code} {said}");
    }
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["empty", "used"]);
    assert!(contents(&folder.join("empty")).is_empty());
}
