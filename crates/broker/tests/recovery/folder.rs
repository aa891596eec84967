//! Makes a log folder from a script: bytes that describe the folder. The folder has correct
//! checksums. Files of random bytes would rarely have correct checksums, so a test with such files
//! would not reach the code after the checks. This file implements the format of
//! `docs/log-format.md` without code of the log.

use crc32fast::Hasher;
use log::FaultDisk;

/// The size of a segment. It is small, so that a log of several segments is cheap.
const SEGMENT_BYTES: usize = 64 << 10;
const SEGMENT_HEADER_BYTES: usize = 4096;
const GROUP_HEADER_BYTES: usize = 56;
const ENTRY_HEAD_BYTES: usize = 12;
/// The limit of segments. A log with more segments would test nothing new.
const SEGMENTS_MAX: u32 = 8;

/// A byte below `ENTRY` is an action: one of the following constants. The next bytes are its
/// arguments.
const END_GROUP: u8 = 0;
const END_SEGMENT: u8 = 1;
/// Switches the durable position in the headers of groups: between the beginning of the group and
/// an older position.
const TURN_DURABLE: u8 = 2;
/// Flips bits of the finished segment. The arguments are two bytes of offset and one byte of bits.
const FLIP: u8 = 3;
const LATER: u8 = 4;
const EARLIER: u8 = 5;
/// Skips this many numbers before the next segment.
const SKIP_NUMBERS: u8 = 6;
/// Cuts the finished segment to a length. The argument is the length, in two bytes.
const CUT: u8 = 7;
const BREAK_CHAIN: u8 = 8;
/// Changes a byte of the segment's header. The header's checksum covers the changed byte. The
/// arguments are an offset and a value.
const PATCH_HEADER: u8 = 9;
/// Changes a byte of the next group's header. The header's checksum covers the changed byte. The
/// arguments are an offset and a value.
const PATCH_GROUP: u8 = 10;
/// Copies the finished segment to a spare file.
const SPARE: u8 = 11;
/// Sets the time to 2^n - 1. The argument is 64 - n.
const POWER_OF_TIME: u8 = 12;
/// A byte of at least this value begins an entry. The low half of the byte is the kind. The count,
/// two bytes of length, and the contents follow.
const ENTRY: u8 = 16;

/// Writes the folder that a script describes. The first byte of the script is the seed of the
/// disk's random choices.
pub(crate) fn write(script: &[u8]) -> FaultDisk {
    let mut script = Script(script);
    let disk = FaultDisk::new(u64::from(script.byte()), 64 << 20);
    let mut forge = Forge::new(disk);
    while !script.0.is_empty() && forge.number <= SEGMENTS_MAX {
        match script.byte() {
            END_GROUP => forge.end_group(),
            END_SEGMENT => forge.end_segment(),
            TURN_DURABLE => forge.all_is_durable = !forge.all_is_durable,
            FLIP => {
                let flip = (script.short(), script.byte());
                forge.flips.push(flip);
            }
            LATER => forge.time_ms = forge.time_ms.saturating_add(script.byte().into()),
            EARLIER => forge.time_ms = forge.time_ms.saturating_sub(script.byte().into()),
            SKIP_NUMBERS => forge.skipped += u32::from(script.byte()),
            CUT => forge.cut = Some(script.short().into()),
            BREAK_CHAIN => forge.previous_crc ^= 1,
            PATCH_HEADER => {
                let patch = (script.byte(), script.byte());
                forge.header_patches.push(patch);
            }
            PATCH_GROUP => {
                let patch = (script.byte(), script.byte());
                forge.group_patches.push(patch);
            }
            SPARE => forge.is_spare = true,
            POWER_OF_TIME => forge.time_ms = u64::MAX >> (script.byte() % 64),
            head => {
                let (kind, count) = (head % ENTRY, script.byte());
                let len = usize::from(script.short());
                let contents = script.take(len);
                forge.add_entry(kind, count, contents);
            }
        }
    }
    forge.end_segment();
    forge.disk
}

/// The unused bytes of a script. After the end of the script, all further bytes are 0.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }
}

struct Forge {
    disk: FaultDisk,
    number: u32,
    skipped: u32,
    /// The segment up to the end of its last complete group.
    segment: Vec<u8>,
    /// Entries of the next group, without checksums.
    entries: Vec<u8>,
    count: u32,
    previous_end: u64,
    previous_crc: u32,
    durable: u64,
    all_is_durable: bool,
    time_ms: u64,
    header_patches: Vec<(u8, u8)>,
    group_patches: Vec<(u8, u8)>,
    flips: Vec<(u16, u8)>,
    cut: Option<usize>,
    is_spare: bool,
}

