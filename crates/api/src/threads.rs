//! Work in other threads, so that other requests do not wait. Permits limit it.
//!
//! If a request ends, its work goes on, even if the work still waits for a thread. So each piece of
//! work has a permit until its end. A request that waits for a permit leaves nothing when it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time limit of a request that waits for such work. A disk can hang.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Works in another thread. The permits limit the work at a time, even after its clients have gone.
/// `None`: the work was not done in time.
pub(crate) async fn in_thread<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let permits = permits.clone();
    let working = async move {
        let permit = permits.acquire_owned().await.ok();
        with_permit(permit, work).await
    };
    tokio::time::timeout(TIME_MAX, working).await.ok()
}

/// Works in another thread without a time limit, and keeps the permit until the work is done.
pub(crate) async fn with_permit<T: Send + 'static>(
    permit: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let working = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    // A panic there has been reported. It ends this request, too.
    working.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
