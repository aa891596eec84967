//! Handles Ctrl-C and termination. A signal becomes an ordinary error. So destructors run, which
//! end child processes and remove folders.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The user stopped the run before its end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Starts to watch for signals. A second signal ends the process at once.
pub(crate) fn watch() -> anyhow::Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))?;
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Returns an error after a signal has arrived. Every loop that can take long calls this.
pub(crate) fn check() -> anyhow::Result<()> {
    match INTERRUPTED.get() {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Interrupted.into()),
        _ => Ok(()),
    }
}

/// Sleeps. Returns with an error soon after a signal.
pub(crate) fn sleep(duration: std::time::Duration) -> anyhow::Result<()> {
    let end = std::time::Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(std::time::Duration::from_millis(100)));
    }
}
