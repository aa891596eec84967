//! Jobs and queues as the broker shows them, in the model's words.

use std::collections::BTreeMap;

use broker::{JobId, State, Turn};

use crate::Checked;
use crate::model::{Counts, Estate, Facts, Image, Model, Name, Shelf, Tags};

/// What is seen of submitted jobs besides: what they were submitted with, and whether they last.
type Submitted = BTreeMap<u64, (Tags, bool)>;

fn submitted(turn: &Turn<'_>) -> Submitted {
    let jobs = turn.submitted_jobs().map(|(id, tags, _, is_durable)| {
        let tags = Tags { unique: tags.unique.into(), reducer: tags.reducer.into() };
        (id.0, (tags, is_durable))
    });
    jobs.collect()
}

fn name(bytes: &[u8]) -> Name {
    String::from_utf8_lossy(bytes).into()
}

/// A job as the broker shows it.
fn image(turn: &Turn<'_>, submitted: &Submitted, id: u64) -> Option<Image> {
    let (status, _) = turn.job_status(JobId(id)).ok()?;
    let (peeked, _) = turn.peek(JobId(id)).ok()?;
    let facts = status.facts;
    assert_eq!(facts.id.0, id, "a job has the number that it is asked by");
    let counters = facts.counters;
    Some(Image {
        tube: name(turn.queue_name(status.queue)),
        pri: facts.priority,
        delay: facts.delay_s,
        ttr: facts.ttr_s,
        created: facts.created.0,
        body: peeked.body.as_ref().into(),
        shelf: match facts.state {
            State::Ready | State::Leased => Shelf::Ready,
            State::Delayed => Shelf::Delayed { due: facts.due.0 },
            State::Buried => Shelf::Buried { order: facts.buried_order },
        },
        counts: Counts {
            reserves: counters.takes,
            timeouts: counters.timeouts,
            releases: counters.releases,
            buries: counters.buries,
            kicks: counters.kicks,
            failures: counters.failures,
        },
        order: facts.order,
        tags: submitted.get(&id).map(|(tags, _)| tags.clone()),
    })
}

/// All that a new process found of these jobs, and of its queues.
pub(crate) fn estate(turn: &Turn<'_>, ids: impl Iterator<Item = u64>) -> Estate {
    let submitted = submitted(turn);
    let jobs = ids.filter_map(|id| Some((id, image(turn, &submitted, id)?))).collect();
    let queues = turn.queue_names().filter_map(|queue| {
        let facts = turn.queue_facts(queue)?;
        // One that always exists needs no keeping.
        let kept = facts.kept && queue != b"default";
        let facts = Facts { kept, limits: facts.limits };
        (facts != Facts::default()).then(|| (name(queue), facts))
    });
    Estate { jobs, queues: queues.collect() }
}

/// Compares every job of the model with the broker's.
pub(crate) fn compare_jobs(model: &Model, turn: &Turn<'_>) -> Checked {
    let submitted = submitted(turn);
    for (id, job) in &model.jobs {
        let expected = Image::of(job);
        let lasts = submitted.get(id).is_none_or(|(_, is_durable)| *is_durable);
        match image(turn, &submitted, *id) {
            Some(seen) if seen == expected && lasts == job.is_durable => {}
            seen => {
                return Err(format!(
                    "job {id} is {seen:?}, durable {lasts}\n  the model says {expected:?}, {}",
                    job.is_durable
                ));
            }
        }
    }
    Ok(())
}
