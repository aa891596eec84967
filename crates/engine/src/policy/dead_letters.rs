//! Dead letters: jobs that have failed too often, or could not stay, and are set aside with the reason.

use super::Name;

/// What happens to a job that has failed too often, or expires or makes room.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadLetters {
    /// Where the job goes.
    pub target: DeadTarget,
    /// The server ends the job this many milliseconds later. `None`: it stays.
    pub keep_ms: Option<u64>,
    /// The maximum number of dead letters in the target. One more ends the oldest of them.
    pub jobs_max: u64,
    /// Whether a job that expires is a dead letter, if it would end.
    pub expired: bool,
    /// Whether a job is a dead letter if its full queue drops it, or if it expires and the queue of
    /// `expire_to` is full.
    pub dropped: bool,
}

/// Where dead letters go.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum DeadTarget {
    /// They are buried in their queue.
    #[default]
    Bury,
    /// They end.
    Drop,
    /// They move to the queue of this name, and are ready there. `{name}` in it stands for the name
    /// of the queue that they leave.
    Queue(Name),
}

impl Default for DeadLetters {
    fn default() -> Self {
        Self {
            target: DeadTarget::default(),
            keep_ms: Some(14 * 86_400_000),
            jobs_max: 100_000,
            expired: false,
            dropped: false,
        }
    }
}

impl DeadTarget {
    /// The name of the queue for the dead letters of a queue. `None`: they stay, or end.
    pub fn queue_for(&self, name: &[u8]) -> Option<Name> {
        const MARK: &[u8] = b"{name}";
        let Self::Queue(pattern) = self else { return None };
        let mut target = Vec::with_capacity(pattern.len() + name.len());
        let mut rest = &pattern[..];
        while let Some(at) = rest.windows(MARK.len()).position(|part| part == MARK) {
            target.extend_from_slice(&rest[..at]);
            target.extend_from_slice(name);
            rest = &rest[at + MARK.len()..];
        }
        target.extend_from_slice(rest);
        Some(target.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_queue_is_filled_in() {
        let target = |pattern: &str| {
            let target = DeadTarget::Queue(pattern.as_bytes().into());
            String::from_utf8(target.queue_for(b"mail").expect("it is a queue").into())
        };
        assert_eq!(target("dead.{name}").as_deref(), Ok("dead.mail"));
        assert_eq!(target("{name}{name}-{nam}").as_deref(), Ok("mailmail-{nam}"));
        assert_eq!(target("dead").as_deref(), Ok("dead"));
        assert_eq!(DeadTarget::Bury.queue_for(b"mail"), None);
    }
}
