//! Fits text into the terminal. A number is shown completely or not at all. Other text is cut, and
//! a mark shows the cut.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The space between two columns.
const GAP: usize = 1;

/// The mark at the end of a cut text, one column wide.
const MORE: char = '…';

/// If the table is too wide, names are first cut to this width. After that, columns of numbers are
/// dropped.
const NAME_WIDTH_ENOUGH: usize = 16;

/// Names are always cut to this width, even if the terminal has more room.
const NAME_WIDTH_MAX: usize = 48;

/// Width of the name's heading with its sort mark.
const NAME_WIDTH_MIN: usize = 6;

/// Width of `paused…`. If there is less room, pauses are not shown.
const PAUSE_WIDTH_MIN: usize = 7;

/// The widths that the table's parts need.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The longest name.
    pub(super) name: usize,
    /// The width of each column of numbers.
    pub(super) numbers: Vec<usize>,
    /// The longest text about a pause; 0 if no queue is paused.
    pub(super) pause: usize,
}

/// The widths that the table's parts get.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) name: usize,
    /// The columns of numbers that are shown. Columns on the right are dropped first.
    pub(super) numbers: Vec<usize>,
    pub(super) pause: usize,
}

impl Columns {
    /// Distributes `width` over the parts of the table.
    pub(super) fn fit(wanted: &Wanted, width: usize) -> Columns {
        let name = wanted.name.clamp(NAME_WIDTH_MIN, NAME_WIDTH_MAX);
        let name_enough = name.min(NAME_WIDTH_ENOUGH);
        let mut numbers = wanted.numbers.clone();
        let taken = |numbers: &[usize]| {
            // If columns are dropped, the heading has a mark, which also needs room.
            let more = if numbers.len() < wanted.numbers.len() { GAP + 1 } else { 0 };
            numbers.iter().map(|number| GAP + number).sum::<usize>() + more
        };
        while !numbers.is_empty() && name_enough + taken(&numbers) > width {
            numbers.pop();
        }
        let room = width.saturating_sub(taken(&numbers));
        let name = name.min(room);
        let complete = numbers.len() == wanted.numbers.len();
        let rest = if complete { room.saturating_sub(name + GAP) } else { 0 };
        let pause = if rest < PAUSE_WIDTH_MIN { 0 } else { wanted.pause.min(rest) };
        Columns { name, numbers, pause }
    }
}

/// Returns the text. If the text is wider than `width`, cuts it and adds a mark at the end.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(mut room) = width.checked_sub(1) else { return String::new() };
    let fits = |character: &char| {
        let rest = room.checked_sub(character.width().unwrap_or(0));
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    text.chars().take_while(fits).chain([MORE]).collect()
}

/// Joins parts into lines of at most `width`. There is at least one line. A part that is wider than
/// a line is cut.
pub(super) fn fold<'a>(
    parts: impl Iterator<Item = &'a str>,
    separator: &str,
    width: usize,
) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in parts {
        let line = lines.last_mut().expect("it begins with a line");
        let used = line.width();
        if used == 0 {
            *line = cut(part, width);
        } else if used + separator.width() + part.width() <= width {
            line.push_str(separator);
            line.push_str(part);
        } else {
            lines.push(cut(part, width));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(width: usize, name: usize, pause: usize) -> Columns {
        Columns::fit(&Wanted { name, numbers: vec![7, 8, 9], pause }, width)
    }

    #[test]
    fn names_shrink_before_numbers_are_left_out() {
        let all = vec![7, 8, 9];
        assert_eq!(fitted(80, 20, 0), Columns { name: 20, numbers: all.clone(), pause: 0 });
        assert_eq!(fitted(43, 60, 0), Columns { name: 16, numbers: all, pause: 0 });
        assert_eq!(fitted(42, 60, 0), Columns { name: 23, numbers: vec![7, 8], pause: 0 });
        assert_eq!(fitted(9, 60, 0), Columns { name: 7, numbers: vec![], pause: 0 });
        assert_eq!(fitted(0, 60, 0), Columns { name: 0, numbers: vec![], pause: 0 });
    }

    #[test]
    fn a_pause_gets_what_is_left() {
        assert_eq!(fitted(80, 20, 15).pause, 15);
        assert_eq!(fitted(48, 10, 15).pause, 10);
        assert_eq!(fitted(43, 10, 15).pause, 0);
        assert_eq!(fitted(30, 10, 15).pause, 0, "the mark of missing numbers stands there");
    }

    #[test]
    fn text_is_cut_with_a_mark() {
        assert_eq!(cut("mail", 4), "mail");
        assert_eq!(cut("mails", 4), "mai…");
        assert_eq!(cut("mails", 0), "");
        assert_eq!(cut("邮件", 4), "邮件");
        assert_eq!(cut("邮件队列", 6), "邮件…", "half a character is not shown");
        assert_eq!(fold(["ab", "cd", "efghijk"].into_iter(), " ", 5), ["ab cd", "efgh…"]);
        assert_eq!(fold([].into_iter(), " ", 5), [""]);
    }
}
