//! `lineshaft cluster create`: a new stream, and the folder of a stopped server as its origin.
//!
//! The folder gets its place first. If the command fails after that, a second call continues.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ::log::{PosixDisk, Settings};
use anyhow::{Context as _, Result, anyhow, bail};
use broker::offline::{self, OriginError};
use nats::Place;
use nats::guard::{Found, Needed};
use nats::stream;
use replica::Lineage;
use replica::group::At;

use super::super::import::refusal;
use super::place::{Node, new_lineage, patiently};
use super::{block_on, folders};
use crate::cli::CreateArguments;
use crate::text::{complain, counted, print_line};

/// Checks NATS, then makes the folder and the stream.
pub(super) fn run(arguments: &CreateArguments) -> Result<ExitCode> {
    let CreateArguments { node, data, replicas } = arguments;
    let node = Node::read(node.config.clone(), data.as_deref(), *replicas)?;
    let folder = node.config.data.dir.clone();
    let begun = match folders::place(&folder)? {
        None => None,
        Some((lineage, at)) if at.number == 0 => Some((lineage, at)),
        Some((_, at)) => bail!(
            "{} belongs to a cluster already, and has its group {}; if the stream is lost, see \
             `lineshaft cluster recover`",
            folder.display(),
            at.number
        ),
    };
    if !block_on(is_safe(&node))? {
        return Ok(ExitCode::FAILURE);
    }
    let name = node.place().stream();
    let existing = block_on(async { Ok(existing_lineage(node.place()).await?) })?;
    match (existing, begun) {
        (None, _) => (),
        (Some(theirs), Some((ours, _))) if theirs == Some(ours) => (),
        (Some(_), _) => bail!(stream::StreamError::Exists(name)),
    }
    let (lineage, at) = if let Some(begun) = begun {
        begun
    } else {
        let lineage = new_lineage()?;
        let at = make_origin(&folder, node.log_settings(), lineage)?;
        print_line(&format!(
            "{} is the origin of the cluster, with {}",
            folder.display(),
            counted(at.jobs, "job")
        ))?;
        (lineage, at)
    };
    block_on(create_streams(node.place(), lineage))?;
    print_line(&format!("stream {name} is ready, with {}", counted(*replicas as u64, "replica")))?;
    print_line(next_step(&at))?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at all servers of NATS, and prints what they say. False: something is wrong.
pub(super) async fn is_safe(node: &Node) -> Result<bool> {
    let found = node.look().await?;
    print_servers(&found)?;
    Ok(check(&found, node))
}

/// Prints what each server of NATS says.
fn print_servers(found: &Found) -> Result<()> {
    for server in &found.servers {
        let flush = if server.flushes { "flushes each record" } else { "DOES NOT FLUSH" };
        let (name, version) = (&server.name, &server.version);
        print_line(&format!("NATS server {name}, version {version}, {flush}"))?;
    }
    for (address, reason) in &found.silent {
        complain(&format!("{address} does not answer: {reason}"));
    }
    Ok(())
}

/// Reports all that is wrong. A new cluster needs all servers.
fn check(found: &Found, node: &Node) -> bool {
    let mut all = found.wrong.iter().chain(&found.small).peekable();
    if all.peek().is_some() {
        all.for_each(|wrong| complain(&wrong.to_string()));
        return false;
    }
    let replicas = node.place().replicas;
    if node.question.unsafe_flush {
        return true;
    }
    if found.servers.len() < replicas {
        complain(&format!(
            "only {} answered at cluster.nats_monitor, but the stream needs {replicas}",
            counted(found.servers.len() as u64, "server of NATS")
        ));
        return false;
    }
    match found.judge(Needed::All) {
        Ok(()) => true,
        Err(refusal) => {
            complain(&refusal.to_string());
            false
        }
    }
}

/// The lineage of an existing stream. Outside: whether the stream exists.
#[allow(clippy::option_option)]
pub(super) async fn existing_lineage(
    place: &Place,
) -> Result<Option<Option<Lineage>>, stream::StreamError> {
    patiently(async || {
        let context = nats::connect(place).await?;
        let info = stream::info(&context, &place.stream()).await?;
        Ok(info.map(|info| stream::lineage(&info.config)))
    })
    .await
}

/// Creates the stream and the bucket of hints. A second call changes nothing.
pub(super) async fn create_streams(place: &Place, lineage: Lineage) -> Result<()> {
    patiently(async || {
        let context = nats::connect(place).await?;
        stream::create(&context, place, lineage).await?;
        stream::create_hints(&context, place).await
    })
    .await
    .context("the folder has its place already; `lineshaft cluster create` continues")
}

/// What the operator does next.
pub(super) fn next_step(origin: &At) -> &'static str {
    if origin.jobs == 0 {
        "Start this server first: it leads. The other nodes begin with empty folders."
    } else {
        "Start this server first: it leads. The other nodes begin with empty folders, and fetch a copy \
         of its jobs."
    }
}

/// Makes the jobs of a folder the state before group 1.
pub(super) fn make_origin(folder: &Path, log: Settings, lineage: Lineage) -> Result<At> {
    let disk = PosixDisk::new(folder)
        .with_context(|| format!("cannot use the data folder {}", folder.display()))?;
    offline::make_origin(Arc::new(disk), log, lineage).map_err(|error| match error {
        OriginError::Open(error) => refusal(error),
        OriginError::Failed(_) => anyhow!(error),
    })
}
