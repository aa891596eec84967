//! The file `listen.json` in the data folder. It contains the server's addresses. A script needs it
//! if the configuration has port 0, because then the system chooses the port.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::listener::Listener;
use crate::config::protocol::Protocol;

const NAME: &str = "listen.json";

/// The written file. Dropping this value removes the file.
#[derive(Debug)]
pub(crate) struct ListenFile {
    path: PathBuf,
}

impl ListenFile {
    /// Writes the file atomically.
    pub(crate) fn write(folder: &Path, listeners: &[Arc<Listener>]) -> io::Result<ListenFile> {
        let mut content = serde_json::json!({ "pid": std::process::id() });
        for protocol in Protocol::ALL {
            let of_protocol = listeners.iter().filter(|one| one.protocol == protocol);
            let addresses: Vec<String> = of_protocol.map(|one| one.address.to_string()).collect();
            content[protocol.name()] = addresses.into();
        }
        let path = folder.join(NAME);
        let unfinished = folder.join(format!("{NAME}.new"));
        let written = std::fs::write(&unfinished, format!("{content:#}\n"))
            .and_then(|()| std::fs::rename(&unfinished, &path));
        if let Err(error) = written {
            // Remove the partial file. Ignore an error, because the caller reports the first error.
            let _ = std::fs::remove_file(&unfinished);
            return Err(error);
        }
        Ok(ListenFile { path })
    }
}

impl Drop for ListenFile {
    fn drop(&mut self) {
        // Ignore an error. An outdated file does little harm, because it contains the id of the
        // process. A script can check whether the process still runs.
        let _ = std::fs::remove_file(&self.path);
    }
}
