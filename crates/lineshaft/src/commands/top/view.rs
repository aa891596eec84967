//! Draws the screens: the head and the keys here, the contents in the other files of this folder.

mod connections;
mod help;
mod job;
mod operations;
mod overview;
mod prompt;
mod queue;
mod queues;
mod spark;

use std::time::Instant;

use api::types::{HealthLevel, Role, Status};
use notation::plain::one_line;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget as _};
use unicode_width::UnicodeWidthStr as _;

use super::ask::Head;
use super::fit::{cut, wrap};
use super::grid::Grid;
use super::list::List;
use super::model::{Model, Rights, Screen};
use super::theme::Theme;
use super::{keys, number};
use crate::text;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, theme: Theme, now: Instant) {
    let area = frame.area();
    let mut canvas = Canvas { buffer: frame.buffer_mut(), theme, area };
    canvas.line(title(model, theme, canvas.width()));
    canvas.line(tabs(model, theme, canvas.width()));
    for (text, style) in remarks(model, theme, now) {
        for line in wrap(&one_line(&text), canvas.width()).into_iter().take(3) {
            canvas.line(Line::styled(line, style));
        }
    }
    let hints = hints(model, theme, canvas.width());
    canvas.last_line(hints);
    if canvas.area.height > 9 {
        canvas.gap();
    }
    match model.screen {
        Screen::Overview => overview::draw(&mut canvas, model),
        Screen::Queues => queues::draw(&mut canvas, model),
        Screen::Queue => queue::draw(&mut canvas, model),
        Screen::Job => job::draw(&mut canvas, model),
        Screen::Connections => connections::draw(&mut canvas, model),
        Screen::Operations => operations::draw(&mut canvas, model),
    }
    canvas.area = area;
    if model.is_help {
        help::draw(&mut canvas);
    } else if let Some(prompt) = &model.prompt {
        prompt::draw(&mut canvas, prompt, &model.place);
    }
}

/// The part of the screen that is still empty, filled line by line.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    theme: Theme,
    area: Rect,
}

impl Canvas<'_> {
    fn width(&self) -> usize {
        self.area.width.into()
    }

    fn height(&self) -> usize {
        self.area.height.into()
    }

    /// Takes lines from the top.
    fn take(&mut self, lines: usize) -> Rect {
        let height = u16::try_from(lines).unwrap_or(u16::MAX).min(self.area.height);
        let taken = Rect { height, ..self.area };
        self.area =
            Rect { y: self.area.y + height, height: self.area.height - height, ..self.area };
        taken
    }

    fn gap(&mut self) {
        self.take(1);
    }

    fn line(&mut self, line: Line<'_>) {
        let area = self.take(1);
        Paragraph::new(line).render(area, self.buffer);
    }

    fn last_line(&mut self, line: Line<'_>) {
        if self.area.height == 0 {
            return;
        }
        self.area.height -= 1;
        let area = Rect { y: self.area.y + self.area.height, height: 1, ..self.area };
        Paragraph::new(line).render(area, self.buffer);
    }

    /// A text in as many lines as it needs, but at most `max`.
    fn text(&mut self, text: &str, style: Style, max: usize) {
        for line in wrap(&one_line(text), self.width()).into_iter().take(max) {
            self.line(Line::styled(line, style));
        }
    }

    /// Names with values, as many as fit on each line, on at most `max` lines.
    fn facts(&mut self, facts: &[(&str, String, Style)], max: usize) {
        let mut lines: Vec<Vec<Span<'static>>> = vec![Vec::new()];
        let mut used = 0;
        for (name, value, style) in facts {
            let value = one_line(value);
            let gap = if used > 0 { 3 } else { 0 };
            let space = usize::from(!name.is_empty());
            let width = name.width() + space + value.width();
            if used > 0 && used + gap + width > self.width() {
                lines.push(Vec::new());
                used = 0;
            }
            let line = lines.last_mut().expect("it begins with a line");
            if used > 0 {
                line.push(Span::raw("   "));
                used += 3;
            }
            if !name.is_empty() {
                line.push(Span::styled(format!("{name} "), self.theme.faint()));
            }
            let room = self.width().saturating_sub(used + name.width() + space);
            line.push(Span::styled(cut(&value, room), *style));
            used += width;
        }
        for line in lines.into_iter().take(max) {
            self.line(Line::from(line));
        }
    }

    /// A table with a selected row, in the lines that are left. Returns the number of rows that fit.
    fn table(&mut self, grid: &Grid, list: Option<&List>) -> usize {
        let (head, rows) = grid.lines(self.width(), self.theme.faint());
        self.line(head);
        let fitting = self.height().max(1);
        let selected = list.and_then(List::selected);
        let first = selected.map_or(0, |row| (row + 1).saturating_sub(fitting));
        for (place, row) in rows.into_iter().enumerate().skip(first).take(fitting) {
            let area = self.take(1);
            Paragraph::new(row).render(area, self.buffer);
            if selected == Some(place) {
                self.buffer.set_style(area, self.theme.selected());
            }
        }
        fitting
    }

    /// A remark in the middle of an empty screen.
    fn remark(&mut self, text: &str) {
        let theme = self.theme;
        self.gap();
        self.text(text, theme.faint(), 4);
    }

    /// Says why a screen is empty: the server refused, or has not answered. Returns false if it has
    /// something to show.
    fn is_empty_because(&mut self, refusal: Option<&str>, has_content: bool) -> bool {
        match refusal {
            Some(refusal) => {
                let style = self.theme.warning();
                self.gap();
                self.text(refusal, style, 4);
            }
            None if !has_content => self.remark("waiting for the server's reply"),
            None => return false,
        }
        true
    }
}

