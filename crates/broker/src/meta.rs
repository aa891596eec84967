//! How a job's facts are written into the log's metas, and read back.
//!
//! The log keeps a meta's fixed part as it is and its options as bytes. Options: one byte that
//! says which fields follow, then the fields in the order of the bits, little-endian. A plain job
//! has none.

use engine::{Counters, JobFacts, JobId, Millis, State};
use log::Meta;

const DELAY: u8 = 1;
const COUNTERS: u8 = 1 << 1;
const ORDER: u8 = 1 << 2;
const BURIED_ORDER: u8 = 1 << 3;

const COUNTERS_LEN: usize = 20;

/// Longest options: all fields.
const OPTIONS_LEN_MAX: usize = 1 + 4 + COUNTERS_LEN + 8 + 8;

/// A meta that this version cannot have written.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "job {id} in the log has a {what} that this version does not know; \
     was the folder written by a newer Lineshaft?"
)]
pub struct UnknownMeta {
    id: u64,
    what: &'static str,
}

/// Options of one job, ready for [`Meta::options`].
#[derive(Debug)]
pub(crate) struct Options {
    bytes: [u8; OPTIONS_LEN_MAX],
    len: usize,
}

impl Options {
    /// Those of a plain job.
    pub(crate) fn none() -> Self {
        Self { bytes: [0; OPTIONS_LEN_MAX], len: 1 }
    }

    pub(crate) fn of(facts: &JobFacts) -> Self {
        let mut options = Self::none();
        if facts.delay_s != 0 {
            options.field(DELAY, &facts.delay_s.to_le_bytes());
        }
        if facts.counters != Counters::default() {
            options.field(COUNTERS, &counters_bytes(&facts.counters));
        }
        if facts.order != facts.id.0 {
            options.field(ORDER, &facts.order.to_le_bytes());
        }
        if facts.buried_order != 0 {
            options.field(BURIED_ORDER, &facts.buried_order.to_le_bytes());
        }
        options
    }

    fn field(&mut self, bit: u8, bytes: &[u8]) {
        self.bytes[0] |= bit;
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        if self.len == 1 { &[] } else { &self.bytes[..self.len] }
    }

    /// The meta of the job whose options these are.
    pub(crate) fn meta(&self, facts: &JobFacts) -> Meta<'_> {
        Meta {
            id: facts.id.0,
            priority: facts.priority,
            ttr: facts.ttr_s,
            created_ms: facts.created.0,
            due_ms: facts.due.0,
            state: facts.state as u8,
            options: self.bytes(),
        }
    }
}

/// The payload of an entry that only changes counters.
pub(crate) fn counters_bytes(counters: &Counters) -> [u8; COUNTERS_LEN] {
    let Counters { takes, timeouts, releases, buries, kicks } = *counters;
    let mut bytes = [0; COUNTERS_LEN];
    for (place, count) in bytes.chunks_exact_mut(4).zip([takes, timeouts, releases, buries, kicks])
    {
        place.copy_from_slice(&count.to_le_bytes());
    }
    bytes
}

/// The facts that a meta and a newer counters payload tell.
pub(crate) fn facts(meta: &Meta<'_>, newer: Option<&[u8]>) -> Result<JobFacts, UnknownMeta> {
    let unknown = |what| UnknownMeta { id: meta.id, what };
    let state = match meta.state {
        1 => State::Ready,
        2 => State::Delayed,
        3 => State::Leased,
        4 => State::Buried,
        _ => return Err(unknown("state")),
    };
    let mut facts = JobFacts {
        id: JobId(meta.id),
        priority: meta.priority,
        order: meta.id,
        state,
        created: Millis(meta.created_ms),
        due: Millis(meta.due_ms),
        buried_order: 0,
        ttr_s: meta.ttr,
        delay_s: 0,
        counters: Counters::default(),
    };
    if let Some((&fields, rest)) = meta.options.split_first() {
        read_options(&mut facts, fields, rest).ok_or_else(|| unknown("field"))?;
    }
    if let Some(bytes) = newer {
        facts.counters = counters(bytes).ok_or_else(|| unknown("counter"))?;
    }
    Ok(facts)
}

fn read_options(facts: &mut JobFacts, fields: u8, mut rest: &[u8]) -> Option<()> {
    if fields & !(DELAY | COUNTERS | ORDER | BURIED_ORDER) != 0 {
        return None;
    }
    let mut take = |len: usize| {
        let (field, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(field)
    };
    if fields & DELAY != 0 {
        facts.delay_s = u32::from_le_bytes(take(4)?.try_into().ok()?);
    }
    if fields & COUNTERS != 0 {
        facts.counters = counters(take(COUNTERS_LEN)?)?;
    }
    if fields & ORDER != 0 {
        facts.order = u64::from_le_bytes(take(8)?.try_into().ok()?);
    }
    if fields & BURIED_ORDER != 0 {
        facts.buried_order = u64::from_le_bytes(take(8)?.try_into().ok()?);
    }
    rest.is_empty().then_some(())
}

fn counters(bytes: &[u8]) -> Option<Counters> {
    let bytes: &[u8; COUNTERS_LEN] = bytes.try_into().ok()?;
    let mut counts = bytes
        .chunks_exact(4)
        .map(|count| u32::from_le_bytes(count.try_into().expect("chunks of four bytes")));
    let mut next = || counts.next().expect("the payload holds five counts");
    Some(Counters {
        takes: next(),
        timeouts: next(),
        releases: next(),
        buries: next(),
        kicks: next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> JobFacts {
        JobFacts {
            id: JobId(7),
            priority: 3,
            order: 7,
            state: State::Ready,
            created: Millis(1000),
            due: Millis(0),
            buried_order: 0,
            ttr_s: 60,
            delay_s: 0,
            counters: Counters::default(),
        }
    }

    fn round_trip(facts_in: &JobFacts, newer: Option<&[u8]>) -> JobFacts {
        let options = Options::of(facts_in);
        facts(&options.meta(facts_in), newer).expect("what was just written")
    }

    #[test]
    fn a_plain_job_has_no_options() {
        assert!(Options::of(&plain()).bytes().is_empty());
        assert_eq!(round_trip(&plain(), None), plain());
    }

    #[test]
    fn all_fields_come_back() {
        let counters = Counters { takes: 1, timeouts: 2, releases: 3, buries: 4, kicks: 5 };
        let full = JobFacts {
            order: 9,
            state: State::Buried,
            due: Millis(5),
            buried_order: 11,
            delay_s: 8,
            counters,
            ..plain()
        };
        assert_eq!(round_trip(&full, None), full);
        let newer = Counters { takes: 6, ..counters };
        let read = round_trip(&full, Some(&counters_bytes(&newer)));
        assert_eq!(read, JobFacts { counters: newer, ..full });
    }

    #[test]
    fn unknown_fields_are_refused() {
        let meta = |state, options| Meta { state, options, ..Options::none().meta(&plain()) };
        assert!(facts(&meta(9, &[]), None).is_err());
        assert!(facts(&meta(1, &[1 << 7]), None).is_err());
        assert!(facts(&meta(1, &[DELAY, 0]), None).is_err());
        assert!(facts(&meta(1, &[0, 0]), None).is_err());
        assert!(facts(&meta(1, &[]), Some(&[0; 3])).is_err());
    }
}
