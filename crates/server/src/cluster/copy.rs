//! Copies of folders between nodes: a node that is new, or too far behind, fetches the log of
//! another node, and follows from there.
//!
//! The copy goes over a link between nodes. Both sides send lines, and the sender also bytes:
//!
//! ```text
//! receiver  copy 1 LINEAGE
//! sender    held 2 LINEAGE GROUP BYTES ZEROS log LOG_ID first SEGMENT end SEGMENT OFFSET
//! receiver  wait            (again and again, while it checks what an earlier attempt has left)
//! receiver  from SEGMENT
//! sender    segment SIZE BYTES    and so many bytes, for each segment up to the last one
//! ```
//!
//! A segment has zeros after these bytes, up to its size. In place of `held`, the sender can answer
//! `busy`, or `error` and the reason. The sender holds its files until the link ends, and needs
//! nothing from the receiver to be safe. The receiver checks all bytes, and its own log stays as it
//! is until the copy is whole: see [`log::IncomingCopy`]. The next start of the receiver adopts the
//! copy. So after a failure of either side, the copy begins again, and keeps the segments that were
//! whole.
//!
//! - `send.rs`: one copy, sent. `receive.rs`: one copy, received.
//! - `fetch.rs`: the thread that chooses the sender, and tries until it has a copy.
//!
//! Invariant: the sender is a node that has found its place in the stream. So the stream has what
//! comes after the copy, and a report of the receiver keeps it there.

pub(crate) mod fetch;
mod receive;
pub(crate) mod send;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::time::Duration;

use log::BackupPoint;
use replica::Lineage;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

pub(crate) use receive::Progress;

/// A side that sends or takes nothing for this long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Bytes that are read from a file, or from the link, at once.
const PIECE_BYTES: usize = 256 << 10;

/// What the sender holds.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct Held {
    lineage: Lineage,
    /// The copy has at least this group, and all before it.
    group: u64,
    /// The bytes of all segments, without the zeros at the end.
    bytes: u64,
    /// The zeros at the end of the last segment. They are not sent, but they need room.
    zeros: u64,
    point: BackupPoint,
}

/// What the sender answers to a request for a copy.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Reply {
    Held(Held),
    /// Another node fetches a copy from this one.
    Busy,
    Refused(String),
}

/// What the receiver says when it knows what it has.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum Wish {
    /// The receiver is alive.
    Wait,
    /// Send from this segment on.
    From(u32),
}

impl Reply {
    fn encode(&self) -> String {
        match self {
            Reply::Held(Held { lineage, group, bytes, zeros, point }) => {
                format!("held 2 {lineage} {group} {bytes} {zeros} {point}")
            }
            Reply::Busy => "busy".to_owned(),
            Reply::Refused(reason) => format!("error {reason}"),
        }
    }

    fn decode(line: &str) -> Option<Reply> {
        if line == "busy" {
            return Some(Reply::Busy);
        }
        if let Some(reason) = line.strip_prefix("error ") {
            return Some(Reply::Refused(reason.to_owned()));
        }
        let mut words = line.strip_prefix("held 2 ")?.splitn(5, ' ');
        let (lineage, group) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (bytes, zeros) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let point = words.next()?.parse().ok()?;
        Some(Reply::Held(Held { lineage, group, bytes, zeros, point }))
    }
}

impl Wish {
    fn encode(self) -> String {
        match self {
            Wish::Wait => "wait".to_owned(),
            Wish::From(segment) => format!("from {segment}"),
        }
    }

    fn decode(line: &str) -> Option<Wish> {
        if line == "wait" {
            return Some(Wish::Wait);
        }
        Some(Wish::From(line.strip_prefix("from ")?.parse().ok()?))
    }
}

/// The head of a segment.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct Head {
    size: u64,
    /// The bytes that follow. The others are zeros.
    bytes: u64,
}

impl Head {
    fn encode(self) -> String {
        format!("segment {} {}", self.size, self.bytes)
    }

    fn decode(line: &str) -> Option<Head> {
        let (size, bytes) = line.strip_prefix("segment ")?.split_once(' ')?;
        let head = Head { size: size.parse().ok()?, bytes: bytes.parse().ok()? };
        (head.bytes <= head.size).then_some(head)
    }
}

/// Sends a line at once.
async fn write_line(link: &mut (impl AsyncWrite + Unpin), line: String) -> io::Result<()> {
    let line = line + "\n";
    let written = async {
        link.write_all(line.as_bytes()).await?;
        link.flush().await
    };
    timeout(SILENCE_MAX, written).await?
}

/// A line that nobody sends.
fn unknown_line() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the other node sends something unknown")
}
