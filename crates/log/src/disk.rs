//! The interface of a disk: one folder of files, with reads and writes at offsets.
//!
//! There are two disks: [`crate::PosixDisk`] in `posix`, and a simulated disk in `fault`. The
//! simulated disk needs the feature `fault`. File names contain no folder. A disk does not retry a
//! failed call. After a failed sync the disk's content is unknown, and a second sync can succeed
//! although data is lost.

#[cfg(feature = "fault")]
pub(crate) mod fault;
pub(crate) mod posix;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The size of the file system, and its free room.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Space {
    /// The size of the file system in bytes.
    pub capacity: u64,
    /// The bytes that this process can still use.
    pub free: u64,
}

/// One folder that contains one log.
pub trait Disk: Send + Sync + Debug {
    /// The folder's path, for messages.
    fn folder(&self) -> String;
    /// Locks the folder for this process until the disk is dropped. Returns false if another
    /// process holds the lock.
    fn lock(&self) -> io::Result<bool>;
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file. Fails if the name exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// The file's length in bytes, and the number of its names.
    fn look_at(&self, name: &str) -> io::Result<(u64, u64)> {
        let file = self.open(name)?;
        Ok((file.size()?, file.links()?))
    }
    /// Renames a file. If the new name exists, its file is replaced. The rename is durable after
    /// `sync_folder`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. The removal is durable after `sync_folder`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces creations, renames and removals to the disk.
    fn sync_folder(&self) -> io::Result<()>;
    /// The size of the file system, and its free room.
    fn space(&self) -> io::Result<Space>;
    /// Whether the file system allocates new blocks for overwritten data, like btrfs and zfs. On
    /// such a file system, later writes do not become faster if zeros are written ahead, or if a
    /// file is reused.
    fn copies_on_write(&self) -> bool;
    /// Waits, so that other threads can use the disk. The simulated disk does not wait.
    fn rest(&self, _time: Duration) {}
    /// Random bits, for salts and log ids.
    fn random(&self) -> io::Result<u64>;
}

/// One open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads bytes from an offset into the buffer, and returns their number. The number is less
    /// than the buffer's size only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Allocates the file up to this length on the disk. Unwritten parts read as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file to this length. After a power failure, the file can have its old length.
    fn shrink(&self, len: u64) -> io::Result<()>;
    /// Forces the data to the disk, and the metadata that a read needs.
    fn sync_data(&self) -> io::Result<()>;
    /// Forces data and metadata to the disk.
    fn sync_all(&self) -> io::Result<()>;
    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// The number of names of this file. A file with two names is part of a backup, so the log
    /// never writes to it.
    fn links(&self) -> io::Result<u64>;
}
