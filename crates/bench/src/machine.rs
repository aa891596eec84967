//! Describes the machine and the date, for a page of results.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Facts about the machine. Absolute figures have a meaning only together with these facts.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) is_virtual: bool,
    /// The type of the file system that has the servers' data.
    pub(crate) file_system: String,
    /// The day of the measurement, UTC.
    pub(crate) date: String,
}

impl Machine {
    /// Describes this machine. `scratch` is the folder of the servers' data.
    pub(crate) fn here(scratch: &Path) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let scratch = scratch.canonicalize().unwrap_or_else(|_| scratch.to_owned());
        let seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            processor: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            processors: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_gib: field(&meminfo, "MemTotal").and_then(kibibytes).unwrap_or(0.0)
                / 1024.0
                / 1024.0,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            is_virtual: field(&cpuinfo, "flags").is_some_and(|flags| flags.contains("hypervisor")),
            file_system: file_system_of(&mounts, &scratch).unwrap_or("unknown").to_owned(),
            date: date_of(seconds),
        }
    }

    /// True if the folder is in memory. If so, a sync costs nothing, and durable rows have no
    /// meaning.
    pub(crate) fn disk_is_memory(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs")
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kibibytes(value: &str) -> Option<f64> {
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// The type of the file system that contains `path`. Its mount has the longest matching prefix.
fn file_system_of<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (point, kind) = (words.nth(1)?, words.next()?);
            path.starts_with(point).then_some((point.len(), kind))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

/// The UTC date of a time in seconds since 1970, in the form `2026-01-31`.
fn date_of(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_through_leap_years() {
        assert_eq!(date_of(0), "1970-01-01");
        assert_eq!(date_of(951_782_400), "2000-02-29");
        assert_eq!(date_of(1_767_225_599), "2025-12-31");
        assert_eq!(date_of(1_767_225_600), "2026-01-01");
    }

    #[test]
    fn the_innermost_mount_decides_the_file_system() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmpdata xfs rw 0 0\n";
        assert_eq!(file_system_of(mounts, Path::new("/tmp/x")), Some("tmpfs"));
        assert_eq!(file_system_of(mounts, Path::new("/tmpdata/x")), Some("xfs"));
        assert_eq!(file_system_of(mounts, Path::new("/var")), Some("ext4"));
    }
}
