//! Tests the positions that replies wait for, and the state after a crash. The log is on a
//! simulated disk, and writes only when a test calls `commit`.

use std::sync::Arc;

use broker::{Broker, Options};
use lineshaft_kestrel::{Server, ServerOptions};
use testkit::dialect::world::{START, World};

use crate::calls::{ask, confirm, get, ids, put, shown};
use crate::world::{connect, server};

fn start(disk: &Arc<log::FaultDisk>) -> (World, Arc<Server>) {
    let options = Options::without_threads(disk.clone(), log::Settings::default());
    let broker = Broker::open(options, START).expect("the disk can be read").0;
    (World::over_unwritten(broker), server(ServerOptions::default()))
}

#[test]
fn replies_wait_for_the_disk_and_open_reads_come_back_after_a_crash() {
    let disk = Arc::new(log::FaultDisk::new(1, 64 << 20));
    let (mut world, server) = start(&disk);
    let [a, b] = [(); 2].map(|()| connect(&server, &mut world));
    assert_eq!(ask(&mut world, a, &put("q", &[b"1", b"2", b"3", b"4"])), "");
    assert_eq!(ask(&mut world, b, &get("q", 3, 0, 60_000)), "", "nor are they handed out");
    world.commit();
    assert_eq!(shown(world.take_received(a)), "put 4");
    let open = ids(world.take_received(b));
    assert_eq!(open.len(), 3);
    assert_eq!(ask(&mut world, a, &confirm(&open[1..2])), "");
    world.commit();
    assert_eq!(shown(world.take_received(a)), "confirm 1");
    // This put gets no reply before the crash.
    assert_eq!(ask(&mut world, a, &put("q", &[b"5"])), "");

    drop((world, server));
    disk.crash();
    let (mut world, server) = start(&disk);
    let a = connect(&server, &mut world);
    assert_eq!(ask(&mut world, a, &confirm(&open)), "confirm 0");
    ask(&mut world, a, &get("q", 3, 0, 0));
    world.commit();
    assert_eq!(shown(world.take_received(a)), "get 1 3 4");
}
