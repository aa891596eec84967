//! The items that follow a line which ends with a colon: one a line, until an empty line.

use crate::line::without_cr;

/// A list that is on its way. However long an item is, its bytes are looked at once.
#[derive(Debug, Default)]
pub(crate) struct ItemList {
    /// Items that are complete, each followed by a line feed, and what is here of the next one.
    bytes: Vec<u8>,
    /// Where the next one begins.
    line_start: usize,
    /// Items that are complete.
    count: usize,
}

/// What became of a stretch of bytes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Progress {
    /// All of it belongs to the list, which goes on.
    GoesOn,
    /// The list ended after so many bytes of it.
    Ended(usize),
}

impl ItemList {
    /// Keeps what belongs to the list.
    pub(crate) fn gather(&mut self, stretch: &[u8]) -> Progress {
        let mut used = 0;
        while let Some(line_feed) = memchr::memchr(b'\n', &stretch[used..]) {
            self.bytes.extend_from_slice(&stretch[used..used + line_feed]);
            used += line_feed + 1;
            let line = without_cr(&self.bytes[self.line_start..]);
            if line.is_empty() {
                self.bytes.truncate(self.line_start);
                return Progress::Ended(used);
            }
            self.bytes.truncate(self.line_start + line.len());
            self.bytes.push(b'\n');
            self.line_start = self.bytes.len();
            self.count += 1;
        }
        self.bytes.extend_from_slice(&stretch[used..]);
        Progress::GoesOn
    }

    /// How many items are complete.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the items so far, line feeds included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory held for them.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The items of a list that ended.
    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        let end = self.line_start.saturating_sub(1);
        let items = (self.line_start > 0).then(|| self.bytes[..end].split(|byte| *byte == b'\n'));
        items.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<usize>) {
        let mut list = ItemList::default();
        let mut used = 0;
        for stretch in bytes.chunks(piece) {
            if let Progress::Ended(count) = list.gather(stretch) {
                let items = list.items().map(<[u8]>::to_vec).collect();
                return (items, Some(used + count));
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
    fn complete_items_are_counted() {
        let mut list = ItemList::default();
        list.gather(&b"item\n".repeat(5_000));
        list.gather(b"part");
        assert_eq!(list.count(), 5_000);
        assert_eq!(list.gather(b"\n\nget"), Progress::Ended(2));
        assert_eq!((list.count(), list.items().count()), (5_001, 5_001));
    }
}
