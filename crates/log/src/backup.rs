//! Online backup: copies the log of a running process up to one position.
//!
//! The process that owns the log holds the log's files, so that they are not freed
//! ([`Log::begin_backup`]). It also reports the *point* of the backup: the position up to which the
//! backup contains the log ([`BackupPoint`]). Another process makes the backup:
//!
//! 1. It writes the [manifest](BackupPoint::manifest), which contains the point.
//! 2. It copies or links the segments ([`BackupSource`]). All segments before the last one are
//!    *sealed*: their bytes do not change. The last segment is copied up to the point, and filled
//!    with zeros. So the copy is a log that ends at the point, as after a crash.
//! 3. It reads the copy, and checks it ([`BackupCheck`]).
//!
//! A server that starts on the copy reads the manifest, and refuses a log that ends before the
//! point.
//!
//! A copy can also arrive in the folder of another log that is in use ([`IncomingCopy`]). When it is
//! whole, the next start of that log *adopts* it: the copy replaces the log.

mod adopt;
mod check;
mod incoming;
mod manifest;
mod source;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub(crate) use adopt::adopt;
pub use check::{BackupCheck, BackupDamage};
pub use incoming::{CopyError, IncomingCopy};
pub use manifest::MANIFEST_NAME;
pub(crate) use manifest::Manifest;
pub use source::{BackupSource, SegmentReader};

use crate::files::numbered::SegmentHold;
use crate::log::Log;
use crate::types::Position;

/// The contents of a backup: the segments of one log from `first` on, up to the position `end`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct BackupPoint {
    pub(crate) log_id: [u8; 16],
    pub(crate) first: u32,
    pub(crate) end: Position,
}

impl BackupPoint {
    /// The lowest segment of the backup.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The last segment of the backup.
    pub fn last(&self) -> u32 {
        self.end.segment()
    }

    /// The end of the backup. The log was durable up to this position when [`BackupHold::point`]
    /// returned this point.
    pub fn end(&self) -> Position {
        self.end
    }
}

/// One line: `log LOG_ID first SEGMENT end SEGMENT OFFSET`.
impl fmt::Display for BackupPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u128::from_be_bytes(self.log_id);
        let (first, end) = (self.first, self.end);
        write!(f, "log {id:032x} first {first} end {} {}", end.segment(), end.offset())
    }
}

/// The text is not a [`BackupPoint`].
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not the position of a backup")]
pub struct NotAPoint;

impl FromStr for BackupPoint {
    type Err = NotAPoint;

    fn from_str(text: &str) -> Result<BackupPoint, NotAPoint> {
        let words: Vec<&str> = text.split(' ').collect();
        let ["log", id, "first", first, "end", segment, offset] = words[..] else {
            return Err(NotAPoint);
        };
        let parsed = || {
            let log_id = u128::from_str_radix(id, 16).ok()?.to_be_bytes();
            let first = first.parse().ok()?;
            let offset: u32 = offset.parse().ok()?;
            let end = Position::new(segment.parse().ok()?, offset.into());
            Some(BackupPoint { log_id, first, end })
        };
        // Accept only the text that `Display` writes for this point: for example, no `+3`.
        parsed()
            .filter(|point| point.to_string() == text && (1..=point.last()).contains(&point.first))
            .ok_or(NotAPoint)
    }
}

/// Holds the files of a log for a backup. Until the hold is dropped, the log does not free them.
#[derive(Debug)]
pub struct BackupHold {
    log: Arc<Log>,
    hold: SegmentHold,
    /// The written position of the log when the backup began.
    begun_at: Position,
}

impl Log {
    /// Begins a backup: holds all segments of the log, and requests that everything written so far
    /// becomes durable. The log works as usual, except that it frees no segment until the hold is
    /// dropped.
    pub fn begin_backup(self: &Arc<Self>) -> BackupHold {
        let hold = self.segments.hold_oldest();
        // The backup leaves out appended entries that are not written yet: no reply was sent for
        // them, and on a full disk, they can wait for a long time.
        let begun_at = self.written();
        self.want_durable(begun_at);
        BackupHold { log: Arc::clone(self), hold, begun_at }
    }
}

impl BackupHold {
    /// The contents of the backup: everything that is durable now. `None`: some entries that were
    /// written before [`Log::begin_backup`] are not durable yet.
    pub fn point(&self) -> Option<BackupPoint> {
        let end = self.log.durable();
        if end < self.begun_at {
            return None;
        }
        let segments = &self.log.segments;
        let first = segments.first_at(end).max(self.hold.segment());
        Some(BackupPoint { log_id: segments.log_id(), first, end })
    }

    /// Whether the log lacks room only because somebody holds segments. Then the backup should end.
    pub fn is_in_the_way(&self) -> bool {
        self.log.is_held_back() && self.log.usage().short
    }

    /// Whether the log has failed. After a failure, nothing more becomes durable.
    pub fn has_failed(&self) -> bool {
        self.log.failure().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_comes_back_from_its_text() {
        let mut log_id = [7; 16];
        log_id[0] = 0;
        let point = BackupPoint { log_id, first: 3, end: Position::new(7, 123_456) };
        let text = "log 00070707070707070707070707070707 first 3 end 7 123456";
        assert_eq!(point.to_string(), text);
        assert_eq!(text.parse(), Ok(point));
    }

    #[test]
    fn other_text_is_no_point() {
        let id = "00070707070707070707070707070707";
        for text in [
            String::new(),
            format!("log {id} first 3 end 7"),
            format!("log {id} first 3 end 7 1 "),
            format!("log {id} first 3 end 7 4294967296"),
            format!("log {id} first +3 end 7 1"),
            format!("log {id} first 8 end 7 1"),
            format!("log {id} first 0 end 7 1"),
            "log 7 first 3 end 7 1".to_owned(),
        ] {
            assert_eq!(text.parse::<BackupPoint>(), Err(NotAPoint), "{text}");
        }
    }
}
