//! The overview: is all well, and where is work waiting?

use api::types::{HealthLevel, JobState, Server};
use notation::size;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, Widget as _};

use super::spark::spark;
use super::{Canvas, number};
use crate::commands::top::ask::{Head, OverviewContent};
use crate::commands::top::fit::{cut, pad};
use crate::commands::top::grid::{Column, Grid, cell};
use crate::commands::top::model::Model;

/// Tiles on a line.
const TILES: usize = 4;
/// The size from which tiles have frames and curves.
const TILES_WIDTH_MIN: usize = 64;
const TILES_HEIGHT_MIN: usize = 12;
/// The height of a tile.
const TILE_HEIGHT: usize = 4;

/// A number, and its past.
struct Tile<'a> {
    name: &'static str,
    value: String,
    style: Style,
    values: &'a [Option<f32>],
}

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model) {
    let Some(Head::Server(server)) = &model.head else {
        return canvas.remark("waiting for the server's reply");
    };
    let theme = canvas.theme;
    for reason in &server.health.reasons {
        let sign = if reason.level == HealthLevel::Critical { "■" } else { "▲" };
        canvas.text(&format!("{sign} {}", reason.text), theme.health(reason.level), 2);
    }
    let empty = OverviewContent::default();
    let content = model.overview.as_ref().unwrap_or(&empty);
    let tiles = tiles(canvas, server, content);
    if canvas.width() >= TILES_WIDTH_MIN && canvas.height() >= TILES_HEIGHT_MIN {
        framed(canvas, &tiles);
    } else {
        plain(canvas, &tiles);
    }
    let lines = if canvas.height() >= 6 { 3 } else { 1 };
    canvas.facts(&facts(server), lines);
    longest(canvas, content);
}

fn tiles<'a>(canvas: &Canvas<'_>, server: &Server, content: &'a OverviewContent) -> Vec<Tile<'a>> {
    let theme = canvas.theme;
    let past = |name: &str| content.history.series.get(name).map_or(&[][..], Vec::as_slice);
    // The present moment can have no value yet.
    let last =
        |name: &str| past(name).iter().rev().take(2).flatten().next().copied().map(f64::from);
    let totals = &server.totals;
    let state = |name, state, value: u64, series| Tile {
        name,
        value: number::count(value),
        style: theme.state(state),
        values: past(series),
    };
    let other =
        |name, value, series| Tile { name, value, style: theme.accent(), values: past(series) };
    let time = |ms: f64| number::time(ms as u64);
    vec![
        state("Ready", JobState::Ready, totals.ready, "ready"),
        state("Leased", JobState::Leased, totals.leased, "leased"),
        state("Delayed", JobState::Delayed, totals.delayed, "delayed"),
        state("Buried", JobState::Buried, totals.buried, "buried"),
        other("Puts/s", number::rate(last("puts_per_s")), "puts_per_s"),
        other("Ends/s", number::rate(last("ends_per_s")), "ends_per_s"),
        other("Oldest wait", last("oldest_ms").map_or("–".to_owned(), time), "oldest_ms"),
        other(
            "Sync p99",
            last("sync_p99_us").map_or("–".to_owned(), number::micros),
            "sync_p99_us",
        ),
    ]
}

/// Tiles with frames and curves.
fn framed(canvas: &mut Canvas<'_>, tiles: &[Tile<'_>]) {
    let theme = canvas.theme;
    for row in tiles.chunks(TILES) {
        let area = canvas.take(TILE_HEIGHT);
        let width = area.width / TILES as u16;
        for (place, tile) in row.iter().enumerate() {
            let place = place as u16;
            let rest = if place + 1 == TILES as u16 { area.width % TILES as u16 } else { 0 };
            let frame = Rect { x: area.x + place * width, width: width + rest, ..area };
            let block = Block::bordered()
                .border_type(BorderType::Rounded)
                .border_style(theme.faint())
                .title(Span::styled(format!(" {} ", tile.name), tile.style));
            let inner = block.inner(frame);
            block.render(frame, canvas.buffer);
            let lines = vec![
                Line::styled(format!(" {}", tile.value), theme.strong()),
                // The present moment is at the right.
                Line::styled(spark(tile.values, inner.width.into()), tile.style).right_aligned(),
            ];
            Paragraph::new(lines).render(inner, canvas.buffer);
        }
    }
}

/// Only the numbers, two on a line.
fn plain(canvas: &mut Canvas<'_>, tiles: &[Tile<'_>]) {
    let theme = canvas.theme;
    let half = canvas.width() / 2;
    let name_width = 12.min(half * 3 / 5);
    for row in tiles.chunks(2) {
        let spans = row.iter().flat_map(|tile| {
            let value = pad(&tile.value, half.saturating_sub(name_width), false);
            [
                Span::styled(pad(tile.name, name_width, false), tile.style),
                Span::styled(value, theme.strong()),
            ]
        });
        canvas.line(Line::from(spans.collect::<Vec<_>>()));
    }
}

fn facts(server: &Server) -> Vec<(&'static str, String, Style)> {
    let plain = Style::new();
    let counts = &server.connections;
    let mut connections =
        format!("{} of {}", number::count(counts.open), number::count(counts.max));
    let by_protocol: Vec<String> = counts
        .by_protocol
        .iter()
        .filter(|(_, open)| **open > 0)
        .map(|(protocol, open)| format!("{} {protocol}", number::count(*open)))
        .collect();
    if !by_protocol.is_empty() {
        connections = format!("{connections}: {}", by_protocol.join(", "));
    }
    let limit = server
        .memory
        .limit_bytes
        .map_or_else(String::new, |limit| format!(" of {}", size::rounded(limit)));
    vec![
        ("connections", connections, plain),
        ("waiting for jobs", number::count(server.totals.waiting_sessions), plain),
        ("queues", number::count(server.totals.queues), plain),
        ("memory", format!("{}{limit}", size::rounded(server.memory.used_bytes)), plain),
    ]
}

/// The longest queues, in the lines that are left.
fn longest(canvas: &mut Canvas<'_>, content: &OverviewContent) {
    if canvas.height() < 4 || content.longest.is_empty() {
        return;
    }
    canvas.gap();
    let mut grid = Grid::new(vec![
        Column::text("LONGEST QUEUES", 9),
        Column::number("READY", 8),
        Column::number("OLDEST", 7),
        Column::number("PUTS/S", 6),
        Column::number("ENDS/S", 5),
        Column::number("LEASED", 4),
    ]);
    for row in &content.longest {
        let age =
            if row.head_age_ms == 0 { "–".to_owned() } else { number::time(row.head_age_ms) };
        grid.row(vec![
            cell(cut(&row.name, canvas.width())),
            (number::count(row.ready), canvas.theme.state(JobState::Ready)),
            cell(age),
            cell(number::rate(row.puts_per_s)),
            cell(number::rate(row.finishes_per_s)),
            cell(number::cell(row.leased)),
        ]);
    }
    canvas.table(&grid, None);
}
