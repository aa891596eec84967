//! The load generator as a program of its own: `cargo run --release -p lineshaft-bench --example
//! bench -- put`.

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: lineshaft_bench::BenchArgs,
}

fn main() -> anyhow::Result<()> {
    lineshaft_bench::run(Cli::parse().bench)
}
