//! Waits for a condition, for the end of a process, or for a time. Tests sleep only here; `cargo
//! xtask tidy` checks this.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// The time limit for operations that take only a moment on an idle machine. It is generous,
/// because a busy machine must not fail a test. It only ends a test that hangs.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The pause between two checks. It is short compared with a test, and long compared with a check.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `look` repeatedly until it returns a value. Returns `None` at the time limit. Calls `look`
/// at least once, and once more after the last pause.
pub fn for_some<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let is_last = started.elapsed() >= limit;
        let found = look();
        if found.is_some() || is_last {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until the condition is true. At the time limit, panics with the name of the condition.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let became_so = for_some(LIMIT, || is_so().then_some(()));
    assert!(became_so.is_some(), "waited too long until {what}");
}

/// Waits for a condition whose check can fail. Fails at the first error of the check, and at the
/// time limit.
pub fn until_ok(what: &str, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let outcome = for_some(LIMIT, || match is_so() {
        Ok(is_so) => is_so.then_some(Ok(())),
        Err(error) => Some(Err(error)),
    });
    outcome.unwrap_or_else(|| anyhow::bail!("waited too long until {what}"))
}

/// Waits for the end of a process. Returns `None` at the time limit. The process then still runs.
pub fn for_exit(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    for_some(limit, || child.try_wait().transpose()).transpose()
}

/// Lets real time pass. `reason` says why the test cannot wait for a condition. Either the test is
/// about the passing of time, or it checks that nothing happens meanwhile.
pub fn let_pass(time: Duration, reason: &str) {
    assert!(!reason.is_empty(), "time passes for a reason");
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_condition_is_looked_at_until_it_is_so() {
        let mut looks = 0;
        until("it was looked at three times", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn without_time_it_looks_once() {
        let mut looks = 0;
        let nothing: Option<()> = for_some(Duration::ZERO, || {
            looks += 1;
            None
        });
        assert_eq!((nothing, looks), (None, 1));
    }

    #[test]
    fn the_first_failure_ends_the_wait() {
        let mut looks = 0;
        let outcome = until_ok("never", || {
            looks += 1;
            anyhow::ensure!(looks < 2, "it broke");
            Ok(false)
        });
        assert_eq!(outcome.expect_err("the second look fails").to_string(), "it broke");
        assert_eq!(looks, 2);
    }

    #[test]
    fn a_running_process_is_distinguished_from_an_ended_one() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(for_exit(&mut child, Duration::ZERO).unwrap().is_none());
        drop(child.stdin.take());
        assert!(for_exit(&mut child, LIMIT).unwrap().expect("its input ended").success());
    }
}
