//! Cursors as text. A cursor works only with the list that it belongs to, and only until the server
//! restarts. A client cannot make or change one, because a wrong cursor could show other jobs.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::ListCursor;

use crate::problem::{Problem, ProblemKind};

/// Signs cursors with a key that the system chose at random.
#[derive(Clone, Debug, Default)]
pub(crate) struct CursorKey(RandomState);

impl CursorKey {
    /// The text of a cursor. `list` names the list that it belongs to.
    pub(crate) fn written(&self, list: &[u8], place: &str) -> String {
        self.written_bytes(list, place.as_bytes())
    }

    /// Like `written`, for a place that does not have to be text.
    pub(crate) fn written_bytes(&self, list: &[u8], place: &[u8]) -> String {
        let mut bytes = self.sum(list, place).to_vec();
        bytes.extend_from_slice(place);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place that a cursor of this list names.
    pub(crate) fn read(&self, list: &[u8], text: &str) -> Result<String, Problem> {
        String::from_utf8(self.read_bytes(list, text)?).map_err(|_| bad_cursor())
    }

    /// Like `read`, for a place of `written_bytes`.
    pub(crate) fn read_bytes(&self, list: &[u8], text: &str) -> Result<Vec<u8>, Problem> {
        let place = || {
            let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
            let (sum, place) = bytes.split_first_chunk()?;
            (*sum == self.sum(list, place)).then(|| place.to_vec())
        };
        place().ok_or_else(bad_cursor)
    }

    fn sum(&self, list: &[u8], place: &[u8]) -> [u8; 8] {
        self.0.hash_one((list, place)).to_le_bytes()
    }
}

fn bad_cursor() -> Problem {
    let why = "the cursor belongs to another list, or the server was restarted; begin again without a \
               cursor";
    Problem::new(ProblemKind::BadCursor, why).of_parameter("cursor")
}

/// The text of a place in a list of jobs: the last place, the place of the next block, the open blocks.
pub(crate) fn written_place(cursor: &ListCursor) -> String {
    let (after, from) = (cursor.after.unwrap_or_default(), cursor.blocks_from);
    let flag = u8::from(cursor.after.is_some());
    let mut text = format!("{flag} {:x} {:x} {:x} {:x}", after.0, after.1, from.0, from.1);
    for (segment, number) in &cursor.open {
        // Writing to a text does not fail.
        let _ = write!(text, " {segment:x} {number:x}");
    }
    text
}

/// The place with this text.
pub(crate) fn parse_place(text: &str) -> Option<ListCursor> {
    let mut numbers = text.split(' ').map(|part| u64::from_str_radix(part, 16).ok());
    let mut next = || numbers.next().flatten();
    let (flag, after, blocks_from) = (next()?, (next()?, next()?), (next()?, next()?));
    let mut open = Vec::new();
    while let Some(segment) = next() {
        open.push((u32::try_from(segment).ok()?, u32::try_from(next()?).ok()?));
    }
    Some(ListCursor { after: (flag == 1).then_some(after), open, blocks_from })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_works_only_as_it_was_made() {
        let key = CursorKey::default();
        let text = key.written(b"jobs of a", "1 2 é");
        assert_eq!(key.read(b"jobs of a", &text).unwrap(), "1 2 é");
        assert!(key.read(b"jobs of b", &text).is_err());
        assert!(CursorKey::default().read(b"jobs of a", &text).is_err());
        let mut changed = URL_SAFE_NO_PAD.decode(&text).unwrap();
        changed[8] ^= 1;
        assert!(key.read(b"jobs of a", &URL_SAFE_NO_PAD.encode(changed)).is_err());
        let name = key.written_bytes(b"queues", &[0xff; 9]);
        assert_eq!(key.read_bytes(b"queues", &name).unwrap(), [0xff; 9]);
        assert!(key.read(b"queues", &name).is_err(), "it is no text");
        for garbage in ["", "AAAA", "%", "éééé"] {
            assert!(key.read(b"jobs of a", garbage).is_err());
        }
    }
}
