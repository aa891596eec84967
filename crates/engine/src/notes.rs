//! Notes: a few values that the owner of the engine keeps beside the jobs, for example the long operations
//! that go on after a restart. The engine does not interpret them.

use std::collections::BTreeMap;

use crate::limits::{NOTES_BYTES_MAX, NOTES_MAX};

/// Why a note was not written. The notes are unchanged.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoteRefused {
    /// There are [`NOTES_MAX`] notes.
    #[error("there are too many notes")]
    TooMany,
    /// All notes together would be longer than [`NOTES_BYTES_MAX`].
    #[error("the notes would be too long")]
    TooLong,
}

/// All notes, by their names.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    all: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// The length of all names and values.
    bytes: usize,
}

impl Notes {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.all.get(name).map(|value| &**value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.all.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether there is room for this note. A note that does not grow always has room, also if an earlier
    /// version had other limits.
    pub(crate) fn check(&self, name: &[u8], value: &[u8]) -> Result<(), NoteRefused> {
        let before = self.get(name).map(<[u8]>::len);
        if before.is_some_and(|before| value.len() <= before) {
            return Ok(());
        }
        if before.is_none() && self.all.len() >= NOTES_MAX {
            return Err(NoteRefused::TooMany);
        }
        let more = before.map_or(name.len() + value.len(), |before| value.len() - before);
        if self.bytes + more > NOTES_BYTES_MAX { Err(NoteRefused::TooLong) } else { Ok(()) }
    }

    /// Sets the value of a note. An empty value removes it. Returns whether anything has changed.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) -> bool {
        if self.get(name).unwrap_or_default() == value {
            return false;
        }
        if let Some(before) = self.all.remove(name) {
            self.bytes -= name.len() + before.len();
        }
        if !value.is_empty() {
            self.bytes += name.len() + value.len();
            self.all.insert(name.into(), value.into());
        }
        true
    }

    /// Panics if the length of all notes is wrong, or if a note is empty.
    pub(crate) fn check_invariants(&self) {
        let bytes: usize = self.all.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert_eq!(self.bytes, bytes, "the length of all notes");
        assert!(self.all.values().all(|value| !value.is_empty()), "an empty note is none");
    }
}
