//! Checks the bytes of a backup. The caller passes the bytes in pieces of any size.
//!
//! The check follows the chain of groups from the first segment to the end of the backup. It proves
//! that the log wrote exactly these bytes. It does not check the meaning of the entries:
//! `lineshaft log check` does.

use crc32fast::Hasher;

use crate::backup::BackupPoint;
use crate::files::segments::segment_name;
use crate::format::{GROUP_HEADER_BYTES, GroupHeader, HEADER_BYTES, SegmentHeader, seeded};
use crate::types::Position;

/// A backup is damaged, or was taken from damaged files.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{file} is damaged at offset {offset}: {what}")]
pub struct BackupDamage {
    /// The segment's name.
    pub file: String,
    /// The offset of the first damaged structure.
    pub offset: u64,
    /// The damaged structure.
    pub what: &'static str,
}

/// The check of one backup. For each segment, in order, call `begin_segment`, and `update` with all
/// bytes. Then call `finish`.
#[derive(Debug)]
pub struct BackupCheck {
    point: BackupPoint,
    /// The segment that is being checked. 0: the check has not begun.
    segment: u32,
    /// The offset of the structure that is being read.
    offset: u64,
    /// The salt of the segment. It is part of every checksum in the segment.
    salt: u64,
    reading: Reading,
    /// The newest intact group of the chain.
    newest: Option<GroupHeader>,
}

/// The structure that the next bytes belong to.
#[derive(Debug)]
enum Reading {
    /// The segment's header. The vector contains the bytes that were read so far.
    SegmentHeader(Vec<u8>),
    /// The header of a group. The vector contains the bytes that were read so far.
    GroupHeader(Vec<u8>),
    /// The entries of a group. `left` bytes of them are not read yet.
    Entries { group: GroupHeader, hasher: Hasher, left: usize },
    /// Bytes after the last group of the segment.
    Rest,
}

impl BackupCheck {
    /// Begins the check of a backup that ends at this point.
    pub fn new(point: BackupPoint) -> BackupCheck {
        let reading = Reading::Rest;
        BackupCheck { point, segment: 0, offset: 0, salt: 0, reading, newest: None }
    }

    /// Begins the first segment of the backup, or the next one.
    pub fn begin_segment(&mut self) -> Result<(), BackupDamage> {
        self.end_segment()?;
        self.segment = if self.segment == 0 { self.point.first } else { self.segment + 1 };
        self.offset = 0;
        self.reading = Reading::SegmentHeader(Vec::new());
        Ok(())
    }

    /// Checks the next bytes of the segment.
    pub fn update(&mut self, mut bytes: &[u8]) -> Result<(), BackupDamage> {
        while !bytes.is_empty() {
            bytes = match &mut self.reading {
                Reading::SegmentHeader(header) => {
                    let rest = fill(header, HEADER_BYTES as usize, bytes);
                    if header.len() == HEADER_BYTES as usize {
                        let header = std::mem::take(header);
                        self.read_segment_header(&header)?;
                    }
                    rest
                }
                Reading::GroupHeader(header) => {
                    let rest = fill(header, GROUP_HEADER_BYTES, bytes);
                    if header.len() == GROUP_HEADER_BYTES {
                        let header = std::mem::take(header);
                        self.read_group_header(&header)?;
                    }
                    rest
                }
                Reading::Entries { hasher, left, .. } => {
                    let (these, rest) = bytes.split_at(bytes.len().min(*left));
                    hasher.update(these);
                    *left -= these.len();
                    if *left == 0 {
                        self.end_group()?;
                    }
                    rest
                }
                Reading::Rest => &[],
            };
        }
        Ok(())
    }

    /// Ends the check. Fails if the chain of groups does not end at the point.
    pub fn finish(self) -> Result<(), BackupDamage> {
        self.end_segment()?;
        let end = self.newest.map_or(Position(0), |group| group.end());
        if self.segment == self.point.last() && end == self.point.end {
            return Ok(());
        }
        Err(self.damage(end.offset(), "the groups do not end where the backup ends"))
    }

    fn damage(&self, offset: u64, what: &'static str) -> BackupDamage {
        BackupDamage { file: segment_name(self.segment), offset, what }
    }

    /// Ends the current segment. Fails if the segment has no group. Every segment needs a first
    /// group, which connects the segment with the segment before it.
    fn end_segment(&self) -> Result<(), BackupDamage> {
        let has_group = self.newest.is_some_and(|group| group.position.segment() == self.segment);
        if self.segment == 0 || has_group {
            return Ok(());
        }
        Err(self.damage(self.offset, "the file ends before its first group"))
    }

    fn read_segment_header(&mut self, bytes: &[u8]) -> Result<(), BackupDamage> {
        let header =
            SegmentHeader::decode(bytes).map_err(|_| self.damage(0, "the segment's header"))?;
        if header.number != self.segment || header.log_id != self.point.log_id {
            return Err(self.damage(0, "the header belongs to another segment"));
        }
        self.salt = header.salt;
        self.offset = HEADER_BYTES;
        self.reading = Reading::GroupHeader(Vec::new());
        Ok(())
    }

    fn read_group_header(&mut self, bytes: &[u8]) -> Result<(), BackupDamage> {
        let position = Position::new(self.segment, self.offset);
        let group = GroupHeader::peek(bytes).filter(|group| group.position == position);
        let Some(group) = group else { return self.end_chain() };
        let mut hasher = seeded(self.salt, position.0);
        hasher.update(&bytes[8..]);
        let left = group.len as usize;
        self.reading = Reading::Entries { group, hasher, left };
        if left == 0 { self.end_group() } else { Ok(()) }
    }

    /// Checks a group whose entries were all read.
    fn end_group(&mut self) -> Result<(), BackupDamage> {
        let Reading::Entries { group, hasher, .. } =
            std::mem::replace(&mut self.reading, Reading::Rest)
        else {
            unreachable!("only a group ends");
        };
        if hasher.finalize() != group.crc {
            return self.end_chain();
        }
        if let Some(newest) = self.newest.filter(|newest| !group.follows(newest)) {
            // This group does not fit the chain. If the chain already has a group of this segment,
            // this group was left over from a torn write. Then the chain ends before this group,
            // and the bytes from here on have no meaning. But the first group of a segment must fit
            // the chain.
            if newest.position.segment() == self.segment {
                return self.end_chain();
            }
            let file = segment_name(newest.position.segment());
            let what = "the next segment does not follow";
            return Err(BackupDamage { file, offset: newest.end().offset(), what });
        }
        self.newest = Some(group);
        self.offset = group.end().offset();
        self.reading = Reading::GroupHeader(Vec::new());
        Ok(())
    }

    /// Ends the groups of this segment, because the bytes at `offset` are not the next group. If
    /// groups are missing here, a later check fails: the next segment does not fit the chain, or
    /// `finish` finds the wrong end.
    fn end_chain(&mut self) -> Result<(), BackupDamage> {
        // The length of a damaged group can be wrong, so the start of the next group is unknown.
        self.reading = Reading::Rest;
        if self.offset == HEADER_BYTES {
            return Err(self.damage(HEADER_BYTES, "the first group"));
        }
        Ok(())
    }
}

/// Appends bytes to the buffer until the buffer has `len` bytes. Returns the bytes that were not
/// appended.
fn fill<'a>(buffer: &mut Vec<u8>, len: usize, bytes: &'a [u8]) -> &'a [u8] {
    let (these, rest) = bytes.split_at(bytes.len().min(len - buffer.len()));
    buffer.extend_from_slice(these);
    rest
}
