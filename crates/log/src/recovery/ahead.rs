//! Reads a segment in a thread of its own. While the caller uses some groups, the thread reads, checks
//! and prepares the next ones, so a start uses two processors.

use std::sync::mpsc::sync_channel;
use std::thread::{Builder, scope};

use crate::error::OpenError;
use crate::files::folder::Found;
use crate::files::groups::{Buffers, GroupFault, GroupReader, Groups, SegmentBytes};
use crate::format::HEADER_BYTES;
use crate::types::Position;

/// The size of a piece. A smaller segment is read without a thread. Pieces fit into the cache of a
/// processor. They are small in simulations, so that simulations use the thread, too.
const PIECE_BYTES: u64 = if cfg!(feature = "fault") { 24 << 10 } else { 512 << 10 };
/// How many prepared pieces can wait for the caller.
const PIECES_AHEAD: usize = 2;

/// The end and the checksum of a group.
pub(super) type Seam = (Position, u32);

/// A segment to read.
#[derive(Copy, Clone, Debug)]
pub(super) struct Source<'a> {
    pub(super) found: &'a Found<'a>,
    /// The end of the segment's last group.
    pub(super) end: u64,
    pub(super) bytes: SegmentBytes<'a>,
}

/// Reads a segment up to its end. Calls `prepare` for some groups at a time, possibly in another
/// thread. Then calls `each` with the groups and the result, in the caller's thread. Returns the seam
/// to the segment before this one, and the end and the checksum of the last group. Fails if anything
/// is damaged, or if `each` fails.
pub(super) fn read_segment<T: Send, E: From<OpenError>>(
    source: Source<'_>,
    mut prepare: impl FnMut(&Groups<'_>) -> Result<T, GroupFault> + Send,
    mut each: impl FnMut(&Groups<'_>, T) -> Result<(), E>,
) -> Result<(Seam, Seam), E> {
    let Source { found, end, bytes } = source;
    let buffers = Buffers::default();
    let reader = GroupReader::new(bytes, (found.header()?, end), PIECE_BYTES, &buffers);
    let prepared = reader.map(move |groups| {
        let groups = groups?;
        let made = prepare(&groups)?;
        Ok((groups, made))
    });
    let mut seams: Option<(Seam, Seam)> = None;
    let mut use_groups = |prepared: Result<(Groups<'_>, T), GroupFault>| -> Result<(), E> {
        let (groups, made) = prepared.map_err(|fault| found.fault(fault))?;
        let (first, last) = (groups.first, groups.last);
        let before = seams.map_or((first.previous_end, first.previous_crc), |(before, _)| before);
        seams = Some((before, (last.end(), last.crc)));
        each(&groups, made)?;
        buffers.give_back(groups);
        Ok(())
    };
    if end <= PIECE_BYTES {
        for groups in prepared {
            use_groups(groups)?;
        }
    } else {
        scope(|scope| {
            let (sender, received) = sync_channel(PIECES_AHEAD);
            let read = move || prepared.for_each(|groups| drop(sender.send(groups)));
            let thread = Builder::new().name("read ahead".into()).spawn_scoped(scope, read);
            thread.map_err(|error| found.failed("start a thread to read", error))?;
            // After a failure, the thread goes on to the end of the segment. So the reads of a start
            // do not depend on which thread is faster.
            let mut result = Ok(());
            for groups in received {
                result = result.and_then(|()| use_groups(groups));
            }
            result
        })?;
    }
    seams.ok_or_else(|| found.damaged(HEADER_BYTES, "the first group").into())
}
