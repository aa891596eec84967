//! The memory of jobs.

use std::mem::size_of;

use super::dead::Death;
use super::facts::State;
use super::job::{Job, JobExtension, Outcome};
use super::keys;
use crate::bytes::{LIST_ENTRY_BYTES, allocated_bytes};

/// The bytes of a job without its body: the job itself, its entry in a list of the queue, and its
/// entry in the index of numbers.
const JOB_BYTES: u64 = size_of::<Job>() as u64 + LIST_ENTRY_BYTES + 5;
/// The reference count in front of a body.
const BODY_HEAD_BYTES: usize = size_of::<usize>();
/// The bytes of two entries: in the index of keys and in the index of submitted jobs. The estimate
/// is for trees whose nodes are half full.
const SUBMITTED_BYTES: u64 = 64;
/// The bytes of the key of a cold job: an entry in the index of keys.
pub(super) const KEY_BYTES: u64 = 48;
/// The bytes of a time of the wall clock: an entry of a tree whose nodes are not full.
pub(super) const WALL_TIME_BYTES: u64 = 32;
/// The bytes of a group key: an entry of a tree whose nodes are half full, because numbers grow.
pub(super) const GROUP_KEY_BYTES: u64 = 48;
/// The bytes of an entry in the index of dead letters.
const DEAD_BYTES: u64 = 48;
/// The bytes of a unit. A job stores the size of its optional parts in these units.
const UNIT_BYTES: u64 = 32;

/// The bytes of a job whose body has this length.
pub fn job_bytes(body_bytes: usize) -> u64 {
    JOB_BYTES + resident_bytes(body_bytes)
}

/// The number of bytes that a body of this length takes in memory.
pub(super) fn resident_bytes(body_bytes: usize) -> u64 {
    allocated_bytes(body_bytes + BODY_HEAD_BYTES)
}

/// The number of bytes that a job takes now.
pub(super) fn bytes_of(job: &Job) -> u64 {
    let body = job.resident_body().map_or(0, |body| resident_bytes(body.len()));
    JOB_BYTES + body + of_units(job.extra_units)
}

/// The number of bytes that become free if the body of a job leaves the memory. 0 if the body must
/// stay in memory, or is not in memory.
pub(super) fn evictable(job: &Job) -> u64 {
    if !job.is_logged() || keys::needs_body(job) {
        return 0;
    }
    job.resident_body().map_or(0, |body| resident_bytes(body.len()))
}

pub(super) fn of_units(units: u16) -> u64 {
    u64::from(units) * UNIT_BYTES
}

/// The size of the optional parts of a job, in units.
pub(super) fn extra_units(job: &Job) -> u16 {
    let Some(extension) = &job.extension else { return 0 };
    let mut bytes = size_of::<JobExtension>() as u64;
    if let Some(outcome) = &extension.outcome {
        bytes += allocated_bytes(size_of::<Outcome>()) + SUBMITTED_BYTES;
        bytes +=
            allocated_bytes(outcome.unique.heap_len()) + allocated_bytes(outcome.reducer.len());
        if let Some(death) = &outcome.death {
            bytes += allocated_bytes(size_of::<Death>()) + DEAD_BYTES;
            // The index of dead letters counts the names of their origins.
            let texts = [&death.worker, &death.error];
            bytes += texts.into_iter().map(|text| allocated_bytes(text.len())).sum::<u64>();
        }
    }
    if job.state() == State::Leased {
        // The holder's session also has an entry for the job.
        bytes += LIST_ENTRY_BYTES;
    }
    u16::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u16::MAX)
}
