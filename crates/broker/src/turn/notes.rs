//! Notes: a few values that the server keeps beside the jobs.

use engine::NoteRefused;

use crate::{Answer, Position, Turn};

/// A longer note is refused while the log has no room. A shorter one is written as soon as there is room,
/// like other facts.
const SHORT_NOTE_BYTES: usize = 8 << 10;

/// Why a note was not written. The notes are unchanged.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoteRefusal {
    /// See [`NoteRefused`].
    #[error(transparent)]
    Refused(#[from] NoteRefused),
    /// The log has no room for the note.
    #[error("the log has no room")]
    LogFull,
}

/// # Notes
impl Turn<'_> {
    /// All notes with their values, in the order of their names. They survive a restart, and a change of
    /// the leader.
    pub fn notes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.core.engine.notes()
    }

    /// Sets the value of a note. An empty value removes the note. There are at most
    /// [`NOTES_MAX`](crate::limits::NOTES_MAX) notes, with at most
    /// [`NOTES_BYTES_MAX`](crate::limits::NOTES_BYTES_MAX) bytes in all. The removal of a note, and a value
    /// that is not longer than the one before, are never refused, if the value is short.
    pub fn set_note(&mut self, name: &[u8], value: &[u8]) -> Answer<Result<(), NoteRefusal>> {
        let core = &mut *self.core;
        let is_long = value.len() > SHORT_NOTE_BYTES;
        if is_long && core.ledger.log().is_some_and(|log| !log.admits_put(value.len())) {
            return Answer::new(Err(NoteRefusal::LogFull), Position::NONE);
        }
        let set = core.engine.set_note(name, value, &mut core.effects);
        core.apply_effects();
        Answer::new(set.map_err(NoteRefusal::from), core.ledger.after_facts())
    }
}
