//! Reads a file from its start to its end, and counts and hashes the bytes.

use std::io::{self, BufRead, BufReader, Read};

/// The size of the read buffer. It is large because each file is read from its start to its end.
const BUFFER_BYTES: usize = 256 << 10;

/// A hash (FNV-1a) of everything in a source. It tells two sources apart, but does not protect from
/// attacks. The log stores the hash of each imported source, so every later version must compute
/// the same hash.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Begins the hash of a source. The hash includes the kind of the source.
    pub(crate) fn new(kind: &str) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        hash.add(kind.as_bytes());
        hash
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// A file that is read once.
#[derive(Debug)]
pub(crate) struct Input<'a, R> {
    reader: BufReader<R>,
    offset: u64,
    hash: &'a mut Fingerprint,
}

impl<'a, R: Read> Input<'a, R> {
    pub(crate) fn new(reader: R, hash: &'a mut Fingerprint) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER_BYTES, reader), offset: 0, hash }
    }

    /// The number of bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads up to `most` bytes, and passes them to `see` in pieces. Returns the number of bytes
    /// that were read. It is less than `most` only if the file ends first.
    fn pieces(&mut self, most: u64, mut see: impl FnMut(&[u8])) -> io::Result<u64> {
        let mut done = 0;
        while done < most {
            let piece = match self.reader.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if piece.is_empty() {
                break;
            }
            let wanted = usize::try_from(most - done).unwrap_or(usize::MAX);
            let piece = &piece[..piece.len().min(wanted)];
            self.hash.add(piece);
            see(piece);
            let len = piece.len();
            self.reader.consume(len);
            done += len as u64;
        }
        self.offset += done;
        Ok(done)
    }

    /// The next `N` bytes. `None`: the file ends first.
    pub(crate) fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let (bytes, read) = self.padded()?;
        Ok((read == N).then_some(bytes))
    }

    /// The next `N` bytes, and the number of bytes that were read. If the file ends first, zeros
    /// fill the array.
    pub(crate) fn padded<const N: usize>(&mut self) -> io::Result<([u8; N], usize)> {
        let mut bytes = [0; N];
        let mut at = 0;
        self.pieces(N as u64, |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })?;
        Ok((bytes, at))
    }

    /// The next `len` bytes. `None`: the file ends first.
    pub(crate) fn bytes(&mut self, len: u64) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = self.pieces(len, |piece| bytes.extend_from_slice(piece))?;
        Ok((read == len).then_some(bytes))
    }

    /// Skips `len` bytes. Returns the last two skipped bytes. `None`: the file ends first.
    pub(crate) fn skip(&mut self, len: u64) -> io::Result<Option<[u8; 2]>> {
        let mut last = [0; 2];
        let read = self.pieces(len, |piece| match piece {
            [.., first, second] => last = [*first, *second],
            [one] => last = [last[1], *one],
            [] => {}
        })?;
        Ok((read == len).then_some(last))
    }

    /// Reads up to the end. Returns the number of bytes, and whether all of them are zero.
    pub(crate) fn rest(&mut self) -> io::Result<(u64, bool)> {
        let mut zero = true;
        let bytes = self.pieces(u64::MAX, |piece| zero &= piece.iter().all(|byte| *byte == 0))?;
        Ok((bytes, zero))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_once_and_are_hashed() {
        let mut hash = Fingerprint::new("");
        let mut input = Input::new(&b"abcdefg\0\0"[..], &mut hash);
        assert_eq!(input.array::<2>().unwrap(), Some(*b"ab"));
        assert_eq!(input.skip(3).unwrap(), Some(*b"de"));
        assert_eq!(input.bytes(2).unwrap(), Some(b"fg".to_vec()));
        assert_eq!(input.offset(), 7);
        assert_eq!(input.rest().unwrap(), (2, true));
        assert_eq!(input.array::<1>().unwrap(), None);
        assert_eq!(input.bytes(u64::MAX).unwrap(), None);
        let mut whole = Fingerprint::new("");
        whole.add(b"abcdefg\0\0");
        assert_eq!(hash.value(), whole.value());
    }

    /// The log stores fingerprints, so they must stay the same in later versions.
    #[test]
    fn a_fingerprint_never_changes() {
        let mut hash = Fingerprint::new("");
        hash.add(b"foobar");
        assert_eq!(hash.value(), 0x8594_4171_f739_67e8);
    }
}
