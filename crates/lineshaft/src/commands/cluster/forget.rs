//! `lineshaft cluster forget`: a node does not come back, so the stream keeps nothing for it.
//!
//! The command leaves a hint, which the leader reads. So it also works while no node leads.

use std::process::ExitCode;

use anyhow::{Result, bail};
use nats::hints::{Hint, Hints, Seen};

use super::block_on;
use super::place::Node;
use super::status::watch;
use crate::cli::ForgetArguments;
use crate::text::print_line;

/// Forgets the node with this name or number.
pub(super) fn run(arguments: &ForgetArguments) -> Result<ExitCode> {
    let ForgetArguments { node, name } = arguments;
    let config = Node::read(node.config.clone(), None, 3)?;
    block_on(async {
        let mut hints = Hints::new(config.place().clone());
        let seen = watch(&mut hints).await?;
        let Seen { node, hint, changes, .. } = find(&seen, name)?;
        if *changes > 0 {
            bail!("node {name} is alive: stop it first");
        }
        hints.write(*node, &Hint { is_forgotten: true, ..hint.clone() }).await?;
        print_line(&format!("node {} is forgotten", hint.name))?;
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The node with this name or number.
pub(super) fn find<'a>(seen: &'a [Seen], name: &str) -> Result<&'a Seen> {
    let is_it = |seen: &&Seen| seen.hint.name == name || format!("{:016x}", seen.node) == name;
    let known: Vec<&Seen> = seen.iter().filter(|seen| !seen.hint.is_forgotten).collect();
    if let Some(seen) = known.iter().copied().find(is_it) {
        return Ok(seen);
    }
    let names: Vec<&str> = known.iter().map(|seen| seen.hint.name.as_str()).collect();
    bail!("no node is named {name}; known are: {}", names.join(", "))
}
