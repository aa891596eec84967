//! A table that fits the terminal. If it is too wide, the least important columns are left out. A
//! number is shown completely or not at all; other text is cut.

use notation::plain::one_line;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::fit::pad;

/// The space between two columns.
const GAP: usize = 2;
/// Room for 999,999. So the columns rarely move when a number grows.
const NUMBER_WIDTH_MIN: usize = 7;
/// A text that can be cut has at least this width.
const TEXT_WIDTH_MIN: usize = 8;

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    title: String,
    kind: Kind,
    /// Columns with less importance are left out first.
    importance: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Aligned to the right, never cut.
    Number,
    /// Never cut.
    Word,
    /// Cut at the width that is left.
    Text,
}

impl Column {
    /// A column of numbers.
    pub(super) fn number(title: &str, importance: u8) -> Column {
        Column { title: title.to_owned(), kind: Kind::Number, importance }
    }

    /// A column of short words.
    pub(super) fn word(title: &str, importance: u8) -> Column {
        Column { title: title.to_owned(), kind: Kind::Word, importance }
    }

    /// A column of text that can be cut.
    pub(super) fn text(title: &str, importance: u8) -> Column {
        Column { title: title.to_owned(), kind: Kind::Text, importance }
    }
}

/// A cell: its text, and the style of the text.
pub(super) type Cell = (String, Style);

/// A cell without a style.
pub(super) fn cell(text: impl Into<String>) -> Cell {
    (text.into(), Style::new())
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// An empty table.
    pub(super) fn new(columns: Vec<Column>) -> Grid {
        Grid { columns, rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells.into_iter().map(|(text, style)| (one_line(&text), style)).collect());
    }

    /// The head and the rows, each `width` wide.
    pub(super) fn lines(&self, width: usize, head: Style) -> (Line<'static>, Vec<Line<'static>>) {
        let widths = self.widths(width);
        let line = |cells: &mut dyn Iterator<Item = Cell>| {
            let mut spans: Vec<Span<'static>> = Vec::new();
            for (place, (text, style)) in cells.enumerate() {
                let Some(width) = widths[place] else { continue };
                if !spans.is_empty() {
                    spans.push(Span::raw(" ".repeat(GAP)));
                }
                let is_right = self.columns[place].kind == Kind::Number;
                spans.push(Span::styled(pad(&text, width, is_right), style));
            }
            Line::from(spans)
        };
        let titles = self.columns.iter().map(|column| (column.title.clone(), head));
        let rows = self.rows.iter().map(|row| line(&mut row.iter().cloned())).collect();
        (line(&mut titles.into_iter()), rows)
    }

    /// The width of each column. `None`: the column is left out.
    fn widths(&self, width: usize) -> Vec<Option<usize>> {
        let wanted: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(place, column)| self.wanted(place, column))
            .collect();
        let least = |place: usize| match self.columns[place].kind {
            Kind::Text => wanted[place].min(TEXT_WIDTH_MIN),
            Kind::Number | Kind::Word => wanted[place],
        };
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |shown: &[usize]| {
            shown.iter().map(|place| least(*place) + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while shown.len() > 1 && needed(&shown) > width {
            // Of two columns with the same importance, the right one goes first.
            let importance = |index: usize| self.columns[shown[index]].importance;
            let least = (0..shown.len()).rev().min_by_key(|index| importance(*index));
            shown.remove(least.expect("the list is not empty"));
        }
        let mut widths = vec![None; self.columns.len()];
        let mut rest = width.saturating_sub(needed(&shown));
        for place in &shown {
            let extra = (wanted[*place] - least(*place)).min(rest);
            rest -= extra;
            widths[*place] = Some((least(*place) + extra).min(width));
        }
        widths
    }

    fn wanted(&self, place: usize, column: &Column) -> usize {
        let cells = self.rows.iter().map(|row| row[place].0.width());
        let widest = cells.chain([column.title.width()]).max().unwrap_or(0);
        if column.kind == Kind::Number { widest.max(NUMBER_WIDTH_MIN) } else { widest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(vec![
            Column::text("QUEUE", 9),
            Column::number("READY", 8),
            Column::number("LEASED", 3),
            Column::text("", 5),
        ]);
        grid.row(vec![cell("a queue with a long name"), cell("1"), cell("22"), cell("paused\n")]);
        grid.row(vec![cell("邮件队列邮件队列"), cell("12,345,678"), cell("3"), cell("")]);
        grid
    }

    fn shown(width: usize) -> Vec<String> {
        let (head, rows) = grid().lines(width, Style::new());
        [head].into_iter().chain(rows).map(|line| line.to_string()).collect()
    }

    #[test]
    fn names_shrink_before_columns_are_left_out() {
        assert_eq!(shown(60)[2], "邮件队列邮件队列          12,345,678        3         ");
        assert_eq!(shown(39)[1], "a queue …           1       22  paused ");
        assert!(shown(38)[0].contains("LEASED"), "{:?}", shown(38));
        assert!(!shown(37)[0].contains("LEASED"), "{:?}", shown(37));
        assert_eq!(shown(20)[1], "a queue…           1");
        assert_eq!(shown(4)[1], "a q…");
    }

    #[test]
    fn no_line_is_too_wide() {
        for width in 1..90 {
            for line in shown(width) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }
}
