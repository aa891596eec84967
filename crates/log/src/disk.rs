//! The interface of a disk: one folder of files with positional reads and writes.
//!
//! Two disks exist: [`crate::PosixDisk`] and the simulated one behind the feature `fault`. Names
//! are plain file names inside the folder. Nothing here retries: after a failed sync, the content
//! of the disk is unknown.
//!
//! `posix` is the real one, `fault` the simulated one.

#[cfg(feature = "fault")]
pub(crate) mod fault;
pub(crate) mod posix;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Room on the file system.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Space {
    /// Bytes of the whole file system.
    pub capacity: u64,
    /// Bytes that this process can still use.
    pub free: u64,
}

/// One folder that holds one log.
pub trait Disk: Send + Sync + Debug {
    /// The folder, for messages.
    fn folder(&self) -> String;
    /// Locks the folder for this process until the disk is dropped. Returns false if another
    /// process holds it.
    fn lock(&self) -> io::Result<bool>;
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes a new, empty file.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Length in bytes, and how many names the file has.
    fn look_at(&self, name: &str) -> io::Result<(u64, u64)> {
        let file = self.open(name)?;
        Ok((file.size()?, file.links()?))
    }
    /// Renames a file, replacing a file of the new name. Durable after `sync_folder`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. Durable after `sync_folder`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces creations, renames and removals to the disk.
    fn sync_folder(&self) -> io::Result<()>;
    /// Room left.
    fn space(&self) -> io::Result<Space>;
    /// Whether overwriting allocates new blocks (btrfs, zfs). Then zero-filling and recycling have
    /// no advantage.
    fn copies_on_write(&self) -> bool;
    /// Lets others use the disk for a while. A simulated disk needs no rest.
    fn rest(&self, _time: Duration) {}
    /// Random bits, for salts and log ids.
    fn random(&self) -> io::Result<u64>;
}

/// One open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Fills the buffer with bytes from an offset. Reads fewer bytes only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all the bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Allocates the file up to this length on the disk. Unwritten parts read as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file to this length. After a power failure it can still be longer.
    fn shrink(&self, len: u64) -> io::Result<()>;
    /// Forces the data to the disk, with the metadata that reading it needs.
    fn sync_data(&self) -> io::Result<()>;
    /// Forces data and metadata to the disk.
    fn sync_all(&self) -> io::Result<()>;
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// The number of names of this file. A file with two names belongs to a backup, and is never
    /// written.
    fn links(&self) -> io::Result<u64>;
}
