//! The control socket. Over this socket, a tool of the operator sends requests that the queue
//! protocols do not have. Today the only such request is a backup.
//!
//! The socket is a file in the data folder, and only its owner can use it. The owner can also read
//! and change the files of the log, so the socket gives nobody new rights. The data of a backup
//! does not pass through the socket. The tool copies the log's files, and the server *holds* them
//! meanwhile: it does not reuse or delete them.
//!
//! Requests and replies are lines:
//!
//! ```text
//! tool    backup 1
//! server  held log LOG_ID first SEGMENT end SEGMENT OFFSET
//! tool    done
//! server  released
//! ```
//!
//! If the connection ends, the server releases the files. If the log needs the space of the held
//! files, the server releases them and sends `gone`. The reply to an unknown request is `error` and
//! the reason.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use broker::Broker;
use log::{BackupHold, BackupPoint};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// The name of the socket in the data folder.
const NAME: &str = "control";
/// The name of the socket for the operator's requests over HTTP.
const API_NAME: &str = "api";
/// The length of the accept queue for requests over HTTP.
const API_BACKLOG: usize = 64;
/// Only the user that runs the server can connect.
const MODE: u32 = 0o600;
/// Limit of connections. The server reserves file descriptors for its own use, and they are enough
/// for this many connections.
const CONNECTIONS_MAX: usize = 4;
/// The longest line that a tool can send.
const LINE_BYTES_MAX: u64 = 256;
/// Time limit for the arrival of a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Time between two checks whether the log is durable. A sync takes about this long. A backup is
/// rare, so a check is simpler than a notification at every sync.
const SYNC_PERIOD: Duration = Duration::from_millis(2);
/// Time between two checks whether the log needs the space of the held files.
const ROOM_PERIOD: Duration = Duration::from_secs(1);
/// The longest path for an address. The system's limit for the address of a Unix socket is 107
/// bytes.
const PATH_BYTES_MAX: usize = 100;

/// The request for a backup. The number is the version of the requests and replies.
pub const BACKUP_REQUEST: &str = "backup 1";
/// The tool's message that it has copied or linked all files.
pub const BACKUP_DONE: &str = "done";
/// The reply when the server holds the files. The backup's point follows.
pub const BACKUP_HELD: &str = "held ";
/// The reply to [`BACKUP_DONE`]: the server has held the files until now.
pub const BACKUP_RELEASED: &str = "released";
/// The server has released the files, because the log needs their space.
pub const BACKUP_GONE: &str = "gone";
/// The reply to a refused request. The reason follows.
pub const ERROR: &str = "error ";

/// The path of a data folder's control socket, short enough for a socket's address.
#[derive(Debug)]
pub struct ControlPath {
    /// The path. It is valid only while this value exists.
    path: PathBuf,
    /// The open folder, if `path` goes through its descriptor.
    _folder: Option<File>,
}

impl ControlPath {
    /// The socket of this data folder. The folder must exist.
    pub fn of(data_dir: &Path) -> io::Result<ControlPath> {
        ControlPath::named(data_dir, NAME)
    }

    /// The socket of this data folder for the operator's requests over HTTP.
    pub fn of_api(data_dir: &Path) -> io::Result<ControlPath> {
        ControlPath::named(data_dir, API_NAME)
    }

    fn named(data_dir: &Path, name: &str) -> io::Result<ControlPath> {
        let path = data_dir.join(name);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(ControlPath { path, _folder: None });
        }
        let folder = File::open(data_dir)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()));
        Ok(ControlPath { path, _folder: Some(folder) })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The listening socket. Dropping this value removes the socket's file.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: StdUnixListener,
    file: PathBuf,
}

impl ControlSocket {
    /// Listens in the data folder. This process must hold the lock of the log. Then no other server
    /// uses the folder, so an old socket file can be removed.
    pub(crate) fn listen(data_dir: &Path) -> io::Result<ControlSocket> {
        ControlSocket::listen_as(data_dir, NAME, CONNECTIONS_MAX)
    }

    /// Like [`ControlSocket::listen`], for the operator's requests over HTTP. A site serves them.
    pub(crate) fn listen_for_api(data_dir: &Path) -> io::Result<ControlSocket> {
        ControlSocket::listen_as(data_dir, API_NAME, API_BACKLOG)
    }

