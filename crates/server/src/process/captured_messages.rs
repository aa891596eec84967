//! Captures messages in tests.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Dispatch;

/// Messages of a test's thread.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Captured {
    fn dispatch(&self) -> Dispatch {
        let captured = self.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false);
        Dispatch::new(lines.with_writer(move || captured.clone()).finish())
    }
}

/// Returns the lines with this text that this thread writes during the work.
pub(crate) fn during(text: &str, work: impl FnOnce()) -> Vec<String> {
    let (captured, others) = (Captured::default(), Captured::default());
    // If there is only one dispatch, another test's thread can turn a message off for all threads
    // when it is the first to come to this message. So there are two.
    let (dispatch, _other) = (captured.dispatch(), others.dispatch());
    tracing::dispatcher::with_default(&dispatch, work);
    let bytes = captured.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let lines = String::from_utf8_lossy(&bytes);
    lines.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}
