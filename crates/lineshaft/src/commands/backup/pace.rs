//! Limits how fast a backup reads, so that the server can use most of the disk's speed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::log::BackupCheck;
use indicatif::ProgressBar;

use super::Interrupted;
use crate::interrupt::Interrupts;

/// A backup reads and writes pieces of at most this size, and waits after each piece.
pub(super) const PIECE_BYTES: usize = 256 << 10;
/// A file is synced each time this many bytes were written. Without these syncs, the kernel would
/// later write a large amount at once, and the server's syncs would wait for this write.
const UNSYNCED_BYTES_MAX: usize = 8 << 20;

/// The speed limit of one backup.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_s: u64,
    /// When the next piece can be read.
    next: Instant,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(bytes_per_s: u64) -> Pace {
        Pace { bytes_per_s, next: Instant::now(), bytes: 0 }
    }

    /// The number of bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Shows that a piece of this many bytes was read, and waits. Fails after a signal.
    pub(super) fn note(
        &mut self,
        bytes: u64,
        bar: &ProgressBar,
        interrupts: &Interrupts,
    ) -> io::Result<()> {
        if interrupts.count() > 0 {
            return Err(io::Error::other(Interrupted));
        }
        bar.inc(bytes);
        self.wait(bytes);
        Ok(())
    }

    /// Waits after a piece of this many bytes. If the backup was slower than the limit for some
    /// time, it does not exceed the limit later to catch up.
    fn wait(&mut self, bytes: u64) {
        self.bytes += bytes;
        let now = Instant::now();
        let time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        self.next = self.next.max(now) + time;
        sleep(self.next.saturating_duration_since(now));
    }
}

/// A reader that does not exceed the speed limit, shows the progress, and stops after a signal.
#[derive(Debug)]
pub(super) struct Paced<'a, R> {
    pub(super) reader: R,
    /// Checks the bytes that were read.
    pub(super) check: Option<&'a mut BackupCheck>,
    pub(super) pace: &'a mut Pace,
    pub(super) bar: &'a ProgressBar,
    pub(super) interrupts: &'a Interrupts,
}

impl<R: Read> Read for Paced<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(PIECE_BYTES);
        let read = self.reader.read(&mut buffer[..len])?;
        if let Some(check) = &mut self.check {
            check.update(&buffer[..read]).map_err(io::Error::other)?;
        }
        self.pace.note(read as u64, self.bar, self.interrupts)?;
        Ok(read)
    }
}

/// A file that is synced from time to time while it is written.
#[derive(Debug)]
pub(super) struct SyncedFile {
    file: File,
    unsynced_bytes: usize,
}

impl SyncedFile {
    pub(super) fn new(file: File) -> SyncedFile {
        SyncedFile { file, unsynced_bytes: 0 }
    }

    /// Makes the file durable.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        // Drop the file's bytes from the kernel's cache. The check of the backup must read them
        // from the disk.
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}

impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced_bytes += written;
        if self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.file.sync_data()?;
            self.unsynced_bytes = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
