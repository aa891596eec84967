//! Handles: the names that clients and workers know jobs by, `<prefix>:<number of the job>`.

use std::io::Write as _;

use broker::JobId;

/// Longest handle; one more byte, and it would not fit the fields of the clients (spec gearman 1.2).
pub(crate) const HANDLE_BYTES_MAX: usize = 63;

/// Decimal digits of the largest job number, which is below 2^53.
const NUMBER_BYTES_MAX: usize = 16;

/// Longest prefix with which every handle is short enough.
const PREFIX_BYTES_MAX: usize = HANDLE_BYTES_MAX - 1 - NUMBER_BYTES_MAX;

/// What all handles of a server begin with, colon included.
#[derive(Debug)]
pub(crate) struct Prefix(Vec<u8>);

impl Prefix {
    /// From the prefix as configured. What a handle cannot hold is left out: a separator or a line
    /// end would be taken for the end of the handle.
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

    /// The number of the job that a handle names. `None`: this server did not give it out. There is
    /// one spelling for each number, so that a handle equals no other one.
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
