//! A backup as a tar file, or as a tar stream on standard output.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use ::log::{BackupCheck, BackupPoint, BackupSource, MANIFEST_NAME};
use anyhow::{Context as _, Result, bail};
use server::{ArchiveError, write_archive};
use tar::Archive;

use super::hold::ServerHold;
use super::pace::{PIECE_BYTES, Paced, SyncedFile};
use super::{Backup, explain_closed_pipe};

impl Backup<'_> {
    /// Writes the backup into an empty file, and checks it there.
    pub(super) fn write_archive(&mut self, path: &Path, hold: ServerHold) -> Result<()> {
        self.bar.set_length(2 * self.bytes()?);
        let file = File::options().write(true).open(path)?;
        let file = self
            .write_tar(SyncedFile::new(file))
            .with_context(|| format!("cannot write {}", path.display()))?;
        // Ignore an error: it does not matter whether the server held the files to the end, because
        // `check_archive` checks all bytes.
        let _ = hold.release();
        file.finish()?;
        self.check_archive(path).with_context(|| format!("cannot check {}", path.display()))
    }

    /// Writes the backup to standard output. Checks the bytes when it reads them from the log. Only
    /// the receiver can check that they arrive.
    pub(super) fn write_stream(&mut self, hold: ServerHold) -> Result<()> {
        self.bar.set_length(self.bytes()?);
        let mut out = self
            .write_tar(io::stdout().lock())
            .map_err(|error| explain_closed_pipe(error).context("cannot write the stream"))?;
        out.flush()?;
        let _ = hold.release();
        Ok(())
    }

    fn write_tar<W: Write>(&mut self, out: W) -> Result<W> {
        self.bar.set_message("copying");
        let Backup { source, point, data, pace, bar, interrupts } = self;
        let paced = |bytes| pace.note(bytes, bar, interrupts);
        write_archive(out, source, *point, data, paced).map_err(|error| match error {
            ArchiveError::Io(error) => error.into(),
            ArchiveError::Damage(damage) => damage.into(),
        })
    }

    /// Reads the whole archive, and checks it.
    fn check_archive(&mut self, path: &Path) -> Result<()> {
        self.bar.set_message("checking");
        let mut archive = Archive::new(BufReader::with_capacity(PIECE_BYTES, File::open(path)?));
        let mut check = BackupCheck::new(self.point);
        let names = self.source.segments().map(BackupSource::name);
        let mut expected = std::iter::once(MANIFEST_NAME.to_owned()).chain(names);
        for entry in archive.entries()? {
            let mut entry = entry?;
            if expected.next().as_deref().map(Path::new) != Some(&*entry.path()?) {
                bail!("it has an unexpected file");
            }
            if &*entry.path()? == Path::new(MANIFEST_NAME) {
                let mut manifest = Vec::new();
                entry.read_to_end(&mut manifest)?;
                if BackupPoint::from_manifest(&manifest) != Ok(self.point) {
                    bail!("its manifest is damaged");
                }
                continue;
            }
            let Backup { pace, bar, interrupts, .. } = self;
            check.begin_segment()?;
            let mut reader =
                Paced { reader: entry, check: Some(&mut check), pace, bar, interrupts };
            io::copy(&mut reader, &mut io::sink())?;
        }
        check.finish()?;
        Ok(())
    }
}
