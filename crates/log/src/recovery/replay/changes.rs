//! The newest UPDATE and the newest COUNT of each slot that a start has found so far.
//!
//! A start reads the entries of a segment in their order. So it finds all changes of a job before the
//! newest one, although only the newest one counts. The others must not take memory.

use std::ops::Range;

use crate::types::{Position, Slot};
use crate::write::lazy::SlotMap;

/// Superseded bytes that are not worth a compaction.
const SUPERSEDED_BYTES_MIN: usize = 1 << 20;
/// So many slots are not worth a search for those that have ended.
const SLOTS_MIN: usize = 16 << 10;

/// The kind of a change.
#[derive(Copy, Clone, Debug)]
pub(super) enum ChangeKind {
    Update,
    Count,
}

/// The position of an entry, and the place of its contents in `Changes::contents`.
type Newest = (Position, Range<usize>);

/// The position and the contents of an entry.
pub(super) type Stored<'a> = (Position, &'a [u8]);

/// The newest entry of each kind.
#[derive(Debug, Default)]
struct Change {
    update: Option<Newest>,
    count: Option<Newest>,
}

impl Change {
    fn bytes(&self) -> usize {
        [&self.update, &self.count].into_iter().flatten().map(|(_, place)| place.len()).sum()
    }
}

/// The newest changes of all slots.
#[derive(Debug, Default)]
pub(super) struct Changes {
    slots: SlotMap<Change>,
    /// The contents of the entries in `slots`, and superseded bytes between them.
    contents: Vec<u8>,
    superseded_bytes: usize,
    /// The number of slots that were left by the last search for those that have ended.
    left: usize,
}

impl Changes {
    /// Stores an entry of a slot, if it is the newest one of its kind so far.
    pub(super) fn note(&mut self, slot: Slot, kind: ChangeKind, position: Position, bytes: &[u8]) {
        let change = self.slots.entry(slot).or_default();
        let newest = match kind {
            ChangeKind::Update => &mut change.update,
            ChangeKind::Count => &mut change.count,
        };
        let before = match newest {
            Some((known, _)) if *known >= position => return,
            Some((_, place)) => place.clone(),
            None => 0..0,
        };
        self.superseded_bytes += before.len();
        let start = if bytes.len() <= before.len() {
            self.superseded_bytes -= bytes.len();
            self.contents[before.start..][..bytes.len()].copy_from_slice(bytes);
            before.start
        } else {
            self.contents.extend_from_slice(bytes);
            self.contents.len() - bytes.len()
        };
        *newest = Some((position, start..start + bytes.len()));
        self.compact();
    }

    /// Forgets the slots that have ended. If there can be only few of them, does nothing, because it
    /// goes through all slots.
    pub(super) fn forget_ended(&mut self, has_ended: impl Fn(Slot) -> bool) {
        if self.slots.len() < 2 * self.left + SLOTS_MIN {
            return;
        }
        let superseded_bytes = &mut self.superseded_bytes;
        self.slots.retain(|slot, change| {
            let is_kept = !has_ended(*slot);
            *superseded_bytes += if is_kept { 0 } else { change.bytes() };
            is_kept
        });
        self.left = self.slots.len();
        self.compact();
    }

    /// Removes the superseded bytes, if they are more than the others. So each byte is moved at most
    /// once for each byte that was stored.
    fn compact(&mut self) {
        let kept_bytes = self.contents.len() - self.superseded_bytes;
        if self.superseded_bytes <= kept_bytes + SUPERSEDED_BYTES_MIN {
            return;
        }
        let before = std::mem::replace(&mut self.contents, Vec::with_capacity(kept_bytes));
        for change in self.slots.values_mut() {
            for (_, place) in [&mut change.update, &mut change.count].into_iter().flatten() {
                let start = self.contents.len();
                self.contents.extend_from_slice(&before[place.clone()]);
                *place = start..self.contents.len();
            }
        }
        self.superseded_bytes = 0;
    }

    /// The slots that have changed.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.keys().copied()
    }

    /// The position of a change of a slot that satisfies the condition.
    pub(super) fn position_of(&self, is_wanted: impl Fn(Slot) -> bool) -> Option<Position> {
        let (_, change) = self.slots.iter().find(|(slot, _)| is_wanted(**slot))?;
        change.update.as_ref().or(change.count.as_ref()).map(|(position, _)| *position)
    }

    /// The newest UPDATE and the newest COUNT of a slot: their positions and contents.
    pub(super) fn of(&self, slot: Slot) -> (Option<Stored<'_>>, Option<Stored<'_>>) {
        // Many logs have no changes, and each job of the log asks.
        let change = if self.slots.is_empty() { None } else { self.slots.get(&slot) };
        let Some(Change { update, count }) = change else { return (None, None) };
        (self.read(update.as_ref()), self.read(count.as_ref()))
    }

    fn read(&self, newest: Option<&Newest>) -> Option<Stored<'_>> {
        newest.map(|(position, place)| (*position, &self.contents[place.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ChangeKind; 2] = [ChangeKind::Update, ChangeKind::Count];

    fn slot(index: u32) -> Slot {
        Slot { segment: 1, index }
    }

    #[test]
    fn the_newest_change_of_each_kind_stays_whatever_its_length() {
        let mut changes = Changes::default();
        let contents = |index: u32, turn: u64| {
            let len = (turn * 37 + u64::from(index)) % 90;
            vec![(turn as u8) ^ index as u8; len as usize]
        };
        for turn in 1..2000 {
            for index in 0..20 {
                for kind in KINDS {
                    let bytes = contents(index, turn);
                    changes.note(slot(index), kind, Position(turn), &bytes);
                    changes.note(slot(index), kind, Position(turn - 1), b"older");
                    let (update, count) = changes.of(slot(index));
                    let newest = match kind {
                        ChangeKind::Update => update,
                        ChangeKind::Count => count,
                    };
                    assert_eq!(newest, Some((Position(turn), &bytes[..])));
                }
            }
        }
        for index in 0..20 {
            let bytes = contents(index, 1999);
            let newest = Some((Position(1999), &bytes[..]));
            assert_eq!(changes.of(slot(index)), (newest, newest));
        }
        let bytes = changes.contents.capacity();
        assert!(bytes < 4 * SUPERSEDED_BYTES_MIN, "{bytes}");
    }

    #[test]
    fn slots_that_have_ended_are_forgotten() {
        let mut changes = Changes::default();
        for index in 0..50 * SLOTS_MIN as u32 {
            changes.note(slot(index), ChangeKind::Update, Position(1), &[7; 100]);
            changes.forget_ended(|slot| slot.index > 9);
            assert!(changes.slots.len() <= SLOTS_MIN + 20);
        }
        assert!(changes.contents.capacity() < 8 << 20, "{}", changes.contents.capacity());
        assert_eq!(changes.of(slot(9)), (Some((Position(1), &[7; 100][..])), None));
    }
}
