//! `lineshaft cron`: lists the entries that put jobs by schedules.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use api::types::{Cron, Crons};
use notation::plain;

use crate::cli::CronArguments;
use crate::text::json_line;

/// Prints the entries.
pub(crate) fn run(arguments: &CronArguments) -> Result<ExitCode> {
    let mut client = super::connect(&arguments.api)?;
    let crons: Crons = client.get("/crons")?;
    let mut output = io::stdout().lock();
    if arguments.json {
        for cron in &crons.items {
            writeln!(output, "{}", json_line(cron)?)?;
        }
    } else if crons.items.is_empty() {
        writeln!(output, "the configuration has no [[cron]] entry")?;
    } else {
        let head = format!(
            "{:<20} {:<20} {:<16} {:<18} {:<24} {:<24} {:>7} {:>7}",
            "NAME", "QUEUE", "SPEC", "ZONE", "NEXT", "LAST", "FIRED", "SKIPPED"
        );
        writeln!(output, "{head}")?;
        for Cron {
            name,
            queue,
            spec,
            tz,
            next_at,
            last_at,
            fired,
            overlaps,
            missed,
            refused,
            ..
        } in &crons.items
        {
            let (next, last) = (shown(next_at.as_ref()), shown(last_at.as_ref()));
            let skipped = overlaps + missed + refused;
            let line = format!(
                "{name:<20} {queue:<20} {spec:<16} {tz:<18} {next:<24} {last:<24} {fired:>7} \
                 {skipped:>7}"
            );
            writeln!(output, "{}", plain::escaped(&line))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(moment: Option<&String>) -> &str {
    moment.map_or("-", String::as_str)
}
