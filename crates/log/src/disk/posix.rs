//! The real disk: a folder of the file system, without unsafe code.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FallocateFlags, FlockOperation};

use crate::disk::{Disk, DiskFile, Space};

/// `f_type` of the file systems that copy on write.
const BTRFS_MAGIC: u64 = 0x9123_683E;
const ZFS_MAGIC: u64 = 0x2FC1_2FC1;

/// With these modes, only the server's user can read the files.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// A folder of the file system.
#[derive(Debug)]
pub struct PosixDisk {
    folder: PathBuf,
    /// The open folder, for syncs of the folder itself.
    handle: File,
    /// The locked file. When the process ends for any reason, the kernel releases the lock.
    lock: Mutex<Option<File>>,
    copies_on_write: bool,
    /// True if the disk must not change the folder. If so, the disk creates no lock file.
    read_only: bool,
}

impl PosixDisk {
    /// Uses the folder. If necessary, creates the folder and its parents. Only the process's user
    /// can read the new folder.
    pub fn new(folder: impl AsRef<Path>) -> io::Result<PosixDisk> {
        let folder = folder.as_ref().to_path_buf();
        create_folders(&folder, FOLDER_MODE)?;
        Self::existing(folder, false)
    }

    /// Uses an existing folder without changing anything in it.
    pub fn read_only(folder: impl AsRef<Path>) -> io::Result<PosixDisk> {
        Self::existing(folder.as_ref().to_path_buf(), true)
    }

    fn existing(folder: PathBuf, read_only: bool) -> io::Result<PosixDisk> {
        let handle = File::open(&folder)?;
        let kind = rustix::fs::fstatfs(&handle)?.f_type as u64;
        let copies_on_write = kind == BTRFS_MAGIC || kind == ZFS_MAGIC;
        Ok(PosixDisk { folder, handle, lock: Mutex::new(None), copies_on_write, read_only })
    }
}

/// Creates a folder and its parents. Syncs the parent of each new folder, so that the folder
/// survives a power failure.
fn create_folders(folder: &Path, mode: u32) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    // The parent is not private, because other users may have folders in it.
    create_folders(parent, 0o777)?;
    match DirBuilder::new().mode(mode).create(folder) {
        Ok(()) => File::open(parent)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

impl Disk for PosixDisk {
    fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    fn lock(&self) -> io::Result<bool> {
        let mut options = OpenOptions::new();
        options.read(true);
        if !self.read_only {
            options.write(true).create(true).truncate(false).mode(FILE_MODE);
        }
        let file = match options.open(self.folder.join("lock")) {
            Ok(file) => file,
            // Without a lock file, no process has opened the log in this folder. So the folder is a
            // copy of a log.
            Err(error) if self.read_only && error.kind() == io::ErrorKind::NotFound => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
                Ok(true)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            // The log uses only names that are valid UTF-8, so ignore all others.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(FILE_MODE);
        Ok(Arc::new(PosixFile(options.open(self.folder.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file =
            OpenOptions::new().read(true).write(!self.read_only).open(self.folder.join(name))?;
        Ok(Arc::new(PosixFile(file)))
    }

    fn look_at(&self, name: &str) -> io::Result<(u64, u64)> {
        // This call works even if the process has reached its limit of open files.
        let metadata = std::fs::metadata(self.folder.join(name))?;
        Ok((metadata.len(), metadata.nlink()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn space(&self) -> io::Result<Space> {
        let stat = rustix::fs::fstatvfs(&self.handle)?;
        Ok(Space {
            capacity: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    fn copies_on_write(&self) -> bool {
        self.copies_on_write
    }

    fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// A file of the file system.
#[derive(Debug)]
struct PosixFile(File);

impl DiskFile for PosixFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            // The file system cannot preallocate. Written zeros also allocate the file.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let zeros = vec![0; 1 << 20];
                let mut offset = self.size()?;
                while offset < len {
                    let n = zeros.len().min((len - offset) as usize);
                    self.0.write_all_at(&zeros[..n], offset)?;
                    offset += n as u64;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn shrink(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn links(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.nlink())
    }
}
