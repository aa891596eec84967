//! The commands of README's section about Gearman, word for word: every client with every worker.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::tools;

use crate::{LINESHAFT, World, wait_until};

/// The original's tool as Debian installs it.
const GEARMAN: &str = "/usr/bin/gearman";

/// A command of README that runs until it is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn the_commands_of_readme_count_its_lines() {
    if tools::find_or_skip(GEARMAN).is_none() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let commands = commands_of(&readme, "## Gearman");
    let (workers, clients): (Vec<_>, Vec<_>) =
        commands.into_iter().partition(|line| line.contains("-- wc -l"));
    let names =
        |lines: &[String]| lines.iter().map(|line| line[..8].to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&workers), ["gearman ", "lineshaf"]);
    assert_eq!(names(&clients), ["gearman ", "lineshaf"]);
    let expected = readme.lines().count().to_string();
    for worker in &workers {
        let world = World::lineshaft_gearman();
        let child = shell(&world, &root, worker).stdout(Stdio::null()).spawn().unwrap();
        let _worker = Worker(child);
        wait_until("the worker", || world.admin("status").starts_with("wc\t0\t0\t1\n"));
        for client in &clients {
            let output = shell(&world, &root, client).output().unwrap();
            assert!(output.status.success(), "{worker} / {client}: {output:?}");
            let count = String::from_utf8(output.stdout).unwrap();
            assert_eq!(count.trim(), expected, "{worker} / {client}");
        }
    }
}

/// The lines of code of one section.
fn commands_of(text: &str, heading: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut is_here, mut is_code) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && line.starts_with("## ") {
            is_here = line == heading;
        } else if is_here && is_code {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// A shell that runs a line as it stands; only the address of the server is told apart from it, because a test
/// cannot use the common port.
fn shell(world: &World, root: &Path, line: &str) -> Command {
    let address = world.server().address();
    let (host, port) = (address.ip(), address.port());
    let script = format!("gearman() {{ {GEARMAN} -h {host} -p {port} \"$@\"; }}; {line}");
    let folder = Path::new(LINESHAFT).parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(root).process_group(0);
    command.env("PATH", path).env("LINESHAFT_SERVER", address.to_string());
    command
}
