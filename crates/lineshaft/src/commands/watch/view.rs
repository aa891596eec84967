//! Draws the table and remembers how the user wants to see it.

use std::ops::ControlFlow;

use ratatui::Frame;
use ratatui::crossterm::event::Event;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::Update;
use super::keys::{Action, SortKey, SortOrder, action};
use super::snapshot::{Queue, Snapshot};
use crate::text;

const NUMBER_WIDTH: u16 = 11;

/// The columns of numbers: heading, its sort key, and the cell.
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

/// What is on the screen.
#[derive(Debug)]
pub(super) struct View {
    address: String,
    filter: Option<String>,
    snapshot: Snapshot,
    trouble: Option<String>,
    order: SortOrder,
    table: TableState,
    /// Rows that fit, as drawn last.
    page_rows: u16,
}

impl View {
    /// An empty table.
    pub(super) fn new(address: String, filter: Option<String>) -> View {
        View {
            address,
            filter,
            snapshot: Snapshot::default(),
            trouble: None,
            order: SortOrder { key: SortKey::Name, reversed: false },
            table: TableState::default(),
            page_rows: 1,
        }
    }

    /// Takes what the server said; in trouble, the last table stays to be seen.
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
            Update::Trouble(error) => self.trouble = Some(format!("{error}; trying again")),
        }
    }

    /// Does what a key asks for; breaks when that is to quit.
    pub(super) fn handle(&mut self, event: &Event) -> ControlFlow<()> {
        match action(event) {
            None => {}
            Some(Action::Quit) => return ControlFlow::Break(()),
            Some(Action::Sort(key)) => {
                self.order = self.order.asked_for(key);
                self.sort();
            }
            Some(Action::Move(rows)) => self.move_by(rows),
            Some(Action::MovePages(pages)) => self.move_by(pages * i32::from(self.page_rows)),
            Some(Action::First) => self.table.select(Some(0)),
            Some(Action::Last) => self.move_by(i32::MAX),
        }
        ControlFlow::Continue(())
    }

    fn sort(&mut self) {
        let order = self.order;
        self.snapshot.queues.sort_by(|left, right| order.compare(left, right));
    }

    fn move_by(&mut self, rows: i32) {
        let last = self.snapshot.queues.len().saturating_sub(1);
        let selected = match self.table.selected() {
            Some(selected) => selected.saturating_add_signed(rows as isize),
            // The first key only shows where the mark is.
            None if rows.abs() == 1 => 0,
            None => 0_usize.saturating_add_signed(rows as isize),
        };
        self.table.select(Some(selected.min(last)));
    }

    /// Draws everything.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let [header, body, footer] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(2), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(self.header(), header);
        self.page_rows = body.height.saturating_sub(1).max(1);
        let table = self.table_widget();
        frame.render_stateful_widget(table, body, &mut self.table);
        let keys =
            "q quit   sort: n name  r ready  d delayed  l leased  b buried  p put/s  f finished/s";
        frame.render_widget(Paragraph::new(keys).dim(), footer);
    }

    fn header(&self) -> Paragraph<'_> {
        if let Some(trouble) = &self.trouble {
            return Paragraph::new(Line::from(trouble.as_str()).fg(Color::Red));
        }
        let server = &self.snapshot.server;
        let total = |pick: fn(&Queue) -> Option<f64>| {
            self.snapshot.queues.iter().map(pick).sum::<Option<f64>>()
        };
        let mut line = format!(
            "{}  version {}  up {}  {}  {}  put {}/s  finished {}/s",
            self.address,
            server.get("version").unwrap_or("?"),
            text::seconds(server.number("uptime")),
            text::counted(server.number("current-connections"), "connection"),
            text::counted(self.snapshot.queues.len() as u64, "queue"),
            rate(total(|queue| queue.put_rate)),
            rate(total(|queue| queue.finish_rate)),
        );
        if server.get("draining") == Some("true") {
            line += "  draining";
        }
        Paragraph::new(line.bold())
    }

    fn table_widget(&self) -> Table<'static> {
        let name_width = self.snapshot.queues.iter().map(|queue| queue.name.len()).max();
        let name_width = name_width.unwrap_or(0).clamp(16, 48) as u16;
        let widths = std::iter::once(Constraint::Length(name_width))
            .chain(COLUMNS.map(|_| Constraint::Length(NUMBER_WIDTH)))
            .chain([Constraint::Min(0)]);
        let mark = |key: Option<SortKey>| match (key == Some(self.order.key), self.order.reversed) {
            (false, _) => "",
            (true, false) => "▾",
            (true, true) => "▴",
        };
        // The mark is where the cells below have room.
        let name = Cell::from(format!("QUEUE{}", mark(Some(SortKey::Name))));
        let header = std::iter::once(name)
            .chain(COLUMNS.map(|(title, key, _)| right(format!("{}{title}", mark(key)))));
        let rows = self.snapshot.queues.iter().map(row);
        Table::new(rows, widths)
            .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
    }
}

fn row(queue: &Queue) -> Row<'static> {
    let paused = queue
        .paused_seconds
        .map_or_else(String::new, |left| format!("paused for {}", text::seconds(left)));
    let cells = std::iter::once(Cell::from(queue.name.clone()))
        .chain(COLUMNS.map(|(_, key, cell)| {
            let cell = right(cell(queue));
            // What needs a person's eye.
            if key == Some(SortKey::Buried) && queue.buried > 0 {
                cell.fg(Color::Red)
            } else {
                cell
            }
        }))
        .chain([Cell::from(paused).fg(Color::Yellow)]);
    Row::new(cells)
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).alignment(Alignment::Right))
}

/// One decimal below ten, where it says something.
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
        let mut view = View::new("127.0.0.1:11300".to_owned(), None);
        view.update(Update::Snapshot(Snapshot {
            queues: vec![queue("mail", 3, 2.5), queue("orders", 12_345, 1_200.0)],
            ..Snapshot::default()
        }));
        view
    }

    fn lines(view: &mut View) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(110, 6)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
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
