//! A running backup has a temporary name. So an interrupted backup does not look like a complete
//! one.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::commands::log::{refuse_used, sync_parent, whole_path};

/// Only the user that runs the backup can read it, because it contains all jobs.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// An unfinished backup. Dropping it removes the backup's files, if `finish` has not succeeded.
#[derive(Debug)]
pub(super) struct Unfinished {
    path: PathBuf,
    is_finished: bool,
}

impl Unfinished {
    /// Creates a folder for a backup of this data folder. The target must be new or empty.
    pub(super) fn folder(target: &Path, data: &Path) -> Result<Unfinished> {
        let target = whole_path(target)?;
        refuse_used(data, &target)?;
        let path = unused(&target)?;
        let created = DirBuilder::new().mode(FOLDER_MODE).create(&path);
        created.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Unfinished { path, is_finished: false })
    }

    /// Creates an empty file for a backup. The target must be new.
    pub(super) fn file(target: &Path) -> Result<Unfinished> {
        if fs::symlink_metadata(target).is_ok() {
            bail!("{} exists: name a new file", target.display());
        }
        let path = unused(&whole_path(target)?)?;
        create(&path)?;
        Ok(Unfinished { path, is_finished: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the backup its final name.
    pub(super) fn finish(mut self, target: &Path) -> Result<()> {
        let target = whole_path(target)?;
        let renamed = fs::rename(&self.path, &target).and_then(|()| sync_parent(&target));
        renamed.with_context(|| format!("cannot name the backup {}", target.display()))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            // Ignore an error, because the error of the failed backup is more useful to the user.
            // If files are left over, the next backup reports them.
            let _ = fs::remove_dir_all(&self.path).or_else(|_| fs::remove_file(&self.path));
        }
    }
}

/// The temporary name of a target.
fn unused(target: &Path) -> Result<PathBuf> {
    let mut name = OsString::from(target);
    name.push(".unfinished");
    let path = PathBuf::from(name);
    if path.exists() {
        bail!("{} is left over from an interrupted backup: remove it first", path.display());
    }
    Ok(path)
}

/// Creates a file. Fails if it exists.
pub(super) fn create(path: &Path) -> Result<File> {
    let created = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path);
    created.with_context(|| format!("cannot create {}", path.display()))
}
