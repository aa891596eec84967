//! `lineshaft cluster recover`: the stream is lost, and a folder begins a new one.
//!
//! The new stream has a new lineage. So the folders of the other nodes do not fit any more, and each
//! needs a copy.

use std::io::{self, BufRead as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::time::sleep;

use super::block_on;
use super::create::{self, create_streams, existing_lineage, make_origin, next_step};
use super::folders::{self, Folder};
use super::leave::leave;
use super::place::{Node, new_lineage};
use crate::cli::RecoverArguments;
use crate::text::{complain, count, counted, print_line};

/// A server of NATS that has just started can say that a stream does not exist. So the command
/// believes it only after this time.
const MISSING: Duration = Duration::from_secs(5);

/// Shows the folders, asks, and begins the new stream.
pub(super) fn run(arguments: &RecoverArguments) -> Result<ExitCode> {
    let RecoverArguments { node, from, others, replicas, yes } = arguments;
    let node = Node::read(node.config.clone(), Some(from), *replicas)?;
    let mut all = vec![folders::read(from)?];
    for other in others {
        all.push(folders::read(other)?);
    }
    folders::print(&all)?;
    for wrong in folders::wrong(&all) {
        complain(&wrong);
    }
    let chosen = &all[0];
    check(chosen, &all)?;
    if !block_on(create::is_safe(&node))? {
        return Ok(ExitCode::FAILURE);
    }
    let name = node.place().stream();
    if block_on(exists(&node))? {
        bail!(
            "stream {name} exists, and `recover` begins a new one; if its records are lost or \
             damaged, stop all nodes and delete it with `nats stream rm {name}`"
        );
    }
    if !yes && !confirm(chosen)? {
        complain("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    if let Some((old, _)) = chosen.place {
        leave(from, old)?;
    }
    let lineage = new_lineage()?;
    let at = make_origin(from, node.log_settings(), lineage)?;
    block_on(create_streams(node.place(), lineage))?;
    print_line(&format!(
        "stream {name} is ready, and begins with {} of {}",
        counted(at.jobs, "job"),
        from.display()
    ))?;
    print_line("Empty the folders of the other nodes.")?;
    print_line(next_step(&at))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the stream exists.
async fn exists(node: &Node) -> Result<bool> {
    let begun = Instant::now();
    loop {
        if existing_lineage(node.place()).await?.is_some() {
            return Ok(true);
        }
        if begun.elapsed() >= MISSING {
            return Ok(false);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Refuses a folder that is not the best one.
fn check(chosen: &Folder, all: &[Folder]) -> Result<()> {
    let shown = chosen.path.display();
    if !chosen.verified {
        bail!("{shown} cannot begin a stream: {}", chosen.problem);
    }
    // Numbers of different histories say nothing about which folder is newer.
    if let Some(difference) = folders::differences(all).first() {
        bail!("{difference}; find out which one is right, and leave the other out");
    }
    let newer = folders::longest(all).filter(|folder| folder.number() > chosen.number());
    if let Some(newer) = newer {
        bail!(
            "{} is newer: it has group {}, and {shown} has group {}; use it with --from",
            newer.path.display(),
            newer.number(),
            chosen.number()
        );
    }
    Ok(())
}

/// Asks for the number of the group, so that nobody confirms by accident.
fn confirm(chosen: &Folder) -> Result<bool> {
    let number = chosen.number();
    print_line(&format!(
        "Everything after group {} is lost. Type this number to begin a new stream with it:",
        count(number)
    ))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().replace(',', "") == number.to_string())
}
