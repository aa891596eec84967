//! The manifest of a backup: a small text file with the position that the log must reach.
//!
//! The manifest is written before the segments. So a start notices if a copy was interrupted, or if
//! files are missing. Without the manifest, a start would accept such a backup as a shorter log.

use crate::backup::BackupPoint;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::files::folder::Folder;
use crate::recovery::tail::Tail;

/// The name of the manifest in the folder of a backup.
pub const MANIFEST_NAME: &str = "manifest";

/// The first line of a manifest, without the version.
const TITLE: &str = "lineshaft backup ";
const VERSION: u32 = 1;
/// The number of bytes that are read of a manifest. A longer file is not a manifest.
const BYTES_MAX: u64 = 4096;

impl BackupPoint {
    /// The contents of the manifest.
    pub fn manifest(&self) -> String {
        let text = format!("{TITLE}{VERSION}\n{self}\n");
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}crc {crc:08x}\n")
    }

    /// Reads the contents of a manifest. Fails with the reason why the manifest cannot be used.
    pub fn from_manifest(text: &[u8]) -> Result<BackupPoint, String> {
        const DAMAGED: &str = "its manifest is damaged or cut";
        let lines = std::str::from_utf8(text).ok().map(|text| text.lines().collect::<Vec<_>>());
        let Some(lines) = lines else { return Err(DAMAGED.to_owned()) };
        let version = lines.first().and_then(|title| title.strip_prefix(TITLE));
        match version.and_then(|version| version.parse::<u32>().ok()) {
            Some(VERSION) => {}
            Some(version) => {
                return Err(format!(
                    "its manifest has version {version}, and this program reads version {VERSION}"
                ));
            }
            None => return Err(DAMAGED.to_owned()),
        }
        let point = lines.get(1).and_then(|line| line.parse::<BackupPoint>().ok());
        // Accept only the text that `manifest` writes for this point.
        point.filter(|point| point.manifest().as_bytes() == text).ok_or(DAMAGED.to_owned())
    }
}

/// Reads the manifest in the file with this name, if the folder has it.
pub(super) fn read_point(disk: &dyn Disk, name: &str) -> Result<Option<BackupPoint>, OpenError> {
    let folder = disk.folder();
    let fail = |error| OpenError::from_io(&folder, format!("read {name}"), error);
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut bytes = vec![0; BYTES_MAX as usize];
    let read = file.read_at(&mut bytes, 0).map_err(fail)?;
    let point = BackupPoint::from_manifest(&bytes[..read]);
    point.map(Some).map_err(|what| OpenError::CutBackup { folder: folder.clone(), what })
}

/// The manifest that a start found in the folder.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Manifest(BackupPoint);

impl Manifest {
    /// Reads the manifest, if the folder has one.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Manifest>, OpenError> {
        Ok(read_point(disk, MANIFEST_NAME)?.map(Manifest))
    }

    /// Checks that the last segment exists, and that no file is shorter than its header says.
    /// Without this check, a start would refuse most of these logs, too, but would report damage
    /// instead of an incomplete backup.
    pub(crate) fn check_files(&self, folder: &Folder) -> Result<(), OpenError> {
        let Manifest(point) = self;
        let cut = |what: String| OpenError::CutBackup { folder: folder.name.clone(), what };
        let highest = folder.segments.keys().next_back().copied().unwrap_or(0);
        if highest < point.last() {
            return Err(cut(match highest {
                0 => format!("it has no segment, and needs {} to {}", point.first, point.last()),
                _ => format!("its last segment is {highest}, not {}", point.last()),
            }));
        }
        let short = folder.segments.range(..=point.last()).find(|(_, found)| found.is_short());
        short.map_or(Ok(()), |(_, found)| Err(cut(format!("{} ends early", found.path()))))
    }

    /// Checks that the log reaches the position of the manifest.
    pub(crate) fn check_end(&self, folder: &Folder, tail: &Tail) -> Result<(), OpenError> {
        let Manifest(point) = self;
        let cut = |what: String| OpenError::CutBackup { folder: folder.name.clone(), what };
        let last = &folder.segments[&tail.last];
        if last.header()?.log_id != point.log_id {
            return Err(cut(format!("{} belongs to another log than its manifest", last.path())));
        }
        if tail.end < point.end {
            let end = point.end;
            return Err(cut(format!(
                "its log ends in {} at offset {}, and must reach offset {} of segment {}",
                last.path(),
                tail.end.offset(),
                end.offset(),
                end.segment()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Position;

    fn point() -> BackupPoint {
        BackupPoint { log_id: [9; 16], first: 2, end: Position::new(4, 5000) }
    }

    #[test]
    fn a_manifest_comes_back() {
        let text = point().manifest();
        assert_eq!(BackupPoint::from_manifest(text.as_bytes()), Ok(point()));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        let text = point().manifest().into_bytes();
        for len in 0..text.len() {
            assert!(BackupPoint::from_manifest(&text[..len]).is_err(), "cut at {len}");
        }
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(BackupPoint::from_manifest(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let text = point().manifest().replace("backup 1", "backup 2");
        let refusal = BackupPoint::from_manifest(text.as_bytes()).unwrap_err();
        assert!(refusal.contains("version 2"), "{refusal}");
    }
}
