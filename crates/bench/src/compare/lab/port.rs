//! Free loopback ports for the servers of a comparison.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Smaller ports often belong to servers of the machine.
const LOWEST: u16 = 12_000;
/// Linux gives ports from this one on to clients, unless it is configured otherwise.
const USUAL_CLIENT_PORTS: u16 = 32_768;

/// The number of ports that this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// A loopback address with a free port. The system gives this port to no client, and the process
/// does not choose it again soon. So a server can still bind it a moment later.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    let count = first_client_port() - LOWEST;
    // Comparisons that begin at different places rarely meet.
    let first = std::process::id();
    for _ in 0..count {
        let tried = u32::from(TRIED.fetch_add(1, Ordering::Relaxed));
        let place = first.wrapping_mul(100).wrapping_add(tried) % u32::from(count);
        let port = LOWEST + u16::try_from(place)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    anyhow::bail!("no port from {LOWEST} to {} is free", LOWEST + count - 1)
}

/// The first port that the system gives to clients.
fn first_client_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.unwrap_or(USUAL_CLIENT_PORTS).max(LOWEST + 1_000)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{first_client_port, free_address};

    #[test]
    fn servers_get_different_ports_that_no_client_gets() {
        let addresses: Vec<_> = (0..50).map(|_| free_address().unwrap()).collect();
        assert!(addresses.iter().all(|address| address.port() < first_client_port()));
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), addresses.len());
    }
}
