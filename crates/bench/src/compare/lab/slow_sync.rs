//! Makes the syncs of a server take a chosen time, with a small C library that replaces `fsync` and
//! `fdatasync` (`slow_sync.c`).
//!
//! The server's data must be in memory, where a real sync takes about a microsecond.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

const SOURCE: &str = include_str!("slow_sync.c");
/// A folder in memory.
pub(crate) const MEMORY_FOLDER: &str = "/dev/shm";

/// The built library.
#[derive(Clone, Debug)]
pub(crate) struct SlowSync {
    library: PathBuf,
    micros: u32,
}

impl SlowSync {
    /// Builds the library in `folder`, with the C compiler of the machine. Each sync takes this
    /// many microseconds.
    pub(crate) fn build(folder: &Path, micros: u32) -> anyhow::Result<Self> {
        let library = folder.join("slow_sync.so");
        if !library.exists() {
            let source = folder.join("slow_sync.c");
            fs::write(&source, SOURCE)?;
            let output = Command::new("cc")
                .args(["-O2", "-shared", "-fPIC", "-o"])
                .args([&library, &source])
                .arg("-ldl")
                .output()
                .context("cannot run the C compiler `cc`, which slow syncs need")?;
            let errors = String::from_utf8_lossy(&output.stderr);
            anyhow::ensure!(output.status.success(), "cannot build slow_sync.c: {errors}");
        }
        Ok(Self { library, micros })
    }

    /// Makes the syncs of the program slow.
    pub(crate) fn slow_down(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        command.env("LINESHAFT_BENCH_SYNC_MICROS", self.micros.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_program_that_syncs_becomes_slow() {
        let folder = tempfile::tempdir().expect("a folder");
        let slow = SlowSync::build(folder.path(), 300_000).expect("the machine has `cc`");
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "count=1", "conv=fdatasync", "status=none"]);
        command.arg(format!("of={}", folder.path().join("file").display()));
        slow.slow_down(&mut command);
        let begin = Instant::now();
        let status = command.status().expect("dd starts");
        assert!(status.success() && begin.elapsed() >= Duration::from_millis(300));
    }
}
