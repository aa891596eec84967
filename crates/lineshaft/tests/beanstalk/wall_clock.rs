//! A server whose wall clock a test can set. A preloaded library changes the time that the system
//! reports to the server.

use std::path::Path;

use anyhow::{Context, Result};
use testkit::process::{Program, Server};
use testkit::tools;

/// The path of the library in Debian, by architecture.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];

/// A server whose wall clock the test sets.
pub(crate) struct Rig {
    pub(crate) server: Server,
    clock_file: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new_or_skip(program: &Program) -> Result<Option<Rig>> {
        let Some(library) = LIBRARIES.into_iter().find(|path| Path::new(path).exists()) else {
            tools::skip("libfaketime is not installed; scripts/install-test-tools.sh installs it");
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let clock_file = folder.path().join("clock");
        std::fs::write(&clock_file, "+0")?;
        let server = program
            .clone()
            .with_environment("LD_PRELOAD", library)
            .with_environment("FAKETIME_TIMESTAMP_FILE", clock_file.to_str().context("text")?)
            .with_environment("FAKETIME_NO_CACHE", "1")
            .with_environment("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start()?;
        Ok(Some(Rig { server, clock_file, _folder: folder }))
    }

    /// Sets the server's wall clock to the true time plus this offset.
    pub(crate) fn set_clock(&self, offset_s: i64) -> Result<()> {
        Ok(std::fs::write(&self.clock_file, format!("{offset_s:+}"))?)
    }
}

impl Drop for Rig {
    /// The server is killed, so the library does not remove its two files in shared memory. Their
    /// names end with the number of the process.
    fn drop(&mut self) {
        let id = self.server.process_id();
        for kind in ["faketime_shm", "sem.faketime_sem"] {
            let _ = std::fs::remove_file(format!("/dev/shm/{kind}_{id}"));
        }
    }
}
