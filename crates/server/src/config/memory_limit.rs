//! The memory limit, and the memory that the process can use. The process can use the memory of the
//! machine, or the limit of its control group if that limit is lower.

use std::fs;
use std::path::{Path, PathBuf};

use notation::size;

/// The smallest limit of all memory. With less memory, the server would accept hardly any job.
const BYTES_MIN: u64 = 1 << 20;
/// The smallest limit of bodies or records in memory. With a smaller limit, each take would read
/// the log.
const PART_BYTES_MIN: u64 = 64 << 10;

/// The value of `limits.memory`, `memory.bodies` or `memory.jobs`.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum MemoryLimit {
    /// A percentage of the memory that the process can use. For bodies and jobs: a percentage of
    /// `limits.memory`.
    Percent(u8),
    /// A number of bytes.
    Bytes(u64),
    /// No limit.
    Off,
}

impl MemoryLimit {
    /// Reads `70%`, a size or `off`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_from(BYTES_MIN, text)
    }

    /// Reads the same values, as a limit for a part of the memory.
    pub(crate) fn parse_part(text: &str) -> Result<Self, String> {
        Self::parse_from(PART_BYTES_MIN, text)
    }

    fn parse_from(least: u64, text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let Some(percent) = text.strip_suffix('%') else {
            return match size::parse(text)? {
                bytes if bytes >= least => Ok(Self::Bytes(bytes)),
                _ => Err(format!(
                    "`{text}` is too small; write {} or more, or off",
                    size::format(least)
                )),
            };
        };
        match percent.trim_end().parse() {
            Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
            _ => Err(format!("`{text}` is not a percentage; write 1% to 100%, a size, or off")),
        }
    }

    /// The value as it is written in the configuration.
    pub(crate) fn show(self) -> String {
        match self {
            Self::Percent(percent) => format!("{percent}%"),
            Self::Bytes(bytes) => size::format(bytes),
            Self::Off => "off".to_owned(),
        }
    }

    /// The limit in bytes, on this machine. `None` if there is no limit, or the memory of the
    /// machine is unknown.
    pub fn bytes(self) -> Option<u64> {
        self.bytes_of(available_bytes(Path::new("/")))
    }

    /// The limit in bytes. A percentage is a part of `whole`. `None` if there is no limit, or if it
    /// is a percentage and `whole` is unknown.
    pub(crate) fn bytes_of(self, whole: Option<u64>) -> Option<u64> {
        match self {
            Self::Percent(percent) => Some(whole? / 100 * u64::from(percent)),
            Self::Bytes(bytes) => Some(bytes),
            Self::Off => None,
        }
    }
}

/// The memory that the process can use: the memory of the machine, or the lowest limit of the
/// process's control groups if that limit is lower. `root` is the root folder of the machine.
fn available_bytes(root: &Path) -> Option<u64> {
    let machine = machine_bytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?);
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| group_limits(root, line));
    machine.into_iter().chain(limits).min()
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The limits of a control group and its parents. `line` names the group: `0::PATH`, or
/// `N:CONTROLLERS:PATH` in version 1 of control groups.
fn group_limits(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (mount, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return Vec::new();
    };
    let mount = root.join(mount);
    let group: PathBuf = mount.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|folder| folder.starts_with(&mount));
    // If a group has no limit, its file contains `max`. In version 1, it contains a number larger
    // than the memory of any machine.
    groups
        .filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available_bytes(root.path())
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_smallest_of_machine_and_groups_counts() {
        let version_2 = ("proc/self/cgroup", "0::/slice/unit\n");
        let group = |text| ("sys/fs/cgroup/slice/unit/memory.max", text);
        let around = |text| ("sys/fs/cgroup/slice/memory.max", text);
        assert_eq!(machine(&[MEMINFO]), Some(2 << 20));
        assert_eq!(machine(&[MEMINFO, version_2, group("max\n")]), Some(2 << 20));
        assert_eq!(machine(&[MEMINFO, version_2, group("4096\n")]), Some(4096));
        assert_eq!(machine(&[MEMINFO, version_2, group("max\n"), around("8192\n")]), Some(8192));
        let version_1 = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/x\n");
        let limit = ("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "1048576\n");
        assert_eq!(machine(&[MEMINFO, version_1, limit]), Some(1 << 20));
        assert_eq!(machine(&[]), None);
    }

    #[test]
    fn limits_are_read_and_written() {
        for (text, limit) in [
            ("70%", MemoryLimit::Percent(70)),
            ("4GiB", MemoryLimit::Bytes(4 << 30)),
            ("off", MemoryLimit::Off),
        ] {
            assert_eq!(MemoryLimit::parse(text), Ok(limit));
            assert_eq!(limit.show(), text);
        }
        for wrong in ["0%", "101%", "%", "much", "-1", "0", "1023KiB"] {
            assert!(MemoryLimit::parse(wrong).is_err(), "{wrong}");
        }
        assert!(MemoryLimit::Percent(70).bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
