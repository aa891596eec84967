//! Runs the commands of README's section about Gearman word for word, with every pair of a client
//! and a worker.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::readme::{self, Running};
use testkit::tools;

use crate::{LINESHAFT, World, wait_until};

/// The original's command-line tool, as Debian installs it.
const GEARMAN: &str = "/usr/bin/gearman";

#[test]
fn the_commands_of_readme_count_its_lines() {
    if tools::find_or_skip(GEARMAN).is_none() {
        return;
    }
    let text = std::fs::read_to_string(readme::root().join("README.md")).unwrap();
    let commands = readme::blocks_of(&text, "## Gearman");
    let (workers, clients): (Vec<_>, Vec<_>) =
        commands.into_iter().partition(|line| line.contains("-- wc -l"));
    let names =
        |lines: &[String]| lines.iter().map(|line| line[..8].to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&workers), ["gearman ", "lineshaf"]);
    assert_eq!(names(&clients), ["gearman ", "lineshaf"]);
    let expected = text.lines().count().to_string();
    for worker in &workers {
        let world = World::lineshaft_gearman();
        let child = shell(&world, worker).stdout(Stdio::null()).spawn().unwrap();
        let _worker = Running(child);
        wait_until("the worker", || world.admin("status").starts_with("wc\t0\t0\t1\n"));
        for client in &clients {
            let output = shell(&world, client).output().unwrap();
            assert!(output.status.success(), "{worker} / {client}: {output:?}");
            let count = String::from_utf8(output.stdout).unwrap();
            assert_eq!(count.trim(), expected, "{worker} / {client}");
        }
    }
}

/// A shell that runs a line unchanged. A function of the shell and the environment set the server's
/// address, because a test cannot use the usual port.
fn shell(world: &World, line: &str) -> Command {
    let address = world.server().address();
    let (host, port) = (address.ip(), address.port());
    let script = format!("gearman() {{ {GEARMAN} -h {host} -p {port} \"$@\"; }}; {line}");
    let mut command = readme::shell(Path::new(LINESHAFT), &readme::root(), &script).unwrap();
    command.env("LINESHAFT_SERVER", address.to_string());
    command
}
