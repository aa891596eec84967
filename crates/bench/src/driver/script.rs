//! Scripts: requests that are encoded before the run, so that a send only copies bytes.

use std::rc::Rc;

/// How often a script contains the same small request.
pub(crate) const COPIES: usize = 256;
/// A script contains a large request fewer times: about this many bytes.
const REPEATED_BYTES: usize = 256 << 10;

/// A sequence of requests. All connections of a run share it. Each unit is one operation.
#[derive(Debug, Default)]
pub(crate) struct Script {
    bytes: Vec<u8>,
    /// The offset of each unit's end in `bytes`.
    ends: Vec<usize>,
}

impl Script {
    /// The same unit many times, so that a cursor can append many small units with one copy
    /// operation.
    pub(crate) fn repeated(unit: &[u8]) -> Self {
        let mut script = Self::default();
        for _ in 0..(REPEATED_BYTES / unit.len()).clamp(1, COPIES) {
            script.push(unit);
        }
        script
    }

    /// Appends a unit.
    pub(crate) fn push(&mut self, unit: &[u8]) {
        self.bytes.extend_from_slice(unit);
        self.ends.push(self.bytes.len());
    }

    /// The number of units.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn start_of(&self, unit: usize) -> usize {
        if unit == 0 { 0 } else { self.ends[unit - 1] }
    }
}

/// The position of a connection in a script.
#[derive(Debug)]
pub(crate) struct Cursor {
    script: Rc<Script>,
    next: usize,
    /// The index after the last unit of this cursor. A repeating cursor then continues at the first
    /// unit of the script.
    end: usize,
    repeats: bool,
}

impl Cursor {
    /// Repeats the whole script forever. Connection `index` begins after the fraction `index /
    /// connections` of the script.
    pub(crate) fn cycling(script: Rc<Script>, index: usize, connections: usize) -> Self {
        assert!(script.len() > 0, "a cycling script has a unit");
        let next = index * script.len() / connections;
        let end = script.len();
        Self { script, next, end, repeats: true }
    }

    /// Sends once the part of the script that belongs to connection `index` of `connections`.
    pub(crate) fn once(script: Rc<Script>, index: usize, connections: usize) -> Self {
        let next = index * script.len() / connections;
        let end = (index + 1) * script.len() / connections;
        Self { script, next, end, repeats: false }
    }

    /// Appends up to `count` units to `output`. Returns their number.
    pub(crate) fn append(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        let mut appended = 0;
        while appended < count {
            if self.next == self.end {
                if !self.repeats {
                    break;
                }
                self.next = 0;
            }
            let units = (count - appended).min(self.end - self.next);
            let from = self.script.start_of(self.next);
            let to = self.script.start_of(self.next + units);
            output.extend_from_slice(&self.script.bytes[from..to]);
            self.next += units;
            appended += units;
        }
        appended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Rc<Script> {
        let mut script = Script::default();
        for unit in ["a", "bb", "ccc", "d", "e"] {
            script.push(unit.as_bytes());
        }
        Rc::new(script)
    }

    #[test]
    fn large_units_are_repeated_less() {
        assert_eq!(Script::repeated(&[b'x'; 100]).len(), COPIES);
        assert_eq!(Script::repeated(&vec![b'x'; 64 << 10]).len(), 4);
        assert_eq!(Script::repeated(&vec![b'x'; 1 << 20]).len(), 1);
    }

    #[test]
    fn a_cycling_cursor_wraps_and_starts_at_its_share() {
        let mut output = Vec::new();
        let mut cursor = Cursor::cycling(letters(), 1, 2);
        assert_eq!(cursor.append(7, &mut output), 7);
        assert_eq!(output, b"cccdeabbcccd".to_vec()[..].to_vec());
    }

    #[test]
    fn cursors_that_go_once_share_the_script_without_overlap() {
        let mut output = Vec::new();
        for index in 0..3 {
            let mut cursor = Cursor::once(letters(), index, 3);
            while cursor.append(2, &mut output) > 0 {}
        }
        assert_eq!(output, b"abbcccde");
    }
}
