//! A leader whose disk hangs. The data folder is on a file system of its own, which the test freezes.
//! This needs permission to mount, so the test is skipped without it.

use std::fs::{File, create_dir};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use testkit::tools;

use crate::rig::{Rig, drain, put};

const DISK_BYTES: u64 = 1 << 30;
const START_MAX: Duration = Duration::from_secs(20);
/// A leader notices after 10 seconds that its folder hangs.
const YIELD_MAX: Duration = Duration::from_secs(40);

/// A file system in a file.
struct Disk {
    _folder: TempDir,
    mount_point: PathBuf,
}

impl Disk {
    fn new_or_skip() -> Option<Disk> {
        for program in ["mkfs.ext4", "mount", "umount", "fsfreeze"] {
            tools::find_or_skip(program)?;
        }
        if !tools::may_mount_or_skip(true) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (image, mount_point) = (folder.path().join("image"), folder.path().join("disk"));
        File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        create_dir(&mount_point).unwrap();
        run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), &image]);
        run("mount", &["-o".as_ref(), "loop".as_ref(), &image, &mount_point]);
        Some(Disk { _folder: folder, mount_point })
    }

    /// From now on, each write hangs.
    fn freeze(&self) {
        run("fsfreeze", &["--freeze".as_ref(), &self.mount_point]);
    }

    fn unfreeze(&self) {
        run("fsfreeze", &["--unfreeze".as_ref(), &self.mount_point]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // After a failed test, the server still runs, and the disk may still be frozen.
        for arguments in [["fsfreeze", "--unfreeze"], ["umount", "-l"]] {
            let path = tools::find(arguments[0]).unwrap();
            let _ = Command::new(path).arg(arguments[1]).arg(&self.mount_point).output();
        }
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let path = tools::find(program).unwrap();
    let ended = Command::new(path).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_leader_whose_disk_hangs_is_replaced() {
    replace_a_leader(false);
}

/// No message can be written.
#[test]
fn a_leader_is_replaced_although_its_messages_hang_too() {
    replace_a_leader(true);
}

/// The disk of a leader hangs. `with_messages`: it also has the file with the leader's messages.
fn replace_a_leader(with_messages: bool) {
    let Some(mut rig) = Rig::new(2) else { return };
    let Some(disk) = Disk::new_or_skip() else { return };
    let data = disk.mount_point.join("data");
    create_dir(&data).unwrap();
    symlink(&data, rig.nodes[1].folder.path().join("data")).unwrap();
    rig.start(0);
    rig.wait_for_leader(&[0], START_MAX);
    let program = rig.program(1);
    let program = if with_messages { program.in_folder(&disk.mount_point) } else { program };
    rig.start_as(1, &program);
    rig.wait_for_follower(1);
    put(&mut rig.client(0), 0..10);
    rig.kill(0);
    rig.wait_for_leader(&[1], START_MAX);
    rig.start(0);
    rig.wait_for_follower(0);
    let mut client = rig.client(1);
    put(&mut client, 10..20);

    // The stream takes these jobs, and so does the other node.
    disk.freeze();
    put(&mut client, 20..30);
    rig.wait_for_leader(&[0], YIELD_MAX);
    // A timeout of the client is no end.
    let is_reset = |error: &anyhow::Error| {
        error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == ErrorKind::ConnectionReset)
    };
    let ended = client.read_to_end();
    let has_ended = ended.as_ref().map_or_else(is_reset, Vec::is_empty);
    // A thread can hang in a message about something else. Then it ends no connection.
    assert!(has_ended || with_messages, "the old leader's connections have ended: {ended:?}");
    assert_eq!(drain(&mut rig.client(0)), (0..30).collect::<Vec<u32>>());

    // The process ends when the kernel lets it.
    disk.unfreeze();
    let mut old = rig.nodes[1].server.take().unwrap();
    let status = old.wait().unwrap();
    assert_eq!(status.code(), Some(76), "{}", old.stderr());
    assert!(with_messages || old.stderr().contains("the data folder hangs"), "{}", old.stderr());
    drop(old);
    rig.start(1);
    rig.wait_for_follower(1);
}
