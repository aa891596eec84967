//! Makes the runtime watch a socket of any family, or another descriptor.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::unix::AsyncFd;

/// Lets the current runtime watch a non-blocking socket, or another descriptor. The owner must keep
/// the descriptor open.
#[expect(
    deprecated,
    reason = "its successor is unsafe for types that do not keep their descriptor open; callers do"
)]
pub(crate) fn watch<T: AsRawFd>(socket: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(socket)
}
