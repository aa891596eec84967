//! The items after a line that ends with a colon. Each item is one line, and an empty line ends the
//! list.

use broker::{make_room, room_bytes};

use crate::line::without_cr;

/// A list takes at most this many bytes at once. Each byte can end an item, so a long list takes
/// many steps. The server's usual pieces of input have this size, too.
const PIECE_BYTES: usize = 4 << 10;

/// The list keeps the ends of items of at least this many bytes, because a second search for the end of
/// many megabytes takes milliseconds. The ends of all items could take more memory than the items.
const LONG_BYTES: usize = 64 << 10;

/// A list of items, from its first byte to its complete arrival. While it arrives, each byte is
/// searched only once for a line end, even if an item is long.
#[derive(Debug, Default)]
pub(crate) struct ItemList {
    /// Complete items, each with a line feed, and then the beginning of the next item.
    bytes: Vec<u8>,
    /// The offset at which the next received item begins.
    line_start: usize,
    /// The offset of the next item of a complete list.
    next: usize,
    /// The end of this item, if it is known.
    next_end: Option<usize>,
    /// The ends of the items of at least [`LONG_BYTES`], in their order.
    long_ends: Vec<usize>,
}

/// The result of adding bytes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Progress {
    /// The list has used this many bytes, and continues.
    GoesOn(usize),
    /// The list ended after this many bytes.
    Ended(usize),
}

impl ItemList {
    /// Adds up to [`PIECE_BYTES`] bytes, or up to the end of the list. The list has at most
    /// `bytes_max` bytes before the call.
    pub(crate) fn gather(&mut self, stretch: &[u8], bytes_max: usize) -> Progress {
        let stretch = &stretch[..stretch.len().min(PIECE_BYTES)];
        // One more byte, because a carriage return at the end does not count.
        let room_max = bytes_max.saturating_add(PIECE_BYTES + 1);
        let mut used = 0;
        while let Some(line_feed) = memchr::memchr(b'\n', &stretch[used..]) {
            let line_feed = used + line_feed;
            self.add(&stretch[used..=line_feed], room_max);
            used = line_feed + 1;
            let line = without_cr(&self.bytes[self.line_start..self.bytes.len() - 1]);
            let line_end = self.line_start + line.len();
            if line.is_empty() {
                self.bytes.truncate(self.line_start);
                return Progress::Ended(used);
            }
            if line.len() >= LONG_BYTES {
                self.long_ends.push(line_end);
            }
            self.bytes.truncate(line_end);
            self.bytes.push(b'\n');
            self.line_start = self.bytes.len();
        }
        self.add(&stretch[used..], room_max);
        Progress::GoesOn(stretch.len())
    }

    fn add(&mut self, bytes: &[u8], room_max: usize) {
        make_room(&mut self.bytes, bytes.len(), room_max);
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of bytes of the items so far, including line feeds. A carriage return as the last
    /// byte does not count, because a line feed may follow.
    pub(crate) fn bytes(&self) -> usize {
        self.line_start + without_cr(&self.bytes[self.line_start..]).len()
    }

    /// Number of bytes of memory for the items.
    pub(crate) fn buffered_bytes(&self) -> usize {
        room_bytes(&self.bytes) + self.long_ends.capacity() * size_of::<usize>()
    }

    /// The next item of a complete list, until [`Self::pass_item`].
    pub(crate) fn next_item(&mut self) -> Option<&[u8]> {
        let end = self.next_end.or_else(|| self.find_end())?;
        self.next_end = Some(end);
        Some(&self.bytes[self.next..end])
    }

    fn find_end(&self) -> Option<usize> {
        let rest = &self.bytes[self.next..];
        if let Some(length) = memchr::memchr(b'\n', &rest[..rest.len().min(LONG_BYTES)]) {
            return Some(self.next + length);
        }
        let passed = self.long_ends.partition_point(|end| *end < self.next);
        self.long_ends.get(passed).copied()
    }

    /// Goes on to the item after the next one.
    pub(crate) fn pass_item(&mut self) {
        if let Some(end) = self.next_end.take() {
            self.next = end + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of bytes of a list.
    const BYTES_MAX: usize = 15 << 20;

    fn gathered(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<usize>) {
        let mut list = ItemList::default();
        let mut used = 0;
        for stretch in bytes.chunks(piece) {
            if let Progress::Ended(count) = list.gather(stretch, BYTES_MAX) {
                let items = std::iter::from_fn(|| {
                    let item = list.next_item()?.to_vec();
                    list.pass_item();
                    Some(item)
                });
                return (items.collect(), Some(used + count));
            }
            used += stretch.len();
        }
        (Vec::new(), None)
    }

    #[test]
    fn items_are_lines_until_an_empty_one_however_they_are_cut() {
        let bytes = b"one\n  two  \r\n\xff\xfe\r\r\n:\n\r\nget q\n";
        let wanted: Vec<Vec<u8>> =
            vec![b"one".to_vec(), b"  two  ".to_vec(), b"\xff\xfe\r".to_vec(), b":".to_vec()];
        for piece in 1..=bytes.len() {
            assert_eq!(gathered(bytes, piece), (wanted.clone(), Some(bytes.len() - 6)), "{piece}");
        }
        assert_eq!(gathered(b"\nx", 5), (Vec::new(), Some(1)));
        assert_eq!(gathered(b"one\ntwo\n", 3), (Vec::new(), None));
    }

    #[test]
    fn long_items_and_short_ones_are_found_in_their_order() {
        let lengths = [1, LONG_BYTES, 2, LONG_BYTES - 1, LONG_BYTES + 1, 3 * LONG_BYTES, 1];
        let items = Vec::from(lengths.map(|length| vec![b'x'; length]));
        let mut bytes = items.join(&b'\n');
        bytes.extend_from_slice(b"\r\n\n");
        assert_eq!(gathered(&bytes, PIECE_BYTES), (items, Some(bytes.len())));
    }

    #[test]
    fn a_list_takes_its_bytes_in_pieces() {
        let lines = b"x\n".repeat(PIECE_BYTES);
        let mut list = ItemList::default();
        assert_eq!(list.gather(&lines, BYTES_MAX), Progress::GoesOn(PIECE_BYTES));
        assert_eq!(list.bytes(), PIECE_BYTES);
    }

    #[test]
    fn a_large_list_does_not_move_and_its_memory_follows_what_came() {
        for (last_byte, end_bytes) in [(b'\n', 1), (b'x', 2)] {
            let mut piece = vec![b'x'; PIECE_BYTES];
            piece[PIECE_BYTES - 1] = last_byte;
            let (mut list, mut place) = (ItemList::default(), None);
            while list.bytes() < BYTES_MAX {
                assert_eq!(list.gather(&piece, BYTES_MAX), Progress::GoesOn(PIECE_BYTES));
                assert!(list.buffered_bytes() <= 2 * list.bytes());
                if list.bytes() >= 1 << 20 {
                    assert!(list.buffered_bytes() < list.bytes() + PIECE_BYTES);
                    let at = list.bytes.as_ptr();
                    assert_eq!(*place.get_or_insert(at), at, "after {} bytes", list.bytes());
                }
            }
            let at = list.bytes.as_ptr();
            assert_eq!(list.gather(b"\n\n", BYTES_MAX), Progress::Ended(end_bytes));
            assert_eq!(list.bytes.as_ptr(), at, "there is room for the end");
        }
    }
}
