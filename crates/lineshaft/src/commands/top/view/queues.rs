//! The queues of all protocols, sorted and filtered.

use api::types::{JobState, QueueRow, Queues};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{Canvas, number, text};
use crate::commands::top::ask::{Order, SortKey};
use crate::commands::top::fit::cut;
use crate::commands::top::grid::{Cell, Column, Grid, cell};
use crate::commands::top::model::{Model, Rights};

/// A column of numbers: its title, its order, its importance, and its cell.
type Number = (&'static str, SortKey, u8, fn(&Canvas<'_>, &QueueRow) -> Cell);

const NUMBERS: [Number; 9] = [
    ("READY", SortKey::Ready, 19, |canvas, row| counted(canvas, row.ready, JobState::Ready)),
    ("LEASED", SortKey::Leased, 16, |canvas, row| counted(canvas, row.leased, JobState::Leased)),
    ("DELAYED", SortKey::Delayed, 15, |canvas, row| {
        counted(canvas, row.delayed, JobState::Delayed)
    }),
    // Buried jobs need a person's attention.
    ("BURIED", SortKey::Buried, 18, |canvas, row| counted(canvas, row.buried, JobState::Buried)),
    ("PUTS/S", SortKey::In, 14, |_, row| cell(number::rate(row.puts_per_s))),
    ("ENDS/S", SortKey::Out, 13, |_, row| cell(number::rate(row.finishes_per_s))),
    ("OLDEST", SortKey::Age, 12, |_, row| {
        cell(if row.head_age_ms == 0 { "–".to_owned() } else { number::time(row.head_age_ms) })
    }),
    ("WAITING", SortKey::Waiters, 11, |_, row| cell(number::cell(row.waiters))),
    ("GROWTH", SortKey::Growth, 10, |_, row| cell(number::rate(row.growth_per_s))),
];

fn counted(canvas: &Canvas<'_>, number: u64, state: JobState) -> Cell {
    let style = if number == 0 { canvas.theme.faint() } else { canvas.theme.state(state) };
    (number::cell(number), style)
}

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &mut Model) {
    let refusal = model.refusal.as_deref();
    if model.is_searching || !model.search.is_empty() {
        search_line(canvas, model);
    }
    let page = model.queues_page.as_ref();
    if canvas.is_empty_because(refusal, page.is_some()) {
        return;
    }
    let Some(page) = page else { return };
    place_line(canvas, model, page);
    let has_api = matches!(model.rights, Rights::Api(_));
    let sort = |key: SortKey| mark(model.order, key);
    let mut columns = vec![Column::text(&format!("QUEUE{}", sort(SortKey::Name)), 20)];
    // The beanstalkd protocol does not have these numbers.
    let is_known = |key| has_api || !matches!(key, SortKey::Age | SortKey::Growth);
    let numbers: Vec<&Number> = NUMBERS.iter().filter(|(_, key, ..)| is_known(*key)).collect();
    // The column that the list is sorted by is always there.
    let importance = |key: SortKey, usual| if key == model.order.key { 19 } else { usual };
    columns.extend(numbers.iter().map(|(title, key, usual, _)| {
        Column::number(&format!("{}{title}", sort(*key)), importance(*key, *usual))
    }));
    columns.push(Column::text("", 17));
    let mut grid = Grid::new(columns);
    for row in &page.items {
        let mut cells = vec![cell(row.name.as_str())];
        cells.extend(numbers.iter().map(|(.., show)| show(canvas, row)));
        cells.push((paused(row), canvas.theme.warning()));
        grid.row(cells);
    }
    model.page_rows = canvas.table(&grid, Some(&model.queues));
    if page.items.is_empty() {
        canvas.area.y = canvas.area.y.min(canvas.buffer.area.bottom());
        canvas.remark(if model.search.is_empty() { "no queues" } else { "no queue matches" });
    }
}

fn mark(order: Order, key: SortKey) -> &'static str {
    match (order.key == key, order.is_descending) {
        (false, _) => "",
        (true, true) => "▾",
        (true, false) => "▴",
    }
}

fn search_line(canvas: &mut Canvas<'_>, model: &Model) {
    let theme = canvas.theme;
    let cursor = if model.is_searching { "▏" } else { "" };
    let room = canvas.width().saturating_sub("filter ".width() + 1);
    // The end of a long text is the part that the user types.
    let mut text = model.search.as_str();
    while text.width() > room {
        text = &text[text.chars().next().map_or(0, char::len_utf8)..];
    }
    canvas.line(Line::from(vec![
        Span::styled("filter ", theme.faint()),
        Span::styled(format!("{text}{cursor}"), theme.strong()),
    ]));
}

/// Which rows of how many are on the screen.
fn place_line(canvas: &mut Canvas<'_>, model: &Model, page: &Queues) {
    if canvas.height() < 6 {
        return;
    }
    let first = model.queues.rows_before();
    let rows = page.items.len() as u64;
    let mut line = match rows {
        0 => "0 queues".to_owned(),
        _ if rows == page.matched => text::counted(page.matched, "queue"),
        _ => format!(
            "{}–{} of {}",
            text::count(first + 1),
            text::count(first + rows),
            text::counted(page.matched, "queue")
        ),
    };
    if page.matched < page.total {
        line = format!("{line} that match, of {} in all", text::count(page.total));
    }
    let line = cut(&line, canvas.width());
    canvas.line(Line::styled(line, Style::new()));
}

fn paused(row: &QueueRow) -> String {
    if row.pause_left_ms == 0 {
        return String::new();
    }
    format!("paused for {}", text::seconds(row.pause_left_ms.div_ceil(1_000)))
}
