//! What workers said about the jobs that they hold: the end of their warnings. If the job becomes a
//! dead letter, this is its error. The history of a job also has it.
//!
//! The table has an entry for each of the last leases with a warning. A lease ends without a look at
//! it, so that jobs without warnings cost nothing. An entry of an ended lease stays until newer ones
//! displace it.

use std::collections::BTreeMap;

use crate::ids::LeaseId;
use crate::limits::{DEAD_ERROR_BYTES_MAX, WARNED_JOBS_MAX};

/// The bytes of an entry, at most.
const ENTRY_BYTES: u64 = DEAD_ERROR_BYTES_MAX as u64 + 64;

/// The table, by lease. The numbers of leases rise, so the first entry is the oldest one.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: BTreeMap<LeaseId, Vec<u8>>,
}

impl Warnings {
    /// The memory of the table, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.texts.len() as u64 * ENTRY_BYTES
    }

    /// Notes a warning of the holder of a job. Keeps the last bytes.
    pub(crate) fn note(&mut self, lease: LeaseId, warning: &[u8]) {
        let text = self.texts.entry(lease).or_default();
        text.extend_from_slice(&warning[warning.len().saturating_sub(DEAD_ERROR_BYTES_MAX)..]);
        text.drain(..text.len().saturating_sub(DEAD_ERROR_BYTES_MAX));
        if self.texts.len() > WARNED_JOBS_MAX {
            self.texts.pop_first();
        }
    }

    /// The warnings of this lease. Empty: there was none.
    pub(crate) fn get(&self, lease: LeaseId) -> &[u8] {
        self.texts.get(&lease).map_or(&[], Vec::as_slice)
    }

    /// Removes the warnings of this lease. Empty: there was none.
    pub(crate) fn take(&mut self, lease: LeaseId) -> Vec<u8> {
        self.texts.remove(&lease).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_warnings_of_a_lease_is_kept() {
        let mut warnings = Warnings::default();
        let lease = LeaseId(7);
        warnings.note(lease, b"one ");
        warnings.note(lease, b"two");
        // The warnings of another lease do not count.
        warnings.note(LeaseId(8), b"new");
        assert_eq!(warnings.take(lease), b"one two");
        assert!(warnings.take(lease).is_empty());
        assert_eq!(warnings.take(LeaseId(8)), b"new");
        warnings.note(lease, &[b'a'; 1000]);
        warnings.note(lease, &[b'b'; 500]);
        let text = warnings.take(lease);
        assert_eq!((text.len(), text[523], text[524]), (1024, b'a', b'b'));
    }

    #[test]
    fn the_oldest_leases_are_forgotten_first() {
        let mut warnings = Warnings::default();
        let last = 2 * WARNED_JOBS_MAX as u64;
        for lease in 0..=last {
            warnings.note(LeaseId(lease), b"x");
        }
        assert_eq!(warnings.texts.len(), WARNED_JOBS_MAX);
        assert!(warnings.take(LeaseId(0)).is_empty());
        assert_eq!(warnings.take(LeaseId(last)), b"x");
    }
}
