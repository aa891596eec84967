//! A line on a terminal that shows the progress of a run. If standard error is not a terminal,
//! nothing is shown.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error that shows the progress of a run.
#[derive(Debug)]
pub(crate) struct Meter {
    bar: ProgressBar,
}

impl Meter {
    /// Creates a line, which is visible only if standard error is a terminal.
    pub(crate) fn new() -> Self {
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}")
                .expect("the template is a valid constant");
            bar.set_style(style);
            Self { bar }
        } else {
            Self::hidden()
        }
    }

    /// A line that is never shown.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Shows `text`. Call it at most a few times per second.
    pub(crate) fn show(&self, text: String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text);
            self.bar.tick();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
