//! Formats tables, aligned for a terminal or as Markdown. Also formats numbers for readers.

use unicode_width::UnicodeWidthStr;

/// A table with a head. Every row has the same number of cells as the head.
#[derive(Debug)]
pub struct Table {
    head: Vec<String>,
    /// The number of columns at the left that contain words. They are aligned to the left. All
    /// other columns are aligned to the right.
    word_columns: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table whose first `word_columns` columns contain words.
    pub fn new(word_columns: usize, head: &[&str]) -> Self {
        Self {
            head: head.iter().map(ToString::to_string).collect(),
            word_columns,
            rows: Vec::new(),
        }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.head.len(), "a row has as many cells as the head");
        self.rows.push(cells);
    }

    /// The table as text. The columns are padded with spaces.
    pub fn text(&self) -> String {
        let mut widths = vec![0; self.head.len()];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let mut text = String::new();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.width());
                if column > 0 {
                    line.push_str("  ");
                }
                if column < self.word_columns {
                    line.extend([cell, padding.as_str()]);
                } else {
                    line.extend([padding.as_str(), cell]);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// A Markdown table.
    pub fn markdown(&self) -> String {
        let mut text = markdown_line(&self.head);
        let rule = (0..self.head.len())
            .map(|column| if column < self.word_columns { "---" } else { "---:" });
        text.push_str(&markdown_line(&rule.map(String::from).collect::<Vec<_>>()));
        for row in &self.rows {
            text.push_str(&markdown_line(row));
        }
        text
    }
}

fn markdown_line(cells: &[String]) -> String {
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", escaped.join(" | "))
}

/// Shows a number with three significant digits and a suffix: `134 k`, `2.71 M`.
pub(crate) fn show_count(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, " G"),
        v if v >= 999.5e3 => (value / 1e6, " M"),
        v if v >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{suffix}", three_digits(scaled))
}

/// Shows a whole number with commas between groups of three digits: `1,000,000`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Shows a number below 1000 with three significant digits. At most two of them are after the
/// point.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(1, &["work", "p50", "rate"]);
        table.row(vec!["put".into(), "12 µs".into(), "134 k/s".into()]);
        table.row(vec!["take|give".into(), "9 µs".into(), "7 k/s".into()]);
        table
    }

    #[test]
    fn text_is_aligned_by_visible_width() {
        let expected = "\
work         p50     rate
put        12 µs  134 k/s
take|give   9 µs    7 k/s
";
        assert_eq!(sample().text(), expected);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(1, &["queue", "jobs"]);
        table.row(vec!["邮件".into(), "1".into()]);
        table.row(vec!["mail".into(), "23".into()]);
        assert_eq!(table.text(), "queue  jobs\n邮件      1\nmail     23\n");
    }

    #[test]
    fn markdown_escapes_bars() {
        let expected = "\
| work | p50 | rate |
| --- | ---: | ---: |
| put | 12 µs | 134 k/s |
| take\\|give | 9 µs | 7 k/s |
";
        assert_eq!(sample().markdown(), expected);
    }

    #[test]
    fn whole_numbers_have_groups_of_three_digits() {
        let shown = [0, 999, 1_000, 30_000_000].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "30,000,000"]);
    }

    #[test]
    fn counts_have_three_digits() {
        assert_eq!(show_count(0.0), "0.00");
        assert_eq!(show_count(999.4), "999");
        assert_eq!(show_count(999.6), "1.00 k");
        assert_eq!(show_count(7_512.0), "7.51 k");
        assert_eq!(show_count(134_400.0), "134 k");
        assert_eq!(show_count(999_700.0), "1.00 M");
        assert_eq!(show_count(2_710_000.0), "2.71 M");
    }
}
