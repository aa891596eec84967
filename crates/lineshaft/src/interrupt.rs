//! Counts the signals SIGINT, SIGTERM and SIGHUP. The first signal asks the program to stop. Each
//! further signal is more urgent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The number of signals so far. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupts {
    count: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Starts to count the signals. From then on, they no longer end the program. After every
    /// signal, another thread calls `each` with the new count.
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

    /// The number of signals so far.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
