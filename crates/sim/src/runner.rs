//! Runs one seed, or many seeds on several threads.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Sabotage;
use crate::machine::cluster::Replication;
use crate::oracle::Judgements;
use crate::world::{Summary, World};

/// The options of a run.
#[derive(Copy, Clone, Debug)]
pub struct Options {
    /// Random steps before the end of the run, which has its own steps (see `finale.rs`).
    pub steps: u64,
    /// Prints the trace.
    pub trace: bool,
    /// The promise to break.
    pub sabotage: Sabotage,
    /// The seed for the engine's hashes of names and keys.
    pub hash_seed: u64,
    /// What is simulated.
    pub kind: RunKind,
}

/// What a run simulates.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub enum RunKind {
    /// One server.
    #[default]
    Server,
    /// A cluster of three nodes.
    Cluster,
    /// One server with policies that change, on a disk that can be full. All its clients speak
    /// beanstalkd's protocol, or all speak Kestrel's memcache protocol. Only the oracle judges the run.
    Policies,
}

impl RunKind {
    /// The option of the program for such a run.
    fn option(self) -> &'static str {
        match self {
            RunKind::Server => "",
            RunKind::Cluster => " --cluster",
            RunKind::Policies => " --policies",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            steps: 1000,
            trace: false,
            sabotage: Sabotage::None,
            hash_seed: 0,
            kind: RunKind::Server,
        }
    }
}

/// A promise that the server broke.
#[derive(Clone, Debug)]
pub struct BrokenPromise {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the run's steps.
    pub steps: u64,
    /// A description of the problem.
    pub problem: String,
    /// What the run simulated.
    pub kind: RunKind,
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, steps, problem, kind } = self;
        let mode = kind.option();
        write!(
            f,
            "seed {seed}: {problem}\nreplay it with: \
             cargo run -p lineshaft-sim -- {seed}{mode} --steps {steps} --trace"
        )
    }
}

/// Makes the run of one seed.
pub fn run(seed: u64, options: Options) -> Result<Summary, BrokenPromise> {
    let Options { steps, kind, .. } = options;
    let broken = |problem| BrokenPromise { seed, steps, problem, kind };
    // If an assertion of the engine panics, this counts as a broken promise. The panic can leave
    // the world half changed, but no code uses the world afterwards.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, options)?;
        world.run(options.steps)?;
        world.finish()?;
        world.note_memory();
        world.summary.hash = world.trace.hash();
        world.summary.refusals = world.model.refusals;
        world.summary.tally = world.model.tally;
        world.summary.judged = world.oracle.judged();
        world.summary.replication = world.replication();
        Ok(world.summary)
    }));
    match ran {
        Ok(result) => result.map_err(broken),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(broken(format!("panic: {}", text.unwrap_or_default())))
        }
    }
}

/// Runs `count` seeds, beginning with `first`, on this many threads. Stops at the first broken
/// promise. Returns the sum of the runs' summaries.
pub fn run_many(
    first: u64,
    count: u64,
    threads: u64,
    options: Options,
) -> Result<Summary, BrokenPromise> {
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Ok(Summary::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let ran = run(first.wrapping_add(index), options);
                    let mut sum = sum.lock().expect("no thread panics while it adds up");
                    match (&mut *sum, ran) {
                        (Ok(sum), Ok(summary)) => sum.add(&summary),
                        (Ok(_), Err(broken)) => *sum = Err(broken),
                        (Err(_), _) => {}
                    }
                    if sum.is_err() {
                        next.store(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    sum.into_inner().expect("no thread panics while it adds up")
}

impl Summary {
    fn add(&mut self, other: &Self) {
        let Self {
            steps,
            replies,
            restarts,
            crashed_recoveries,
            failures,
            loads,
            indexes,
            cooled,
            reclaimed,
            refusals,
            refusals_with_policies,
            recovered_jobs,
            lost_changes,
            tally,
            long_clearings,
            held_chores,
            memory_refusals,
            judged,
            moves,
            set_asides,
            changes_by_hand,
            redrives,
            replication,
            hash,
        } = other;
        self.steps += steps;
        self.replies += replies;
        self.restarts += restarts;
        self.crashed_recoveries += crashed_recoveries;
        self.failures += failures;
        self.loads += loads;
        self.indexes += indexes;
        self.cooled += cooled;
        self.reclaimed += reclaimed;
        self.refusals += refusals;
        self.refusals_with_policies += refusals_with_policies;
        self.recovered_jobs += recovered_jobs;
        self.lost_changes += lost_changes;
        self.tally.add(tally);
        self.long_clearings += long_clearings;
        self.held_chores += held_chores;
        self.memory_refusals += memory_refusals;
        self.judged.add(judged);
        self.moves += moves;
        self.set_asides += set_asides;
        self.changes_by_hand += changes_by_hand;
        self.redrives += redrives;
        self.replication.add(replication);
        self.hash ^= hash;
    }
}

impl Replication {
    fn add(&mut self, other: &Self) {
        let Self {
            takeovers,
            groups,
            unknown,
            refused,
            stale,
            deposed,
            resigned,
            yields,
            fired,
            renewals,
            trims,
            copies_needed,
            starts,
            compared,
            folders,
            blackouts,
        } = other;
        self.takeovers += takeovers;
        self.groups += groups;
        self.unknown += unknown;
        self.refused += refused;
        self.stale += stale;
        self.deposed += deposed;
        self.resigned += resigned;
        self.yields += yields;
        self.fired += fired;
        self.renewals += renewals;
        self.trims += trims;
        self.copies_needed += copies_needed;
        self.starts += starts;
        self.compared += compared;
        self.folders += folders;
        self.blackouts += blackouts;
    }
}

impl Judgements {
    fn add(&mut self, other: &Self) {
        let Self {
            orders,
            holds,
            item_orders,
            item_holds,
            items_kept,
            limits,
            rates,
            slots,
            keys,
            pauses,
            duplicates,
            retries,
            outcomes,
            sleeps,
            handles,
        } = other;
        self.orders += orders;
        self.holds += holds;
        self.item_orders += item_orders;
        self.item_holds += item_holds;
        self.items_kept += items_kept;
        self.limits += limits;
        self.rates += rates;
        self.slots += slots;
        self.keys += keys;
        self.pauses += pauses;
        self.duplicates += duplicates;
        self.retries += retries;
        self.outcomes += outcomes;
        self.sleeps += sleeps;
        self.handles += handles;
    }
}
