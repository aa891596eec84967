//! Reads jobs and queues from the broker, and converts them to the model's types.

use std::collections::BTreeMap;
use std::rc::Rc;

use broker::{Claim, JobId, State, Turn};

use crate::Checked;
use crate::model::{
    Counts, Facts, JobKind, LogContents, Model, Name, StoredJob, StoredState, Tags, short_text,
};

/// Facts about each submitted job, by its id: the parameters of the submit, and whether the job is
/// in the log.
type Submitted = BTreeMap<u64, (Tags, bool)>;

fn submitted(turn: &Turn<'_>) -> Submitted {
    let jobs = turn.submitted_jobs().map(|job| {
        let tags = Tags { unique: job.tags.unique.into(), reducer: job.tags.reducer.into() };
        (job.id.0, (tags, job.is_durable))
    });
    jobs.collect()
}

fn name(bytes: &[u8]) -> Name {
    String::from_utf8_lossy(bytes).into()
}

/// The state of a job in the broker.
fn image(turn: &Turn<'_>, submitted: &Submitted, id: u64) -> Option<StoredJob> {
    let status = turn.job_status(JobId(id)).value.ok()?;
    let body = turn.body(JobId(id))?;
    let facts = status.facts;
    assert_eq!(facts.id.0, id, "a job has the number that it is asked by");
    let counters = facts.counters;
    Some(StoredJob {
        queue: name(turn.queue_name(status.queue)),
        pri: facts.priority,
        delay: facts.delay_s,
        ttr: facts.ttr_s,
        created: facts.created.0,
        since: if facts.state == State::Ready { facts.due.0 } else { 0 },
        body: body.as_ref().into(),
        state: match facts.state {
            State::Ready | State::Leased => StoredState::Ready,
            State::Delayed => StoredState::Delayed { due: facts.due.0 },
            State::Buried => StoredState::Buried { order: facts.buried_order },
        },
        counts: Counts {
            reserves: counters.takes,
            timeouts: counters.timeouts,
            releases: counters.releases,
            buries: counters.buries,
            kicks: counters.kicks,
            failures: counters.failures,
        },
        attempts: facts.attempts,
        death: facts.death.map(|death| *death),
        order: facts.order,
        tags: submitted.get(&id).map(|(tags, _)| tags.clone()),
        expires: facts.expires.map(|at| at.0),
        key: facts.key,
        group: facts.group,
        before: None,
    })
}

fn facts(turn: &Turn<'_>, queue: &[u8]) -> Facts {
    let facts = turn.queue_facts(queue).unwrap_or_default();
    Facts {
        // The queue `default` always exists, so the log does not store this fact.
        kept: facts.kept && queue != b"default",
        limits: facts.limits,
        is_items: facts.items,
        is_child: facts.child,
        created: facts.created.0,
    }
}

/// The state of these jobs, and of all queues, after a start.
pub(crate) fn log_contents(turn: &Turn<'_>, ids: impl Iterator<Item = u64>) -> LogContents {
    let submitted = submitted(turn);
    let jobs = ids.filter_map(|id| Some((id, image(turn, &submitted, id)?))).collect();
    let queues = turn.queue_names().map(|queue| (name(queue), facts(turn, queue)));
    let queues = queues.filter(|(_, facts)| *facts != Facts::default());
    let rules = Rc::new(turn.policies().clone());
    let claims = turn.claims().collect();
    LogContents { jobs, queues: queues.collect(), rules, status: turn.status() as u8, claims }
}

/// Compares every queue and every job of the model with the queues and jobs of the broker.
pub(crate) fn compare(model: &Model, turn: &Turn<'_>) -> Checked {
    for (name, queue) in &model.queues {
        let place = turn.queue_id(name.as_bytes()).map(|queue| queue.0);
        if place != Some(queue.place) {
            return Err(format!("queue {name} is at {place:?}, not at {}", queue.place));
        }
        let seen = facts(turn, name.as_bytes());
        if seen != queue.facts {
            return Err(format!("queue {name} is {seen:?}\n  the model says {:?}", queue.facts));
        }
    }
    let is_lasting = |claim: &Claim| claim.until.0 > model.now;
    let seen: BTreeMap<_, _> = turn.claims().filter(|(_, claim)| is_lasting(claim)).collect();
    let expected = model.claims.iter().filter(|(_, claim)| is_lasting(claim));
    let expected: BTreeMap<_, _> = expected.map(|(key, claim)| (*key, *claim)).collect();
    if seen != expected {
        return Err(format!("the claims are {seen:?}\n  the model says {expected:?}"));
    }
    let submitted = submitted(turn);
    for (id, job) in &model.jobs {
        let expected = StoredJob::of(job);
        let lasts = job.kind == JobKind::Logged;
        let agrees = submitted.get(id).is_none_or(|(_, is_durable)| *is_durable == lasts);
        match image(turn, &submitted, *id) {
            Some(seen) if seen == expected && agrees => {}
            seen => {
                let (seen, expected) = (short_text(seen.as_ref()), short_text(Some(&expected)));
                let kind = job.kind;
                return Err(format!(
                    "job {id} is {seen}\n  the model says {expected} {kind:?} ({agrees})"
                ));
            }
        }
    }
    Ok(())
}
