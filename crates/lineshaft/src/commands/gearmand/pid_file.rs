//! The file with the number of the process, for scripts that stop or signal the server.

use std::path::{Path, PathBuf};

const DEFAULT: &str = "/var/gearmand.pid";

/// The file; removed again when dropped.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. At its usual place it may be missing; where somebody wanted it, it may not.
    pub(super) fn write(wanted: Option<&Path>) -> Result<Option<PidFile>, String> {
        let path = wanted.unwrap_or(Path::new(DEFAULT)).to_owned();
        // What was left by a server that was killed is replaced.
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Ok(Some(PidFile { path })),
            Err(_) if wanted.is_none() => Ok(None),
            Err(error) => {
                let shown = path.display();
                Err(format!("Could not open pid file for writing: {shown} ({error})"))
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The user that the server became may not be allowed to; the next start replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}