    fn listen_as(data_dir: &Path, name: &str, backlog: usize) -> io::Result<ControlSocket> {
        let file = std::path::absolute(data_dir)?.join(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let path = ControlPath::named(data_dir, name)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path.path())?)?;
        // Nobody can connect before the socket listens.
        fs::set_permissions(&file, Permissions::from_mode(MODE))?;
        socket.listen(backlog as i32)?;
        socket.set_nonblocking(true)?;
        Ok(ControlSocket { listener: std::os::fd::OwnedFd::from(socket).into(), file })
    }

    /// Serves tools until the future is dropped. Must run inside a tokio runtime.
    pub(crate) async fn serve(listener: StdUnixListener, broker: Broker) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let listener = match UnixListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "cannot watch the control socket; serving without backups");
                return;
            }
        };
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let broker = broker.clone();
                    tokio::spawn(async move {
                        // Ignore an error: it means that the tool has ended.
                        let _ = answer(stream, &broker).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection of a tool");
                    tokio::time::sleep(ROOM_PERIOD).await;
                }
            }
        }
    }

    /// The listening socket, for [`ControlSocket::serve`].
    pub(crate) fn listener(&self) -> io::Result<StdUnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Ignore an error: the next server replaces the file.
        let _ = fs::remove_file(&self.file);
    }
}

/// Reads a line, and returns it without the line end. An empty line means that the connection has
/// ended.
async fn read_line(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE_BYTES_MAX).read_line(&mut line).await?;
    Ok(line.trim_end().to_owned())
}

async fn reply(writer: &mut OwnedWriteHalf, line: &str) -> io::Result<()> {
    writer.write_all(format!("{line}\n").as_bytes()).await
}

/// Serves one connection to its end.
async fn answer(stream: UnixStream, broker: &Broker) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let request = tokio::time::timeout(REQUEST_TIME, read_line(&mut reader)).await??;
    if request != BACKUP_REQUEST {
        let known = format!("{ERROR}this server knows only the request `{BACKUP_REQUEST}`");
        return reply(&mut writer, &known).await;
    }
    let Some(hold) = broker.begin_backup() else {
        return reply(&mut writer, &format!("{ERROR}this server has no log")).await;
    };
    let ended = hold_files(&mut reader, &mut writer, hold).await;
    match &ended {
        Ok(Ended::Done) => tracing::info!("the backup has its files"),
        Ok(Ended::Gone) => tracing::warn!(
            "the log needs the space of files that a backup holds: the server has ended the backup"
        ),
        // The server ends because the log failed, and reports this failure itself.
        Ok(Ended::Failed) => {}
        Ok(Ended::Closed) | Err(_) => {
            tracing::warn!("a backup ended before it had its files");
        }
    }
    ended.map(|_| ())
}

/// Why the server no longer holds the files.
enum Ended {
    /// The tool has all files.
    Done,
    /// The tool closed the connection too early.
    Closed,
    /// The log needs the space of the files.
    Gone,
    /// The log failed.
    Failed,
}

/// Holds the files until the tool has copied them, or the hold must end.
async fn hold_files(
    reader: &mut BufReader<OwnedReadHalf>,
    writer: &mut OwnedWriteHalf,
    hold: BackupHold,
) -> io::Result<Ended> {
    // The tool sends nothing before it is done. If the tool ends, this line is empty.
    let mut line = pin!(read_line(reader));
    let point: BackupPoint = loop {
        if let Some(point) = hold.point() {
            break point;
        }
        if hold.has_failed() {
            reply(writer, &format!("{ERROR}the log has failed")).await?;
            return Ok(Ended::Failed);
        }
        tokio::select! {
            line = &mut line => return line.map(|_| Ended::Closed),
            () = tokio::time::sleep(SYNC_PERIOD) => {}
        }
    };
    let (segment, offset) = (point.end().segment(), point.end().offset());
    tracing::info!(segment, offset, "a backup begins");
    reply(writer, &format!("{BACKUP_HELD}{point}")).await?;
    loop {
        tokio::select! {
            line = &mut line => {
                if line? != BACKUP_DONE {
                    return Ok(Ended::Closed);
                }
                drop(hold);
                reply(writer, BACKUP_RELEASED).await?;
                return Ok(Ended::Done);
            }
            () = tokio::time::sleep(ROOM_PERIOD) => if hold.is_in_the_way() {
                drop(hold);
                reply(writer, BACKUP_GONE).await?;
                return Ok(Ended::Gone);
            },
        }
    }
}
