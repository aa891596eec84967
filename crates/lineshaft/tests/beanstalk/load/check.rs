//! Compares the clients' records with the jobs of a restarted server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use testkit::client::Client;

use super::model::{Command, Job, State};
use super::worker::Worker;

/// If a put got no reply, the id of its job is at most this much larger than the largest known id.
const IDS_AHEAD: u64 = 300;

/// The changes that a server preserves in a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promises {
    /// All acknowledged changes.
    All,
    /// All acknowledged changes except plain releases. The original does not log a plain release,
    /// so the new priority is lost.
    AllButPlainReleases,
}

/// Jobs whose ids are in no client's records, because their puts got no reply.
pub(crate) type Strays = BTreeMap<u64, Job>;

/// Finds the jobs whose puts got no reply.
pub(crate) fn find_strays(server: SocketAddr, workers: &[Worker]) -> Result<Strays> {
    let known: BTreeSet<u64> = workers
        .iter()
        .flat_map(|worker| worker.jobs.keys().chain(&worker.ended))
        .copied()
        .collect();
    let last = known.last().copied().unwrap_or(0);
    let mut client = Client::connect(server)?;
    let mut strays = Strays::new();
    // A put without a reply was among the last commands before the kill, so the id of its job is
    // near the largest known id. Earlier checks found the jobs with lower ids.
    let first = last.saturating_sub(IDS_AHEAD * 4).max(1);
    for id in (first..=last + IDS_AHEAD).filter(|id| !known.contains(id)) {
        if let Some(job) = look(&mut client, id)? {
            strays.insert(id, job);
        }
    }
    Ok(strays)
}

/// Checks one tube. If a command without a reply took effect, adds its effect to the ledger.
pub(crate) fn check_worker(
    worker: &mut Worker,
    server: SocketAddr,
    promises: Promises,
    strays: &mut Strays,
) -> Result<()> {
    let mut client = Client::connect(server)?;
    let ids = worker.ids_to_check();
    let unanswered: Vec<Command> = worker.unanswered.drain(..).collect();
    for id in ids {
        let found = look(&mut client, id)?;
        let allowed = allowed_states(&worker.jobs[&id], id, &unanswered);
        let as_promised = allowed.iter().any(|job| same(job.as_ref(), found.as_ref(), promises));
        if !as_promised {
            bail!("job {id}: promised {}, found {}", shown_all(&allowed), shown(found.as_ref()));
        }
        worker.now_is(id, found);
    }
    check_ended(worker, &mut client)?;
    adopt_strays(worker, &unanswered, promises, strays);
    check_counts(worker, &mut client)
}

/// Checks that no deleted job has come back. There are many deleted jobs, so the requests are sent
/// in batches.
fn check_ended(worker: &Worker, client: &mut Client) -> Result<()> {
    const BATCH: usize = 500;
    for batch in worker.ended.chunks(BATCH) {
        let questions: Vec<String> = batch.iter().map(|id| format!("peek {id}\r\n")).collect();
        client.send(questions.concat().as_bytes())?;
        for id in batch {
            let reply = client.read_line()?;
            ensure!(reply == "NOT_FOUND", "job {id} was deleted and is back: {reply}");
        }
    }
    Ok(())
}

/// The allowed states of a job. Of the commands without a reply, the first few may have changed the
/// job, in their order.
fn allowed_states(job: &Job, id: u64, unanswered: &[Command]) -> Vec<Option<Job>> {
    let mut states = vec![Some(job.clone())];
    for command in unanswered.iter().filter(|command| command.id() == Some(id)) {
        let before = states.last().cloned().flatten();
        states.push(before.and_then(|job| command.applied_to(&job)));
    }
    states
}

/// Adds the job of a put without a reply to the ledger, if the put took effect.
fn adopt_strays(
    worker: &mut Worker,
    unanswered: &[Command],
    promises: Promises,
    strays: &mut Strays,
) {
    for command in unanswered {
        let Command::Put { job } = command else { continue };
        let mut adopted = strays.iter().filter(|(_, stray)| same(Some(stray), Some(job), promises));
        if let Some(id) = adopted.next().map(|(id, _)| *id) {
            let job = strays.remove(&id).expect("it was just found there");
            worker.jobs.insert(id, job);
        }
    }
}

/// Checks that the tube has exactly the jobs of the ledger, and no job twice.
fn check_counts(worker: &Worker, client: &mut Client) -> Result<()> {
    if worker.jobs.is_empty() {
        return Ok(());
    }
    let stats = client.stats(&format!("stats-tube {}", worker.tube()))?;
    for state in [State::Ready, State::Delayed, State::Buried] {
        let key = format!("current-jobs-{}", state.word());
        let promised = worker.jobs.values().filter(|job| job.state == state).count();
        let got = stats.get(&key).with_context(|| format!("no {key}"))?;
        ensure!(*got == promised.to_string(), "{key}: promised {promised}, found {got}");
    }
    ensure!(stats["current-jobs-reserved"] == "0", "a worker holds a job after a restart");
    Ok(())
}

fn same(left: Option<&Job>, right: Option<&Job>, promises: Promises) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            let pri_counts = promises == Promises::All;
            left.state == right.state
                && left.body == right.body
                && (left.pri == right.pri || !pri_counts)
        }
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn look(client: &mut Client, id: u64) -> Result<Option<Job>> {
    let Some(found) = client.peek(&format!("peek {id}"))? else { return Ok(None) };
    let stats = client.stats(&format!("stats-job {id}"))?;
    let state = [State::Ready, State::Delayed, State::Buried]
        .into_iter()
        .find(|state| state.word() == stats["state"])
        .with_context(|| format!("job {id} is {} after a restart", stats["state"]))?;
    Ok(Some(Job { pri: stats["pri"].parse()?, state, body: found.body }))
}

fn shown(job: Option<&Job>) -> String {
    job.map_or_else(|| "nothing".to_owned(), |job| format!("{job:?}"))
}

fn shown_all(jobs: &[Option<Job>]) -> String {
    let shown: Vec<String> = jobs.iter().map(|job| shown(job.as_ref())).collect();
    shown.join(" or ")
}