/// The server in one line.
fn title(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let (mut parts, right) = match &model.head {
        None => (Vec::new(), None),
        Some(Head::Server(server)) => {
            let parts = vec![
                server.version.clone(),
                format!("up {}", text::seconds(server.uptime_ms / 1_000)),
                server.host.clone(),
            ];
            (parts, Some(server.health.level))
        }
        Some(Head::Tubes { version, uptime_s, connections, .. }) => {
            let parts = vec![
                format!("version {version}"),
                format!("up {}", text::seconds(*uptime_s)),
                text::counted(*connections, "connection"),
            ];
            (parts, None)
        }
    };
    if matches!(model.rights, Rights::Api(Role::Viewer) | Rights::Tubes(_)) {
        parts.insert(0, "read-only".to_owned());
    }
    let right = right.map(|level| match level {
        HealthLevel::Ok => ("● ok", level),
        HealthLevel::Warning => ("▲ warning", level),
        HealthLevel::Critical => ("■ critical", level),
    });
    let room = width.saturating_sub(right.map_or(0, |(text, _)| text.width() + 2));
    let mut spans = vec![Span::styled(cut(&model.address, room), theme.strong())];
    let mut used = spans[0].width();
    for part in parts {
        if used + 2 + part.width() <= room {
            used += 2 + part.width();
            spans.push(Span::styled(format!("  {part}"), theme.faint()));
        }
    }
    if let Some((text, level)) = right {
        spans.push(Span::raw(" ".repeat(width.saturating_sub(used + text.width()))));
        spans.push(Span::styled(text, theme.health(level)));
    }
    Line::from(spans)
}

/// The names of the screens. If they do not fit, only the present one has its name.
fn tabs(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let has_api = matches!(model.rights, Rights::Api(_));
    let screens = Screen::ALL.iter().enumerate();
    let screens: Vec<_> =
        screens.filter(|(_, (screen, _))| has_api || *screen == Screen::Queues).collect();
    let whole = screens.iter().map(|(_, (_, name))| name.width() + 4).sum::<usize>();
    let spans = screens.into_iter().map(|(place, (screen, name))| {
        let is_present = *screen == model.screen;
        let label = if is_present || whole <= width {
            format!(" {} {name} ", place + 1)
        } else {
            format!(" {} ", place + 1)
        };
        Span::styled(label, if is_present { theme.selected() } else { theme.faint() })
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// Lines about something unusual, below the tabs.
fn remarks(model: &Model, theme: Theme, now: Instant) -> Vec<(String, Style)> {
    let mut remarks = Vec::new();
    if let Some(alarm) = model.alarm(now) {
        remarks.push((alarm, theme.bad()));
    }
    match &model.note {
        Some(Ok(note)) => remarks.push((format!("✓ {note}"), theme.good())),
        Some(Err(note)) => remarks.push((format!("✗ {note}"), theme.bad())),
        None => {}
    }
    if let Rights::Tubes(why) = &model.rights {
        remarks.push((why.clone(), theme.warning()));
    }
    match &model.head {
        Some(Head::Server(server)) => {
            if server.status != Status::Up {
                remarks.push((format!("status: {}", server.status.name()), theme.warning()));
            }
            if server.draining {
                remarks.push(("draining: the server refuses new jobs".to_owned(), theme.warning()));
            }
        }
        Some(Head::Tubes { is_draining, unnamed_count, .. }) => {
            if *is_draining {
                remarks.push(("draining: the server refuses new jobs".to_owned(), theme.warning()));
            }
            if *unnamed_count > 0 {
                let number = number::count(*unnamed_count);
                let text =
                    format!("{number} more with names not allowed in the beanstalkd protocol");
                remarks.push((text, theme.warning()));
            }
        }
        None => {}
    }
    remarks
}

/// The keys that are useful now. Those that do not fit are on the page of help.
fn hints(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    const ALWAYS: [&str; 2] = ["? help", "q quit"];
    let always = ALWAYS.iter().map(|hint| hint.width() + 2).sum::<usize>();
    let mut shown = Vec::new();
    let mut used = 0;
    for hint in keys::hints(model) {
        if used + hint.width() + 2 + always <= width + 2 {
            used += hint.width() + 2;
            shown.push(hint);
        }
    }
    let mut spans = Vec::new();
    for hint in shown.into_iter().chain(ALWAYS) {
        let (key, what) = hint.split_once(' ').unwrap_or((hint, ""));
        if !spans.is_empty() {
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(key, theme.accent().patch(theme.strong())));
        spans.push(Span::styled(format!(" {what}"), theme.faint()));
    }
    Line::from(spans)
}
