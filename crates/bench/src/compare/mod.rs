//! The comparison: measures Lineshaft and its peers in one run, in interleaved rounds, and compares
//! the results with the goals.
//!
//! Invariants: no server and no folder outlives the run, even after a failure. A figure is never
//! shown if one of its rounds failed.

mod lab;
mod measure;
mod outcome;
mod plan;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use self::lab::Lab;
use self::lab::server::Programs;
use self::outcome::result::{CellResult, Comparison, Results};
use self::outcome::{document, plots, result};
use self::plan::missing::{self, Optional};
use self::plan::row::Row;
use self::plan::rows;
use self::plan::sizes::Sizes;
use self::plan::work::{BARE_SYNC, Cell, Work};
use crate::args::CompareArgs;
use crate::machine::Machine;
use crate::{interrupt, process};

/// The number of rounds in a quick run. Three are enough for a median that ignores one bad round.
const QUICK_ROUNDS: u32 = 3;

/// Runs `bench compare`.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let mut rows = selected(&args.rows)?;
    if let Some(path) = &args.write {
        // Check now that the file can be written, not after all measurements.
        let appending = File::options().create(true).append(true).open(path);
        appending.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let programs = programs(args)?;
    let left_out = missing::without_missing(&mut rows, &programs.optional);
    let versions = versions(&programs);
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let machine = Machine::here(&scratch);
    let sizes = Sizes::new(args)?;
    rows.retain(|row| !matches!(row.ours.work, Work::Cycle(_, jobs) if jobs > sizes.cost_jobs));
    let rounds = if args.quick { args.rounds.min(QUICK_ROUNDS) } else { args.rounds };
    process::pin(programs.generator_cpu)?;
    let mut lab = Lab::new(programs.clone(), sizes.clone(), &scratch)?;
    let results = measure_all(&mut lab, &rows, rounds)?;
    drop(lab);
    let comparison = Comparison {
        machine,
        sync_time: result::sync_time(&results),
        versions,
        rounds,
        quick: args.quick,
        left_out,
        server_cpu: programs.server_cpu,
        generator_cpu: programs.generator_cpu,
        command: command_line(),
        rows: result::judge(&rows, &results),
        spreads: result::spreads(&results),
        sizes,
    };
    publish(args, &comparison)
}

