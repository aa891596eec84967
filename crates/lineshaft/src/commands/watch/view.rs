//! Draws the table, and stores its sort order and its selected row.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::Event;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use unicode_width::UnicodeWidthStr;

use super::Update;
use super::fit::{Columns, Wanted, cut, fold};
use super::keys::{Action, SortKey, SortOrder, action};
use super::snapshot::{Queue, Snapshot};
use crate::text;

/// Minimum width of a column of numbers: room for 999,999. So the columns rarely move when a number
/// grows.
const NUMBER_WIDTH_MIN: usize = 7;

/// If the server's reply comes later than this, the table is marked as old.
const OLD_AFTER: Duration = Duration::from_secs(3);

/// Help about the keys. It is cut if it does not fit.
const KEYS: &str = "q quit  sort: n name r ready d delayed l leased b buried p put/s f finished/s";

/// A column of numbers: its heading, its sort key, and the text of its cells.
type Column = (&'static str, Option<SortKey>, fn(&Queue) -> String);

const COLUMNS: [Column; 7] = [
    ("READY", Some(SortKey::Ready), |queue| text::count(queue.ready)),
    ("DELAYED", Some(SortKey::Delayed), |queue| text::count(queue.delayed)),
    ("LEASED", Some(SortKey::Leased), |queue| text::count(queue.leased)),
    ("BURIED", Some(SortKey::Buried), |queue| text::count(queue.buried)),
    ("WAITING", None, |queue| text::count(queue.waiting)),
    ("PUT/S", Some(SortKey::PutRate), |queue| rate(queue.put_rate)),
    ("FINISHED/S", Some(SortKey::FinishRate), |queue| rate(queue.finish_rate)),
];

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View {
    address: String,
    filter: Option<String>,
    snapshot: Snapshot,
    trouble: Option<String>,
    /// A table is marked as old after this time without an update.
    old_after: Duration,
    order: SortOrder,
    table: TableState,
    /// Number of rows that fitted at the last drawing.
    page_rows: u16,
}

impl View {
    /// An empty table that gets an update once per `interval`.
    pub(super) fn new(address: String, filter: Option<String>, interval: Duration) -> View {
        View {
            address,
            filter,
            snapshot: Snapshot::default(),
            trouble: None,
            old_after: interval + OLD_AFTER,
            order: SortOrder { key: SortKey::Name, reversed: false },
            table: TableState::default(),
            page_rows: 1,
        }
    }

    /// Adds an update from the server. After an error, the last table stays visible.
    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Snapshot(mut snapshot) => {
                if let Some(filter) = &self.filter {
                    snapshot.queues.retain(|queue| queue.name.contains(filter.as_str()));
                }
                self.snapshot = snapshot;
                self.trouble = None;
                self.sort();
            }
            Update::Error(error) => self.trouble = Some(format!("{error}; trying again")),
        }
    }

    /// Handles a key. Returns `Break` if the user quits.
    pub(super) fn handle(&mut self, event: &Event) -> ControlFlow<()> {
        match action(event) {
            None => {}
            Some(Action::Quit) => return ControlFlow::Break(()),
            Some(Action::Sort(key)) => {
                self.order = self.order.after_key(key);
                self.sort();
            }
            Some(Action::Move(rows)) => self.move_by(rows),
            Some(Action::MovePages(pages)) => self.move_by(pages * i32::from(self.page_rows)),
            Some(Action::First) => self.table.select(Some(0)),
            Some(Action::Last) => self.move_by(i32::MAX),
        }
        ControlFlow::Continue(())
    }

    /// The age of the table in seconds, if the screen must show the age. The screen shows it after
    /// an error, and if the server's reply is unusually late.
    pub(super) fn age_to_show(&self, now: Instant) -> Option<u64> {
        let age = now.saturating_duration_since(self.snapshot.taken?);
        (self.trouble.is_some() || age > self.old_after).then_some(age.as_secs())
    }

    fn sort(&mut self) {
        let order = self.order;
        self.snapshot.queues.sort_by(|left, right| order.compare(left, right));
    }

    fn move_by(&mut self, rows: i32) {
        let last = self.snapshot.queues.len().saturating_sub(1);
        let selected = match self.table.selected() {
            Some(selected) => selected.saturating_add_signed(rows as isize),
            // The first key press only shows the selection at the first row.
            None if rows.abs() == 1 => 0,
            None => 0_usize.saturating_add_signed(rows as isize),
        };
        self.table.select(Some(selected.min(last)));
    }

    /// Draws the whole screen. `age` is the age of the table in seconds, or `None` if the screen
    /// does not show the age.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, age: Option<u64>) {
        let width = usize::from(frame.area().width);
        let (title, style) = self.title(width, age);
        let title_height = u16::try_from(title.len()).unwrap_or(u16::MAX).saturating_add(1);
        let [header, body, footer] = Layout::vertical([
            Constraint::Length(title_height),
            Constraint::Min(2),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(
            Paragraph::new(title.into_iter().map(Line::from).collect::<Vec<_>>()).style(style),
            header,
        );
        self.page_rows = body.height.saturating_sub(1).max(1);
        let table = self.table_widget(width);
        frame.render_stateful_widget(table, body, &mut self.table);
        let keys = fold(KEYS.split(' '), " ", width).swap_remove(0);
        frame.render_widget(Paragraph::new(keys).dim(), footer);
    }

    /// The lines above the table. Each line has at most `width` columns.
    fn title(&self, width: usize, age: Option<u64>) -> (Vec<String>, Style) {
        let old = age.map(|age| format!("this table is {} old", text::seconds(age)));
        let silent = || old.as_ref().map(|_| "waiting for the server's reply".to_owned());
        if let Some(trouble) = self.trouble.clone().or_else(silent) {
            let note = [Some(trouble), old].into_iter().flatten().collect::<Vec<_>>().join("; ");
            return (fold(note.split(' '), " ", width), Style::new().fg(Color::Red));
        }
        let server = &self.snapshot.server;
        let total = |pick: fn(&Queue) -> Option<f64>| {
            self.snapshot.queues.iter().map(pick).sum::<Option<f64>>()
        };
        let mut parts = vec![
            self.address.clone(),
            format!("version {}", server.get("version").unwrap_or("?")),
            format!("up {}", text::seconds(server.number("uptime"))),
            text::counted(server.number("current-connections"), "connection"),
            text::counted(self.snapshot.queues.len() as u64, "queue"),
            format!("put {}/s", rate(total(|queue| queue.put_rate))),
            format!("finished {}/s", rate(total(|queue| queue.finish_rate))),
        ];
        if self.snapshot.unnamed_count > 0 {
            let count = text::count(self.snapshot.unnamed_count);
            parts.push(format!("{count} more with names not allowed in the beanstalkd protocol"));
        }
        if server.get("draining") == Some("true") {
            parts.push("draining".to_owned());
        }
        (fold(parts.iter().map(String::as_str), "  ", width), Style::new().bold())
    }

    /// The widths that the table's parts need.
    fn wanted(&self) -> Wanted {
        let queues = &self.snapshot.queues;
        let longest = |cell: &dyn Fn(&Queue) -> usize| queues.iter().map(cell).max().unwrap_or(0);
        let number = |(title, _, cell): Column| {
            let heading = title.width() + "▾".width();
            longest(&|queue| cell(queue).len()).max(heading).max(NUMBER_WIDTH_MIN)
        };
        Wanted {
            name: longest(&|queue| queue.name.width()),
            numbers: COLUMNS.map(number).to_vec(),
            pause: longest(&|queue| paused(queue).len()),
        }
    }

    fn table_widget(&self, width: usize) -> Table<'static> {
        let fitted = Columns::fit(&self.wanted(), width);
        let numbers = &COLUMNS[..fitted.numbers.len()];
        let length = |width: usize| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX));
        let widths = std::iter::once(length(fitted.name))
            .chain(fitted.numbers.iter().map(|width| length(*width)))
            .chain([Constraint::Min(0)]);
        let mark = |key: Option<SortKey>| match (key == Some(self.order.key), self.order.reversed) {
            (false, _) => "",
            (true, false) => "▾",
            (true, true) => "▴",
        };
        // Put the sort mark on the side where the cells below have room.
        let name = Cell::from(format!("QUEUE{}", mark(Some(SortKey::Name))));
        // This mark means that a wider terminal would show more columns.
        let more = if numbers.len() < COLUMNS.len() { "…" } else { "" };
        let header = std::iter::once(name)
            .chain(numbers.iter().map(|(title, key, _)| right(format!("{}{title}", mark(*key)))))
            .chain([Cell::from(more)]);
        let rows = self.snapshot.queues.iter().map(|queue| row(queue, numbers, &fitted));
        Table::new(rows, widths)
            .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
    }
}

