//! Redis lists as queues: `LPUSH` and `RPOP`.

use super::scanner::{LineScanner, number};
use super::script::{Cursor, Script};
use super::{Driver, Progress};

/// One connection that speaks Redis' protocol.
#[derive(Debug)]
pub(crate) struct Redis {
    cursor: Cursor,
    scanner: LineScanner,
}

impl Redis {
    /// Sends a script. Each command is one operation.
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self { cursor, scanner: LineScanner::default() }
    }

    /// A script of `LPUSH list body`.
    pub(crate) fn pushes(list: &str, body_bytes: usize) -> Script {
        let body = vec![b'x'; body_bytes];
        Script::repeated(&command(&[b"LPUSH", list.as_bytes(), &body]))
    }

    /// A script of `RPOP list`.
    pub(crate) fn pops(list: &str) -> Script {
        Script::repeated(&command(&[b"RPOP", list.as_bytes()]))
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

impl Driver for Redis {
    fn begin(&mut self, count: usize, output: &mut Vec<u8>) -> usize {
        self.cursor.append(count, output)
    }

    fn receive(&mut self, input: &[u8], _output: &mut Vec<u8>) -> anyhow::Result<Progress> {
        let mut progress = Progress::default();
        self.scanner.scan(input, |line| {
            match line {
                [b':', ..] => progress.finished += 1,
                b"$-1" => progress.missed += 1,
                [b'$', digits @ ..] => match number(digits) {
                    Some(body_bytes) => {
                        progress.finished += 1;
                        return body_bytes + 2;
                    }
                    None => progress.fail(line),
                },
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
    fn requests_are_arrays_of_counted_words() {
        let cursor = Cursor::cycling(Rc::new(Redis::pushes("q", 3)), 0, 1);
        let mut output = Vec::new();
        assert_eq!(Redis::new(cursor).begin(1, &mut output), 1);
        assert_eq!(output, b"*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$3\r\nxxx\r\n");
    }

    #[test]
    fn replies_are_counted_at_any_split() {
        let input = b":1\r\n$5\r\n:\r\n$1\r\n$-1\r\n-ERR no\r\n";
        for split in 0..input.len() {
            let mut driver = Redis::new(Cursor::cycling(Rc::new(Redis::pops("q")), 0, 1));
            let first = driver.receive(&input[..split], &mut Vec::new()).expect("valid");
            let second = driver.receive(&input[split..], &mut Vec::new()).expect("valid");
            assert_eq!(first.finished + second.finished, 2, "split at {split}");
            assert_eq!(first.missed + second.missed, 1);
            assert_eq!(first.failed + second.failed, 1);
        }
    }
}
