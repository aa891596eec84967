//! The places of attempts to reach the leader for a client. Reports need the same threads at both
//! nodes, so many clients that come at once wait for each other.
//!
//! An attempt costs both nodes a handshake, and its client only a byte. So the clients of one address
//! have only some of the places, however many of them wait. An address is that of
//! `Peer::counted_address`: a network of IPv6 counts as one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Attempts at once. A leader has places for the handshakes of some followers.
const MOST: usize = 16;
/// Attempts at once for one address.
const MOST_OF_ADDRESS: usize = MOST / 2;

/// All places.
pub(super) struct Connects {
    places: Semaphore,
    most_of_address: usize,
    /// Addresses without attempts are removed.
    addresses: Mutex<HashMap<IpAddr, Address>>,
}

/// The places of one address.
struct Address {
    places: Arc<Semaphore>,
    /// Attempts that have a place or wait for one.
    attempts: usize,
}

/// The place of an attempt, until it is dropped.
pub(super) struct Place<'a> {
    _place: SemaphorePermit<'a>,
    /// `None`: the client has no address, because it uses a unix socket.
    _of_address: Option<(OwnedSemaphorePermit, Attempt<'a>)>,
}

/// Counts an attempt for its address until it is dropped.
struct Attempt<'a> {
    connects: &'a Connects,
    address: IpAddr,
}

impl Default for Connects {
    fn default() -> Connects {
        Connects::new(MOST, MOST_OF_ADDRESS)
    }
}

impl Connects {
    fn new(most: usize, most_of_address: usize) -> Connects {
        Connects { places: Semaphore::new(most), most_of_address, addresses: Mutex::default() }
    }

    /// Waits for a place. An attempt waits among those of its address first, and only then among all.
    pub(super) async fn acquire(&self, address: Option<IpAddr>) -> Place<'_> {
        let of_address = match address {
            None => None,
            Some(address) => {
                let (places, attempt) = self.attempt(address);
                let place = places.acquire_owned().await.expect("nobody closes it");
                Some((place, attempt))
            }
        };
        let place = self.places.acquire().await.expect("nobody closes it");
        Place { _place: place, _of_address: of_address }
    }

    fn attempt(&self, address: IpAddr) -> (Arc<Semaphore>, Attempt<'_>) {
        let mut addresses = self.addresses();
        let of_address = addresses.entry(address).or_insert_with(|| Address {
            places: Arc::new(Semaphore::new(self.most_of_address)),
            attempts: 0,
        });
        of_address.attempts += 1;
        (of_address.places.clone(), Attempt { connects: self, address })
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Address>> {
        // A panic cannot leave the table half changed.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut addresses = self.connects.addresses();
        if let Some(of_address) = addresses.get_mut(&self.address) {
            of_address.attempts -= 1;
            if of_address.attempts == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_address_leaves_places_for_others() {
        const ENOUGH: Duration = Duration::from_hours(1);
        let connects = Connects::new(3, 2);
        let host = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
        let first = connects.acquire(host(1)).await;
        let second = connects.acquire(host(1)).await;
        let third = timeout(ENOUGH, connects.acquire(host(1))).await;
        assert!(third.is_err(), "its address has two");
        // Many more of them wait, and the other address is not behind them.
        let other = async {
            let other = timeout(ENOUGH, connects.acquire(host(2))).await;
            drop((first, second));
            other.expect("there is a place")
        };
        let (third, fourth, other) =
            tokio::join!(connects.acquire(host(1)), connects.acquire(host(1)), other);
        assert_eq!(connects.addresses().len(), 2);
        let full = timeout(ENOUGH, connects.acquire(None)).await;
        assert!(full.is_err(), "there are three in all");
        drop((third, fourth, other));
        assert!(connects.addresses().is_empty(), "only addresses with attempts are kept");
        drop(connects.acquire(None).await);
    }
}
