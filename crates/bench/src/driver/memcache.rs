//! Kestrel's memcache protocol: `set`, and `get`, which takes and finishes an item at once.

use super::scanner::{LineScanner, last_number};
use super::script::{Cursor, Script};
use super::{Driver, Progress};

/// One connection that speaks the memcache protocol.
#[derive(Debug)]
pub(crate) struct Memcache {
    cursor: Cursor,
    scanner: LineScanner,
    /// True if an item arrived, but not yet the `END` after it.
    inside_block: bool,
}

impl Memcache {
    /// Sends a script. Each command is one operation.
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self { cursor, scanner: LineScanner::default(), inside_block: false }
    }

    /// A script of `set queue 0 0 <bytes>`.
    pub(crate) fn sets(queue: &str, body_bytes: usize) -> Script {
        let mut request = format!("set {queue} 0 0 {body_bytes}\r\n").into_bytes();
        request.resize(request.len() + body_bytes, b'x');
        request.extend_from_slice(b"\r\n");
        Script::repeated(&request)
    }

    /// A script of `get queue`.
    pub(crate) fn gets(queue: &str) -> Script {
        Script::repeated(format!("get {queue}\r\n").as_bytes())
    }
}

impl Driver for Memcache {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        self.cursor.append(count, output)
    }

    fn receive(&mut self, input: &[u8], _output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        let inside_block = &mut self.inside_block;
        self.scanner.scan(input, |line| {
            match line {
                b"STORED" => progress.finished += 1,
                b"END" if std::mem::take(inside_block) => progress.finished += 1,
                b"END" => progress.missed += 1,
                _ if line.starts_with(b"VALUE ") => {
                    if let Some(body_bytes) = last_number(line) {
                        *inside_block = true;
                        return body_bytes + 2;
                    }
                    progress.fail(line);
                }
                _ => progress.fail(line),
            }
            0
        })?;
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn requests_are_as_clients_send_them() {
        let cursor = |script| Cursor::cycling(Rc::new(script), 0, 1);
        let mut output = Vec::new();
        assert_eq!(Memcache::new(cursor(Memcache::sets("q", 3))).begin(1, &mut output), 1);
        assert_eq!(Memcache::new(cursor(Memcache::gets("q"))).begin(2, &mut output), 2);
        assert_eq!(output, b"set q 0 0 3\r\nxxx\r\nget q\r\nget q\r\n");
    }

    #[test]
    fn replies_are_counted_at_any_split() {
        let input = b"STORED\r\nVALUE q 0 5\r\nEND\r\n\r\nEND\r\nEND\r\nNOT_STORED\r\n";
        for split in 0..input.len() {
            let cursor = Cursor::cycling(Rc::new(Memcache::gets("q")), 0, 1);
            let mut driver = Memcache::new(cursor);
            let first = driver.receive(&input[..split], &mut Vec::new()).expect("valid");
            let second = driver.receive(&input[split..], &mut Vec::new()).expect("valid");
            assert_eq!(first.finished + second.finished, 2, "split at {split}");
            assert_eq!(first.missed + second.missed, 1);
            assert_eq!(first.failed + second.failed, 1);
        }
    }
}
