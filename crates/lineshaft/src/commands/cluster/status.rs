//! `lineshaft cluster status`: the nodes, the stream and the servers of NATS on one screen.
//!
//! It asks NATS only, so it works while nodes are down. The nodes leave a hint there once a second.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use nats::guard::Found;
use nats::hints::{Hint, HintError, Hints, Role, Seen, differing_settings};
use nats::stream::{self, StreamError};
use notation::size;
use serde::Serialize;

use super::block_on;
use super::place::Node;
use crate::cli::StatusOfClusterArguments;
use crate::text::{complain, count, print_line, print_value, seconds};

/// A node that lives changes its hint within this time.
const WATCH: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(200);
/// A replica of the stream that was seen longer ago is missing. Smaller times mean nothing: measured
/// 3 s after a death.
const REPLICA_AGE_MAX: Duration = Duration::from_secs(10);
/// A follower that is further behind cannot take over quickly.
const LAG_MAX_MS: u64 = 30_000;

#[derive(Debug, Default, Serialize)]
struct Shown {
    cluster: String,
    /// Whether there is no problem.
    well: bool,
    problems: Vec<String>,
    stream: Option<ShownStream>,
    nodes: Vec<ShownNode>,
    nats: Vec<ShownServer>,
}

#[derive(Debug, Serialize)]
struct ShownStream {
    name: String,
    lineage: String,
    first_record: u64,
    last_record: u64,
    bytes: u64,
    max_bytes: u64,
    replicas: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ShownNode {
    node: String,
    /// Whether its hint changed while this command looked.
    live: bool,
    #[serde(flatten)]
    hint: Hint,
}

#[derive(Debug, Serialize)]
struct ShownServer {
    name: String,
    version: String,
    flushes: bool,
}

/// Prints the state of the cluster.
pub(super) fn run(arguments: &StatusOfClusterArguments) -> Result<ExitCode> {
    let node = Node::read(arguments.node.config.clone(), None, 3)?;
    let shown = block_on(look(node))?;
    if arguments.json {
        print_value(&shown)?;
    } else {
        print(&shown)?;
    }
    Ok(if shown.well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(mut node: Node) -> Result<Shown> {
    let mut shown = Shown { cluster: node.place().name.clone(), ..Shown::default() };
    match look_at_stream(&mut node, &mut shown).await {
        Ok(()) => {
            let found = nats::guard::look(&node.question).await;
            look_at_servers(found, &mut shown);
            match watch(&mut Hints::new(node.place().clone())).await {
                Ok(seen) => look_at_nodes(&seen, &mut shown),
                Err(error) => shown.problems.push(error.to_string()),
            }
        }
        Err(error) => shown.problems.push(format!("{error:#}")),
    }
    shown.well = shown.problems.is_empty();
    Ok(shown)
}

async fn look_at_stream(node: &mut Node, shown: &mut Shown) -> Result<()> {
    let context = nats::connect(node.place()).await?;
    let name = node.place().stream();
    let info = stream::info(&context, &name).await?;
    let info = info.ok_or_else(|| StreamError::Missing(name.clone()))?;
    if info.config.num_replicas == 5 {
        node.question.place.replicas = 5;
    }
    node.question.lineage = stream::lineage(&info.config);
    let max_bytes = node.config.cluster.stream_max_bytes;
    if info.state.bytes > max_bytes / 2 {
        shown.problems.push(format!(
            "the stream has {} of {}: it is trimmed only up to what two nodes hold; start the nodes \
             that are down, or forget them",
            size::rounded(info.state.bytes),
            size::rounded(max_bytes)
        ));
    }
    let cluster = info.cluster.as_ref();
    if cluster.is_none_or(|cluster| cluster.leader.is_none()) {
        shown.problems.push("the stream has no leader: most of its NATS servers are down".into());
    }
    for peer in cluster.map_or(&[][..], |cluster| &cluster.replicas) {
        if peer.offline || peer.active > REPLICA_AGE_MAX {
            shown.problems.push(format!(
                "the replica on NATS server {} is missing; it was last seen {} ago",
                peer.name,
                seconds(peer.active.as_secs())
            ));
        }
    }
    shown.stream = Some(ShownStream {
        name,
        lineage: stream::lineage(&info.config).map(|one| one.to_string()).unwrap_or_default(),
        first_record: info.state.first_sequence,
        last_record: info.state.last_sequence,
        bytes: info.state.bytes,
        max_bytes,
        replicas: stream::peers(&info),
    });
    Ok(())
}

fn look_at_servers(found: Result<Found, StreamError>, shown: &mut Shown) {
    let found = match found {
        Ok(found) => found,
        Err(error) => return shown.problems.push(error.to_string()),
    };
    let all = found.wrong.iter().chain(&found.small);
    shown.problems.extend(all.map(ToString::to_string));
    for (address, reason) in &found.silent {
        shown.problems.push(format!("{address} does not answer: {reason}"));
    }
    shown.nats = found
        .servers
        .into_iter()
        .map(|server| ShownServer {
            name: server.name,
            version: server.version,
            flushes: server.flushes,
        })
        .collect();
}

/// Reads the hints until each of them has changed, or the time is over.
pub(super) async fn watch(hints: &mut Hints) -> Result<Vec<Seen>, HintError> {
    let begun = Instant::now();
    loop {
        let read = hints.read().await;
        let is_done = read.as_ref().is_ok_and(|seen| {
            !seen.is_empty() && seen.iter().all(|seen| seen.changes > 0 || seen.hint.is_forgotten)
        });
        if is_done || begun.elapsed() >= WATCH {
            return read;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The live node that leads in the newest epoch.
pub(super) fn leader(seen: &[Seen]) -> Option<&Hint> {
    let live = seen.iter().filter(|seen| seen.changes > 0 && !seen.hint.is_forgotten);
    let live: Vec<&Hint> = live.map(|seen| &seen.hint).collect();
    let epoch = live.iter().map(|hint| hint.epoch).max()?;
    live.into_iter().find(|hint| hint.role == Role::Leads && hint.epoch == epoch)
}

fn look_at_nodes(all: &[Seen], shown: &mut Shown) {
    let seen: Vec<&Seen> = all.iter().filter(|seen| !seen.hint.is_forgotten).collect();
    let problems = &mut shown.problems;
    if seen.is_empty() {
        problems.push("no node has left a hint: start the nodes".to_owned());
    }
    let live: Vec<&Hint> =
        seen.iter().filter(|seen| seen.changes > 0).map(|seen| &seen.hint).collect();
    for Seen { hint, changes, .. } in &seen {
        let name = &hint.name;
        if *changes == 0 {
            problems.push(format!(
                "node {name} is silent; start it, or say that it does not come back: \
                 `lineshaft cluster forget {name}`"
            ));
            continue;
        }
        let leads = hint.role == Role::Leads;
        let refuses =
            if leads { " leads, but would not begin to" } else { " does not begin to lead" };
        let told =
            [(" does not serve", &hint.fault), (refuses, &hint.refusal), ("", &hint.warning)];
        for (what, text) in told {
            if !text.is_empty() {
                problems.push(format!("node {name}{what}: {text}"));
            }
        }
        if hint.lag_ms > LAG_MAX_MS {
            let lag = seconds(hint.lag_ms / 1000);
            problems.push(format!("node {name} is {lag} behind the leader"));
        }
    }
    if leader(all).is_none() && !seen.is_empty() {
        problems.push("no node leads".to_owned());
    }
    if live.len() == 1 {
        problems.push("only one node is up: its loss stops the cluster".to_owned());
    }
    // All are compared with the leader, because its settings count now.
    if let Some(one) = leader(all).or(live.first().copied()) {
        problems.extend(live.iter().filter_map(|hint| unlike(one, hint)));
    }
    shown.nodes = seen
        .iter()
        .map(|seen| ShownNode {
            node: format!("{:016x}", seen.node),
            live: seen.changes > 0,
            hint: seen.hint.clone(),
        })
        .collect();
}

/// What differs between the settings of two nodes.
pub(super) fn unlike(one: &Hint, other: &Hint) -> Option<String> {
    let parts = differing_settings(&one.settings, &other.settings);
    (!parts.is_empty()).then(|| {
        format!(
            "the settings of nodes {} and {} differ ({}): give all nodes the same settings, and reload or \
             restart them",
            one.name,
            other.name,
            parts.join(", ")
        )
    })
}

fn print(shown: &Shown) -> Result<()> {
    let well = if shown.well { "well" } else { "NOT WELL" };
    print_line(&format!("cluster {}: {well}", shown.cluster))?;
    if let Some(stream) = &shown.stream {
        print_line(&format!(
            "stream {}: records {} to {}, {} of {}, on {}",
            stream.name,
            count(stream.first_record),
            count(stream.last_record),
            size::rounded(stream.bytes),
            size::rounded(stream.max_bytes),
            stream.replicas.join(", ")
        ))?;
    }
    for server in &shown.nats {
        let flush = if server.flushes { "flushes each record" } else { "DOES NOT FLUSH" };
        print_line(&format!("NATS server {}: version {}, {flush}", server.name, server.version))?;
    }
    for ShownNode { live, hint, .. } in &shown.nodes {
        let role = match hint.role {
            _ if !live => "SILENT",
            Role::Leads => "leads",
            Role::Follows => "follows",
            Role::Starts => "starts",
        };
        let mut line = format!(
            "node {} {role}: epoch {}, group {}, durable {}, {} behind, version {}",
            hint.name,
            count(hint.epoch),
            count(hint.applied),
            count(hint.durable),
            seconds(hint.lag_ms / 1000),
            hint.version
        );
        if !hint.address.is_empty() {
            line += ", at ";
            line += &hint.address;
        }
        print_line(&line)?;
    }
    for problem in &shown.problems {
        complain(problem);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, role: Role, epoch: u64) -> Seen {
        let hint = Hint { name: name.into(), role, epoch, ..Hint::default() };
        Seen { node: name.len() as u64, hint, changes: 1, age: Duration::ZERO }
    }

    fn problems(seen: &[Seen]) -> Vec<String> {
        let mut shown = Shown::default();
        look_at_nodes(seen, &mut shown);
        shown.problems
    }

    #[test]
    fn what_is_not_well_is_named() {
        let well = [seen("a", Role::Leads, 7), seen("b", Role::Follows, 7)];
        assert_eq!(problems(&well), Vec::<String>::new());
        let wrong = |change: fn(&mut Vec<Seen>), what: &str| {
            let mut nodes = well.to_vec();
            change(&mut nodes);
            let problems = problems(&nodes);
            assert!(problems.iter().any(|problem| problem.contains(what)), "{problems:?}");
        };
        wrong(Vec::clear, "no node has left a hint");
        wrong(|nodes| nodes[1].changes = 0, "node b is silent");
        wrong(|nodes| nodes[1].hint.is_forgotten = true, "only one node is up");
        wrong(|nodes| nodes[0].changes = 0, "no node leads");
        wrong(|nodes| nodes[1].hint.epoch = 8, "no node leads");
        wrong(|nodes| nodes.truncate(1), "only one node is up");
        wrong(|nodes| nodes[1].hint.lag_ms = 30_001, "node b is 30 s behind");
        wrong(|nodes| nodes[1].hint.fault = "broken".into(), "node b does not serve: broken");
        let told = "node a leads, but would not begin to: flush";
        wrong(|nodes| nodes[0].hint.refusal = "flush".into(), told);
        let told = "node b does not begin to lead: flush";
        wrong(|nodes| nodes[1].hint.refusal = "flush".into(), told);
        wrong(|nodes| nodes[1].hint.warning = "two of it".into(), "node b: two of it");
        let policies = |nodes: &mut Vec<Seen>| {
            nodes[0].hint.settings = "limits=1 policies=1".into();
            nodes[1].hint.settings = "limits=1 policies=2".into();
        };
        wrong(policies, "the settings of nodes a and b differ (policies)");
    }
}
