//! What workers said about the jobs that they hold: the end of their warnings. If the job becomes a
//! dead letter, this is its error.
//!
//! The table has an entry for each of the last jobs with a warning. A lease ends without a look at
//! it, so that jobs without warnings cost nothing. An entry of an ended lease stays until newer ones
//! displace it.

use std::collections::BTreeMap;

use crate::ids::{JobId, LeaseId};
use crate::limits::{DEAD_ERROR_BYTES_MAX, WARNED_JOBS_MAX};

/// The bytes of an entry, at most.
const ENTRY_BYTES: u64 = DEAD_ERROR_BYTES_MAX as u64 + 64;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: BTreeMap<JobId, (LeaseId, Vec<u8>)>,
}

impl Warnings {
    /// The memory of the table, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.texts.len() as u64 * ENTRY_BYTES
    }

    /// Notes a warning of the holder of a job. Keeps the last bytes.
    pub(crate) fn note(&mut self, id: JobId, lease: LeaseId, warning: &[u8]) {
        let (of, text) = self.texts.entry(id).or_insert((lease, Vec::new()));
        if *of != lease {
            (*of, *text) = (lease, Vec::new());
        }
        text.extend_from_slice(&warning[warning.len().saturating_sub(DEAD_ERROR_BYTES_MAX)..]);
        text.drain(..text.len().saturating_sub(DEAD_ERROR_BYTES_MAX));
        if self.texts.len() > WARNED_JOBS_MAX {
            self.texts.pop_first();
        }
    }

    /// Removes the warnings of this lease of a job. Empty: there was none.
    pub(crate) fn take(&mut self, id: JobId, lease: LeaseId) -> Vec<u8> {
        let text = self.texts.remove(&id).filter(|(of, _)| *of == lease);
        text.map(|(_, text)| text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_warnings_of_a_lease_is_kept() {
        let mut warnings = Warnings::default();
        let (id, lease) = (JobId(1), LeaseId(7));
        warnings.note(id, lease, b"one ");
        warnings.note(id, lease, b"two");
        assert_eq!(warnings.take(id, lease), b"one two");
        assert!(warnings.take(id, lease).is_empty());
        warnings.note(id, lease, &[b'a'; 1000]);
        warnings.note(id, lease, &[b'b'; 500]);
        let text = warnings.take(id, lease);
        assert_eq!((text.len(), text[523], text[524]), (1024, b'a', b'b'));
        // The warnings of another lease do not count.
        warnings.note(id, lease, b"old");
        warnings.note(id, LeaseId(8), b"new");
        assert_eq!(warnings.take(id, LeaseId(8)), b"new");
        warnings.note(id, lease, b"old");
        assert!(warnings.take(id, LeaseId(8)).is_empty());
        for id in 0..2 * WARNED_JOBS_MAX as u64 {
            warnings.note(JobId(id), lease, b"x");
        }
        assert_eq!(warnings.texts.len(), WARNED_JOBS_MAX);
    }
}
