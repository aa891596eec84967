//! Heavy requests in Kestrel's protocols.

use std::net::SocketAddr;
use std::time::Duration;

use super::HeavyLoad;
use crate::compare::lab::wire::{self, Wire};

/// The number of children of the queue that gets the puts: the server's maximum.
const CHILDREN: u32 = 256;
/// The pause after a put to many children. It limits the number of jobs that accumulate in the
/// children, and what the disk must write: each put writes an entry for each child.
const CHILDREN_REST: Duration = Duration::from_millis(10);
/// The number of items that each flush ends.
const FLUSHED_ITEMS: usize = 1000;
/// The pause before the puts and their flush. Without this pause, the disk would write all the
/// time, and the measurement would show only the disk.
const FLUSH_REST: Duration = Duration::from_millis(10);

pub(crate) fn put_to_children(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let look = |child: u32| format!("GET heavy-parent+{child}\r\n").into_bytes();
    wire.send(&(0..CHILDREN).flat_map(look).collect::<Vec<u8>>())?;
    wire.read_lines(CHILDREN as usize)?;
    let once = move || {
        wire.send(b"SET heavy-parent 0 0 1\r\nx\r\n")?;
        std::thread::sleep(CHILDREN_REST);
        wire.read_lines(1)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// A load that puts items and flushes all queues of items.
pub(crate) fn flush_all(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let mut requests = b"SET heavy-flush 0 0 1\r\nx\r\n".repeat(FLUSHED_ITEMS);
    requests.extend(b"FLUSH_ALL\r\n");
    let once = move || {
        std::thread::sleep(FLUSH_REST);
        wire.send(&requests)?;
        wire.read_lines(FLUSHED_ITEMS + 1)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// Changes between two statuses. A stricter status would refuse the quiet client, too.
pub(crate) fn change_status(address: SocketAddr) -> anyhow::Result<HeavyLoad> {
    let mut wire = Wire::connect(address)?;
    let disconnects = vec![wire.disconnect()?];
    let once = move || {
        wire.send(b"STATUS writeavoid\r\nSTATUS up\r\n")?;
        wire.read_lines(2)
    };
    Ok(HeavyLoad::of(once, disconnects))
}

/// A load that requests a page of the admin commands.
pub(crate) fn page(address: SocketAddr, path: &'static str) -> HeavyLoad {
    HeavyLoad::of(move || wire::page(address, path).map(|_| ()), Vec::new())
}
