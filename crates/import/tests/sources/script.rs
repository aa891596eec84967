//! Checks what must be true for any bytes of a source. Fuzz targets and property tests use this
//! file.

use lineshaft_import::{Backlog, Body, Job, beanstalkd, gearmand, kestrel};

/// Checks that each body can be read, and that all bodies together are not longer than the source.
fn check(backlog: &Backlog, source_bytes: usize) {
    let bytes: u64 = backlog.jobs.iter().map(Job::body_bytes).sum();
    assert!(bytes <= source_bytes as u64, "the bodies are longer than the source");
    for job in &backlog.jobs {
        assert!((job.queue as usize) < backlog.queues.len());
        let body = backlog.body(job).expect("a body that was seen is there");
        assert_eq!(body.len() as u64, job.body_bytes());
    }
}

/// Checks `bytes` as one file of a binlog, and as two files: split after a third of the bytes, and
/// with the last two thirds repeated.
#[allow(dead_code, reason = "each fuzz target uses one of these functions")]
pub(crate) fn check_beanstalkd(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 3);
    for files in [&[bytes][..], &[first, second], &[bytes, second]] {
        let backlog = beanstalkd::parse(files);
        check(&backlog, files.iter().map(|file| file.len()).sum());
        assert!(backlog.jobs.is_sorted_by(|one, next| one.id < next.id));
        for job in &backlog.jobs {
            let Body::At(place) = job.body else { panic!("a body of beanstalkd is in its file") };
            let end = (place.offset + place.bytes) as usize;
            assert_eq!(&files[place.file as usize][end..end + 2], b"\r\n");
        }
        assert_eq!(beanstalkd::parse(files).fingerprint, backlog.fingerprint);
    }
}

#[allow(dead_code, reason = "each fuzz target uses one of these functions")]
pub(crate) fn check_kestrel(bytes: &[u8]) {
    let backlog = kestrel::parse(bytes);
    check(&backlog, bytes.len());
    assert!(backlog.losses.len() <= 1, "nothing is read behind a broken record");
}

#[allow(dead_code, reason = "each fuzz target uses one of these functions")]
pub(crate) fn check_gearmand(bytes: &[u8]) {
    if let Ok(backlog) = gearmand::parse_sqlite(bytes, "file", gearmand::TABLE) {
        check(&backlog, bytes.len());
    }
    if let Ok(backlog) = gearmand::parse_csv(bytes, "file") {
        check(&backlog, bytes.len());
    }
}
