//! The links that have not shown a certificate yet. Their number has a low limit, because anybody can
//! open one. At the limit, one of them gives way to a new link, so that silent strangers cannot keep
//! nodes out: a node shows its certificate within milliseconds, and needs its place no longer.
//!
//! An address is that of `Peer::counted_address`: a network of IPv6 counts as one.
//!
//! The oldest link of the address with the most of them gives way. So a stranger that connects very
//! often closes its own links, not those of nodes at other addresses. An address has no fixed limit:
//! a follower opens many links at once if many clients come, and several nodes can share an address.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// All links that are not known yet.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    unfinished: Vec<Handshake>,
    last_number: u64,
}

#[derive(Debug)]
struct Handshake {
    number: u64,
    address: IpAddr,
    /// The task that has the link. Aborting it closes the link.
    task: Option<AbortHandle>,
}

/// The place of a link. Dropping it says that the handshake has ended.
#[derive(Debug)]
pub(super) struct Place {
    handshakes: Arc<Handshakes>,
    number: u64,
}

impl Handshakes {
    pub(super) fn new(most: usize) -> Handshakes {
        Handshakes { most, state: Mutex::default() }
    }

    /// Adds a link from this address, and calls `start`, which starts the link's task. Returns whether
    /// another link gave way: its task is aborted.
    pub(super) fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        start: impl FnOnce(Place) -> AbortHandle,
    ) -> bool {
        let (number, was_full) = self.lock().add(address, self.most);
        // Call `start` without the lock. If the task cannot start, its place is dropped, and the drop
        // takes the lock.
        let task = start(Place { handshakes: self.clone(), number });
        let mut state = self.lock();
        if let Some(one) = state.unfinished.iter_mut().find(|one| one.number == number) {
            one.task = Some(task);
        }
        was_full
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the number of the new link, and whether another one gave way.
    fn add(&mut self, address: IpAddr, most: usize) -> (u64, bool) {
        self.last_number += 1;
        let number = self.last_number;
        self.unfinished.push(Handshake { number, address, task: None });
        let is_over = self.unfinished.len() > most;
        if is_over {
            self.end_one();
        }
        (number, is_over)
    }

    /// The list is short, so counting again each time is cheap.
    fn end_one(&mut self) {
        let count_of = |address: IpAddr| {
            self.unfinished.iter().filter(|other| other.address == address).count()
        };
        // Of equals, this is the first, which is the oldest.
        let all = self.unfinished.iter().enumerate();
        let loser = all.min_by_key(|(_, one)| Reverse(count_of(one.address)));
        if let Some(at) = loser.map(|(at, _)| at)
            && let Some(task) = self.unfinished.remove(at).task
        {
            task.abort();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.handshakes.lock().unfinished.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::sync::oneshot::{Receiver, channel};

    use super::*;

    /// A handshake that does not end by itself. The receiver notices its end.
    fn begin(handshakes: &Arc<Handshakes>, host: u8) -> Receiver<()> {
        let (held, end) = channel();
        handshakes.admit(IpAddr::from([192, 0, 2, host]), |place| {
            let task = tokio::spawn(async move {
                let _held = (place, held);
                pending::<()>().await;
            });
            task.abort_handle()
        });
        end
    }

    #[tokio::test]
    async fn the_oldest_link_of_the_address_with_the_most_gives_way() {
        let handshakes = Arc::new(Handshakes::new(3));
        let mut node = begin(&handshakes, 1);
        let mut strangers: Vec<Receiver<()>> = (0..20).map(|_| begin(&handshakes, 2)).collect();
        let last = strangers.split_off(18);
        for stranger in strangers {
            stranger.await.expect_err("it gave way");
        }
        let is_open = |end: &mut Receiver<()>| end.try_recv() == Err(TryRecvError::Empty);
        assert!(is_open(&mut node), "another address is not its fault");
        let [mut older, mut newer] = <[_; 2]>::try_from(last).expect("two are left");
        assert!(is_open(&mut older) && is_open(&mut newer));
        // If all addresses have equally many, the oldest link of all gives way.
        let mut other = begin(&handshakes, 3);
        older.await.expect_err("its address had two");
        let mut next = begin(&handshakes, 4);
        node.await.expect_err("it was the oldest");
        assert!([&mut newer, &mut other, &mut next].into_iter().all(is_open));
    }
}
