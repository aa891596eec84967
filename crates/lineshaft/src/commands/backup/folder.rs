//! A backup in a folder. A server can start on it.

use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::path::Path;

use ::log::{BackupCheck, BackupPoint, BackupSource, MANIFEST_NAME};
use anyhow::{Context as _, Result, bail};

use super::Backup;
use super::hold::ServerHold;
use super::pace::{PIECE_BYTES, Paced, SyncedFile};
use super::unfinished::create;

impl Backup<'_> {
    /// Writes the backup into an empty folder, and checks it there. Returns the number of segments
    /// that are links.
    pub(super) fn write_folder(&mut self, folder: &Path, hold: ServerHold) -> Result<u32> {
        self.bar.set_message("copying");
        // Write the manifest first. If the backup is interrupted, a server notices with the
        // manifest that segments are missing.
        let mut manifest = create(&folder.join(MANIFEST_NAME))?;
        manifest.write_all(self.point.manifest().as_bytes()).and_then(|()| manifest.sync_all())?;
        File::open(folder)?.sync_all()?;
        let mut linked = 0;
        // Make all links before the first copy, because links take almost no time.
        let mut to_copy = Vec::new();
        for number in self.source.segments() {
            let name = BackupSource::name(number);
            let (from, to) = (self.data.join(&name), folder.join(&name));
            // A hard link fails if the folder is on another file system, or if the file system has
            // no hard links.
            if self.source.is_sealed(number) && fs::hard_link(&from, &to).is_ok() {
                linked += 1;
            } else {
                to_copy.push(number);
            }
        }
        let mut copied_bytes = 0;
        for &number in &to_copy {
            copied_bytes += self.open(number)?.size();
        }
        self.bar.set_length(copied_bytes + self.bytes()?);
        for number in to_copy {
            let path = folder.join(BackupSource::name(number));
            self.copy(number, &path).with_context(|| format!("cannot write {}", path.display()))?;
        }
        File::open(folder)?.sync_all()?;
        let released = hold.release();
        if linked > 0 {
            // The server never writes to a file that has two names. But without the hold, it could
            // have reused a file just before the link was made. So the hold must have lasted until
            // now.
            released?;
        }
        self.check_folder(folder)?;
        Ok(linked)
    }

    fn copy(&mut self, number: u32, path: &Path) -> Result<()> {
        let reader = self.open(number)?;
        let file = SyncedFile::new(create(path)?);
        let Backup { pace, bar, interrupts, .. } = self;
        let reader = Paced { reader, check: None, pace, bar, interrupts };
        let mut reader = BufReader::with_capacity(PIECE_BYTES, reader);
        let mut writer = io::BufWriter::with_capacity(PIECE_BYTES, file);
        io::copy(&mut reader, &mut writer)?;
        writer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        Ok(())
    }

    /// Reads the whole backup from its folder, and checks it.
    fn check_folder(&mut self, folder: &Path) -> Result<()> {
        self.bar.set_message("checking");
        let manifest = fs::read(folder.join(MANIFEST_NAME))?;
        if BackupPoint::from_manifest(&manifest) != Ok(self.point) {
            bail!("the manifest of the backup is damaged");
        }
        let mut check = BackupCheck::new(self.point);
        for number in self.source.segments() {
            let path = folder.join(BackupSource::name(number));
            let Backup { pace, bar, interrupts, .. } = self;
            check.begin_segment()?;
            let reader = File::open(&path)?;
            let mut reader = Paced { reader, check: Some(&mut check), pace, bar, interrupts };
            let read = io::copy(&mut reader, &mut io::sink());
            read.with_context(|| format!("cannot check {}", path.display()))?;
        }
        check.finish()?;
        Ok(())
    }
}
