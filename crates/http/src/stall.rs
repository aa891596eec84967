//! A socket with time limits for the client's first byte and for its reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A socket with two time limits. First, if the client reads nothing for some time, writes fail.
/// Without this limit, an unread response would stay in memory until the connection reaches its age
/// limit. Second, if the client sends nothing for some time after it connected, reads fail. Without
/// this limit, silent clients could use all connections.
pub(crate) struct Stalling<S> {
    socket: S,
    limit: Duration,
    /// The timer for the first byte. `None` after the first byte has arrived.
    silence: Option<Pin<Box<Sleep>>>,
    /// The timer of a write. `None` while no write waits.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    /// `limit` is the time limit for a client that reads nothing. `silence` is the time limit for
    /// the client's first byte.
    pub(crate) fn new(socket: S, limit: Duration, silence: Duration) -> Self {
        Self { socket, limit, silence: Some(Box::pin(sleep(silence))), timer: None }
    }

    /// Applies the time limit to the result of a write.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(context));
        // Set the timer again, because the write may be polled again after the error.
        timer.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if read.is_ready() {
            self.silence = None;
        } else if let Some(silence) = &mut self.silence {
            ready!(silence.as_mut().poll(context));
            self.silence = None;
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_peer_that_takes_nothing_is_given_up_and_a_slow_one_is_not() {
        let limit = Duration::from_millis(50);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = duplex(4);
            let mut near = Stalling::new(near, limit, limit);
            let mut taken = [0; 4];
            for _ in 0..3 {
                near.write_all(b"four").await.unwrap();
                tokio::time::sleep(limit).await;
                far.read_exact(&mut taken).await.unwrap();
            }
            near.write_all(b"four").await.unwrap();
            let error = near.write_all(b"more").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
