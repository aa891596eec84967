//! The thread that answers HTTP requests about the server: its listeners, its connections, and how many they may be.
//!
//! It is apart from the I/O threads so that whatever happens there is nobody else's matter, and its connections are
//! apart from theirs, so that health can be asked when no more clients are let in.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_api::{Site, serve};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::address::Address;
use crate::listen::Bound;

/// The name of the thread. A panic there ends one connection, and not the server.
pub const WEB_THREAD: &str = "http";

/// How long nothing is accepted after a failure, which is most likely a lack of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// A listener and what is served there.
pub(crate) type Place = (Bound, Arc<dyn Site>);

/// The thread; it ends when this is dropped.
pub(crate) struct WebThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A listening socket, as the runtime knows it.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl WebThread {
    /// Serves these listeners on a thread of their own, with at most `connections_max` connections at a time.
    pub(crate) fn spawn(
        runtime: Runtime,
        places: Vec<Place>,
        connections_max: usize,
    ) -> io::Result<WebThread> {
        let slots = Arc::new(Semaphore::new(connections_max));
        let inside = runtime.enter();
        for (bound, site) in places {
            runtime.spawn(accept(Listener::of(bound)?, site, slots.clone()));
        }
        drop(inside);
        let (stop, stopped) = oneshot::channel::<()>();
        let named = std::thread::Builder::new().name(WEB_THREAD.to_owned());
        // An error means that the other end is gone, which asks for the same.
        let thread = named.spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(WebThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for WebThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was said when it happened.
            let _ = thread.join();
        }
    }
}

impl Listener {
    /// To be called inside the runtime.
    fn of(bound: Bound) -> io::Result<Listener> {
        Ok(match bound.address {
            Address::Unix(_) => {
                Listener::Unix(UnixListener::from_std(StdUnixListener::from(bound.socket))?)
            }
            Address::Tcp { .. } => {
                Listener::Tcp(TcpListener::from_std(StdTcpListener::from(bound.socket))?)
            }
            Address::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// Accepts one connection and serves it in a task of its own.
    async fn accept(&self, site: &Arc<dyn Site>, slot: OwnedSemaphorePermit) -> io::Result<()> {
        let site = site.clone();
        match self {
            Listener::Tcp(listener) => {
                let (socket, _) = listener.accept().await?;
                tokio::spawn(async move {
                    serve(socket, site).await;
                    drop(slot);
                });
            }
            Listener::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                tokio::spawn(async move {
                    serve(socket, site).await;
                    drop(slot);
                });
            }
        }
        Ok(())
    }
}

/// Accepts until the runtime ends. Beyond the limit of connections new ones wait; each has an end, however slow its
/// peer is.
async fn accept(listener: Listener, site: Arc<dyn Site>, slots: Arc<Semaphore>) {
    while let Ok(slot) = slots.clone().acquire_owned().await {
        if let Err(error) = listener.accept(&site, slot).await {
            tracing::debug!(%error, "cannot accept an HTTP connection");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
