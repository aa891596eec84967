//! A socket that the runtime watches, whatever its family.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Has the runtime, inside which this is called, watch a socket that does not block.
#[expect(
    deprecated,
    reason = "its successor is unsafe for types that do not keep their descriptor open; OwnedFd does"
)]
pub(crate) fn watch(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(socket)
}
