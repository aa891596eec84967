//! Measures the log while jobs come and go: the size of its files compared with the live bytes, and
//! the bytes written to it compared with the bytes of clients' own entries.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::beanstalk_client::Client;
use crate::compare::lab::Lab;
use crate::compare::lab::server::Server;
use crate::compare::plan::work::{Metric, Mixture, Sample};
use crate::interrupt;

/// The queue of the jobs that come and go.
const PASSING: &str = "passing";
/// The queue of the jobs that stay.
const STAYING: &str = "staying";
/// The number of jobs that are put, then taken and deleted.
const TURN_JOBS: u64 = 50_000;
/// The pause between two looks at the files.
const LOOK: Duration = Duration::from_millis(50);
/// The time after the last request in which reclaim can still write.
const SETTLE: Duration = Duration::from_millis(500);
/// The bound of the goal: live bytes times the first number, plus this many segments.
const BOUND: (f64, f64) = (2.0, 4.0);

/// Puts the jobs that stay. Then measures while other jobs come and go.
pub(crate) fn run(
    lab: &Lab,
    server: &Server,
    folder: &Path,
    mixture: Mixture,
) -> anyhow::Result<Sample> {
    let [bytes, segments] = server.metrics(["lineshaft_log_bytes", "lineshaft_log_segments"])?;
    let segment_bytes = bytes / segments;
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| highest_use(server, folder, segment_bytes, is_over));
        let ratio = written_ratio(lab, server, mixture);
        is_over.store(true, Ordering::Relaxed);
        let disk = watch.join().map_err(|_| anyhow::anyhow!("the look at the files panicked"))?;
        Ok(Sample::from([(Metric::WrittenOfClients, ratio?), (Metric::DiskOfBound, disk?)]))
    })
}

/// The bytes written to the log for each byte of clients' own entries, while jobs come and go.
fn written_ratio(lab: &Lab, server: &Server, mixture: Mixture) -> anyhow::Result<f64> {
    let traffic = lab.sizes.log_traffic;
    match mixture {
        Mixture::InOrder => _ = lab.put_jobs(server, PASSING, lab.sizes.log_jobs)?,
        Mixture::StaticBacklog => _ = lab.put_jobs(server, STAYING, lab.sizes.log_jobs)?,
        Mixture::BuriedJob => bury_one(server)?,
    }
    // At first, the log has nothing to copy. So the first part of the traffic is not measured.
    pass(lab, server, traffic / 4)?;
    let names = ["lineshaft_log_written_bytes_total", "lineshaft_log_client_bytes_total"];
    let [written_before, own_before] = server.metrics(names)?;
    pass(lab, server, traffic - traffic / 4)?;
    interrupt::sleep(SETTLE)?;
    let [written, own] = server.metrics(names)?;
    Ok((written - written_before) / (own - own_before))
}

fn bury_one(server: &Server) -> anyhow::Result<()> {
    let mut client = Client::connect(server.address)?;
    client.enter(STAYING)?;
    client.put(0, 60, b"stays")?;
    client.send(b"reserve\r\n")?;
    let id = client.reserved()?.map_or(0, |job| job.id);
    client.command(&format!("bury {id} 0\r\n"), "BURIED")
}

/// Puts jobs, and takes and deletes as many, in turns.
fn pass(lab: &Lab, server: &Server, jobs: u64) -> anyhow::Result<()> {
    for turn in 0..jobs.div_ceil(TURN_JOBS) {
        let count = TURN_JOBS.min(jobs - turn * TURN_JOBS);
        lab.put_jobs(server, PASSING, count)?;
        lab.take_jobs(server, PASSING, count)?;
    }
    Ok(())
}

/// Looks at the files until the run is over. Returns the highest value of: bytes on disk, divided by
/// the bound.
fn highest_use(
    server: &Server,
    folder: &Path,
    segment_bytes: f64,
    is_over: &AtomicBool,
) -> anyhow::Result<f64> {
    let live = || server.metrics(["lineshaft_log_live_bytes"]);
    let mut highest: f64 = 0.0;
    while !is_over.load(Ordering::Relaxed) {
        let [before] = live()?;
        let bytes = disk_bytes(&folder.join("data"))?;
        let [after] = live()?;
        let bound = BOUND.0 * before.max(after) + BOUND.1 * segment_bytes;
        highest = highest.max(bytes as f64 / bound);
        std::thread::sleep(LOOK);
    }
    Ok(highest)
}

/// The bytes that the files of a folder use on the disk.
fn disk_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            // The server has removed or renamed the file.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other?,
        };
        sum += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_all_levels_use_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("a folder");
        assert_eq!(disk_bytes(folder.path()).expect("readable"), 0);
        // The first file is long, but uses no block.
        let long = fs::File::create(folder.path().join("long")).expect("a file");
        long.set_len(1 << 20).expect("a length");
        fs::write(inner.join("written"), vec![1; 100_000]).expect("written");
        let file = fs::File::open(inner.join("written")).expect("it exists");
        file.sync_all().expect("synced");
        let bytes = disk_bytes(folder.path()).expect("readable");
        assert!((100_000..1 << 20).contains(&bytes), "{bytes}");
    }
}
