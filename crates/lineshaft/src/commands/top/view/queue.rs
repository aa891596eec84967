//! One queue: its numbers, what is in the way of its jobs, and the jobs of one state.

use api::types::{Job, JobState, Queue};
use notation::plain::one_line;
use notation::size;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{Canvas, number, text};
use crate::commands::top::ask::QueueContent;
use crate::commands::top::fit::cut;
use crate::commands::top::grid::{Cell, Column, Grid, cell};
use crate::commands::top::keys::STATES;
use crate::commands::top::model::Model;

/// With fewer lines, only the most important facts are shown.
const ALL_FACTS_HEIGHT: usize = 14;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &mut Model) {
    let Some(name) = model.queue.name.clone() else {
        return canvas.remark("Choose a queue on screen 2, and press Enter.");
    };
    let content = model.queue.content.as_ref();
    title(canvas, &name, content.map(|content| &content.queue));
    if canvas.is_empty_because(model.refusal.as_deref(), content.is_some()) {
        return;
    }
    let Some(content) = content else { return };
    let is_large = canvas.height() >= ALL_FACTS_HEIGHT;
    let facts = facts(content);
    canvas.facts(if is_large { &facts } else { &facts[..2] }, if is_large { 3 } else { 1 });
    if is_large {
        let policy = policy(&content.queue);
        canvas.facts(&[("policy", policy, Style::new())], 1);
    }
    if is_large || content.queue.ready > 0 {
        let style = canvas.theme.accent();
        canvas.text(&content.why.text, style, if is_large { 2 } else { 1 });
    }
    if is_large {
        canvas.gap();
    }
    states(canvas, model.queue.state, &content.queue);
    if content.jobs.unreadable > 0 {
        let style = canvas.theme.bad();
        let text = format!(
            "{} are left out: the log cannot be read",
            text::counted(content.jobs.unreadable, "job")
        );
        canvas.text(&text, style, 1);
    }
    let grid = jobs(canvas, &content.jobs.items, model.queue.state);
    model.page_rows = canvas.table(&grid, Some(&model.queue.jobs));
}

fn title(canvas: &mut Canvas<'_>, name: &str, queue: Option<&Queue>) {
    let theme = canvas.theme;
    let mut badges = Vec::new();
    if let Some(queue) = queue {
        if queue.pause_left_ms > 0 {
            let left = text::seconds(queue.pause_left_ms.div_ceil(1_000));
            badges.push((format!("  paused for {left}"), theme.warning()));
        }
        if queue.is_being_removed {
            badges.push(("  is being removed".to_owned(), theme.warning()));
        }
        if queue.is_child {
            badges.push(("  fan-out child".to_owned(), theme.faint()));
        }
        if queue.has_cold_jobs {
            badges.push(("  some jobs are only in the log".to_owned(), theme.faint()));
        }
    }
    let mut room = canvas.width();
    let name = cut(&one_line(name), room);
    room = room.saturating_sub(name.width());
    let mut spans = vec![Span::styled(name, theme.strong())];
    for (text, style) in badges {
        if text.width() <= room {
            room -= text.width();
            spans.push(Span::styled(text, style));
        }
    }
    canvas.line(Line::from(spans));
}

/// The first two are the most important ones.
fn facts(content: &QueueContent) -> Vec<(&'static str, String, Style)> {
    let plain = Style::new();
    let queue = &content.queue;
    let rate = |number: fn((f64, f64)) -> f64| number::rate(content.rates.map(number));
    vec![
        ("puts/s", rate(|(puts, _)| puts), plain),
        ("ends/s", rate(|(_, ends)| ends), plain),
        ("oldest", number::time(queue.head_age_ms), plain),
        ("put", number::count(queue.puts), plain),
        ("ended", number::count(queue.finishes), plain),
        ("waiting", number::count(queue.waiters), plain),
        ("watching", number::count(queue.watchers), plain),
        ("Gearman workers", number::count(queue.workers), plain),
        ("size", size::rounded(queue.ready_bytes), plain),
    ]
}

/// The settings that the configuration sets.
fn policy(queue: &Queue) -> String {
    let set = queue.policy.iter().filter_map(|setting| {
        let line = setting.line?;
        Some(format!("{} = {} (line {line})", setting.key, setting.value))
    });
    let set: Vec<String> = set.collect();
    if set.is_empty() { "only defaults".to_owned() } else { set.join(", ") }
}

/// The states with their numbers of jobs. The present one is marked.
fn states(canvas: &mut Canvas<'_>, present: JobState, queue: &Queue) {
    let theme = canvas.theme;
    let count = |state| match state {
        JobState::Ready => queue.ready,
        JobState::Leased => queue.leased,
        JobState::Delayed => queue.delayed,
        JobState::Buried => queue.buried,
    };
    let label = |state: JobState, is_short: bool| {
        let word = state.name();
        let word = if is_short { &word[..1] } else { word };
        format!(" {word} {} ", number::count(count(state)))
    };
    let whole: usize = STATES.iter().map(|(_, state)| label(*state, false).width()).sum();
    let spans = STATES.iter().map(|(_, state)| {
        let is_present = *state == present;
        let style = theme.state(*state);
        let style = if is_present { style.patch(theme.selected()) } else { style };
        Span::styled(label(*state, whole > canvas.width() && !is_present), style)
    });
    canvas.line(Line::from(spans.collect::<Vec<_>>()));
}

fn jobs(canvas: &Canvas<'_>, jobs: &[Job], state: JobState) -> Grid {
    let left = match state {
        JobState::Delayed => "DUE IN",
        JobState::Leased => "TIME LEFT",
        JobState::Ready | JobState::Buried => "",
    };
    let mut columns = vec![Column::number("JOB", 9)];
    if !left.is_empty() {
        columns.push(Column::number(left, 7));
    }
    columns.extend([
        Column::number("AGE", 6),
        Column::number("PRIORITY", 4),
        Column::number("TAKEN", 5),
        Column::number("SIZE", 3),
        Column::text("BODY", 8),
    ]);
    let mut grid = Grid::new(columns);
    for job in jobs {
        let mut cells: Vec<Cell> = vec![cell(job.id.to_string())];
        if !left.is_empty() {
            cells.push(cell(number::time(job.time_left_ms)));
        }
        let body = job.body.as_ref().map_or("", |body| body.text.as_str());
        cells.extend([
            cell(number::time(job.age_ms)),
            cell(job.priority.to_string()),
            cell(number::cell(job.counters.takes.into())),
            cell(size::rounded(job.body_bytes)),
            cell(cut(&one_line(body), canvas.width())),
        ]);
        grid.row(cells);
    }
    grid
}
