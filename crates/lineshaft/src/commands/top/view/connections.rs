//! The connections of all protocols, and what each one does.

use api::types::{Connection, WaitFor};
use notation::size;
use ratatui::style::Style;

use super::{Canvas, number, text};
use crate::commands::top::grid::{Column, Grid, cell};
use crate::commands::top::model::Model;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &mut Model) {
    let page = model.connections_page.as_ref();
    if canvas.is_empty_because(model.refusal.as_deref(), page.is_some()) {
        return;
    }
    let Some(page) = page else { return };
    if canvas.height() >= 6 {
        let first = model.connections.rows_before();
        let rows = page.items.len() as u64;
        let open = text::counted(page.open, "connection");
        let line = if rows < page.open && rows > 0 {
            format!("{}–{} of {open}", text::count(first + 1), text::count(first + rows))
        } else {
            open
        };
        canvas.text(&line, Style::new(), 1);
    }
    let mut grid = Grid::new(vec![
        Column::text("ADDRESS", 9),
        Column::word("PROTOCOL", 8),
        Column::number("HOLDS", 7),
        Column::word("WAITS", 6),
        Column::number("IDLE", 5),
        Column::text("QUEUES", 4),
    ]);
    for row in &page.items {
        let tls = if row.tls { " tls" } else { "" };
        grid.row(vec![
            cell(row.address.as_str()),
            cell(format!("{}{tls}", row.protocol)),
            cell(number::cell(row.holds)),
            cell(waits(row)),
            cell(number::time(row.idle_ms)),
            cell(queues(row)),
        ]);
    }
    // The last lines are about the selected connection.
    let details = model.connections.selected().and_then(|row| page.items.get(row));
    let lines = if canvas.height() >= 10 { 3 } else { 0 };
    let below = canvas.area.height.min(lines);
    canvas.area.height -= below;
    model.page_rows = canvas.table(&grid, Some(&model.connections));
    if let Some(row) = details
        && below > 0
    {
        canvas.area.y = canvas.buffer.area.bottom() - 1 - below;
        canvas.area.height = below;
        canvas.gap();
        canvas.facts(&facts(row), 2);
    }
}

fn waits(row: &Connection) -> &'static str {
    match row.wait.map(|wait| wait.what) {
        None => "",
        Some(WaitFor::Job) => "for a job",
        Some(WaitFor::Work) => "for work",
        Some(WaitFor::Request) => "for a reply",
    }
}

/// The queues that the client takes from, or else the one that it puts into.
fn queues(row: &Connection) -> String {
    let all = row.watched.max(row.registrations);
    let shown = row.queues.len() as u64;
    let more = if all > shown { format!(", and {} more", all - shown) } else { String::new() };
    match &row.used {
        Some(used) if row.queues.is_empty() => used.clone(),
        _ => format!("{}{more}", row.queues.join(", ")),
    }
}

fn facts(row: &Connection) -> Vec<(&'static str, String, Style)> {
    let plain = Style::new();
    let mut facts = vec![
        ("connection", row.id.clone().unwrap_or_else(|| "in its TLS handshake".to_owned()), plain),
        ("opened", row.opened_at.clone(), plain),
        ("received", size::rounded(row.received_bytes), plain),
        ("sent", size::rounded(row.sent_bytes), plain),
    ];
    if row.unsent_bytes > 0 {
        facts.push(("unsent", size::rounded(row.unsent_bytes), plain));
    }
    if let Some(used) = &row.used {
        facts.push(("puts into", used.clone(), plain));
    }
    facts.push(("watches", number::count(row.watched), plain));
    if row.registrations > 0 {
        facts.push(("registered for", number::count(row.registrations), plain));
    }
    facts
}
