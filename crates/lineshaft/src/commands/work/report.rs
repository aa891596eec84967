//! Turns the output of a command into messages to a Gearman client. Standard output is the result.
//! Standard error becomes warnings and progress.

use super::process::CapturedOutput;

/// A result up to this size is sent in one piece. A longer result is sent in pieces of this size,
/// so that it does not have to fit into memory.
const PIECE_BYTES: usize = 16 * 1024 * 1024;

/// A line of standard error becomes several warnings if it is longer than this.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The prefix of a line of standard error that reports progress.
const PROGRESS: &[u8] = b"progress:";

/// A message to the client while the command runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A part of the result.
    Data(Vec<u8>),
    /// A line of standard error, with its line end.
    Warning(Vec<u8>),
    /// The progress: numerator and denominator.
    Progress(u64, u64),
}

/// Output of the command that is not sent yet.
#[derive(Debug, Default)]
pub(super) struct Report {
    result: Vec<u8>,
    /// The beginning of a line of standard error.
    line: Vec<u8>,
}

impl Report {
    /// Adds output of the command, and returns the messages to send now.
    pub(super) fn take_output(&mut self, output: CapturedOutput) -> Vec<Message> {
        let mut messages = Vec::new();
        self.result.extend(output.output);
        while self.result.len() > PIECE_BYTES {
            let rest = self.result.split_off(PIECE_BYTES);
            messages.push(Message::Data(std::mem::replace(&mut self.result, rest)));
        }
        for part in output.errors.split_inclusive(|byte| *byte == b'\n') {
            for part in part.chunks(LINE_BYTES_MAX) {
                self.line.extend_from_slice(part);
                if part.ends_with(b"\n") || self.line.len() >= LINE_BYTES_MAX {
                    messages.extend(self.end_of_line());
                }
            }
        }
        messages
    }

    /// Returns the collected line of standard error as a message. Call it after the command's end,
    /// too: the last line may have no line end.
    pub(super) fn end_of_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return None;
        }
        let progress = read_progress(&line).map(|(done, of)| Message::Progress(done, of));
        Some(progress.unwrap_or(Message::Warning(line)))
    }

    /// Returns the part of the result that is not sent yet. Call it after the command has ended.
    pub(super) fn into_result(self) -> Vec<u8> {
        self.result
    }
}

/// Parses `progress: 3/10` and `progress: 30%`.
fn read_progress(line: &[u8]) -> Option<(u64, u64)> {
    let words = str::from_utf8(line.strip_prefix(PROGRESS)?).ok()?.trim();
    if let Some(percent) = words.strip_suffix('%') {
        return Some((percent.trim().parse().ok()?, 100));
    }
    let (done, of) = words.split_once('/')?;
    Some((done.trim().parse().ok()?, of.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> CapturedOutput {
        CapturedOutput { errors: text.into(), ..CapturedOutput::default() }
    }

    fn warning(text: &str) -> Message {
        Message::Warning(text.into())
    }

    #[test]
    fn lines_are_warnings_unless_they_say_how_far_it_is() {
        let mut report = Report::default();
        assert_eq!(report.take_output(errors("progress: 3/")), []);
        let expected = [Message::Progress(3, 10), warning("odd\n"), warning("\n")];
        assert_eq!(report.take_output(errors("10\nodd\n\nlast")), expected);
        assert_eq!(report.end_of_line(), Some(warning("last")));
        assert_eq!(report.end_of_line(), None);
    }

    #[test]
    fn progress_is_a_part_of_a_whole() {
        for (line, expected) in [
            ("progress: 3/10\n", Some((3, 10))),
            ("progress:3 / 10", Some((3, 10))),
            ("progress: 42 %\r\n", Some((42, 100))),
            ("progress: 18446744073709551615/0", Some((u64::MAX, 0))),
            ("progress: fine\n", None),
            ("progress: 1/2/3\n", None),
            ("progress: -1/2\n", None),
            ("Progress: 1/2\n", None),
            (" progress: 1/2\n", None),
        ] {
            assert_eq!(read_progress(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_long_result_comes_in_pieces() {
        let mut report = Report::default();
        let mut received = 0;
        for _ in 0..=(PIECE_BYTES / 4096 * 2) {
            let output = CapturedOutput { output: vec![b'x'; 4096], ..CapturedOutput::default() };
            for message in report.take_output(output) {
                let Message::Data(data) = message else { panic!("no data") };
                assert_eq!(data.len(), PIECE_BYTES);
                received += 1;
            }
        }
        assert_eq!((received, report.into_result().len()), (2, 4096));
    }

    #[test]
    fn a_long_line_becomes_several_warnings() {
        let mut report = Report::default();
        let text = "x".repeat(LINE_BYTES_MAX + 10) + "\n";
        let lengths: Vec<usize> = report
            .take_output(errors(&text))
            .into_iter()
            .map(|message| match message {
                Message::Warning(line) => line.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(lengths, [LINE_BYTES_MAX, 11]);
    }
}
