//! What the log asks of a disk: one folder of files with positional reads and writes.
//!
//! Two disks exist: [`crate::PosixDisk`] and the simulated one behind the feature `fault`. Names are plain
//! file names inside the folder. Nothing here retries: after a failed sync nobody knows what is on the disk.
//!
//! `posix` is the real one, `fault` the simulated one.

#[cfg(feature = "fault")]
pub(crate) mod fault;
pub(crate) mod posix;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Room on the file system.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Space {
    /// Bytes of the whole file system.
    pub capacity: u64,
    /// Bytes that this process may still take.
    pub free: u64,
}

/// One folder that holds one log.
pub trait Disk: Send + Sync + Debug {
    /// The folder, for messages.
    fn folder(&self) -> String;
    /// Takes the folder for this process; false: another one holds it. Held until the disk is dropped.
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
    /// Renames, replacing what bears the new name. Durable after `sync_folder`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. Durable after `sync_folder`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces creations, renames and removals to the disk.
    fn sync_folder(&self) -> io::Result<()>;
    /// Room left.
    fn space(&self) -> io::Result<Space>;
    /// Overwriting allocates anew here (btrfs, zfs): zero-filling and recycling would only cost.
    fn copies_on_write(&self) -> bool;
    /// Random bits, for salts and log ids.
    fn random(&self) -> io::Result<u64>;
}

/// One open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads up to the buffer's length at an offset; less only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all the bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Really allocates the file up to this length, which reads as zeros where it was never written.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Forces the data, and what is needed to read it, to the disk.
    fn sync_data(&self) -> io::Result<()>;
    /// Forces data and metadata to the disk.
    fn sync_all(&self) -> io::Result<()>;
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Names that this file has. One with two is held by a backup and never written.
    fn links(&self) -> io::Result<u64>;
}