/// Writes the page before it prints, because printing fails if the reader of standard output has
/// ended.
fn publish(args: &CompareArgs, comparison: &Comparison) -> anyhow::Result<()> {
    if let Some(path) = &args.write {
        write_page(path, comparison)?;
    }
    if let Some(path) = &args.plot {
        let chart =
            plots::rates(comparison).context("no rates were measured, so none are drawn")?;
        write(path, &chart.svg())?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(comparison)? + "\n"
    } else {
        document::text(comparison)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    match document::complaint(&comparison.rows) {
        Some(complaint) => anyhow::bail!(complaint),
        None => Ok(()),
    }
}

/// Writes the page, and its plots into a folder beside it.
fn write_page(path: &Path, comparison: &Comparison) -> anyhow::Result<()> {
    let plots = plots::all(comparison);
    let folder = path.file_stem().context("--write needs the name of a file")?;
    let page = document::markdown(comparison, &plots, &folder.to_string_lossy());
    let folder = path.with_file_name(folder);
    if !plots.is_empty() {
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    for plot in &plots {
        write(&folder.join(plot.file), &plot.svg)?;
    }
    write(path, &page)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The rows to measure: all rows, or the named rows.
fn selected(names: &[String]) -> anyhow::Result<Vec<Row>> {
    let all = rows::all();
    let ids: BTreeSet<&str> = all.iter().map(|row| row.id).collect();
    for name in names {
        let known = ids.iter().any(|id| id.eq_ignore_ascii_case(name));
        anyhow::ensure!(
            known,
            "there is no row {name}; rows: {}",
            Vec::from_iter(ids.clone()).join(", ")
        );
    }
    let wanted = |row: &Row| match names {
        [] => row.id != plan::MANY_FUNCTIONS,
        names => names.iter().any(|name| row.id.eq_ignore_ascii_case(name)),
    };
    Ok(all.into_iter().filter(wanted).collect())
}

fn programs(args: &CompareArgs) -> anyhow::Result<Programs> {
    let allowed = process::allowed_cpus()?;
    let first = *allowed.first().context("no processor is allowed")?;
    let server_cpu = args.server_cpu.unwrap_or(first);
    let other = allowed.iter().copied().find(|&cpu| cpu != server_cpu).unwrap_or(server_cpu);
    let lineshaft = match &args.lineshaft {
        Some(path) => path.clone(),
        None => std::env::current_exe().context("cannot find this program; use --lineshaft")?,
    };
    Ok(Programs {
        lineshaft,
        beanstalkd: args.beanstalkd.clone(),
        optional: Optional {
            gearmand: args.gearmand.clone(),
            nats_server: args.nats_server.clone(),
            rabbitmq_server: args.rabbitmq_server.clone(),
        },
        redis_server: args.redis_server.clone(),
        server_cpu,
        generator_cpu: args.generator_cpu.unwrap_or(other),
        slow_sync: None,
    })
}

fn versions(programs: &Programs) -> Vec<String> {
    let known = [
        Programs::version(&programs.lineshaft, "--version"),
        Programs::version(&programs.beanstalkd, "-v"),
        Programs::version(&programs.optional.gearmand, "--version"),
        Programs::version(&programs.redis_server, "--version"),
        Programs::version(&programs.optional.nats_server, "--version"),
        Programs::rabbitmq_version(&programs.optional.rabbitmq_server),
    ];
    known.into_iter().flatten().collect()
}

/// Measures all cells of the rows, round by round. A failed cell is not measured again.
fn measure_all(lab: &mut Lab, rows: &[Row], rounds: u32) -> anyhow::Result<Results> {
    let of_rows = rows.iter().flat_map(|row| [Some(row.ours), row.theirs]).flatten();
    let cells: BTreeSet<Cell> = of_rows.chain([BARE_SYNC]).collect();
    let mut results: Results = cells.iter().map(|&cell| (cell, CellResult::default())).collect();
    for round in 0..rounds {
        for group in ordered(&cells, round) {
            let failed = |cell: &Cell| results[cell].error.is_some();
            let group: Vec<Cell> = group.into_iter().filter(|cell| !failed(cell)).collect();
            let Some(Cell { work, .. }) = group.first() else { continue };
            let peers: Vec<String> = group.iter().map(|cell| cell.peer.to_string()).collect();
            let peers = peers.join(" and ");
            lab.meter().show(format!("round {} of {rounds}: {work}, {peers}", round + 1));
            let samples = lab.measure(&group);
            interrupt::check()?;
            for (cell, sample) in group.iter().zip(samples) {
                let result = results.get_mut(cell).expect("every cell has a result");
                match sample {
                    Ok(sample) => result.samples.push(sample),
                    Err(error) => result.error = Some(format!("{error:#}")),
                }
            }
        }
    }
    Ok(results)
}

/// The cells of a round, in order. Cells that are measured together are in one list. In each round,
/// another server comes first.
fn ordered(cells: &BTreeSet<Cell>, round: u32) -> Vec<Vec<Cell>> {
    let cells: Vec<Cell> = cells.iter().copied().collect();
    let groups = cells.chunk_by(|left, right| left.work.goes_with(right.work));
    let turned = groups.map(|group| {
        let mut group = group.to_vec();
        let turn = round as usize % group.len();
        group.rotate_left(turn);
        group
    });
    turned.collect()
}

/// The command line, as a user would type it.
fn command_line() -> String {
    let mut words = vec!["lineshaft".to_owned(), "bench".to_owned()];
    words.extend(std::env::args().skip(1).skip_while(|word| word == "bench"));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::plan::work::{BEANSTALKD, LINESHAFT, Shape};
    use super::*;

    #[test]
    fn rounds_begin_with_different_servers() {
        let cells = [LINESHAFT, BEANSTALKD].map(|peer| Cell { work: Work::Trip, peer });
        let cells = BTreeSet::from(cells);
        let first = |round| ordered(&cells, round)[0][0].peer;
        assert_eq!([first(0), first(1), first(2)], [LINESHAFT, BEANSTALKD, LINESHAFT]);
        assert_eq!(
            ordered(&cells, 7),
            [[BEANSTALKD, LINESHAFT].map(|peer| Cell { work: Work::Trip, peer })]
        );
    }

    #[test]
    fn one_queue_and_many_are_measured_together() {
        let shape = Shape { connections: 50, depth: 1 };
        let works = [1, 7].map(|queues| Work::PutAmong(shape, queues));
        let others = [Work::Put(shape), Work::TakeAmong(shape, 1)];
        let cells: BTreeSet<Cell> =
            others.into_iter().chain(works).map(|work| Cell { work, peer: LINESHAFT }).collect();
        let groups: Vec<usize> = ordered(&cells, 0).iter().map(Vec::len).collect();
        assert_eq!(groups, [1, 2, 1]);
    }

    #[test]
    fn rows_are_selected_by_name() {
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            selected(&names).map(|rows| rows.iter().map(|row| row.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["t1", "M4"]).expect("both exist"), ["T1", "M4"]);
        let all = ids(&[]).expect("all");
        assert!(all.len() > 20 && !all.contains(&"M6b"), "{all:?}");
        assert_eq!(ids(&["m6b"]).expect("it exists").len(), 4);
        assert!(ids(&["T99"]).is_err());
    }
}
