//! `lineshaft-sim SEED [--cluster | --policies] [--steps N] [--trace]` repeats one seed.
//! `lineshaft-sim --seeds N [--from S] [--cluster | --policies] [--steps N] [--threads N]` runs many
//! seeds. `--cluster`: three nodes instead of one server. `--policies`: queues with policies that
//! change often, on disks that are often full.

use std::process::ExitCode;

use lineshaft_sim::{Options, RunKind, run, run_many};

const USAGE: &str = "usage: lineshaft-sim SEED [--cluster | --policies] [--steps N] [--trace]
       lineshaft-sim --seeds N [--from S] [--cluster | --policies] [--steps N] [--threads N]";

fn main() -> ExitCode {
    if let Some(request) = Request::read(std::env::args().skip(1)) {
        request.serve()
    } else {
        eprintln!("{USAGE}");
        ExitCode::from(2)
    }
}

struct Request {
    first: u64,
    seeds: Option<u64>,
    threads: u64,
    options: Options,
}

impl Request {
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut request = Self { first: 0, seeds: None, threads: 2, options: Options::default() };
        let mut seed = None;
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next()?.parse::<u64>().ok();
            match argument.as_str() {
                "--trace" => request.options.trace = true,
                "--cluster" => request.choose(RunKind::Cluster)?,
                "--policies" => request.choose(RunKind::Policies)?,
                "--steps" => request.options.steps = number()?,
                "--seeds" => request.seeds = Some(number()?),
                "--from" => request.first = number()?,
                "--threads" => request.threads = number()?.max(1),
                text => seed = Some(text.parse().ok()?),
            }
        }
        if let Some(seed) = seed {
            request.first = seed;
        }
        (seed.is_some() != request.seeds.is_some()).then_some(request)
    }

    /// Chooses what to simulate. `None`: something else was chosen before.
    fn choose(&mut self, kind: RunKind) -> Option<()> {
        let before = std::mem::replace(&mut self.options.kind, kind);
        (before == RunKind::Server).then_some(())
    }

    fn serve(self) -> ExitCode {
        let ran = match self.seeds {
            Some(count) => run_many(self.first, count, self.threads, self.options),
            None => run(self.first, self.options),
        };
        match ran {
            Ok(summary) => {
                println!("{summary:#?}");
                ExitCode::SUCCESS
            }
            Err(broken) => {
                println!("{broken}");
                ExitCode::FAILURE
            }
        }
    }
}
