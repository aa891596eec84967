//! Faults of index files while the server runs. The segments still have all jobs, so clients get
//! each job once and in order. If neither file can be read, no client gets a wrong answer about
//! other jobs, and the next start finds the jobs again.

use lineshaft_broker::{Broker, JobId};

use crate::{NOW, take, with_cold_jobs};

const DISK_BYTES: u64 = 64 << 20;

fn index_files(disk: &log::FaultDisk) -> Vec<String> {
    let is_index = |name: &String| name.split_once('.').is_some_and(|(_, end)| end == "idx");
    disk.names().into_iter().filter(is_index).collect()
}

/// Takes and finishes all jobs, and checks their order.
fn check_drain(broker: &Broker, ids: &[JobId]) {
    let session = broker.turn(NOW).open_session(0);
    let taken: Vec<JobId> = std::iter::from_fn(|| take(broker, session)).collect();
    assert_eq!(taken, ids);
    broker.turn(NOW).check_invariants();
}

#[test]
fn no_job_is_lost_if_index_files_are_damaged_shortened_or_removed() {
    type Fault = fn(&log::FaultDisk, &str);
    let faults: [Fault; 5] = [
        |disk, name| disk.flip_bit(name, disk.bytes(name).expect("it exists").len() as u64 * 4),
        |disk, name| disk.flip_bit(name, disk.bytes(name).expect("it exists").len() as u64 * 8 - 1),
        |disk, name| {
            let bytes = disk.bytes(name).expect("it exists");
            disk.set_bytes(name, bytes[..bytes.len() / 2].to_vec());
        },
        |disk, name| disk.set_bytes(name, Vec::new()),
        |disk, name| disk.remove_file(name),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let disk = log::FaultDisk::new(10 + number as u64, DISK_BYTES);
        let (broker, _, ids) = with_cold_jobs(&disk);
        let names = index_files(&disk);
        assert!(names.len() > 1, "{names:?}");
        for name in &names {
            fault(&disk, name);
        }
        // A search for a job reads other parts of the file than a load of the next jobs.
        let session = broker.turn(NOW).open_session(0);
        let sought = ids[ids.len() / 2];
        while !broker.turn(NOW).caller(session).is_job_at_hand(sought) {
            assert!(broker.load_step(NOW));
        }
        assert!(broker.turn(NOW).caller(session).peek(sought).value.is_ok(), "fault {number}");
        check_drain(&broker, &ids);
    }
}

#[test]
fn a_read_that_fails_for_a_moment_loses_no_job() {
    for read in 0..6 {
        let disk = log::FaultDisk::new(20, DISK_BYTES);
        let (broker, _, ids) = with_cold_jobs(&disk);
        disk.fail_read_at(disk.reads() + read);
        check_drain(&broker, &ids);
    }
}
