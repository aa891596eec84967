//! Checks the width of lines in pages and comments.

use super::documents::prose;
use super::{Report, Tree};

/// The limit of columns in a line of prose.
const COLUMNS_MAX: usize = 120;
/// A line may exceed the limit if it has a piece that is longer than this and cannot be wrapped.
/// Such a piece is an address or a span of code.
const PIECE_COLUMNS: usize = 80;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.ending(".md") {
        for (number, line) in prose(text).filter(|(_, line)| !line.starts_with('|')) {
            check_line(path, number, line, report);
        }
    }
    for (path, text) in tree.files() {
        let Some(mark) = comment_mark(path) else { continue };
        let comments = text.lines().enumerate();
        for (index, line) in comments.filter(|(_, line)| line.trim_start().starts_with(mark)) {
            check_line(path, index + 1, line, report);
        }
    }
}

/// The start of a comment in this file, if the language has comments.
fn comment_mark(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("rs") => Some("//"),
        Some("toml" | "sh" | "yml" | "service" | "socket") => Some("#"),
        _ if ["test", "run", "justfile"].contains(&name) => Some("#"),
        _ => None,
    }
}

fn check_line(path: &str, number: usize, line: &str, report: &mut Report) {
    let columns = line.chars().count();
    if columns > COLUMNS_MAX && longest_piece(line) <= PIECE_COLUMNS {
        let what = format!("{columns} columns; wrap prose at {COLUMNS_MAX}");
        report.complain(path, number, what);
    }
}

/// The length of the longest word, or span of code between backticks. These cannot be wrapped.
fn longest_piece(line: &str) -> usize {
    let pieces = line.split('`').enumerate().flat_map(|(index, part)| {
        let is_code = index % 2 == 1;
        let blank = move |letter: char| !is_code && letter == ' ';
        part.split(blank).map(|piece| piece.chars().count()).collect::<Vec<_>>()
    });
    pieces.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        let mut report = Report::default();
        check(&Tree::of(&[(path, text)]), &mut report);
        report.complaints.len()
    }

    #[test]
    fn prose_of_pages_is_wrapped() {
        let long = "word ".repeat(25);
        assert_eq!(complaints("a.md", &format!("{long}\n")), 1);
        assert_eq!(complaints("a.md", &format!("| {long} |\n")), 0);
        assert_eq!(complaints("a.md", &format!("```\n{long}\n```\n")), 0);
        assert_eq!(complaints("a.md", &format!("{}\n", "long ".repeat(24))), 0);
    }

    #[test]
    fn comments_are_wrapped() {
        let long = "word ".repeat(25);
        assert_eq!(complaints("a.rs", &format!("    // {long}\n")), 1);
        assert_eq!(complaints("a.rs", &format!("call(\"{long}\");\n")), 0);
        assert_eq!(complaints("a.toml", &format!("# {long}\n")), 1);
        assert_eq!(complaints("packaging/x.service", &format!("# {long}\n")), 1);
    }

    #[test]
    fn lines_that_cannot_be_wrapped_can_be_longer() {
        let address = format!("See https://example.org/{} for more of it.\n", "a".repeat(100));
        assert_eq!(complaints("a.md", &address), 0);
        assert_eq!(complaints("a.md", &format!("It prints `{}`.\n", "word ".repeat(25))), 0);
    }
}
