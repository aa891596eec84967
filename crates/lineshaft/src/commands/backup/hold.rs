//! Connects to a running server over the control socket of its data folder, so that the server
//! holds its files for a backup.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use ::log::BackupPoint;
use anyhow::{Context as _, Result, anyhow, bail};
use server::{
    BACKUP_DONE, BACKUP_GONE, BACKUP_HELD, BACKUP_RELEASED, BACKUP_REQUEST, ControlPath, ERROR,
};

/// The longest line that the server can send.
const LINE_BYTES_MAX: u64 = 512;

/// The connection to the server. The server holds the files while the connection is open.
#[derive(Debug)]
pub(super) struct ServerHold {
    stream: BufReader<UnixStream>,
    point: BackupPoint,
}

impl ServerHold {
    /// Connects to the server that uses this data folder, and returns when the server holds the
    /// files.
    pub(super) fn ask(data: &Path) -> Result<ServerHold> {
        let connected = ControlPath::of(data).and_then(|path| UnixStream::connect(path.path()));
        let mut stream = connected.map_err(|error| explain(data, error))?;
        stream.write_all(format!("{BACKUP_REQUEST}\n").as_bytes())?;
        let mut stream = BufReader::new(stream);
        let reply = read_line(&mut stream)?;
        if let Some(reason) = reply.strip_prefix(ERROR) {
            bail!("the server of {} refused the backup: {reason}", data.display());
        }
        let point = reply.strip_prefix(BACKUP_HELD).and_then(|point| point.parse().ok());
        let Some(point) = point else {
            match reply.as_str() {
                "" => bail!("the server of {} has ended", data.display()),
                other => bail!("the server answered `{other}`: is it of another version?"),
            }
        };
        Ok(ServerHold { stream, point })
    }

    /// What the backup contains.
    pub(super) fn point(&self) -> BackupPoint {
        self.point
    }

    /// Releases the files. Fails if the server did not hold them until now.
    pub(super) fn release(mut self) -> Result<()> {
        let told = self.stream.get_mut().write_all(format!("{BACKUP_DONE}\n").as_bytes());
        let reply = read_line(&mut self.stream).unwrap_or_default();
        match reply.as_str() {
            BACKUP_RELEASED => told.context("cannot tell the server that the backup is done"),
            BACKUP_GONE => bail!(
                "the server's disk became full, and the server needed the room of the files: make room, or \
                 raise --rate"
            ),
            _ => bail!("the server ended during the backup: begin again"),
        }
    }
}

fn read_line(stream: &mut BufReader<UnixStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.take(LINE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Explains why the connection to the server failed.
fn explain(data: &Path, error: io::Error) -> anyhow::Error {
    let folder = data.display();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused if !has_log(data) => anyhow!(
            "{folder} has no log, so there is nothing to back up. Name the server's data folder with \
             --data. A server with --memory keeps nothing on disk"
        ),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            anyhow!("no server uses {folder}: copy the folder with any program, such as `cp -a`")
        }
        io::ErrorKind::PermissionDenied => anyhow::Error::new(error)
            .context(format!("cannot ask the server of {folder}: run this command as its user")),
        _ => anyhow::Error::new(error).context(format!("cannot ask the server of {folder}")),
    }
}

/// Whether the folder has segments of a log.
fn has_log(data: &Path) -> bool {
    let Ok(files) = fs::read_dir(data) else { return false };
    let mut files = files.flatten().map(|file| file.path());
    files.any(|file| file.extension().is_some_and(|end| end == "seg"))
}
