//! Commands of the repository, run as `cargo xtask COMMAND`.

mod counts;
mod fuzz;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy    check what no compiler checks: layers, sizes, headers, documents
  fuzz    build and run fuzz targets; `cargo xtask fuzz --help` says more
  counts  count the instructions of single requests, and compare them with the stored counts
  help    show this text

Everyday commands:

  cargo run --release                               build and start the server
  cargo run --release -- put mail 'to=ann'          any tool of lineshaft
  cargo check -p lineshaft-engine                   compile one crate
  cargo nextest run -p lineshaft-engine             test one crate
  cargo nextest run a_word_of_its_name              run tests by name
  cargo clippy -p lineshaft-engine --all-targets -- -D warnings
                                                    lint one crate
  cargo fmt --all                                   format
  cargo run --release -p lineshaft-sim -- SEED --trace
                                                    replay a seed of the simulator
  cargo run --release -p lineshaft-sim -- --seeds 1000
                                                    run many seeds
  cargo run --release -- bench put --connections 50 load a running server
  cargo xtask fuzz recovery --seconds 300           fuzz one target
  ./test --static                                   every check without tests
  ./test                                            every check and every test

CONTRIBUTING.md says where to start.";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["tidy"] {
        return run_tidy();
    }
    if arguments == ["help"] || arguments == ["--help"] {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    if let [command, rest @ ..] = &arguments[..]
        && command == "fuzz"
    {
        if rest == ["--help"] {
            println!("{}", fuzz::USAGE);
            return Ok(ExitCode::SUCCESS);
        }
        let found_nothing = fuzz::run(&root(), rest)?;
        return Ok(if found_nothing { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if let [command, rest @ ..] = &arguments[..]
        && command == "counts"
    {
        if rest == ["--help"] {
            println!("{}", counts::USAGE);
            return Ok(ExitCode::SUCCESS);
        }
        let all_well = counts::run(&root(), rest)?;
        return Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    eprintln!("{USAGE}");
    Ok(ExitCode::from(2))
}

fn run_tidy() -> anyhow::Result<ExitCode> {
    let report = tidy::check(&tidy::Tree::read(&root())?)?;
    for remark in &report.remarks {
        println!("remark: {remark}");
    }
    for complaint in &report.complaints {
        println!("{complaint}");
    }
    if report.complaints.is_empty() {
        println!("tidy: all is well");
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} complaints", report.complaints.len());
    Ok(ExitCode::FAILURE)
}

/// The root of the repository, independent of the current folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