fn row(queue: &Queue, numbers: &[Column], fitted: &Columns) -> Row<'static> {
    let pause = cut(&paused(queue), fitted.pause);
    let cells = std::iter::once(Cell::from(cut(&queue.name, fitted.name)))
        .chain(numbers.iter().map(|(_, key, cell)| {
            let cell = right(cell(queue));
            // Buried jobs are red, because they need a person's attention.
            if *key == Some(SortKey::Buried) && queue.buried > 0 {
                cell.fg(Color::Red)
            } else {
                cell
            }
        }))
        .chain([Cell::from(pause).fg(Color::Yellow)]);
    Row::new(cells)
}

fn paused(queue: &Queue) -> String {
    queue
        .paused_seconds
        .map_or_else(String::new, |left| format!("paused for {}", text::seconds(left)))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).alignment(Alignment::Right))
}

/// Shows a rate: with one decimal if the rate is below ten, otherwise without decimals.
fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => text::count(rate.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::*;

    fn view() -> View {
        let queue = |name: &str, ready, put_rate| Queue {
            name: name.to_owned(),
            ready,
            put_rate: Some(put_rate),
            finish_rate: Some(0.0),
            ..Queue::default()
        };
        let mut view = View::new("127.0.0.1:11300".to_owned(), None, Duration::from_secs(1));
        view.update(Update::Snapshot(Snapshot {
            queues: vec![queue("mail", 3, 2.5), queue("orders", 12_345, 1_200.0)],
            ..Snapshot::default()
        }));
        view
    }

    fn lines(view: &mut View) -> Vec<String> {
        lines_of(view, 110)
    }

    fn lines_of(view: &mut View, width: u16) -> Vec<String> {
        lines_aged(view, width, None)
    }

    fn lines_aged(view: &mut View, width: u16, age: Option<u64>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, 9)).unwrap();
        terminal.draw(|frame| view.draw(frame, age)).unwrap();
        let buffer = terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let symbols: Vec<&str> =
            buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        symbols.chunks(width).map(|line| line.concat().trim_end().to_owned()).collect()
    }

    #[test]
    fn the_table_shows_queues_in_the_chosen_order() {
        let mut view = view();
        let by_name = lines(&mut view);
        assert!(by_name[0].contains("put 1,203/s"), "{by_name:#?}");
        assert!(by_name[2].starts_with("QUEUE▾"), "{by_name:#?}");
        assert!(by_name[3].starts_with("mail "), "{by_name:#?}");
        assert!(by_name[4].contains("12,345") && by_name[4].contains("1,200"), "{by_name:#?}");

        let key = Event::Key(KeyCode::Char('r').into());
        assert!(view.handle(&key).is_continue());
        let by_ready = lines(&mut view);
        assert!(by_ready[2].contains("▾READY "), "{by_ready:#?}");
        assert!(by_ready[3].starts_with("orders "), "{by_ready:#?}");
    }

    #[test]
    fn eighty_columns_are_enough() {
        let mut view = view();
        let lines = lines_of(&mut view, 80);
        assert!(lines[0].starts_with("127.0.0.1:11300  version ?  up 0 s"), "{lines:#?}");
        assert!(lines[1].ends_with("finished 0/s"), "{lines:#?}");
        assert!(lines[3].starts_with("QUEUE▾"), "{lines:#?}");
        assert!(lines[3].ends_with("PUT/S  FINISHED/S"), "{lines:#?}");
        assert!(lines[8].ends_with("f finished/s"), "{lines:#?}");
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_numbers_and_cuts_none() {
        let mut view = view();
        view.snapshot.queues[1].paused_seconds = Some(59);
        for width in 1..=130 {
            let lines = lines_of(&mut view, width);
            let Some(row) = lines.iter().find(|line| line.starts_with("orders ")) else {
                continue;
            };
            for cell in row.split_whitespace().skip(1) {
                let whole = ["12,345", "0", "1,200", "paused", "for", "59", "s"].contains(&cell);
                assert!(whole || cell.ends_with('…'), "{width}: {row}");
            }
        }
        let narrow = lines_of(&mut view, 40);
        let header = narrow.iter().find(|line| line.starts_with("QUEUE")).unwrap();
        assert!(header.ends_with(" …"), "{narrow:#?}");
    }

    #[test]
    fn error_messages_are_complete() {
        let mut view = view();
        view.update(Update::Error(crate::client::ClientError::Garbled("x".repeat(60))));
        let lines = lines_of(&mut view, 80);
        assert!(lines[0].starts_with("not a beanstalkd server"), "{lines:#?}");
        assert!(lines[1].ends_with("trying again"), "{lines:#?}");
    }

    #[test]
    fn an_old_table_is_not_taken_for_a_new_one() {
        let mut view = view();
        let then = Instant::now();
        view.snapshot.taken = Some(then);
        let after = |seconds| then + Duration::from_secs(seconds);
        assert_eq!(view.age_to_show(after(3)), None);
        assert_eq!(view.age_to_show(after(65)), Some(65));
        let lines = lines_aged(&mut view, 80, Some(65));
        assert_eq!(lines[0], "waiting for the server's reply; this table is 1 m 5 s old");
        view.update(Update::Error(crate::client::ClientError::Closed));
        let age = view.age_to_show(after(2));
        let lines = lines_aged(&mut view, 110, age);
        let note = "the server closed the connection; trying again; this table is 2 s old";
        assert_eq!(lines[0], note);
    }

    #[test]
    fn queues_that_cannot_be_named_are_counted() {
        let mut view = view();
        view.snapshot.unnamed_count = 3;
        let lines = lines_of(&mut view, 110);
        let note = "3 more with names not allowed in the beanstalkd protocol";
        assert!(lines[..2].iter().any(|line| line.contains(note)), "{lines:#?}");
    }

    #[test]
    fn the_mark_stays_inside_the_table() {
        let mut view = view();
        for code in [KeyCode::Up, KeyCode::Down, KeyCode::End, KeyCode::Down, KeyCode::PageDown] {
            assert!(view.handle(&Event::Key(code.into())).is_continue());
            lines(&mut view);
        }
        assert_eq!(view.table.selected(), Some(1));
        assert!(view.handle(&Event::Key(KeyCode::Char('q').into())).is_break());
    }
}
