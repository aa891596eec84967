//! The input of `put`: arguments, lines, or one whole input.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::vec::IntoIter;

use anyhow::{Context, Result};

use crate::cli::PutArguments;

const READ_BYTES: usize = 256 * 1024;

/// The limit of a body if the server reports no limit. It is the limit of the protocol.
const BODY_BYTES_MAX: u64 = u32::MAX as u64;

/// One job to put.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// The body.
    Body(&'a [u8]),
    /// The body is larger than the server accepts. All of it was read, but not stored.
    TooBig {
        /// The length of the body.
        bytes: u64,
    },
}

/// The source of jobs. It returns one job after another.
pub(super) struct Input {
    source: Source,
    /// The body that was returned last.
    piece: Vec<u8>,
    body_bytes_max: u64,
    bytes_read: u64,
    /// Size of the input, if it is a regular file.
    bytes: Option<u64>,
    is_typed: bool,
}

enum Source {
    Arguments(IntoIter<OsString>),
    Lines(BufReader<Box<dyn Read>>),
    /// `None` after the input was returned.
    Whole(Option<Box<dyn Read>>),
}

impl Input {
    /// Opens the input that the command line names. `body_bytes_max` is the server's limit, if the
    /// server reports one.
    pub(super) fn open(arguments: &PutArguments, body_bytes_max: Option<u64>) -> Result<Input> {
        let mut input = Input {
            source: Source::Arguments(arguments.bodies.clone().into_iter()),
            piece: Vec::new(),
            body_bytes_max: body_bytes_max.unwrap_or(BODY_BYTES_MAX),
            bytes_read: 0,
            bytes: None,
            is_typed: false,
        };
        if !arguments.bodies.is_empty() {
            return Ok(input);
        }
        let file = match &arguments.file {
            Some(path) => {
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?
            }
            // `io::stdin` has its own buffer, and `would_wait` cannot see whether this buffer has
            // another line. So read standard input as a file.
            None => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        };
        input.is_typed = file.is_terminal();
        input.bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
        let reader: Box<dyn Read> = Box::new(file);
        input.source = if arguments.whole {
            Source::Whole(Some(reader))
        } else {
            Source::Lines(BufReader::with_capacity(READ_BYTES, reader))
        };
        Ok(input)
    }

    /// The word for one job in messages.
    pub(super) fn noun(&self) -> &'static str {
        match self.source {
            Source::Arguments(_) => "argument",
            Source::Lines(_) => "line",
            Source::Whole(_) => "input",
        }
    }

    /// A hint for a person who types the input.
    pub(super) fn input_hint(&self) -> &'static str {
        match self.source {
            Source::Arguments(_) | Source::Lines(_) => "one job per line",
            Source::Whole(_) => "the whole input is one job",
        }
    }

    /// True if a person types the input.
    pub(super) fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// The size of the input, if known.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Number of bytes returned so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// True if the next job must first be read from the input.
    pub(super) fn would_wait(&self) -> bool {
        match &self.source {
            Source::Lines(reader) => memchr::memchr(b'\n', reader.buffer()).is_none(),
            Source::Arguments(_) | Source::Whole(_) => false,
        }
    }

    /// Returns the next job, or `None` at the end.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.piece.clear();
        let max = self.body_bytes_max;
        let bytes = match &mut self.source {
            Source::Arguments(bodies) => {
                let Some(body) = bodies.next() else { return Ok(None) };
                self.piece.extend_from_slice(body.as_bytes());
                body.len() as u64
            }
            Source::Lines(reader) => {
                let Some(line) = read_line(reader, max, &mut self.piece)? else { return Ok(None) };
                self.bytes_read += line.bytes_with_end;
                line.bytes
            }
            Source::Whole(reader) => {
                let Some(mut reader) = reader.take() else { return Ok(None) };
                let kept = reader.by_ref().take(max).read_to_end(&mut self.piece)? as u64;
                kept + io::copy(&mut reader, &mut io::sink())?
            }
        };
        Ok(Some(if bytes > max { Piece::TooBig { bytes } } else { Piece::Body(&self.piece) }))
    }
}

struct Line {
    bytes: u64,
    bytes_with_end: u64,
}

/// Reads a line and its line end. Keeps at most `max` bytes of the line, without the line end. The
/// last line may have no line end.
fn read_line(reader: &mut impl BufRead, max: u64, kept: &mut Vec<u8>) -> io::Result<Option<Line>> {
    let mut bytes: u64 = 0;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok((bytes > 0).then_some(Line { bytes, bytes_with_end: bytes }));
        }
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        bytes += part.len() as u64;
        let room = usize::try_from(max).unwrap_or(usize::MAX).saturating_sub(kept.len());
        kept.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(Line { bytes, bytes_with_end: bytes + 1 }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], buffer_bytes: usize, max: u64) -> Vec<(u64, Vec<u8>)> {
        let mut reader = BufReader::with_capacity(buffer_bytes, text);
        let mut all = Vec::new();
        let mut kept = Vec::new();
        while let Some(line) = read_line(&mut reader, max, &mut kept).unwrap() {
            all.push((line.bytes, std::mem::take(&mut kept)));
        }
        all
    }

    #[test]
    fn lines_are_cut_at_line_ends_whatever_the_buffer() {
        for buffer_bytes in [1, 2, 3, 64] {
            let found = lines(b"one\n\ntwo\r\nlast", buffer_bytes, 100);
            let bodies: Vec<&[u8]> = found.iter().map(|(_, body)| body.as_slice()).collect();
            assert_eq!(bodies, [&b"one"[..], b"", b"two\r", b"last"]);
        }
    }

    #[test]
    fn a_line_over_the_limit_is_counted_and_not_kept() {
        for buffer_bytes in [1, 4, 64] {
            let found = lines(b"12345678\nab\n", buffer_bytes, 3);
            assert_eq!(found, [(8, b"123".to_vec()), (2, b"ab".to_vec())]);
        }
    }
}
