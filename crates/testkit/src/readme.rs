//! Runs the code in README without changes.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// The root of this repository, where README is.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of code in the section with this heading, such as `## Gearman`.
pub fn blocks_of(text: &str, heading: &str) -> Vec<String> {
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

/// A block of code of a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Block {
    /// The word after the fence.
    pub language: String,
    /// The lines, without the indentation of the fence.
    pub text: String,
}

/// All blocks of code of a page, also those in lists.
pub fn all_blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // The indentation of the open fence.
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let inner = line.trim_start();
        match (open, inner.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(line.len() - inner.len());
                blocks.push(Block { language: language.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => open = None,
            (Some(indentation), None) => {
                let block = blocks.last_mut().expect("a block was begun");
                block.text.push_str(line.get(indentation..).unwrap_or_default());
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// A shell that runs a script in this folder, without input. In the script, `lineshaft` is this
/// program.
pub fn shell(lineshaft: &Path, folder: &Path, script: &str) -> Result<Command> {
    let programs = lineshaft.parent().context("the program is in a folder")?.display();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder).process_group(0).stdin(Stdio::null());
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH")?));
    Ok(command)
}

/// A running command. Dropping the value kills the command's process group. So the command must be
/// the leader of its group.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // These calls fail only if the processes have already ended.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
