//! The pop-up that asks before an action.

use notation::plain::one_line;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Widget as _};
use unicode_width::UnicodeWidthStr as _;

use super::Canvas;
use crate::commands::top::action::Place;
use crate::commands::top::fit::wrap;
use crate::commands::top::prompt::Prompt;

/// The widest pop-up.
const WIDTH_MAX: u16 = 76;

pub(super) fn draw(canvas: &mut Canvas<'_>, prompt: &Prompt, place: &Place) {
    let theme = canvas.theme;
    let width = canvas.area.width.saturating_sub(2).min(WIDTH_MAX);
    let inner = usize::from(width.saturating_sub(4)).max(1);
    // With few lines, the pop-up has no empty ones.
    let is_large = canvas.area.height >= 16;
    let mut lines: Vec<Line<'_>> = Vec::new();
    let text = |lines: &mut Vec<Line<'_>>, text: &str, style: Style, max: usize| {
        let wrapped = wrap(&one_line(text), inner).into_iter().take(max);
        lines.extend(wrapped.map(|line| Line::styled(line, style)));
    };
    let gap = |lines: &mut Vec<Line<'_>>| {
        if is_large {
            lines.push(Line::default());
        }
    };
    text(&mut lines, &prompt.explanation(), Style::new(), 4);
    gap(&mut lines);
    if let Some(choice) = prompt.choice() {
        lines.push(Line::from(vec![
            Span::styled("which jobs: ", theme.faint()),
            Span::styled(choice, theme.strong()),
            Span::styled("   (Tab: another)", theme.faint()),
        ]));
    }
    if let Some(label) = prompt.label() {
        let label = format!("{label}: ");
        let mut typed = prompt.text.as_str();
        while !typed.is_empty() && typed.width() + label.width() + 1 > inner {
            typed = &typed[typed.chars().next().map_or(0, char::len_utf8)..];
        }
        lines.push(Line::from(vec![
            Span::styled(label, theme.faint()),
            Span::styled(format!("{typed}▏"), theme.strong()),
        ]));
    }
    if let Some(mistake) = &prompt.mistake {
        text(&mut lines, mistake, theme.bad(), 2);
    }
    if let Ok(action) = prompt.action() {
        gap(&mut lines);
        lines.push(Line::styled("as a command:", theme.faint()));
        text(&mut lines, &action.command(place), theme.accent(), 4);
    }
    gap(&mut lines);
    lines.push(Line::from(vec![
        Span::styled("Enter", theme.accent().patch(theme.strong())),
        Span::styled(" do it   ", theme.faint()),
        Span::styled("Esc", theme.accent().patch(theme.strong())),
        Span::styled(" leave", theme.faint()),
    ]));
    popup(canvas, prompt.title(), width, lines);
}

/// A frame in the middle of the screen.
pub(super) fn popup(canvas: &mut Canvas<'_>, title: &str, width: u16, lines: Vec<Line<'_>>) {
    let theme = canvas.theme;
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(canvas.area.height);
    let area = Rect {
        x: canvas.area.x + (canvas.area.width - width) / 2,
        y: canvas.area.y + (canvas.area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .padding(Padding::horizontal(1))
        .title(Span::styled(format!(" {title} "), theme.strong()));
    Clear.render(area, canvas.buffer);
    Paragraph::new(lines).block(block).render(area, canvas.buffer);
}
