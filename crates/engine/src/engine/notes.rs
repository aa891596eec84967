//! Notes of the owner: requests that read or change them.

use super::Engine;
use crate::effects::{Effects, Record};
use crate::notes::NoteRefused;

impl Engine {
    /// All notes with their values, in the order of their names.
    pub fn notes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.notes.iter()
    }

    /// The value of the note of this name.
    pub fn note_of(&self, name: &[u8]) -> Option<&[u8]> {
        self.notes.get(name)
    }

    /// Sets the value of a note. An empty value removes the note, and is never refused.
    pub fn set_note(
        &mut self,
        name: &[u8],
        value: &[u8],
        effects: &mut Effects,
    ) -> Result<(), NoteRefused> {
        if !value.is_empty() {
            self.notes.check(name, value)?;
        }
        if self.notes.set(name, value) {
            effects.records.push(Record::Note(name.into()));
        }
        Ok(())
    }

    /// Restores a note from the log, or applies that of the leader, whatever the limits are. An empty value
    /// removes the note.
    pub fn restore_note(&mut self, name: &[u8], value: &[u8]) {
        self.notes.set(name, value);
    }
}
