//! Runs README's section about Kestrel word for word: a fan-out queue sends each line of a log file
//! to two consumers, which use other dialects.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::process::{Program, Server, installed};
use testkit::readme::{self, Running};
use testkit::{tools, wait};

use crate::programs::lineshaft_path;

/// The original's tool as Debian installs it.
const GEARMAN: &str = "/usr/bin/gearman";
/// The log file of README. The test uses its first lines. If it is missing, the test uses another
/// file.
const LOG: &str = "/var/log/dpkg.log";
const LINES: usize = 300;
/// The time limit of the test. It is generous, because each line starts a process, and the machine
/// can be busy.
const LIMIT: Duration = Duration::from_mins(2);

#[test]
fn a_log_goes_to_two_consumers() -> Result<()> {
    let python = installed("kestrel/python/bin/python");
    let python = python.to_str().context("a path that is text")?;
    if [GEARMAN, python].iter().any(|program| tools::find_or_skip(program).is_none()) {
        return Ok(());
    }
    let root = readme::root();
    let text = std::fs::read_to_string(root.join("README.md"))?;
    let blocks = readme::blocks_of(&text, "## Kestrel");
    let [producer, archive, removed] = &blocks[..] else {
        anyhow::bail!("other blocks than expected: {blocks:?}")
    };
    let folder = TempDir::new()?;
    let listeners = ["kestrel", "beanstalk", "gearman"];
    let server = Program::serve_on(&listeners, lineshaft_path(), &["--data", "data"]).start()?;
    let log = some_log(&root, folder.path())?;
    let wanted = std::fs::read_to_string(&log)?;

    let script = producer
        .replace("22133", &server.address_of("kestrel").port().to_string())
        .replace(LOG, log.to_str().context("a path that is text")?);
    ensure!(script.contains("127.0.0.1") && !script.contains(LOG), "{script}");
    let output = Command::new(python).args(["-c", &script]).output()?;
    ensure!(output.status.success(), "{output:?}");

    let archiver = shell(&server, folder.path(), archive)?.stdout(Stdio::null()).spawn()?;
    let _archiver = Running(archiver);
    let output = shell(&server, folder.path(), removed)?.output()?;
    ensure!(output.status.success(), "{output:?}");
    let is_removed = |line: &&str| line.contains(" remove ");
    let expected: Vec<&str> = wanted.lines().filter(is_removed).collect();
    let printed = String::from_utf8(output.stdout)?;
    let printed: Vec<&str> = printed.lines().filter(is_removed).collect();
    ensure!(printed == expected, "{printed:?}");

    let path = folder.path().join("archive.log");
    let is_complete = || std::fs::read_to_string(&path).unwrap_or_default() == wanted;
    wait::for_some(LIMIT, || is_complete().then_some(()))
        .with_context(|| format!("the archive is not complete: {}", path.display()))
}

/// Writes the first lines of a log of this machine into a file.
fn some_log(root: &Path, folder: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(LOG)
        .or_else(|_| std::fs::read_to_string(root.join("README.md")))?;
    let lines: Vec<&str> = text.lines().take(LINES).collect();
    let path = folder.join("some.log");
    std::fs::write(&path, lines.join("\n") + "\n")?;
    Ok(path)
}

/// A shell that runs a command unchanged. A function of the shell and the environment set the
/// addresses, because a test cannot use the usual ports.
fn shell(server: &Server, folder: &Path, line: &str) -> Result<Command> {
    let gearman = server.address_of("gearman");
    let (host, port) = (gearman.ip(), gearman.port());
    let script = format!("gearman() {{ {GEARMAN} -h {host} -p {port} \"$@\"; }}; {line}");
    let mut command = readme::shell(&lineshaft_path(), folder, &script)?;
    command.env("LINESHAFT_SERVER", server.address_of("beanstalk").to_string());
    Ok(command)
}
