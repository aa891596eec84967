//! Tests `lineshaft import` and `lineshaft export`. For imports from beanstalkd and gearmand,
//! Debian's packages of these servers write the files. The tests write Kestrel's journals
//! themselves, as the specification describes them.

#![expect(clippy::unwrap_used, reason = "a test may end there")]

mod beanstalkd;
mod crash;
mod drain;
mod gearmand;
mod jsonl;
mod kestrel;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::process::{Program, Server, lineshaft_path};

fn path() -> PathBuf {
    lineshaft_path(env!("CARGO_BIN_EXE_lineshaft"))
}

/// The program, with this working folder, and without settings from the environment.
fn command<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(path());
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LINESHAFT_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the program. Returns its exit code, and standard output and standard error together.
fn run<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> (i32, String) {
    let done = command(folder, arguments).output().unwrap();
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    (done.status.code().expect("no signal ended it"), said)
}

/// Runs the program, which must succeed. Returns standard output and standard error together.
fn done<S: AsRef<OsStr> + std::fmt::Debug>(folder: &Path, arguments: &[S]) -> String {
    let (code, said) = run(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {said}");
    said
}

/// All jobs of a data folder, as `export` writes them.
fn exported(folder: &Path, data: &str) -> Vec<Value> {
    let done = command(folder, &["export", "--all", "--data", data]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values of one field in all jobs.
fn all(jobs: &[Value], field: &str) -> Vec<Value> {
    jobs.iter().map(|job| job[field].clone()).collect()
}

/// A server on a data folder.
fn serve(folder: &Path, data: &str, listeners: &[&'static str]) -> Server {
    let data = folder.join(data);
    let data = data.to_str().unwrap();
    Program::serve_on(listeners, path(), &["--data", data]).start().unwrap()
}

/// The names of all files below a folder, with their contents.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.push((path.clone(), Vec::new()));
            files.extend(contents(&path));
        } else {
            files.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}
