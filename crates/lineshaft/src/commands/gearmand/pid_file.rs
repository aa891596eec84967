//! The file with the process id. Scripts use it to stop or signal the server.

use std::path::{Path, PathBuf};

const DEFAULT: &str = "/var/gearmand.pid";

/// The process id file. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. A failure at the default place is ignored; a failure at a requested place
    /// is an error.
    pub(super) fn write(wanted: Option<&Path>) -> Result<Option<PidFile>, String> {
        let path = wanted.unwrap_or(Path::new(DEFAULT)).to_owned();
        // This overwrites the file of a server that was killed.
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
        // The server's user may lack the permission to remove the file. The next start overwrites
        // the file.
        let _ = std::fs::remove_file(&self.path);
    }
}
