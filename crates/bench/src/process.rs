//! Reads the kernel's numbers about a process: processor time and resident memory. Also binds the
//! generator to a processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processor time that all threads of a process have used, from the scheduler's statistics.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("cannot look at process {pid}"))?;
    let mut nanoseconds = 0;
    for task in tasks {
        // A thread can end after it was listed.
        if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
            nanoseconds += first_number(&text).unwrap_or(0);
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The processor time of the calling thread.
pub(crate) fn own_cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(first_number(&text).unwrap_or(0))
}

/// How long a thread has waited for a processor, from its `schedstat` file. Zero if it has ended.
fn wait_time(schedstat: &Path) -> Duration {
    let text = fs::read_to_string(schedstat).unwrap_or_default();
    let waited = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

/// The threads on which a request to a server depends: the caller's thread, and the server's I/O
/// threads and committers. In other servers, the main thread serves the requests.
#[derive(Debug)]
pub(crate) struct RequestThreads(Vec<PathBuf>);

impl RequestThreads {
    /// These threads of the process.
    pub(crate) fn of(pid: u32) -> anyhow::Result<RequestThreads> {
        let mut files = vec![PathBuf::from("/proc/thread-self/schedstat")];
        let tasks = format!("/proc/{pid}/task");
        let main = Path::new(&tasks).join(pid.to_string());
        let mut has_io_threads = false;
        for task in fs::read_dir(&tasks).with_context(|| format!("cannot look at {tasks}"))? {
            let task = task?.path();
            // A thread can end after it was listed.
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            let is_io_thread = name.starts_with("io-");
            has_io_threads |= is_io_thread;
            if is_io_thread || name.starts_with("log-commit") {
                files.push(task.join("schedstat"));
            }
        }
        if !has_io_threads {
            files.push(main.join("schedstat"));
        }
        Ok(RequestThreads(files))
    }

    /// How long these threads have been ready to run, and have waited for a processor.
    pub(crate) fn wait_time(&self) -> Duration {
        self.0.iter().map(|file| wait_time(file)).sum()
    }
}

/// The resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    resident_in(&text).with_context(|| format!("{path} has no Rss line"))
}

fn resident_in(smaps: &str) -> Option<u64> {
    let line = smaps.lines().find(|line| line.starts_with("Rss:"))?;
    let kibibytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The processors that this process may use, in ascending order.
pub(crate) fn allowed_cpus() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread to one processor. Threads and processes that it starts later are bound,
/// too.
pub(crate) fn pin(cpu: usize) -> anyhow::Result<()> {
    pin_to(&[cpu])
}

/// Like `pin`, for several processors.
pub(crate) fn pin_to(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        anyhow::ensure!(cpu < CpuSet::MAX_CPU, "there is no processor {cpu}");
        set.set(cpu);
    }
    sched_setaffinity(None, &set).with_context(|| format!("cannot use processors {cpus:?}"))
}

/// The time that a processor has been busy with any work since the machine started. The kernel
/// counts it in ticks, usually of 10 ms.
pub(crate) fn processor_busy(cpu: usize) -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let ticks =
        busy_ticks(&text, cpu).with_context(|| format!("/proc/stat has no processor {cpu}"))?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// The sum of user, nice, system, interrupt and stolen time, without idle time and waits for a
/// disk.
fn busy_ticks(stat: &str, cpu: usize) -> Option<u64> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
    let ticks: Vec<u64> =
        line.split(' ').skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    (ticks.len() == 8).then(|| ticks.iter().sum::<u64>() - ticks[3] - ticks[4])
}

/// Raises the limit of open files to the maximum that the system allows, and returns the new limit.
/// Child processes inherit it.
pub(crate) fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit remains, and the returned value shows it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let smaps = "5581-7ffe ---p 00000000 00:00 0 [rollup]\nRss:    1234 kB\nPss:  1 kB\n";
        assert_eq!(resident_in(smaps), Some(1234 * 1024));
        assert_eq!(resident_in(""), None);
    }

    #[test]
    fn busy_time_leaves_out_idling() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 1000 500 4 5 6 0 0\ncpu10 7 7 7 7 7 7 7 7 0 0\n";
        assert_eq!(busy_ticks(stat, 1), Some(21));
        assert_eq!(busy_ticks(stat, 0), None);
        assert!(
            processor_busy(allowed_cpus().expect("readable")[0]).expect("readable")
                > Duration::ZERO
        );
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).expect("own memory is readable") > 100_000);
        assert!(cpu_time(pid).expect("own time is readable") >= own_cpu_time() / 2);
        assert!(!allowed_cpus().expect("own affinity is readable").is_empty());
    }
}
