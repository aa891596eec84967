//! Adopts a copy that has arrived in the folder: it replaces the folder's own log.
//!
//! While `copy-manifest` exists, the adoption is not finished, and each start begins it again. Every
//! step can be done twice: an old segment in the range of the copy is replaced by a rename, and if a
//! file of the copy is missing, an earlier start has renamed it.

use std::io;

use crate::backup::BackupPoint;
use crate::backup::incoming::{COPY_MANIFEST, copy_name};
use crate::backup::manifest::{MANIFEST_NAME, read_point};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::files::folder::is_spare;
use crate::files::segments::{segment_name, segment_number};
use crate::index::index_number;

/// Replaces the log of the folder with the copy, if a whole one has arrived. The folder must be
/// locked. Returns whether there was one.
pub(crate) fn adopt(disk: &dyn Disk) -> Result<bool, OpenError> {
    let Some(point) = read_point(disk, COPY_MANIFEST)? else { return Ok(false) };
    let folder = disk.folder();
    let fail = |error| OpenError::from_io(&folder, "adopt the copy of a log".to_owned(), error);
    let names = disk.list().map_err(fail)?;
    let range = point.first..=point.last();
    for number in range {
        let (copied, own) = (copy_name(&point, number), segment_name(number));
        if !names.contains(&copied) && !names.contains(&own) {
            let what = format!("{copied} is missing");
            return Err(OpenError::CutBackup { folder: folder.clone(), what });
        }
    }
    replace(disk, &point, &names).map_err(fail)?;
    Ok(true)
}

fn replace(disk: &dyn Disk, point: &BackupPoint, names: &[String]) -> io::Result<()> {
    let range = point.first..=point.last();
    for name in names {
        let is_old = match segment_number(name) {
            Some(number) => !range.contains(&number),
            None => is_spare(name) || index_number(name).is_some(),
        };
        if is_old {
            disk.remove(name)?;
        }
    }
    for number in range {
        let copied = copy_name(point, number);
        if names.contains(&copied) {
            disk.rename(&copied, &segment_name(number))?;
        }
    }
    // The log is whole on the disk before the mark that it is not disappears.
    disk.sync_folder()?;
    disk.rename(COPY_MANIFEST, MANIFEST_NAME)?;
    disk.sync_folder()
}
