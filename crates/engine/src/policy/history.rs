//! What is kept of jobs that have left their queue: the policy `history`. The engine only reports
//! what happened to these jobs. Its owner keeps the history.

/// What is kept of the jobs of a queue after they have left it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct History {
    /// Whether anything is kept.
    pub is_on: bool,
    /// How long, in milliseconds.
    pub keep_ms: u64,
    /// The maximum number of jobs. One more displaces the oldest of them.
    pub jobs_max: u64,
    /// How much of the body is kept.
    pub body: KeptBody,
}

/// How much of the body of a job its history keeps.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum KeptBody {
    /// Nothing but its length.
    #[default]
    None,
    /// At most this many bytes.
    Prefix(u32),
    /// All of it.
    Full,
}

impl KeptBody {
    /// How many bytes of a body of this length are kept.
    pub fn bytes_of(self, body_bytes: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Prefix(bytes) => body_bytes.min(bytes as usize),
            Self::Full => body_bytes,
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self { is_on: false, keep_ms: 86_400_000, jobs_max: 100_000, body: KeptBody::None }
    }
}
