//! Clients of all protocols keep a ledger while parts of a cluster are killed, paused, cut off and
//! restarted. Nothing that was acknowledged may be lost, and nothing finished may come back.
//!
//! `LINESHAFT_ROUNDS` sets the number of faults, and `LINESHAFT_SEED` repeats their order.

mod ledger;
mod power_failure;
mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testkit::cluster::Party;
use testkit::rng::Rng;
use testkit::settings;

use ledger::Ledger;
use world::{Cut, Way, Whom, World};

const FAULTS_DEFAULT: u64 = 20;
/// The longest time until all protocols are served again, and everything is whole.
const RECOVERY_MAX: Duration = Duration::from_secs(90);
const DRAIN_MAX: Duration = Duration::from_mins(1);
/// Changes of each protocol that show that it is served again.
const AGAIN: usize = 3;
/// Nothing comes back after everything is finished and nothing has happened for this time. It is
/// longer than the time limit of the clients, so no put is under way either.
const QUIET: Duration = Duration::from_secs(5);

/// What a rig can do to a cluster.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// `kill -9`. It starts again a moment later.
    Kill(Whom),
    /// SIGSTOP, then SIGCONT.
    Pause(Whom),
    /// No bytes to others, from others, or both.
    Cut(Whom, Way),
    /// All bytes from and to it are late.
    Late(Whom),
    /// Everything is killed at the same moment, and starts again.
    RestartAll,
    /// SIGTERM for the leader.
    Stop,
}

const KINDS: [(&str, Fault); 20] = [
    ("kill the leader", Fault::Kill(Whom::Leader)),
    ("kill a follower", Fault::Kill(Whom::Follower)),
    ("kill a NATS server", Fault::Kill(Whom::Server)),
    ("kill the stream's leader", Fault::Kill(Whom::StreamLeader)),
    ("kill both leaders", Fault::Kill(Whom::Both)),
    ("pause the leader", Fault::Pause(Whom::Leader)),
    ("pause a follower", Fault::Pause(Whom::Follower)),
    ("pause a NATS server", Fault::Pause(Whom::Server)),
    ("pause the stream's leader", Fault::Pause(Whom::StreamLeader)),
    ("pause both leaders", Fault::Pause(Whom::Both)),
    ("isolate the leader", Fault::Cut(Whom::Leader, Way::Both)),
    ("the leader cannot send", Fault::Cut(Whom::Leader, Way::Out)),
    ("the leader hears nothing", Fault::Cut(Whom::Leader, Way::In)),
    ("isolate the stream's leader", Fault::Cut(Whom::StreamLeader, Way::Both)),
    ("the stream's leader cannot send", Fault::Cut(Whom::StreamLeader, Way::Out)),
    ("the stream's leader hears nothing", Fault::Cut(Whom::StreamLeader, Way::In)),
    ("isolate both leaders together", Fault::Cut(Whom::Both, Way::Both)),
    ("a slow network around the leader", Fault::Late(Whom::Leader)),
    ("restart everything", Fault::RestartAll),
    ("stop the leader cleanly", Fault::Stop),
];

/// All faults in a random order, again and again.
fn plan(count: u64, rng: &mut Rng) -> Vec<(&'static str, Fault)> {
    let mut plan = Vec::new();
    while (plan.len() as u64) < count {
        let mut left = KINDS.to_vec();
        while !left.is_empty() {
            plan.push(left.swap_remove(rng.below(left.len() as u64) as usize));
        }
    }
    plan.truncate(count as usize);
    plan
}

fn between(rng: &mut Rng, least_ms: u64, most_ms: u64) -> Duration {
    Duration::from_millis(least_ms + rng.below(most_ms - least_ms))
}

/// Does it, and undoes it after a while.
fn strike(world: &mut World, fault: Fault, rng: &mut Rng) {
    match fault {
        Fault::Kill(whom) => {
            let parties = world.find(whom, rng);
            for party in &parties {
                world.kill(*party);
            }
            world.go_on(between(rng, 100, 1500));
            for party in &parties {
                world.start(*party);
            }
        }
        Fault::Pause(whom) => {
            let parties = world.find(whom, rng);
            for party in &parties {
                world.pause(*party);
            }
            world.go_on(between(rng, 2000, 5000));
            for party in &parties {
                world.resume(*party);
            }
        }
        Fault::Cut(whom, way) => {
            let parties = world.find(whom, rng);
            world.cut(&parties, way, Cut::Hold);
            world.go_on(between(rng, 2000, 5000));
            world.heal(&parties, rng.one_in(2));
        }
        Fault::Late(whom) => {
            let parties = world.find(whom, rng);
            world.cut(&parties, Way::Both, Cut::Late(between(rng, 5, 60)));
            world.go_on(between(rng, 2000, 4000));
            world.heal(&parties, false);
        }
        Fault::RestartAll => {
            let all = Party::ALL;
            for party in all {
                world.kill(party);
            }
            world.go_on(between(rng, 100, 500));
            for party in all {
                world.start(party);
            }
        }
        Fault::Stop => world.stop(world.leader_now()),
    }
}

/// Whether each protocol has been served since then.
fn is_served(ledger: &Ledger, then: [usize; 3]) -> bool {
    ledger.acknowledged().iter().zip(then).all(|(now, then)| *now >= then + AGAIN)
}

#[test]
fn nothing_acknowledged_is_lost_whatever_fails() {
    let folder = tempfile::tempdir().unwrap();
    let machines = ["one", "two", "three"].map(|name| folder.path().join(name));
    for machine in &machines {
        std::fs::create_dir(machine).unwrap();
    }
    if !Ledger::has_libraries() {
        return;
    }
    let Some(mut world) = World::new(&machines) else { return };
    let seed = settings::seed();
    eprintln!("repeat with LINESHAFT_SEED={seed}");
    let mut rng = Rng::new(seed);
    world.wait_until("the cluster is whole", RECOVERY_MAX, World::is_whole);
    let ledger = Ledger::start(&world.addresses());
    let mut stalls: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for (number, (name, fault)) in
        plan(settings::rounds(FAULTS_DEFAULT), &mut rng).into_iter().enumerate()
    {
        let begun = ledger.acknowledged();
        world.wait_until("all protocols are served", RECOVERY_MAX, |_| is_served(&ledger, begun));
        let begun = Instant::now();
        strike(&mut world, fault, &mut rng);
        let mended = ledger.acknowledged();
        world.wait_until("all protocols are served again", RECOVERY_MAX, |_| {
            is_served(&ledger, mended)
        });
        let served = Instant::now();
        world.wait_until("the cluster is whole again", RECOVERY_MAX, World::is_whole);
        let stall = ledger.longest_pause(begun, served);
        eprintln!(
            "{:3}. {name}: {} ms without an acknowledgement, {} ms until everything was whole; {}",
            number + 1,
            stall.as_millis(),
            begun.elapsed().as_millis(),
            ledger.counts()
        );
        stalls.entry(name).or_default().push(stall);
        ledger.check_so_far();
    }
    // What was finished would come back with the next leader.
    strike(&mut world, Fault::Kill(Whom::Leader), &mut rng);
    ledger.put_no_more();
    world.wait_until("everything is finished", DRAIN_MAX, |_| ledger.is_quiet(QUIET));
    eprintln!("{}; nodes ended {:?}", ledger.counts(), world.ends);
    ledger.judge(100);
    world.check_folders();
    for (name, mut times) in stalls {
        times.sort_unstable();
        let [least, middle, most] =
            [0, times.len() / 2, times.len() - 1].map(|at| times[at].as_millis());
        eprintln!("{name}: {least} {middle} {most} ms");
    }
}
