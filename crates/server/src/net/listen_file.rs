//! `listen.json` in the data folder: where this server listens, for scripts that used port 0.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::protocol::Protocol;
use crate::start::Listening;

const NAME: &str = "listen.json";

/// The file; removed again when dropped.
#[derive(Debug)]
pub(crate) struct ListenFile {
    path: PathBuf,
}

impl ListenFile {
    /// Writes the file so that a reader sees it whole or not at all.
    pub(crate) fn write(folder: &Path, listening: &[Listening]) -> io::Result<ListenFile> {
        let mut content = serde_json::json!({ "pid": std::process::id() });
        for protocol in Protocol::ALL {
            let of_protocol = listening.iter().filter(|one| one.protocol == protocol);
            let addresses: Vec<String> = of_protocol.map(|one| one.address.to_string()).collect();
            content[protocol.name()] = addresses.into();
        }
        let path = folder.join(NAME);
        let unfinished = folder.join(format!("{NAME}.new"));
        let written = std::fs::write(&unfinished, format!("{content:#}\n"))
            .and_then(|()| std::fs::rename(&unfinished, &path));
        if let Err(error) = written {
            // Half a file must not stay; if it cannot be removed there is nothing left to try.
            let _ = std::fs::remove_file(&unfinished);
            return Err(error);
        }
        Ok(ListenFile { path })
    }
}

impl Drop for ListenFile {
    fn drop(&mut self) {
        // A stale file misleads nobody for long: it names a process that is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}
