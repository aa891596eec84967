//! Sends one copy of this node's folder at a bounded rate, and holds the files meanwhile.

use std::io::{self, ErrorKind, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use broker::Broker;
use log::{BackupHold, BackupPoint, BackupSource, Disk, PosixDisk, SegmentReader};
use replica::Lineage;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Head, Held, PIECE_BYTES, Reply, SILENCE_MAX, Wish, unknown_line, write_line};
use crate::cluster::line;

/// Time between two looks whether the log is durable.
const SYNC_PERIOD: Duration = Duration::from_millis(2);

/// What this node needs to send copies.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) bytes_per_s: u64,
    /// One copy at a time: the limit is that of the node.
    pub(super) place: Semaphore,
}

impl Sending {
    /// Sends the log in this folder, at most this fast.
    pub(crate) fn new(folder: PathBuf, bytes_per_s: u64) -> io::Result<Sending> {
        let disk = Arc::new(PosixDisk::read_only(folder)?);
        Ok(Sending { disk, bytes_per_s, place: Semaphore::new(1) })
    }

    /// Serves a request for a copy. `refusal` says why this node cannot send one.
    pub(crate) async fn serve(
        &self,
        link: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
        broker: &Broker,
        lineage: Lineage,
        refusal: Option<&str>,
    ) -> io::Result<()> {
        let refuse = |reason: &str| Reply::Refused(reason.to_owned()).encode();
        if let Some(reason) = refusal {
            return write_line(link, refuse(reason)).await;
        }
        let Ok(_place) = self.place.try_acquire() else {
            return write_line(link, Reply::Busy.encode()).await;
        };
        let (Some(stream), Some(hold)) = (broker.stream(), broker.begin_backup()) else {
            return write_line(link, refuse("this node has no log")).await;
        };
        // What is durable before the point is known is in the copy.
        let group = stream.durable();
        let point = timeout(SILENCE_MAX, durable_point(&hold)).await??;
        let source = Source { disk: self.disk.clone(), point, group, lineage };
        let ended = source.send(link, self.bytes_per_s, &|| still_held(&hold)).await;
        match &ended {
            Ok(()) => tracing::info!(group, "another node has the bytes of this node's folder"),
            Err(error) => tracing::warn!(%error, "a copy for another node ended"),
        }
        ended
    }
}

async fn durable_point(hold: &BackupHold) -> io::Result<BackupPoint> {
    loop {
        if let Some(point) = hold.point() {
            return Ok(point);
        }
        still_held(hold)?;
        sleep(SYNC_PERIOD).await;
    }
}

/// Fails if the log needs the files.
fn still_held(hold: &BackupHold) -> io::Result<()> {
    if hold.is_in_the_way() {
        return Err(io::Error::other("the log needs the space of the held files"));
    }
    if hold.has_failed() { Err(io::Error::other("the log has failed")) } else { Ok(()) }
}

/// What one copy consists of.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) point: BackupPoint,
    /// See [`Held::group`].
    pub(super) group: u64,
    pub(super) lineage: Lineage,
}

impl Source {
    /// Sends what the receiver wants. `check` fails if the copy must end.
    pub(super) async fn send(
        &self,
        link: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
        bytes_per_s: u64,
        check: &(dyn Fn() -> io::Result<()> + Sync),
    ) -> io::Result<()> {
        let Source { point, group, lineage, .. } = *self;
        let (bytes, zeros) = self.size().await?;
        let held = Held { lineage, group, bytes, zeros, point };
        write_line(link, Reply::Held(held).encode()).await?;
        let first = loop {
            let line = timeout(SILENCE_MAX, line::read(link)).await??;
            match Wish::decode(&line).ok_or_else(unknown_line)? {
                Wish::Wait => check()?,
                Wish::From(segment) => break segment,
            }
        };
        if !(point.first()..=point.last()).contains(&first) {
            return Err(unknown_line());
        }
        let mut pace = Pace { bytes_per_s, next: Instant::now() };
        for number in first..=point.last() {
            let (reader, head) = self.open(number).await?;
            write_line(link, head.encode()).await?;
            send_bytes(link, reader, head.bytes, &mut pace, check).await?;
        }
        timeout(SILENCE_MAX, link.flush()).await?
    }

    /// The bytes of all segments, and the zeros after them.
    pub(super) async fn size(&self) -> io::Result<(u64, u64)> {
        let (mut bytes, mut zeros) = (0, 0);
        for number in self.point.first()..=self.point.last() {
            let (_, head) = self.open(number).await?;
            bytes += head.bytes;
            zeros += head.size - head.bytes;
        }
        Ok((bytes, zeros))
    }

    /// Opens a segment. The thread of the links must not wait for the disk.
    async fn open(&self, number: u32) -> io::Result<(SegmentReader, Head)> {
        let (disk, point) = (self.disk.clone(), self.point);
        let opened = spawn_blocking(move || open(disk.as_ref(), point, number));
        opened.await.map_err(io::Error::other)?
    }
}

fn open(disk: &dyn Disk, point: BackupPoint, number: u32) -> io::Result<(SegmentReader, Head)> {
    let source = BackupSource::new(disk, point);
    let reader = source.open(number)?;
    let size = reader.size();
    let bytes = if source.is_sealed(number) { size } else { point.end().offset() };
    Ok((reader, Head { size, bytes }))
}

async fn send_bytes(
    link: &mut (impl AsyncWrite + Unpin),
    mut reader: SegmentReader,
    mut left: u64,
    pace: &mut Pace,
    check: &(dyn Fn() -> io::Result<()> + Sync),
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while left > 0 {
        check()?;
        // The thread of the links must not wait for the disk.
        let read = spawn_blocking(move || {
            let wanted = left.min(PIECE_BYTES as u64) as usize;
            let read = reader.read(&mut piece[..wanted]);
            (reader, piece, read)
        });
        let read_bytes;
        (reader, piece, read_bytes) = read.await.map_err(io::Error::other)?;
        let read_bytes = read_bytes?;
        if read_bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        timeout(SILENCE_MAX, link.write_all(&piece[..read_bytes])).await??;
        left -= read_bytes as u64;
        pace.wait(read_bytes as u64).await;
    }
    Ok(())
}

/// Limits the rate.
struct Pace {
    bytes_per_s: u64,
    next: Instant,
}

impl Pace {
    /// Waits after a piece of this many bytes. A copy that was slower for some time does not catch
    /// up.
    async fn wait(&mut self, bytes: u64) {
        let time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        self.next = self.next.max(Instant::now()) + time;
        sleep_until(self.next).await;
    }
}
