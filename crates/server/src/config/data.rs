//! Values of the section `data`.

use std::ops::RangeInclusive;

use notation::size;

use crate::config::SEGMENT_BYTES;

/// Permitted sizes of the files of the history of jobs. All are open, so there are not more.
const HISTORY_BYTES: RangeInclusive<u64> = 1 << 20..=2 << 30;

pub(crate) fn parse_segment_bytes(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if SEGMENT_BYTES.contains(&bytes) => Ok(bytes),
        _ => Err(format!("`{text}` is not a size from 256KiB to 1GiB")),
    }
}

pub(crate) fn parse_bytes_max(text: &str) -> Result<Option<u64>, String> {
    if text == "disk" {
        return Ok(None);
    }
    // The log needs a few segments to reclaim space, and a segment has at least 256 KiB. So 4 MiB
    // is the minimum.
    match size::parse(text)? {
        bytes if bytes >= 4 << 20 => Ok(Some(bytes)),
        _ => Err(format!("`{text}` is neither `disk` nor a size from 4MiB on")),
    }
}

pub(crate) fn parse_history_bytes(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if HISTORY_BYTES.contains(&bytes) => Ok(bytes),
        _ => Err(format!("`{text}` is not a size from 1MiB to 2GiB")),
    }
}
