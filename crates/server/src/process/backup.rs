//! A backup as a tar stream: the files of the log up to a position. The tool `lineshaft backup`
//! writes such a stream, and so does the server, for a client of the HTTP API.
//!
//! The manifest is the first file of the stream, and says which segments follow. So if a stream was
//! cut, a server notices that segments are missing, and does not start with these files.

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use broker::Broker;
use hyper::body::Bytes;
use log::{
    BackupCheck, BackupDamage, BackupHold, BackupPoint, BackupSource, MANIFEST_NAME, PosixDisk,
    SegmentReader,
};
use tar::{Builder, Header};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};

/// A backup reads pieces of at most this size.
const PIECE_BYTES: usize = 256 << 10;
/// The files of a backup have this mode.
const FILE_MODE: u32 = 0o600;
/// Pieces that the client has not received yet.
const PIECES_MAX: usize = 2;
/// The time between two looks whether the log is durable, or the client has received a piece.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// Why a stream could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read, or the stream cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file of the log is damaged.
    #[error(transparent)]
    Damage(#[from] BackupDamage),
}

/// Writes a backup as a tar stream, and checks each byte that it reads. Calls `paced` with the size
/// of each piece that was read. The files get the owner of the folder.
pub fn write_archive<W: Write>(
    out: W,
    source: &BackupSource<'_>,
    point: BackupPoint,
    folder: &Path,
    mut paced: impl FnMut(u64) -> io::Result<()>,
) -> Result<W, ArchiveError> {
    let owner = fs::metadata(folder)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let header = |bytes: u64| {
        let mut header = Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(FILE_MODE);
        header.set_uid(owner.uid().into());
        header.set_gid(owner.gid().into());
        header.set_mtime(now.as_secs());
        header
    };
    let mut tar = Builder::new(BufWriter::with_capacity(PIECE_BYTES, out));
    let manifest = point.manifest();
    tar.append_data(&mut header(manifest.len() as u64), MANIFEST_NAME, manifest.as_bytes())?;
    let mut check = BackupCheck::new(point);
    for number in source.segments() {
        let name = BackupSource::name(number);
        let reader = source.open(number).map_err(|error| {
            let path = folder.join(&name);
            io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
        })?;
        let mut header = header(reader.size());
        check.begin_segment()?;
        let reader = Checked { reader, check: &mut check, paced: &mut paced };
        tar.append_data(&mut header, name, BufReader::with_capacity(PIECE_BYTES, reader))?;
    }
    // If a file is damaged, the stream must not get its end mark. Then tar reports an incomplete
    // archive.
    check.finish()?;
    let out = tar.into_inner()?;
    Ok(out.into_inner().map_err(io::IntoInnerError::into_error)?)
}

/// A reader that checks what it reads, and does not exceed a speed.
struct Checked<'a, P> {
    reader: SegmentReader,
    check: &'a mut BackupCheck,
    paced: &'a mut P,
}

impl<P: FnMut(u64) -> io::Result<()>> Read for Checked<'_, P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(PIECE_BYTES);
        let read = self.reader.read(&mut buffer[..len])?;
        self.check.update(&buffer[..read]).map_err(io::Error::other)?;
        (self.paced)(read as u64)?;
        Ok(read)
    }
}

/// What begins a backup for a client of the API. `folder`: the data folder, if there is one.
pub(crate) fn begin(broker: Broker, folder: Option<PathBuf>) -> api::BeginBackup {
    Box::new(move |bytes_per_s| {
        let folder = folder.clone().ok_or_else(|| {
            "data.sync is \"memory\": the server keeps nothing on disk to back up".to_owned()
        })?;
        let hold = broker.begin_backup().ok_or_else(|| "the server has no log".to_owned())?;
        let (pieces, received) = channel(PIECES_MAX);
        let named = std::thread::Builder::new().name("backup".to_owned());
        let spawned = named.spawn(move || stream(&folder, hold, bytes_per_s, pieces));
        spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(received)
    })
}

/// Sends a backup, and holds its files meanwhile.
fn stream(folder: &Path, hold: BackupHold, bytes_per_s: u64, pieces: Sender<io::Result<Bytes>>) {
    let mut out = Pieces { pieces, hold };
    match send(folder, bytes_per_s, &mut out) {
        Ok(()) => tracing::info!("a client of the API has a backup"),
        Err(_) if out.pieces.is_closed() => {
            tracing::warn!("a backup over the API ended, because its client left");
        }
        Err(error) => {
            tracing::warn!(%error, "a backup over the API ended");
            // The connection then ends without the end of the response.
            let _ = out.pieces.blocking_send(Err(io::Error::other(error)));
        }
    }
}

fn send(folder: &Path, bytes_per_s: u64, out: &mut Pieces) -> Result<(), ArchiveError> {
    let point = loop {
        if let Some(point) = out.hold.point() {
            break point;
        }
        out.check()?;
        sleep(LOOK_PERIOD);
    };
    let disk = PosixDisk::read_only(folder).map_err(io::Error::other)?;
    let mut next = Instant::now();
    let paced = |bytes: u64| {
        let now = Instant::now();
        next = next.max(now) + Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64);
        sleep(next.saturating_duration_since(now));
        Ok(())
    };
    write_archive(&mut *out, &BackupSource::new(&disk, point), point, folder, paced)?;
    Ok(())
}

/// Sends what is written to the client, and ends the backup if the log needs the held files.
struct Pieces {
    pieces: Sender<io::Result<Bytes>>,
    hold: BackupHold,
}

impl Pieces {
    /// Fails if the backup must end.
    fn check(&self) -> io::Result<()> {
        if self.hold.is_in_the_way() {
            return Err(io::Error::other("the log needs the space of the held files"));
        }
        if self.hold.has_failed() {
            return Err(io::Error::other("the log has failed"));
        }
        if self.pieces.is_closed() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut piece = Ok(Bytes::copy_from_slice(bytes));
        loop {
            self.check()?;
            match self.pieces.try_send(piece) {
                Ok(()) => return Ok(bytes.len()),
                Err(TrySendError::Full(unsent)) => piece = unsent,
                Err(TrySendError::Closed(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            sleep(LOOK_PERIOD);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
