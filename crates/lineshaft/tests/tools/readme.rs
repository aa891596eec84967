//! Runs README's quick start and its example programs word for word. The tests of Gearman and
//! Kestrel run the sections about these protocols.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::readme::{Running, blocks_of, root, shell};
use testkit::tools;

use super::{Kind, LINESHAFT, World, wait_until};

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// Runs a block of commands with this world's server until it ends. Returns its output.
fn play(world: &World, block: &str) -> String {
    let server = world.server().address().to_string();
    let mut shell = shell(Path::new(LINESHAFT), &root(), block).unwrap();
    let output = shell.env("LINESHAFT_SERVER", server).output().unwrap();
    assert!(output.status.success(), "{block}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_quick_start_does_a_job_for_each_package() {
    let blocks = blocks_of(&readme(), "## Quick start");
    let [start, put, work] = &blocks[..] else { panic!("other blocks than expected: {blocks:?}") };
    assert_eq!(start, "cargo run --release\n", "the test starts the server in its own way");
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let names: Vec<&str> = lock.lines().filter(|line| line.starts_with("name")).collect();

    let mut world = World::new(Kind::Lineshaft, true).unwrap();
    // The release build can be missing or old, so the test leaves out this line.
    let put = put.strip_prefix("PATH=\"$PWD/target/release:$PATH\"\n").unwrap();
    let printed = play(&world, put);
    assert!(printed.contains("packages"), "{printed}");
    let ready = |world: &World| world.stat("stats-tube packages", "current-jobs-ready");
    assert_eq!(ready(&world), names.len().to_string());
    world.restart();
    assert_eq!(ready(&world), names.len().to_string(), "after a restart");

    let printed = play(&world, work);
    let mut done: Vec<&str> =
        printed.lines().filter_map(|line| line.split_once(": ")).map(|(_, name)| name).collect();
    let mut expected = names;
    done.sort_unstable();
    expected.sort_unstable();
    assert_eq!(done, expected);
    assert_eq!(ready(&world), "", "the queue is gone with its last job");
}

#[test]
fn the_producer_and_the_worker_of_readme_meet() {
    let greenstalk = root().join("target/test-tools/python/bin/python");
    let greenstalk = greenstalk.to_str().unwrap();
    let pheanstalk = "/usr/share/php/Pheanstalk/autoload.php";
    if ["php", pheanstalk, greenstalk].iter().any(|tool| tools::find_or_skip(tool).is_none()) {
        return;
    }
    let blocks = blocks_of(&readme(), "## From your programs");
    let [producer, worker] = &blocks[..] else { panic!("other blocks than expected: {blocks:?}") };
    let world = World::new(Kind::Lineshaft, true).unwrap();
    let port = world.server().address().port().to_string();
    let script = |name: &str, text: &str| {
        assert!(text.contains("11300"), "{text}");
        let path = world.path(name);
        std::fs::write(&path, text.replace("11300", &port)).unwrap();
        path
    };

    let output = Command::new("php").arg(script("producer.php", producer)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "job 1 is on disk\njob 2 is on disk\n");

    let printed = world.path("printed");
    let worker = Command::new(greenstalk)
        .arg(script("worker.py", worker))
        .env("PYTHONUNBUFFERED", "1")
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&printed).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let _worker = Running(worker);
    let all = "mail to ann@example.org\nmail to bob@example.org\n";
    wait_until("both mails", || std::fs::read_to_string(&printed).unwrap() == all);
    let deleted = || world.stat("stats", "cmd-delete");
    wait_until("both jobs to be deleted", || deleted() == "2");
}
