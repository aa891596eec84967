//! The items after a line that ends with a colon. Each item is one line, and an empty line ends the
//! list.

use crate::line::without_cr;

/// A list of items, from its first byte to its complete arrival. Each byte is searched only once
/// for a line end, even if an item is long.
#[derive(Debug, Default)]
pub(crate) struct ItemList {
    /// Complete items, each with a line feed, and then the beginning of the next item.
    bytes: Vec<u8>,
    /// The offset at which the next received item begins.
    line_start: usize,
    /// The offset of the next item of a complete list.
    next: usize,
    /// The end of this item, if a search has found it.
    next_end: Option<usize>,
}

/// The result of adding bytes.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(crate) enum Progress {
    /// All bytes belong to the list, which continues.
    GoesOn,
    /// The list ended after this many bytes.
    Ended(usize),
}

impl ItemList {
    /// Adds bytes, up to the end of the list.
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
        }
        self.bytes.extend_from_slice(&stretch[used..]);
        Progress::GoesOn
    }

    /// Number of bytes of the items so far, including line feeds. A carriage return as the last
    /// byte does not count, because a line feed may follow.
    pub(crate) fn bytes(&self) -> usize {
        self.line_start + without_cr(&self.bytes[self.line_start..]).len()
    }

    /// Number of bytes of memory for the items.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The next item of a complete list, until [`Self::pass_item`].
    pub(crate) fn next_item(&mut self) -> Option<&[u8]> {
        let end = match self.next_end {
            Some(end) => end,
            None => self.next + memchr::memchr(b'\n', &self.bytes[self.next..])?,
        };
        self.next_end = Some(end);
        Some(&self.bytes[self.next..end])
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

    fn gathered(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<usize>) {
        let mut list = ItemList::default();
        let mut used = 0;
        for stretch in bytes.chunks(piece) {
            if let Progress::Ended(count) = list.gather(stretch) {
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
}
