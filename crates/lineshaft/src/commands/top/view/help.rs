//! The page of help: all keys.

use ratatui::text::{Line, Span};

use super::Canvas;
use super::prompt::popup;
use crate::commands::top::fit::{cut, pad};

/// The width of a column of keys.
const KEYS_WIDTH: usize = 16;
const WIDTH_MAX: u16 = 72;

const KEYS: [(&str, &str); 17] = [
    ("1 to 6, Tab", "the screens"),
    ("Enter", "open what is selected"),
    ("Esc", "back"),
    ("↑ ↓ j k", "move; at the end of a page, turn it"),
    ("PgUp PgDn Space", "turn the page"),
    ("Home End", "the first page; the last row"),
    ("/", "filter queues: a part of the name, or a pattern with * and ?"),
    ("n r l d b", "sort queues by name, ready, leased, delayed, buried"),
    ("i o a w g", "by puts/s, ends/s, oldest, waiting, growth"),
    ("", "the same key again reverses the order"),
    ("r l d b", "on a queue: its ready, leased, delayed, buried jobs"),
    ("P", "pause the queue, or end its pause"),
    ("K", "kick: make buried or delayed jobs ready"),
    ("C", "end all jobs of the queue"),
    ("D", "delete the job"),
    ("X", "close the connection; cancel the operation"),
    ("q, Ctrl-C", "quit"),
];

pub(super) fn draw(canvas: &mut Canvas<'_>) {
    let theme = canvas.theme;
    let width = canvas.area.width.saturating_sub(2).min(WIDTH_MAX);
    let inner = usize::from(width.saturating_sub(4));
    let keys_width = KEYS_WIDTH.min(inner / 3);
    let lines = KEYS.iter().map(|(keys, what)| {
        Line::from(vec![
            Span::styled(pad(keys, keys_width, false), theme.accent().patch(theme.strong())),
            Span::raw(" "),
            Span::raw(cut(what, inner.saturating_sub(keys_width + 1))),
        ])
    });
    let lines = lines.collect();
    popup(canvas, "Keys", width, lines);
}
