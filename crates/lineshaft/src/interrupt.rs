//! Counts Ctrl-C, SIGTERM and SIGHUP: the first asks to stop, later ones insist.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How often the user asked to stop. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupts {
    count: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Starts to count the signals, which then no longer end the program. `each` runs after every
    /// signal, on its own thread, with the new count.
    pub(crate) fn listen(each: impl Fn(usize) + Send + 'static) -> io::Result<Interrupts> {
        let interrupts = Interrupts::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let counted = interrupts.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _signal in signals.forever() {
                let count = counted.count.fetch_add(1, Ordering::Relaxed) + 1;
                each(count);
            }
        })?;
        Ok(interrupts)
    }

    /// How often the user asked to stop so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