impl Forge {
    fn new(disk: FaultDisk) -> Self {
        Self {
            disk,
            number: 1,
            skipped: 0,
            segment: vec![0; SEGMENT_HEADER_BYTES],
            entries: Vec::new(),
            count: 0,
            previous_end: 0,
            previous_crc: 0,
            durable: 0,
            all_is_durable: true,
            time_ms: 1_700_000_000_000,
            header_patches: Vec::new(),
            group_patches: Vec::new(),
            flips: Vec::new(),
            cut: None,
            is_spare: false,
        }
    }

    /// Each file has its own salt.
    fn salt(&self) -> u64 {
        0x1234_5678_9abc_def0 ^ u64::from(self.number)
    }

    /// Adds an entry if the segment has room for it.
    fn add_entry(&mut self, kind: u8, count: u8, contents: &[u8]) {
        let len = ENTRY_HEAD_BYTES + contents.len();
        let taken = self.segment.len() + GROUP_HEADER_BYTES + self.entries.len();
        if taken + len.next_multiple_of(8) > SEGMENT_BYTES {
            return;
        }
        let mut head = [0; ENTRY_HEAD_BYTES];
        head[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        head[8] = kind;
        head[10] = count;
        self.entries.extend_from_slice(&head);
        self.entries.extend_from_slice(contents);
        self.entries.resize(self.entries.len().next_multiple_of(8), 0);
        self.count += 1;
    }

    fn end_group(&mut self) {
        if self.segment.len() + GROUP_HEADER_BYTES + self.entries.len() > SEGMENT_BYTES {
            return;
        }
        let position = u64::from(self.number) << 32 | self.segment.len() as u64;
        if self.all_is_durable {
            self.durable = position;
        }
        let mut entries = std::mem::take(&mut self.entries);
        let mut at = 0;
        while at < entries.len() {
            let len = u32::from_le_bytes([0, 1, 2, 3].map(|byte| entries[at + 4 + byte])) as usize;
            let end = at + len.next_multiple_of(8);
            let place = position + (GROUP_HEADER_BYTES + at) as u64;
            let crc = self.sum(place, &entries[at + 4..end]);
            entries[at..at + 4].copy_from_slice(&crc.to_le_bytes());
            at = end;
        }
        let mut group = b"LSGP\0\0\0\0".to_vec();
        group.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        group.extend_from_slice(&self.count.to_le_bytes());
        for word in [position, self.durable, self.previous_end] {
            group.extend_from_slice(&word.to_le_bytes());
        }
        group.extend_from_slice(&self.previous_crc.to_le_bytes());
        group.extend_from_slice(&[0; 4]);
        group.extend_from_slice(&self.time_ms.to_le_bytes());
        patch(&mut group, &mut self.group_patches);
        group.extend_from_slice(&entries);
        let crc = self.sum(position, &group[8..]);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
        self.count = 0;
        self.segment.extend_from_slice(&group);
        self.previous_end = u64::from(self.number) << 32 | self.segment.len() as u64;
        self.previous_crc = crc;
    }

    fn sum(&self, position: u64, bytes: &[u8]) -> u32 {
        let place = position.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let seed = (self.salt() ^ place).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
        let mut hasher = Hasher::new_with_initial(seed as u32);
        hasher.update(bytes);
        hasher.finalize()
    }

    fn end_segment(&mut self) {
        if !self.entries.is_empty() {
            self.end_group();
        }
        let mut bytes = std::mem::replace(&mut self.segment, vec![0; SEGMENT_HEADER_BYTES]);
        let mut header = b"LINESHFT\x01\0\0\0sixteen bytes id".to_vec();
        header.truncate(28);
        header.extend_from_slice(&self.number.to_le_bytes());
        header.extend_from_slice(&(SEGMENT_BYTES as u64).to_le_bytes());
        header.extend_from_slice(&self.salt().to_le_bytes());
        patch(&mut header, &mut self.header_patches);
        let crc = crc32fast::hash(&header);
        header.extend_from_slice(&crc.to_le_bytes());
        bytes[..header.len()].copy_from_slice(&header);
        bytes.resize(SEGMENT_BYTES, 0);
        for (offset, bits) in self.flips.drain(..) {
            bytes[usize::from(offset)] ^= bits;
        }
        bytes.truncate(self.cut.take().unwrap_or(SEGMENT_BYTES));
        if std::mem::take(&mut self.is_spare) {
            self.disk.set_bytes(&format!("spare-{}", self.number), bytes.clone());
        }
        self.disk.set_bytes(&format!("{:010}.seg", self.number), bytes);
        self.number += 1 + std::mem::take(&mut self.skipped);
    }
}

/// Overwrites bytes of a header. An offset beyond its end wraps around.
fn patch(header: &mut [u8], patches: &mut Vec<(u8, u8)>) {
    for (at, byte) in patches.drain(..) {
        let at = usize::from(at) % header.len();
        header[at] = byte;
    }
}
