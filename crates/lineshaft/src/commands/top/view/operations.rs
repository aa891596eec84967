//! The operations: changes of many jobs, and how far they are.

use api::types::{Operation, OperationStatus};

use super::{Canvas, number, text};
use crate::commands::top::grid::{Column, Grid, cell};
use crate::commands::top::model::Model;

/// The width of a bar of progress.
const BAR: u64 = 10;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &mut Model) {
    let page = model.operations_page.as_ref();
    if canvas.is_empty_because(model.refusal.as_deref(), page.is_some()) {
        return;
    }
    let Some(page) = page else { return };
    if page.items.is_empty() {
        return canvas.remark("No operations since the start of the server. A kick or a clear of a whole queue is one.");
    }
    let mut grid = Grid::new(vec![
        Column::number("NUMBER", 4),
        Column::word("WHAT", 8),
        Column::text("QUEUE", 9),
        Column::word("STATUS", 7),
        Column::word("PROGRESS", 6),
        Column::number("DONE", 5),
        Column::number("OF", 3),
        Column::number("JOBS/S", 2),
        Column::text("BY", 1),
        Column::text("", 1),
    ]);
    for row in &page.items {
        let problem = row.problem.as_ref().map_or("", |problem| problem.detail.as_str());
        grid.row(vec![
            cell(row.id.to_string()),
            cell(what(row)),
            cell(row.queue.as_str()),
            (row.status.name().to_owned(), canvas.theme.operation(row.status)),
            (bar(row), canvas.theme.operation(row.status)),
            cell(number::count(row.done)),
            cell(number::count(row.total)),
            cell(number::rate(Some(row.per_s))),
            cell(row.who.as_str()),
            (problem.to_owned(), canvas.theme.bad()),
        ]);
    }
    if canvas.height() >= 6 {
        let running =
            page.items.iter().filter(|row| row.status == OperationStatus::Running).count();
        let line = format!("{} running", text::counted(running as u64, "operation"));
        canvas.text(&line, ratatui::style::Style::new(), 1);
    }
    model.page_rows = canvas.table(&grid, Some(&model.operations));
}

fn what(row: &Operation) -> String {
    let kind = row.kind.name();
    match row.state {
        None => kind.to_owned(),
        Some(state) => format!("{kind} {}", state.name()),
    }
}

fn bar(row: &Operation) -> String {
    let part = |of: u64| (row.done.min(row.total) * of).checked_div(row.total).unwrap_or(of);
    let (done, percent) = (part(BAR), part(100));
    let full = "█".repeat(done as usize);
    let rest = "░".repeat((BAR - done) as usize);
    format!("{full}{rest} {percent:>3} %")
}
