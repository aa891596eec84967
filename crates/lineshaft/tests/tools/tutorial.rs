//! Runs the steps of the tutorial, and compares the output with the page.

use std::path::Path;
use std::process::Output;

use testkit::readme::{blocks_of, root, shell};

use super::{Kind, LINESHAFT, World};

/// Runs a block of commands in the world's folder until it ends.
fn run(world: &World, block: &str) -> Output {
    let mut shell = shell(Path::new(LINESHAFT), world.folder.path(), block).unwrap();
    shell.env("LINESHAFT_SERVER", world.server().address().to_string()).output().unwrap()
}

fn run_well(world: &World, block: &str) -> String {
    let output = run(world, block);
    assert!(output.status.success(), "{block}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_steps_of_the_tutorial_print_what_the_page_shows() {
    let page = std::fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let blocks = |heading: &str| blocks_of(&page, heading);
    let mut world = World::new(Kind::Lineshaft, true).unwrap();

    let [put, table] = &blocks("## 2. Put jobs")[..] else { panic!("other blocks") };
    let printed = run_well(&world, put);
    assert!(printed.ends_with(table.as_str()), "{printed}");

    let [program, work, report] = &blocks("## 3. Write a worker")[..] else {
        panic!("other blocks")
    };
    let file = world.path("send-mail");
    std::fs::write(&file, program).unwrap();
    let output = run(&world, work);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let without_time = |text: &str| text.rsplit_once(" in ").unwrap().0.to_owned();
    assert_eq!(without_time(&said), without_time(report));

    let [peek, line, again, sent] = &blocks("## 4. Repair a failed job")[..] else {
        panic!("other blocks")
    };
    assert_eq!(run_well(&world, peek), "to=nobody");
    let is_old = |old: &&str| old.starts_with("to=nobody)");
    let old = program.lines().find(is_old).unwrap();
    std::fs::write(&file, program.replace(old, line.trim_end())).unwrap();
    let printed = run_well(&world, again);
    assert!(printed.ends_with(sent.as_str()), "{printed}");

    let [kill] = &blocks("## 5. Kill the server")[..] else { panic!("other blocks") };
    let (put, rest) = kill.split_once('\n').unwrap();
    assert!(rest.ends_with("kill -9 PID\n"), "the test kills the server in its own way");
    run_well(&world, put);
    world.restart();
    assert_eq!(world.stat("stats-tube mail", "current-jobs-ready"), "1000");

    let [put] = &blocks("## 7. Delays and priorities")[..] else { panic!("other blocks") };
    assert_eq!(run_well(&world, put), "to=firstto=later");
}
