//! `lineshaft cluster check`: verifies the stream, or data folders of stopped servers.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use nats::driver::Driver;
use nats::hints::{Hints, Seen};
use nats::stream::{self, StreamError};
use notation::size;
use replica::audit::{Audit, AuditError, Summary};
use replica::group::At;
use replica::node::{Answer, Request};
use replica::{Lineage, Seq};
use serde::Serialize;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::place::{Node, patiently};
use super::{block_on, folders, status};
use crate::cli::CheckArguments;
use crate::text::{complain, count, counted, print_line, print_value};

/// Questions for the tail that nobody answers. Each takes at least a second.
const TAILS_MAX: u32 = 30;
/// The time in which NATS must deliver the next record.
const RECORD_MAX: Duration = Duration::from_secs(30);

/// What a check of the stream found.
#[derive(Debug, Default, Serialize)]
struct Checked {
    well: bool,
    problems: Vec<String>,
    stream: String,
    lineage: String,
    bytes: u64,
    first_record: Seq,
    last_record: Seq,
    first_group: u64,
    last_group: u64,
    groups: u64,
    claims: u64,
    stale_records: u64,
    /// The chain after the last group.
    chain: String,
    /// Nodes whose newest group is the same as that of the stream.
    agreeing_nodes: Vec<String>,
}

