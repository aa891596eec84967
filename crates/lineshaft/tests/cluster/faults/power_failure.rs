//! All machines of a cluster lose power at the same moment. Each machine has a file system for its
//! server of NATS and for its node. It drops everything that was not flushed. Everything acknowledged
//! must be there after the restart.
//!
//! `LINESHAFT_ROUNDS` sets the number of power failures.

use anyhow::Result;
use testkit::cluster::Party;
use testkit::power::PowerDisk;
use testkit::rng::Rng;
use testkit::settings;

use super::ledger::Ledger;
use super::world::World;
use super::{DRAIN_MAX, QUIET, RECOVERY_MAX, between, is_served};

const ROUNDS_DEFAULT: u64 = 2;

#[test]
fn all_machines_lose_power_at_once() -> Result<()> {
    let mut disks = Vec::new();
    for _ in 0..3 {
        let Some(disk) = PowerDisk::new_or_skip()? else { return Ok(()) };
        disks.push(disk);
    }
    if !Ledger::has_libraries() {
        return Ok(());
    }
    let machines = [0, 1, 2].map(|at: usize| disks[at].folder().to_owned());
    let Some(mut world) = World::new(&machines) else { return Ok(()) };
    let seed = settings::seed();
    eprintln!("repeat with LINESHAFT_SEED={seed}");
    let mut rng = Rng::new(seed);
    world.wait_until("the cluster is whole", RECOVERY_MAX, World::is_whole);
    let ledger = Ledger::start(&world.addresses());
    let rounds = settings::rounds(ROUNDS_DEFAULT);
    for round in 1..=rounds {
        let begun = ledger.acknowledged();
        world.wait_until("all protocols are served", RECOVERY_MAX, |_| is_served(&ledger, begun));
        world.go_on(between(&mut rng, 200, 2000));
        // Without this, programs would see a disk that fails before they end.
        for party in Party::ALL {
            world.pause(party);
        }
        PowerDisk::cut_power_of(&disks)?;
        for party in Party::ALL {
            world.kill(party);
        }
        for disk in &disks {
            disk.mount_again()?;
        }
        let cut = ledger.acknowledged();
        for party in Party::ALL {
            world.start(party);
        }
        world.wait_until("all protocols are served again", RECOVERY_MAX, |_| {
            is_served(&ledger, cut)
        });
        world.wait_until("the cluster is whole again", RECOVERY_MAX, World::is_whole);
        ledger.check_so_far();
        eprintln!("power failure {round}: {}", ledger.counts());
    }
    ledger.put_no_more();
    world.wait_until("everything is finished", DRAIN_MAX, |_| ledger.is_quiet(QUIET));
    ledger.judge(20 * rounds as usize);
    world.check_folders();
    Ok(())
}
