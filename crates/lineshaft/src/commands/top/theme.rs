//! Colours that are readable on light and on dark terminals.
//!
//! The colours have a medium brightness, and the background is always that of the terminal. A colour
//! is never the only sign of something: a word or a symbol says the same.

use api::types::{HealthLevel, JobState, OperationStatus};
use ratatui::style::{Color, Modifier, Style};

/// How to emphasize parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    /// Bold, faint and reversed text only.
    Plain,
    /// The 16 colours that every terminal has.
    Few,
    /// The 256 colours of most terminals.
    Many,
}

#[expect(clippy::unused_self, reason = "all styles are asked for in one way")]
impl Theme {
    /// The theme for the terminal of this process.
    pub(super) fn of_environment() -> Theme {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Theme::of(&variable("NO_COLOR"), &variable("TERM"), &variable("COLORTERM"))
    }

    fn of(no_color: &str, term: &str, color_term: &str) -> Theme {
        if !no_color.is_empty() || term == "dumb" {
            Theme::Plain
        } else if term.contains("256color") || !color_term.is_empty() {
            Theme::Many
        } else {
            Theme::Few
        }
    }

    fn colour(self, few: Color, many: u8) -> Style {
        match self {
            Theme::Plain => Style::new(),
            Theme::Few => Style::new().fg(few),
            Theme::Many => Style::new().fg(Color::Indexed(many)),
        }
    }

    /// The colour of jobs in this state.
    pub(super) fn state(self, state: JobState) -> Style {
        match state {
            JobState::Ready => self.colour(Color::Blue, 32),
            JobState::Leased => self.colour(Color::Yellow, 166),
            JobState::Delayed => self.colour(Color::Magenta, 134),
            JobState::Buried => self.bad(),
        }
    }

    /// The colour of a level of health.
    pub(super) fn health(self, level: HealthLevel) -> Style {
        match level {
            HealthLevel::Ok => self.good(),
            HealthLevel::Warning => self.warning(),
            HealthLevel::Critical => self.bad().add_modifier(Modifier::BOLD),
        }
    }

    /// The colour of an operation.
    pub(super) fn operation(self, status: OperationStatus) -> Style {
        match status {
            OperationStatus::Running => self.accent(),
            OperationStatus::Done => self.good(),
            OperationStatus::Cancelled => self.warning(),
            OperationStatus::Failed => self.bad(),
        }
    }

    /// All is well.
    pub(super) fn good(self) -> Style {
        self.colour(Color::Green, 29)
    }

    /// Somebody should look at this.
    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow, 166)
    }

    /// Something is wrong.
    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red, 160)
    }

    /// The colour of the program itself, and of curves that belong to no state.
    pub(super) fn accent(self) -> Style {
        self.colour(Color::Cyan, 30)
    }

    /// Less important text.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Important text.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row, and the present screen.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides() {
        assert_eq!(Theme::of("1", "xterm-256color", "truecolor"), Theme::Plain);
        assert_eq!(Theme::of("", "dumb", ""), Theme::Plain);
        assert_eq!(Theme::of("", "xterm-256color", ""), Theme::Many);
        assert_eq!(Theme::of("", "linux", ""), Theme::Few);
        assert_eq!(Theme::Plain.bad(), Style::new());
    }
}
