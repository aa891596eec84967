//! Disks that lose power: file systems whose disk is a file. ext4 has a system call for this kind of
//! test, which drops everything that was not flushed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::tools;

/// Room for some segments of the log. The file is sparse, so it needs disk space only for written
/// bytes.
const DISK_BYTES: u64 = 1 << 30;

/// A Python program that shuts ext4 file systems down at once, without a flush of their journals. It
/// makes the system call `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`. In Rust, this call
/// would be `unsafe`.
const CUT_POWER: &str = "\
import fcntl, os, struct, sys
folders = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
for folder in folders:
    fcntl.ioctl(folder, 0x8004587D, struct.pack('I', 2))";

/// A mounted file system.
#[derive(Debug)]
pub struct PowerDisk {
    image: PathBuf,
    mount_point: PathBuf,
    _folder: TempDir,
}

impl PowerDisk {
    /// Makes a disk and mounts it. If this is not possible, prints a message and returns `None`, and
    /// the caller must skip the test.
    pub fn new_or_skip() -> Result<Option<PowerDisk>> {
        for program in ["mkfs.ext4", "mount", "umount", "python3"] {
            if tools::find_or_skip(program).is_none() {
                return Ok(None);
            }
        }
        if !tools::may_mount_or_skip(true) {
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let disk = PowerDisk {
            image: folder.path().join("image"),
            mount_point: folder.path().join("disk"),
            _folder: folder,
        };
        File::create(&disk.image)?.set_len(DISK_BYTES)?;
        std::fs::create_dir(&disk.mount_point)?;
        let image = disk.image.as_path();
        run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image])?;
        disk.mount()?;
        Ok(Some(disk))
    }

    /// Where the file system is mounted.
    pub fn folder(&self) -> &Path {
        &self.mount_point
    }

    /// Drops all unflushed data. From now on, no data reaches the disk.
    pub fn cut_power(&self) -> Result<()> {
        PowerDisk::cut_power_of(std::slice::from_ref(self))
    }

    /// The same for several disks, at one moment.
    pub fn cut_power_of(disks: &[PowerDisk]) -> Result<()> {
        let mut arguments: Vec<&Path> = vec!["-c".as_ref(), CUT_POWER.as_ref()];
        arguments.extend(disks.iter().map(PowerDisk::folder));
        run("python3", &arguments)
    }

    /// Mounts the file system again, with what is on its disk. No process may use it.
    pub fn mount_again(&self) -> Result<()> {
        run("umount", &[&self.mount_point])?;
        self.mount()
    }

    fn mount(&self) -> Result<()> {
        run("mount", &["-o".as_ref(), "loop".as_ref(), &self.image, &self.mount_point])
    }
}

impl Drop for PowerDisk {
    fn drop(&mut self) {
        // The unmount is lazy, because after a failed test the server can still run for a moment.
        if let Err(error) = run("umount", &["-l".as_ref(), &self.mount_point]) {
            eprintln!("{error:#}");
        }
    }
}

fn run(program: &str, arguments: &[&Path]) -> Result<()> {
    let Some(path) = tools::find(program) else { bail!("{program} is not installed") };
    let ended = Command::new(path).args(arguments).stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("starting {program}"))?;
    let complaint = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{program}: {}: {complaint}", ended.status);
    Ok(())
}
