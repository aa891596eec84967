//! The load generator, and the comparison with the original servers.
//!
//! `lineshaft bench put|take|trip|idle` loads any server that speaks a supported protocol. It
//! reports rate and latency. `lineshaft bench compare` starts Lineshaft and its peers, and measures
//! all of them in interleaved rounds. It reports which goals are met. Both can draw their results.
//! This crate does not use the engine or the log. It sees servers only through sockets and `/proc`.
//! Invariant: the generator needs much less processor time per request than any server that it
//! measures.

mod args;
mod bare_loop;
mod beanstalk_client;
mod compare;
mod driver;
mod idle;
mod interrupt;
mod latency;
mod load;
mod machine;
mod meter;
mod modes;
mod plot;
mod process;
mod schedule;
pub mod table;
mod trip;
mod wake;

pub use args::{
    BareLoopArgs, BenchArgs, BenchMode, CompareArgs, IdleArgs, LoadArgs, PutArgs, TakeArgs,
    TargetArgs, TripArgs,
};
pub use interrupt::Interrupted;

/// Runs the measurement that the command line names, and prints the result to standard output.
/// Fails with [`Interrupted`] after Ctrl-C.
pub fn run(args: BenchArgs) -> anyhow::Result<()> {
    interrupt::watch()?;
    match args.mode {
        BenchMode::Put(args) => modes::put(&args),
        BenchMode::Take(args) => modes::take(&args),
        BenchMode::Trip(args) => modes::trip(&args),
        BenchMode::Idle(args) => modes::idle(&args),
        BenchMode::Compare(args) => compare::run(&args),
        BenchMode::BareLoop(args) => bare_loop::serve(args.listen, args.keep, args.log.as_deref()),
    }
}
