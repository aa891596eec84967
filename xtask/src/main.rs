//! Repository chores, run as `cargo xtask CHORE`.

mod fuzz;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

  tidy    check what no compiler checks: layers, sizes, headers, documents
  fuzz    build and run fuzz targets; `cargo xtask fuzz --help` says more";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["tidy"] {
        return run_tidy();
    }
    if let [chore, rest @ ..] = &arguments[..]
        && chore == "fuzz"
    {
        if rest == ["--help"] {
            println!("{}", fuzz::USAGE);
            return Ok(ExitCode::SUCCESS);
        }
        let found_nothing = fuzz::run(&root(), rest)?;
        return Ok(if found_nothing { ExitCode::SUCCESS } else { ExitCode::FAILURE });
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

/// The root of the repository, wherever the command was started.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
