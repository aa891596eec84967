//! README's section about Kestrel, word for word: a log goes through a fan-out queue to two consumers of other dialects.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use testkit::tools;

use crate::programs::{Everything, lineshaft_path};

/// The original's tool as Debian installs it.
const GEARMAN: &str = "/usr/bin/gearman";
/// The log of README; a test takes the beginning of it, or of something else where it is missing.
const LOG: &str = "/var/log/dpkg.log";
const LINES: usize = 300;
/// Generous: each line starts a process, and the machine may be busy.
const LIMIT: Duration = Duration::from_mins(2);

/// A command of README that runs until it is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_goes_to_two_consumers() -> Result<()> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/test-tools/kestrel/python/bin/python");
    let python = python.to_str().context("a path that is text")?;
    if [GEARMAN, python].iter().any(|program| tools::find_or_skip(program).is_none()) {
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let blocks = blocks_of(&readme, "## Kestrel");
    let [producer, archive, removed] = &blocks[..] else {
        anyhow::bail!("other blocks than expected: {blocks:?}")
    };
    let (folder, server) = (TempDir::new()?, Everything::start()?);
    let log = some_log(&root, folder.path())?;
    let wanted = std::fs::read_to_string(&log)?;

    let script = producer
        .replace("22133", &server.memcache.port().to_string())
        .replace(LOG, log.to_str().context("a path that is text")?);
    ensure!(script.contains("127.0.0.1") && !script.contains(LOG), "{script}");
    let output = Command::new(python).args(["-c", &script]).output()?;
    ensure!(output.status.success(), "{output:?}");

    let archiver = shell(&server, folder.path(), archive)?.stdout(Stdio::null()).spawn()?;
    let _archiver = Worker(archiver);
    let output = shell(&server, folder.path(), removed)?.output()?;
    ensure!(output.status.success(), "{output:?}");
    let is_removed = |line: &&str| line.contains(" remove ");
    let expected: Vec<&str> = wanted.lines().filter(is_removed).collect();
    let printed = String::from_utf8(output.stdout)?;
    let printed: Vec<&str> = printed.lines().filter(is_removed).collect();
    ensure!(printed == expected, "{printed:?}");

    let started = Instant::now();
    let path = folder.path().join("archive.log");
    while std::fs::read_to_string(&path).unwrap_or_default() != wanted {
        ensure!(started.elapsed() < LIMIT, "the archive is not complete: {}", path.display());
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The beginning of a log of this machine.
fn some_log(root: &Path, folder: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(LOG)
        .or_else(|_| std::fs::read_to_string(root.join("README.md")))?;
    let lines: Vec<&str> = text.lines().take(LINES).collect();
    let path = folder.join("some.log");
    std::fs::write(&path, lines.join("\n") + "\n")?;
    Ok(path)
}

/// The blocks of code of one section.
fn blocks_of(text: &str, heading: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let (mut is_here, mut is_code) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            if is_here && is_code {
                blocks.push(String::new());
            }
        } else if !is_code && line.starts_with("## ") {
            is_here = line == heading;
        } else if is_here && is_code {
            let block = blocks.last_mut().expect("a block was begun");
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

/// A shell that runs a command as it stands; only the addresses are told apart from it, because a test cannot use
/// the common ports.
fn shell(server: &Everything, folder: &Path, line: &str) -> Result<Command> {
    let (host, port) = (server.gearman.ip(), server.gearman.port());
    let script = format!("gearman() {{ {GEARMAN} -h {host} -p {port} \"$@\"; }}; {line}");
    let lineshaft = lineshaft_path();
    let programs = lineshaft.parent().context("the program is in a folder")?.display();
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder).process_group(0).stdin(Stdio::null());
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH")?));
    command.env("LINESHAFT_SERVER", server.beanstalk.to_string());
    Ok(command)
}
