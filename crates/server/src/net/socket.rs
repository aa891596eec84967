//! Makes the runtime watch a socket of any family.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Lets the current runtime watch a non-blocking socket.
#[expect(
    deprecated,
    reason = "its successor is unsafe for types that do not keep their descriptor open; OwnedFd does"
)]
pub(crate) fn watch(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(socket)
}
