//! The guard of the broker's lock. It remembers a panic that may have left a request half done, as
//! the lock of the standard library would.

use std::ops::{Deref, DerefMut};
use std::thread::panicking;

use parking_lot::{Mutex, MutexGuard};

use crate::core::Core;

/// The locked core. If its thread panics while it has the lock, nobody gets the lock any more.
#[derive(Debug)]
pub(crate) struct CoreGuard<'a> {
    core: MutexGuard<'a, Core>,
    /// The thread was already panicking when it got the lock, for example because it closes a
    /// session. So the panic says nothing about the core.
    was_panicking: bool,
}

impl<'a> CoreGuard<'a> {
    /// Locks the core. Panics if a thread has panicked while it had the lock.
    pub(crate) fn lock(core: &'a Mutex<Core>) -> Self {
        let core = core.lock();
        assert!(!core.is_broken, "no thread has panicked while it had the lock");
        Self { core, was_panicking: panicking() }
    }

    /// Whether the thread has panicked since it got the lock.
    pub(crate) fn has_panicked(&self) -> bool {
        panicking() && !self.was_panicking
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        self.core.is_broken = self.has_panicked();
    }
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
