//! Ways to break a promise on purpose, so that a test can see the oracle notice it.

use std::io;
use std::sync::Arc;

use log::{Disk, DiskFile, FaultDisk, Space};

/// A promise that is broken.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Replies leave before what they tell is durable.
    EarlyReplies,
    /// The disk says that data is synced, and it is not.
    LyingSync,
    /// A crash takes the end of each segment, synced or not.
    LostTail,
}

/// A disk whose files are never synced.
#[derive(Debug)]
pub(crate) struct LyingDisk(pub(crate) FaultDisk);

#[derive(Debug)]
struct LyingFile(Arc<dyn DiskFile>);

impl Disk for LyingDisk {
    fn folder(&self) -> String {
        self.0.folder()
    }

    fn lock(&self) -> io::Result<bool> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LyingFile(self.0.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.0.sync_folder()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    fn copies_on_write(&self) -> bool {
        self.0.copies_on_write()
    }

    fn random(&self) -> io::Result<u64> {
        self.0.random()
    }
}

impl DiskFile for LyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn links(&self) -> io::Result<u64> {
        self.0.links()
    }
}
