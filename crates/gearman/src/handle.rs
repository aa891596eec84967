//! Handles, which name jobs for clients and workers. A handle has the form `<prefix>:<job id>`.

use std::io::Write as _;

use broker::JobId;

/// Length of the longest handle in bytes. A longer handle does not fit into the fields of clients
/// (spec gearman 1.2).
pub(crate) const HANDLE_BYTES_MAX: usize = 63;

/// Number of decimal digits of the largest job id. Ids are below 2^53.
const NUMBER_BYTES_MAX: usize = 16;

/// Length of the longest prefix in bytes. It leaves room for the colon and the largest job id.
const PREFIX_BYTES_MAX: usize = HANDLE_BYTES_MAX - 1 - NUMBER_BYTES_MAX;

/// The prefix of all handles of a server, including the colon.
#[derive(Debug)]
pub(crate) struct Prefix(Vec<u8>);

impl Prefix {
    /// Builds the prefix from the setting. Drops characters that a handle cannot contain, such as
    /// separators and line ends.
    pub(crate) fn new(configured: &str) -> Self {
        let fitting = configured.bytes().filter(u8::is_ascii_graphic).take(PREFIX_BYTES_MAX);
        Self(fitting.chain([b':']).collect())
    }

    /// The handle of a job.
    pub(crate) fn handle(&self, id: JobId) -> Vec<u8> {
        let mut handle = Vec::with_capacity(HANDLE_BYTES_MAX);
        handle.extend_from_slice(&self.0);
        write!(handle, "{id}").expect("a vector takes everything");
        handle
    }

    /// The id of the job that a handle names. `None` if this server did not issue the handle. Two
    /// handles never name the same job.
    pub(crate) fn parse(&self, handle: &[u8]) -> Option<JobId> {
        let digits = handle.strip_prefix(&self.0[..])?;
        let is_number = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
        let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
        text.parse().ok().map(JobId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_back_strictly() {
        let prefix = Prefix::new("H:vm");
        assert_eq!(prefix.handle(JobId(17)), b"H:vm:17");
        assert_eq!(prefix.parse(b"H:vm:17"), Some(JobId(17)));
        let others: [&[u8]; 9] = [
            b"H:vm:",
            b"H:vm:0",
            b"H:vm:017",
            b"H:vm:+1",
            b"H:vm:1 ",
            b"H:vm:1\0",
            b"H:v:1",
            b"17",
            b"H:vm:99999999999999999999",
        ];
        for other in others {
            assert_eq!(prefix.parse(other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn a_long_or_odd_prefix_is_made_to_fit() {
        let prefix = Prefix::new(&format!("a b\n\0é{}", "x".repeat(100)));
        let handle = prefix.handle(JobId((1 << 53) - 1));
        assert!(handle.len() == HANDLE_BYTES_MAX && handle.starts_with(b"abxx"));
        assert_eq!(prefix.parse(&handle), Some(JobId((1 << 53) - 1)));
    }
}
