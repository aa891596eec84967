//! Receives one copy of another node's folder.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use log::{BackupPoint, CopyError, Disk, IncomingCopy};
use notation::size;
use replica::Lineage;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::{Head, Held, Reply, SILENCE_MAX, Wish, unknown_line, write_line};
use crate::cluster::line::{self, Purpose};

/// Time between two signs of life, while the receiver checks what it has.
const WAIT_PERIOD: Duration = Duration::from_secs(1);
/// A file system needs a little more than the bytes of the files.
pub(super) const ROOM_EXTRA_BYTES: u64 = 1 << 20;
/// No file of a log is larger. Its room is allocated before its bytes arrive.
const SEGMENT_BYTES_MAX: u64 = 4 << 30;

/// Why a copy did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error("the link failed: {0}")]
    Link(#[from] io::Error),
    /// Another node fetches a copy there.
    #[error("it sends a copy to another node already")]
    Busy,
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("its folder belongs to another cluster")]
    OtherLineage,
    #[error("its folder is at group {theirs}, and this one at group {ours}")]
    Behind { theirs: u64, ours: u64 },
    #[error("the copy needs {} of room beside the old files, and the disk has {}", size::rounded(*.needed), size::rounded(*.free))]
    NoRoom { needed: u64, free: u64 },
    #[error("the copy cannot be written: {0}")]
    Disk(io::Error),
    #[error("its bytes are wrong: {0}")]
    Wrong(CopyError),
}

impl From<CopyError> for ReceiveError {
    fn from(error: CopyError) -> ReceiveError {
        match error {
            CopyError::Disk(error) => ReceiveError::Disk(error),
            CopyError::Damage(_) | CopyError::TooLong => ReceiveError::Wrong(error),
        }
    }
}

/// How far a copy is.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Progress {
    /// The copy has at least this group. The stream must keep what comes after it.
    pub(crate) group: u64,
    /// The bytes that are here.
    pub(crate) bytes: u64,
    /// The bytes of the whole copy.
    pub(crate) total_bytes: u64,
}

/// Which copy this node needs.
#[derive(Copy, Clone, Debug)]
pub(super) struct Need {
    pub(super) lineage: Lineage,
    /// The last group of its own folder.
    pub(super) group: u64,
}

/// Asks over a link for a copy, and writes it into the folder of this disk. When the function
/// succeeds, the copy is whole, checked and durable, and the next start of the folder adopts it.
pub(super) async fn receive(
    link: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
    disk: Arc<dyn Disk>,
    need: Need,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), ReceiveError> {
    let received = receive_all(link, disk.clone(), need, tell).await;
    if let Err(ReceiveError::Wrong(_)) = &received {
        // A node that once got a copy has a log of the same id as the node that sent it. Each of the
        // segments here can be right, and they fit only the log of another node.
        IncomingCopy::discard(disk.as_ref()).map_err(ReceiveError::Disk)?;
    }
    received
}

async fn receive_all(
    link: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
    disk: Arc<dyn Disk>,
    need: Need,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), ReceiveError> {
    write_line(link, Purpose::Copy(need.lineage).encode()).await?;
    let line = timeout(SILENCE_MAX, line::read(link)).await.map_err(io::Error::from)??;
    let held = match Reply::decode(&line).ok_or_else(unknown_line)? {
        Reply::Held(held) => held,
        Reply::Busy => return Err(ReceiveError::Busy),
        Reply::Refused(reason) => return Err(ReceiveError::Refused(reason)),
    };
    let Held { lineage, group, bytes: total_bytes, zeros, point } = held;
    if lineage != need.lineage {
        return Err(ReceiveError::OtherLineage);
    }
    if group < need.group {
        return Err(ReceiveError::Behind { theirs: group, ours: need.group });
    }
    let mut progress = Progress { group, bytes: 0, total_bytes };
    tell(progress);
    let mut copy = begin(link, disk.clone(), point).await?;
    progress.bytes = copy.kept_bytes();
    tell(progress);
    let all_bytes = total_bytes.saturating_add(zeros);
    let needed = all_bytes.saturating_sub(progress.bytes).saturating_add(ROOM_EXTRA_BYTES);
    let free = disk.space().map_err(ReceiveError::Disk)?.free;
    if free < needed {
        return Err(ReceiveError::NoRoom { needed, free });
    }
    if let Some(first) = copy.next_segment() {
        write_line(link, Wish::From(first).encode()).await?;
    }
    while copy.next_segment().is_some() {
        receive_segment(link, &mut copy, &mut progress, tell).await?;
    }
    copy.finish()?;
    Ok(())
}

/// Checks the segments of an earlier attempt, which can take long.
async fn begin(
    link: &mut (impl AsyncWrite + Unpin),
    disk: Arc<dyn Disk>,
    point: BackupPoint,
) -> Result<IncomingCopy, ReceiveError> {
    let mut beginning = spawn_blocking(move || IncomingCopy::begin(disk, point));
    loop {
        tokio::select! {
            begun = &mut beginning => {
                return begun.map_err(io::Error::other)?.map_err(ReceiveError::Disk);
            }
            () = sleep(WAIT_PERIOD) => {
                if let Err(error) = write_line(link, Wish::Wait.encode()).await {
                    // The check goes on in its thread. It must not meet the next attempt.
                    let _ = beginning.await;
                    return Err(error.into());
                }
            }
        }
    }
}

async fn receive_segment(
    link: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
    copy: &mut IncomingCopy,
    progress: &mut Progress,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), ReceiveError> {
    let line = timeout(SILENCE_MAX, line::read(link)).await.map_err(io::Error::from)??;
    let head = Head::decode(&line).filter(|head| head.size <= SEGMENT_BYTES_MAX);
    let Head { size, bytes: mut left } = head.ok_or_else(unknown_line)?;
    let has_zeros = left < size;
    copy.begin_segment(size)?;
    while left > 0 {
        let bytes = timeout(SILENCE_MAX, link.fill_buf()).await.map_err(io::Error::from)??;
        if bytes.is_empty() {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let used = left.min(bytes.len() as u64) as usize;
        copy.write(&bytes[..used])?;
        link.consume(used);
        left -= used as u64;
        progress.bytes += used as u64;
        tell(*progress);
    }
    if has_zeros {
        copy.end_with_zeros()?;
    }
    Ok(())
}