/// Checks what the arguments name.
pub(super) fn run(arguments: &CheckArguments) -> Result<ExitCode> {
    if !arguments.offline.is_empty() {
        return check_folders(arguments);
    }
    let node = Node::read(arguments.node.config.clone(), None, 3)?;
    let mut checked = block_on(check_stream(node, arguments.repair_stream))?;
    checked.well = checked.problems.is_empty();
    if arguments.json {
        print_value(&checked)?;
    } else {
        print(&checked)?;
    }
    Ok(if checked.well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_folders(arguments: &CheckArguments) -> Result<ExitCode> {
    let mut all = Vec::new();
    for folder in &arguments.offline {
        all.push(folders::read(folder)?);
    }
    let problems = [folders::wrong(&all), folders::differences(&all)].concat();
    if arguments.json {
        for folder in &all {
            print_value(folder)?;
        }
    } else {
        folders::print(&all)?;
    }
    for problem in &problems {
        complain(problem);
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(checked: &Checked) -> Result<()> {
    let Checked { stream, lineage, first_record, last_record, .. } = checked;
    print_line(&format!("stream     {stream}, lineage {lineage}"))?;
    if *last_record > 0 {
        print_line(&format!(
            "records    {} to {}, {}; {} did not count",
            count(*first_record),
            count(*last_record),
            size::rounded(checked.bytes),
            count(checked.stale_records)
        ))?;
        print_line(&format!(
            "verified   {}, numbers {} to {}, and {}",
            counted(checked.groups, "group"),
            count(checked.first_group),
            count(checked.last_group),
            counted(checked.claims, "claim")
        ))?;
        print_line(&format!("chain      {}", checked.chain))?;
    } else {
        print_line("records    none: no node has led yet")?;
    }
    for node in &checked.agreeing_nodes {
        print_line(&format!("agrees     {node}"))?;
    }
    for problem in &checked.problems {
        complain(problem);
    }
    if checked.well {
        print_line("The stream is whole.")?;
    }
    Ok(())
}

async fn check_stream(mut node: Node, repair: bool) -> Result<Checked> {
    let mut checked = Checked { stream: node.place().stream(), ..Checked::default() };
    let name = checked.stream.clone();
    let info = patiently(async || {
        let context = nats::connect(node.place()).await?;
        let info = stream::info(&context, &name).await?;
        info.map(|info| (context, info)).ok_or(StreamError::Missing(name.clone()))
    });
    let (context, info) = info.await?;
    if info.config.num_replicas == 5 {
        node.question.place.replicas = 5;
    }
    if repair && let Err(wrong) = stream::check(node.place(), &info.config) {
        stream::repair(&context, node.place(), &info.config).await?;
        complain(&format!("changed: {wrong}"));
    }
    let Some(lineage) = stream::lineage(&info.config) else {
        bail!(StreamError::NoLineage(name));
    };
    checked.lineage = lineage.to_string();
    node.question.lineage = Some(lineage);
    let found = node.look().await?;
    let all = found.wrong.iter().chain(&found.small);
    checked.problems.extend(all.map(ToString::to_string));
    for (address, reason) in &found.silent {
        checked.problems.push(format!("{address} does not answer: {reason}"));
    }
    // A node can go on meanwhile, so its hint must be read before the stream.
    let hints = Hints::new(node.place().clone()).read().await;
    let hints = hints.unwrap_or_else(|error| {
        checked.problems.push(error.to_string());
        Vec::new()
    });
    let mut reading = Reading::start(&node, lineage);
    let wanted = hints.iter().map(|seen| seen.hint.applied).collect();
    match reading.read_all(wanted).await? {
        Ok(()) => (),
        Err(error) => checked.problems.push(error.to_string()),
    }
    let Summary { first_group, groups, claims, renewals, stale, .. } = reading.audit.summary();
    (checked.first_record, checked.last_record) = (reading.first, reading.last);
    (checked.first_group, checked.groups) = (first_group, groups);
    (checked.claims, checked.stale_records, checked.bytes) = (claims, stale, reading.bytes);
    if let Some(at) = reading.audit.at() {
        checked.last_group = at.number;
        checked.chain = format!("{:016x}", at.chain.0);
    }
    if checked.last_record > 0 && groups + claims + renewals == 0 {
        checked.problems.push(format!(
            "the stream has no records any more: somebody removed all up to record {}",
            checked.last_record
        ));
    }
    let last_claim = stream::last_claim(&context, node.place()).await?;
    checked.problems.extend(lost_claim(last_claim, reading.audit.last_claim(), reading.last));
    compare(&mut checked, &hints, &reading);
    let leader = status::leader(&hints).or(hints.first().map(|seen| &seen.hint));
    if let Some(one) = leader {
        checked.problems.extend(hints.iter().filter_map(|seen| status::unlike(one, &seen.hint)));
    }
    Ok(checked)
}

/// Each append names the last claim of the stream. `found`: the one that the stream has. `read`: the
/// last one of its records.
fn lost_claim(found: Option<Seq>, read: Seq, last: Seq) -> Option<String> {
    let is_lost = match found {
        Some(seq) => seq < read,
        None => last > 0,
    };
    is_lost.then(|| {
        "the last claim of the stream is lost: somebody has removed it. No node can append any more; stop all nodes, \
         delete the stream, and begin a new one with `lineshaft cluster recover`"
            .to_owned()
    })
}

/// Compares what the nodes say about their newest group with the stream.
fn compare(checked: &mut Checked, hints: &[Seen], reading: &Reading) {
    for Seen { hint, .. } in hints {
        let name = &hint.name;
        if hint.lineage != checked.lineage {
            checked.problems.push(format!("node {name} has another lineage: {}", hint.lineage));
            continue;
        }
        if hint.applied > checked.last_group {
            // The hint was written before the end of the stream was read.
            checked.problems.push(format!(
                "the end of the stream is lost: node {name} has group {}",
                hint.applied
            ));
            continue;
        }
        let Some(at) = reading.places.get(&hint.applied) else { continue };
        let chain = format!("{:016x}", at.chain.0);
        if hint.chain.is_empty() {
            // A busy leader has gathered more groups than the stream has accepted.
        } else if chain == hint.chain {
            let group = count(hint.applied);
            checked.agreeing_nodes.push(format!("node {name} at group {group}"));
        } else {
            checked.problems.push(format!(
                "node {name} differs from the stream at group {}: its chain is {}, that of the \
                 stream is {chain}",
                hint.applied, hint.chain
            ));
        }
    }
}

/// Reads the stream from its first record to the record that is its last one at the start.
struct Reading {
    driver: Driver,
    answers: Receiver<Answer>,
    audit: Audit,
    first: Seq,
    last: Seq,
    bytes: u64,
    /// The places of the groups that somebody asked for.
    places: BTreeMap<u64, At>,
}

impl Reading {
    fn start(node: &Node, lineage: Lineage) -> Reading {
        let (driver, answers) = Driver::start(node.place().clone());
        let audit = Audit::new(lineage);
        Reading { driver, answers, audit, first: 0, last: 0, bytes: 0, places: BTreeMap::new() }
    }

    /// Outside: nobody answers. Inside: the stream is not whole.
    async fn read_all(&mut self, wanted: Vec<u64>) -> Result<Result<(), AuditError>> {
        self.last = self.tail().await?;
        // The records of a stream begin with 1. The first record of an empty one is 0.
        let mut next = self.first.max(1);
        while next <= self.last {
            self.driver.request(Request::Follow { from: Some(next) });
            match self.read(&mut next, &wanted).await? {
                Err(AuditError::Missing { from, .. }) => {
                    self.driver.request(Request::Follow { from: None });
                    self.tail().await?;
                    if self.first <= from {
                        return Ok(Err(AuditError::Missing { from, to: next - 1 }));
                    }
                    // The leader has trimmed the stream meanwhile.
                    self.audit.trimmed();
                    next = self.first;
                }
                done => return Ok(done),
            }
        }
        Ok(Ok(()))
    }

    async fn read(&mut self, next: &mut Seq, wanted: &[u64]) -> Result<Result<(), AuditError>> {
        while *next <= self.last {
            let Ok(answer) = timeout(RECORD_MAX, self.answers.recv()).await else {
                bail!("NATS has not delivered record {next} for {} s", RECORD_MAX.as_secs());
            };
            let Some(answer) = answer else { bail!("the driver has ended") };
            let Answer::Record { seq, bytes } = answer else { continue };
            if seq > *next {
                let from = std::mem::replace(next, seq);
                return Ok(Err(AuditError::Missing { from, to: seq - 1 }));
            }
            match self.audit.record(seq, &bytes) {
                Ok(Some(at)) if wanted.contains(&at.number) => {
                    self.places.insert(at.number, at);
                }
                Ok(_) => (),
                Err(error) => return Ok(Err(error)),
            }
            *next = seq + 1;
        }
        Ok(Ok(()))
    }

    /// Asks the stream's leader for the first and the last record.
    async fn tail(&mut self) -> Result<Seq> {
        for _ in 0..TAILS_MAX {
            self.driver.request(Request::Tail);
            loop {
                match self.answers.recv().await {
                    Some(Answer::Tail { first, last, bytes }) => {
                        (self.first, self.bytes) = (first, bytes);
                        return Ok(last);
                    }
                    Some(Answer::NoTail) => break,
                    Some(_) => (),
                    None => bail!("the driver has ended"),
                }
            }
        }
        match self.driver.problem() {
            Some(problem) => bail!(problem),
            None => bail!("the stream has no leader: most of its NATS servers are down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_somebody_removed_is_named() {
        assert_eq!(lost_claim(None, 0, 0), None, "nobody has led yet");
        assert_eq!(lost_claim(Some(7), 7, 90), None);
        assert_eq!(lost_claim(Some(95), 7, 90), None, "another node has claimed since then");
        for found in [None, Some(3)] {
            assert!(lost_claim(found, 7, 90).is_some_and(|text| text.contains("claim")));
        }
    }
}
