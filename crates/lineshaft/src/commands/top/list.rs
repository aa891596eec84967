//! A list that the server gives page by page. A page has as many rows as the screen, so a list of
//! 100,000 queues costs no more than a short one.

/// The place in a list, and the selected row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// For each page before this one: its cursor, and the number of its rows.
    before: Vec<(Option<String>, u64)>,
    /// The cursor of this page.
    from: Option<String>,
    /// The names of the rows of this page.
    rows: Vec<String>,
    /// The cursor of the next page.
    next: Option<String>,
    /// The index of the selected row.
    selected: usize,
    /// The user has turned the page, and the rows of the new page have not arrived. Until then, no
    /// row is selected, so that no action can meet a wrong row.
    is_turning: bool,
    /// The user came from the next page, so the last row of this page will be selected.
    selects_last: bool,
}

impl List {
    /// A list whose first page has not arrived, in place of another list.
    pub(super) fn turning() -> List {
        List { is_turning: true, ..List::default() }
    }

    /// The cursor of the page.
    pub(super) fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// The number of rows on the pages before this one.
    pub(super) fn rows_before(&self) -> u64 {
        self.before.iter().map(|(_, rows)| rows).sum()
    }

    /// The selected row, if the list has one.
    pub(super) fn selected(&self) -> Option<usize> {
        (!self.is_turning && !self.rows.is_empty()).then_some(self.selected)
    }

    /// The name of the selected row.
    pub(super) fn selected_name(&self) -> Option<&str> {
        self.selected().map(|row| self.rows[row].as_str())
    }

    /// Whether there is a page after this one.
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// The rows of the page have arrived. The same row stays selected, also at another place.
    pub(super) fn set_rows(&mut self, rows: Vec<String>, next: Option<String>) {
        let same = self.selected_name().and_then(|name| rows.iter().position(|row| row == name));
        let last = rows.len().saturating_sub(1);
        self.selected = match same {
            Some(row) => row,
            None if self.is_turning && self.selects_last => last,
            None => self.selected.min(last),
        };
        (self.rows, self.next) = (rows, next);
        (self.is_turning, self.selects_last) = (false, false);
        // All rows of this page have ended meanwhile.
        if self.rows.is_empty() && !self.before.is_empty() {
            self.previous_page();
        }
    }

    /// Selects a row further down, or up if negative. At the end of the page, turns the page.
    pub(super) fn move_by(&mut self, rows: isize) {
        if self.is_turning {
            return;
        }
        match self.selected.checked_add_signed(rows) {
            Some(row) if row < self.rows.len() => self.selected = row,
            Some(_) => {
                let last = self.rows.len().saturating_sub(1);
                if self.selected == last && self.next.is_some() {
                    self.next_page();
                } else {
                    self.selected = last;
                }
            }
            None if self.selected == 0 => self.previous_page(),
            None => self.selected = 0,
        }
    }

    /// Turns to the next page, or selects the last row.
    pub(super) fn next_page(&mut self) {
        if self.is_turning {
            return;
        }
        match self.next.take() {
            None => self.selected = self.rows.len().saturating_sub(1),
            Some(next) => {
                let page = self.from.replace(next);
                self.before.push((page, self.rows.len() as u64));
                (self.selected, self.is_turning) = (0, true);
            }
        }
    }

    /// Turns to the page before, or selects the first row.
    pub(super) fn previous_page(&mut self) {
        match self.before.pop() {
            None => self.selected = 0,
            Some((from, _)) => {
                self.from = from;
                (self.is_turning, self.selects_last) = (true, true);
            }
        }
    }

    /// Selects the first row of the first page.
    pub(super) fn home(&mut self) {
        self.selected = 0;
        if !self.before.is_empty() {
            self.before.clear();
            self.from = None;
            self.is_turning = true;
        }
    }

    /// Selects the last row of the page.
    pub(super) fn end(&mut self) {
        self.selected = self.rows.len().saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &str) -> Vec<String> {
        names.chars().map(String::from).collect()
    }

    #[test]
    fn pages_turn_at_their_ends() {
        let mut list = List::default();
        assert_eq!(list.selected(), None);
        list.set_rows(names("abc"), Some("2".to_owned()));
        list.move_by(2);
        assert_eq!((list.selected_name(), list.from()), (Some("c"), None));
        list.move_by(1);
        assert_eq!(
            (list.selected_name(), list.from()),
            (None, Some("2")),
            "no row until it arrives"
        );
        list.move_by(1);
        list.set_rows(names("de"), None);
        assert_eq!((list.selected_name(), list.rows_before()), (Some("d"), 3));
        list.move_by(7);
        list.move_by(1);
        assert_eq!((list.selected_name(), list.from()), (Some("e"), Some("2")));
        list.move_by(-9);
        assert_eq!(list.selected_name(), Some("d"));
        list.move_by(-1);
        assert_eq!((list.selected_name(), list.from()), (None, None));
        list.set_rows(names("abc"), Some("2".to_owned()));
        assert_eq!((list.selected_name(), list.rows_before()), (Some("c"), 0));
        list.next_page();
        list.home();
        assert_eq!((list.selected_name(), list.from()), (None, None));
        list.set_rows(names("abc"), None);
        assert_eq!(list.selected_name(), Some("a"));
    }

    #[test]
    fn the_selection_follows_its_row() {
        let mut list = List::default();
        list.set_rows(names("abc"), None);
        list.move_by(1);
        list.set_rows(names("xyzb"), None);
        assert_eq!(list.selected_name(), Some("b"));
        list.set_rows(names("xy"), None);
        assert_eq!(list.selected_name(), Some("y"), "it is gone");
        list.set_rows(names(""), None);
        assert_eq!(list.selected(), None);
    }

    #[test]
    fn an_empty_page_gives_way_to_the_one_before() {
        let mut list = List::default();
        list.set_rows(names("ab"), Some("2".to_owned()));
        list.next_page();
        list.set_rows(Vec::new(), None);
        assert_eq!((list.from(), list.selected()), (None, None));
        list.set_rows(names("ab"), None);
        assert_eq!(list.selected_name(), Some("b"));
    }
}
