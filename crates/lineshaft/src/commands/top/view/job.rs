//! One job: its facts, what is in its way, and its body.

use api::types::{Job, JobState};
use notation::plain::{self, one_line};
use notation::size;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Canvas, number, text};
use crate::commands::peek::without_last_line_end;
use crate::commands::top::ask::JobContent;
use crate::commands::top::fit::wrap;
use crate::commands::top::model::Model;

/// Bytes on a line of a body that is not text.
const HEX_BYTES: usize = 16;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &mut Model) {
    let Some(id) = model.job else {
        return canvas.remark("Choose a job on screen 3, and press Enter.");
    };
    let content = model.job_content.as_ref();
    if canvas.is_empty_because(model.refusal.as_deref(), content.is_some()) {
        return;
    }
    let Some(content) = content else { return };
    let (job, theme) = (&content.job, canvas.theme);
    let state = job.state.name();
    canvas.line(Line::from(vec![
        Span::styled(format!("Job {id}"), theme.strong()),
        Span::styled(" in ", theme.faint()),
        Span::styled(one_line(&job.queue), theme.strong()),
        Span::raw("  "),
        Span::styled(format!(" {state} "), theme.state(job.state).patch(theme.selected())),
    ]));
    let is_large = canvas.height() >= 12;
    canvas.facts(&facts(job), if is_large { 5 } else { 2 });
    if let Some(why) = &content.why {
        canvas.text(&why.text, theme.accent(), if is_large { 3 } else { 1 });
    }
    if is_large {
        canvas.gap();
    }
    body(canvas, content, &mut model.scroll);
}

fn facts(job: &Job) -> Vec<(&'static str, String, Style)> {
    let plain = Style::new();
    let counters = &job.counters;
    let mut facts = vec![
        ("put", format!("{} ago", number::time(job.age_ms)), plain),
        ("priority", job.priority.to_string(), plain),
    ];
    match job.state {
        JobState::Delayed => facts.push(("due in", number::time(job.time_left_ms), plain)),
        JobState::Leased => facts.push(("time left", number::time(job.time_left_ms), plain)),
        JobState::Ready | JobState::Buried => {}
    }
    if let Some(holder) = &job.holder {
        let held = number::time(holder.held_ms);
        facts.push(("holder", format!("connection {} for {held}", holder.connection), plain));
    }
    let ttr = if job.ttr_s == 0 { "no limit".to_owned() } else { text::seconds(job.ttr_s.into()) };
    facts.push(("ttr", ttr, plain));
    if job.delay_s > 0 {
        facts.push(("delay", text::seconds(job.delay_s.into()), plain));
    }
    facts.push(("durable", if job.is_durable { "yes" } else { "no" }.to_owned(), plain));
    for (name, number) in [
        ("taken", counters.takes),
        ("given back", counters.releases),
        ("timed out", counters.timeouts),
        ("buried", counters.buries),
        ("kicked", counters.kicks),
        ("failed", counters.failures),
    ] {
        if number > 0 || name == "taken" {
            facts.push((name, text::counted(number.into(), "time"), plain));
        }
    }
    if let Some(unique) = &job.unique {
        facts.push(("key", unique.clone(), plain));
    }
    facts.push(("created", job.created_at.clone(), plain));
    if let Some(expires) = &job.expires_at {
        facts.push(("expires", expires.clone(), plain));
    }
    facts
}

fn body(canvas: &mut Canvas<'_>, content: &JobContent, scroll: &mut usize) {
    let theme = canvas.theme;
    let size = size::rounded(content.job.body_bytes);
    let Some(body) = &content.body else {
        let text =
            format!("The body has {size}. To see it: lineshaft peek --id {}", content.job.id);
        return canvas.text(&text, theme.faint(), 2);
    };
    let (kind, lines) = shown(body, canvas.width());
    let rows = canvas.height().saturating_sub(1).max(1);
    *scroll = (*scroll).min(lines.len().saturating_sub(rows));
    let more = if lines.len() > rows {
        format!(", lines {}–{} of {}", *scroll + 1, (*scroll + rows).min(lines.len()), lines.len())
    } else {
        String::new()
    };
    canvas.line(Line::styled(format!("BODY {size}, {kind}{more}"), theme.faint()));
    for line in lines.into_iter().skip(*scroll).take(rows) {
        canvas.line(Line::raw(line));
    }
}

/// What a body is, and its lines on the screen. Nothing in a body can change the terminal.
fn shown(body: &[u8], width: usize) -> (&'static str, Vec<String>) {
    let (kind, text) = match (api::in_lines(body), std::str::from_utf8(body)) {
        (Some(lines), _) => lines,
        (None, Ok(text)) if plain::is_readable(text) => {
            ("text", plain::escaped_bytes(without_last_line_end(body)))
        }
        (None, _) => return ("bytes", hex(body, width)),
    };
    let text = text.replace('\t', "    ");
    (kind, text.split('\n').flat_map(|line| wrap(line, width)).collect())
}

fn hex(body: &[u8], width: usize) -> Vec<String> {
    // Each byte takes three columns, and one more as a character.
    let bytes = (width.saturating_sub(10) / 4).clamp(4, HEX_BYTES);
    plain::dump(body, bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_readable_and_harmless() {
        let (kind, lines) = shown(b"{\"to\":\"ann\",\"x\":[1]}", 40);
        assert_eq!((kind, lines[1].as_str()), ("JSON", "  \"to\": \"ann\","));
        assert_eq!(
            shown("a\tb\n邮件".as_bytes(), 40),
            ("text", vec!["a    b".into(), "邮件".into()])
        );
        let (kind, lines) = shown(b"\x1b[2J", 80);
        assert_eq!(
            (kind, lines[0].trim_end()),
            ("bytes", "000000  1b 5b 32 4a                                      .[2J")
        );
        assert_eq!(shown(&[0xff; 20], 30).1.len(), 4);
        assert_eq!(shown(b"", 30), ("text", vec![String::new()]));
    }
}
