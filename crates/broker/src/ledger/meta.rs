//! Encodes a job's facts as a meta of the log, and decodes metas.
//!
//! A meta has a fixed part and options. The first byte of the options has one bit for each optional
//! field, or for a second such byte. The fields that are present follow in the order of these bits,
//! little-endian. A plain job has no optional fields.

use engine::crons::Fired;
use engine::limits::{DEAD_ERROR_BYTES_MAX, DEAD_WORKER_BYTES_MAX, QUEUE_NAME_BYTES_MAX};
use engine::policy::KeyHash;
use engine::{
    Claim, ClaimKey, Counters, Death, DeathCause, JobFacts, JobId, Millis, QueueFacts, State, Tags,
};
use log::Meta;

const DELAY: u8 = 1;
const COUNTERS: u8 = 1 << 1;
const ORDER: u8 = 1 << 2;
const BURIED_ORDER: u8 = 1 << 3;
/// The tags of a submitted job: a length byte and the key, then a length byte and the reducer.
const TAGS: u8 = 1 << 4;
const EXPIRES: u8 = 1 << 5;
/// A wall-clock time that a client set: the expiry of a job that expires, or the due time of
/// another job.
const WALL: u8 = 1 << 6;
/// A second byte of bits follows the first. Its fields come after those of the first byte.
const MORE: u8 = 1 << 7;

/// How often the job has failed. A bit of the second byte.
const ATTEMPTS: u8 = 1;
/// Why the job is a dead letter: see [`death_bytes`]. A bit of the second byte.
const DEATH: u8 = 1 << 1;
/// The key that makes the job unique. A bit of the second byte.
const KEY: u8 = 1 << 2;
/// The key whose limits count for the job. A bit of the second byte.
const GROUP: u8 = 1 << 3;
/// The firing that put the job: a hash of the entry's name, and the instant. A bit of the second
/// byte.
const FIRED: u8 = 1 << 4;

const COUNTERS_LEN: usize = 24;
const KEY_LEN: usize = size_of::<KeyHash>();
const FIRED_LEN: usize = 16;

/// Longest key or reducer in bytes. By spec gearman 1.2, 64 would be enough.
const TAG_LEN_MAX: usize = 255;

/// Longest options, without the facts of a dead letter.
const OPTIONS_LEN_MAX: usize =
    2 + 4 + COUNTERS_LEN + 8 + 8 + 2 * (1 + TAG_LEN_MAX) + 8 + 8 + 4 + 2 * KEY_LEN + FIRED_LEN;

/// The error if this version cannot decode the meta of a job in the log.
#[derive(Copy, Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "job {id} in the log has an unknown {what}; \
     did a newer Lineshaft write the folder?"
)]
pub struct UnknownMeta {
    id: u64,
    what: &'static str,
}

/// The optional fields of one job, ready for [`Meta::options`].
#[derive(Debug)]
pub(crate) struct OptionalFields {
    bytes: [u8; OPTIONS_LEN_MAX],
    len: usize,
    /// The options of a dead letter, in place of `bytes`: they can be long, and are rare.
    of_dead: Vec<u8>,
}

impl OptionalFields {
    /// The options of a plain job.
    pub(crate) fn none() -> Self {
        Self { bytes: [0; OPTIONS_LEN_MAX], len: 1, of_dead: Vec::new() }
    }

    pub(crate) fn of(facts: &JobFacts, tags: Option<Tags<'_>>) -> Self {
        let mut options = Self::none();
        let more = if facts.attempts == 0 { 0 } else { ATTEMPTS }
            | if facts.death.is_none() { 0 } else { DEATH }
            | if facts.key.is_none() { 0 } else { KEY }
            | if facts.group.is_none() { 0 } else { GROUP }
            | if facts.fired.is_none() { 0 } else { FIRED };
        if more != 0 {
            options.field(MORE, &[more]);
        }
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
        if let Some(Tags { unique, reducer }) = tags {
            for tag in [unique, reducer] {
                assert!(tag.len() <= TAG_LEN_MAX, "the dialect checks keys and reducers");
                options.field(TAGS, &[tag.len() as u8]);
                options.field(TAGS, tag);
            }
        }
        if let Some(expires) = facts.expires {
            options.field(EXPIRES, &expires.0.to_le_bytes());
        }
        if let Some(wall) = facts.wall {
            options.field(WALL, &wall.0.to_le_bytes());
        }
        if facts.attempts != 0 {
            options.field(MORE, &facts.attempts.to_le_bytes());
        }
        if let Some(death) = &facts.death {
            options.of_dead = options.bytes[..options.len].to_vec();
            death_bytes(death, &mut options.of_dead);
        }
        if more & (KEY | GROUP | FIRED) != 0 {
            options.late_fields(facts);
        }
        options
    }

    /// Adds the fields of the second byte that come after the facts of a dead letter.
    #[cold]
    fn late_fields(&mut self, facts: &JobFacts) {
        for key in [&facts.key, &facts.group].into_iter().flatten() {
            self.late_field(key, facts);
        }
        if let Some(Fired { entry, at }) = facts.fired {
            let mut bytes = [0; FIRED_LEN];
            bytes[..8].copy_from_slice(&entry.to_le_bytes());
            bytes[8..].copy_from_slice(&at.0.to_le_bytes());
            self.late_field(&bytes, facts);
        }
    }

    fn late_field(&mut self, bytes: &[u8], facts: &JobFacts) {
        if facts.death.is_some() {
            self.of_dead.extend(bytes);
        } else {
            self.field(MORE, bytes);
        }
    }

    fn field(&mut self, bit: u8, bytes: &[u8]) {
        self.bytes[0] |= bit;
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        if !self.of_dead.is_empty() {
            &self.of_dead
        } else if self.len == 1 {
            &[]
        } else {
            &self.bytes[..self.len]
        }
    }

    /// The meta of the job with these options.
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
    let Counters { takes, timeouts, releases, buries, kicks, failures } = *counters;
    let mut bytes = [0; COUNTERS_LEN];
    for (place, count) in
        bytes.chunks_exact_mut(4).zip([takes, timeouts, releases, buries, kicks, failures])
    {
        place.copy_from_slice(&count.to_le_bytes());
    }
    bytes
}

/// The key of the log's fact about a queue: this prefix, then the queue's name.
const QUEUE_KEY: &[u8] = b"queue/";

/// The key of the log's fact with the current policies.
pub(crate) const POLICIES_KEY: &[u8] = b"policies";

/// The key of the log's fact with the entries that put jobs by schedules.
pub(crate) const CRONS_KEY: &[u8] = b"crons";

/// The key of the log's fact with the state of such an entry: this prefix, then the entry's name.
const CRON_KEY: &[u8] = b"cron/";

/// The key of the log's fact with the state of the entry of this name.
pub(crate) fn cron_key(name: &[u8]) -> Vec<u8> {
    [CRON_KEY, name].concat()
}

/// The name of the entry, if this is the key of the fact with its state.
pub(crate) fn cron_of_fact(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(CRON_KEY)
}

/// The key of the log's fact with a note of the owner: this prefix, then the name of the note.
const NOTE_KEY: &[u8] = b"note/";

/// The key of the log's fact with the note of this name.
pub(crate) fn note_key(name: &[u8]) -> Vec<u8> {
    [NOTE_KEY, name].concat()
}

/// The name of the note, if this is the key of its fact.
pub(crate) fn note_of_fact(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(NOTE_KEY)
}

/// The key of the log's fact with the number of the status.
pub(crate) const STATUS_KEY: &[u8] = b"status";

/// The key of the log's fact about the wall clock. The value is how far the wall clock is ahead of
/// the log's time, in milliseconds, as an i64.
pub(crate) const CLOCK_KEY: &[u8] = b"clock";

/// The key of the log's fact with the place of a node in the history of its cluster.
pub const CLUSTER_KEY: &[u8] = b"cluster";

/// The key of the log's fact about a claim: this prefix, then the 16 bytes of [`ClaimKey`].
const CLAIM_KEY: &[u8] = b"claim/";

/// The log's key and value for a claim: when it ends, and the number of its job. An empty value
/// removes it.
pub(crate) fn claim_fact(key: ClaimKey, claim: Option<Claim>) -> (Vec<u8>, Vec<u8>) {
    let value = claim.map(|claim| [claim.until.0.to_le_bytes(), claim.id.0.to_le_bytes()].concat());
    ([CLAIM_KEY, &key.0].concat(), value.unwrap_or_default())
}

/// Decodes the fact of a claim. The claim is `None` if the fact removes it. Returns `None` for other
/// facts, and for facts of newer versions.
pub(crate) fn read_claim_fact(key: &[u8], value: &[u8]) -> Option<(ClaimKey, Option<Claim>)> {
    let key = ClaimKey(key.strip_prefix(CLAIM_KEY)?.try_into().ok()?);
    if value.is_empty() {
        return Some((key, None));
    }
    let (until, id) = value.split_first_chunk::<8>()?;
    let (until, id) = (u64::from_le_bytes(*until), u64::from_le_bytes(id.try_into().ok()?));
    Some((key, Some(Claim { id: JobId(id), until: Millis(until), is_logged: true })))
}

const IS_ITEMS: u8 = 1;
const IS_CHILD: u8 = 1 << 1;

/// The log's key and value for a queue's facts. An empty value removes them.
pub(crate) fn queue_fact(name: &[u8], facts: QueueFacts) -> (Vec<u8>, Vec<u8>) {
    let key = [QUEUE_KEY, name].concat();
    if facts == QueueFacts::default() {
        return (key, Vec::new());
    }
    let mut value = vec![u8::from(facts.kept)];
    for limit in facts.limits {
        value.extend_from_slice(&limit.to_le_bytes());
    }
    let flags = if facts.items { IS_ITEMS } else { 0 } | if facts.child { IS_CHILD } else { 0 };
    if flags != 0 {
        value.push(flags);
        value.extend_from_slice(&facts.created.0.to_le_bytes());
    }
    (key, value)
}

/// The name of the queue, if this is the key of a queue's fact.
pub(crate) fn queue_of_fact(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(QUEUE_KEY)
}

/// Decodes the fact of a queue: the queue's name and its facts. Returns `None` for other facts, and
/// for facts of newer versions.
pub(crate) fn read_queue_fact<'a>(key: &'a [u8], value: &[u8]) -> Option<(&'a [u8], QueueFacts)> {
    let name = queue_of_fact(key)?;
    let (&kept, rest) = value.split_first()?;
    let (limits, rest) = rest.split_first_chunk::<12>()?;
    let limit = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| limits[at * 4 + byte]));
    let limits = [limit(0), limit(1), limit(2)];
    let (flags, created) = match rest.split_first() {
        Some((&flags, created)) => (flags, u64::from_le_bytes(created.try_into().ok()?)),
        // An older version wrote this fact, without the later fields.
        None => (0, 0),
    };
    let facts = QueueFacts {
        kept: kept != 0,
        limits,
        items: flags & IS_ITEMS != 0,
        child: flags & IS_CHILD != 0,
        created: Millis(created),
    };
    Some((name, facts))
}

/// Decodes the facts and tags of a meta. `newer` has counters from a later entry, which replace the
/// counters of the meta.
pub(crate) fn facts<'a>(
    meta: &Meta<'a>,
    newer: Option<&[u8]>,
) -> Result<(JobFacts, Option<Tags<'a>>), UnknownMeta> {
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
        attempts: 0,
        death: None,
        expires: None,
        wall: None,
        key: None,
        group: None,
        fired: None,
    };
    let mut tags = None;
    if let Some((&fields, rest)) = meta.options.split_first() {
        tags = read_options(&mut facts, fields, rest).ok_or_else(|| unknown("field"))?;
    }
    if let Some(bytes) = newer {
        facts.counters = counters(bytes).ok_or_else(|| unknown("counter"))?;
    }
    Ok((facts, tags))
}

#[allow(clippy::option_option)] // Outside: whether it could be read; inside: whether it has tags.
fn read_options<'a>(
    facts: &mut JobFacts,
    fields: u8,
    mut rest: &'a [u8],
) -> Option<Option<Tags<'a>>> {
    let mut take = |len: usize| {
        let (field, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(field)
    };
    let more = if fields & MORE == 0 { 0 } else { *take(1)?.first()? };
    if more & !(ATTEMPTS | DEATH | KEY | GROUP | FIRED) != 0 {
        return None;
    }
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
    let mut tags = None;
    if fields & TAGS != 0 {
        let len = usize::from(*take(1)?.first()?);
        let unique = take(len)?;
        let len = usize::from(*take(1)?.first()?);
        tags = Some(Tags { unique, reducer: take(len)? });
    }
    if fields & EXPIRES != 0 {
        facts.expires = Some(Millis(u64::from_le_bytes(take(8)?.try_into().ok()?)));
    }
    if fields & WALL != 0 {
        facts.wall = Some(Millis(u64::from_le_bytes(take(8)?.try_into().ok()?)));
    }
    if more & ATTEMPTS != 0 {
        facts.attempts = u32::from_le_bytes(take(4)?.try_into().ok()?);
    }
    if more & DEATH != 0 {
        facts.death = Some(Box::new(read_death(&mut take)?));
    }
    if more & KEY != 0 {
        facts.key = Some(take(KEY_LEN)?.try_into().ok()?);
    }
    if more & GROUP != 0 {
        facts.group = Some(take(KEY_LEN)?.try_into().ok()?);
    }
    if more & FIRED != 0 {
        let entry = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let at = Millis(u64::from_le_bytes(take(8)?.try_into().ok()?));
        facts.fired = Some(Fired { entry, at });
    }
    rest.is_empty().then_some(tags)
}

/// Encodes why a job is a dead letter: when it died, its last moment (0 if it stays), the cause, the
/// failures, and three texts with their lengths.
fn death_bytes(death: &Death, bytes: &mut Vec<u8>) {
    let Death { died, until, cause, attempts, origin, worker, error } = death;
    bytes.extend(died.0.to_le_bytes());
    bytes.extend(until.map_or(0, |until| until.0).to_le_bytes());
    bytes.push(cause.code());
    bytes.extend(attempts.to_le_bytes());
    for text in [&**origin, &**worker, &**error] {
        let len = u16::try_from(text.len()).expect("the engine limits names and errors");
        bytes.extend(len.to_le_bytes());
        bytes.extend_from_slice(text);
    }
}

fn read_death<'a>(mut take: impl FnMut(usize) -> Option<&'a [u8]>) -> Option<Death> {
    let died = Millis(u64::from_le_bytes(take(8)?.try_into().ok()?));
    let until = Millis(u64::from_le_bytes(take(8)?.try_into().ok()?));
    let cause = *take(1)?.first()?;
    let attempts = u32::from_le_bytes(take(4)?.try_into().ok()?);
    let mut text = |bytes_max: usize| {
        let len = usize::from(u16::from_le_bytes(take(2)?.try_into().ok()?));
        (len <= bytes_max).then_some(())?;
        Some(Box::<[u8]>::from(take(len)?))
    };
    Some(Death {
        died,
        until: (until.0 > 0).then_some(until),
        cause: DeathCause::of_code(cause)?,
        attempts,
        origin: text(QUEUE_NAME_BYTES_MAX)?.into(),
        worker: text(DEAD_WORKER_BYTES_MAX)?,
        error: text(DEAD_ERROR_BYTES_MAX)?,
    })
}

/// Decodes the payload of an entry that only changes counters.
pub(crate) fn counters(bytes: &[u8]) -> Option<Counters> {
    let bytes: &[u8; COUNTERS_LEN] = bytes.try_into().ok()?;
    let mut counts = bytes
        .chunks_exact(4)
        .map(|count| u32::from_le_bytes(count.try_into().expect("chunks of four bytes")));
    let mut next = || counts.next().expect("the payload holds six counts");
    Some(Counters {
        takes: next(),
        timeouts: next(),
        releases: next(),
        buries: next(),
        kicks: next(),
        failures: next(),
    })
}

#[cfg(test)]
mod tests {
    use engine::FailureCause;

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
            attempts: 0,
            death: None,
            expires: None,
            wall: None,
            key: None,
            group: None,
            fired: None,
        }
    }

    fn dead() -> Death {
        Death {
            died: Millis(15),
            until: Some(Millis(16)),
            cause: DeathCause::Failed(FailureCause::Reported),
            attempts: 17,
            origin: b"mail"[..].into(),
            worker: b"10.1"[..].into(),
            error: vec![b'e'; 1024].into(),
        }
    }

    fn round_trip(facts_in: &JobFacts, newer: Option<&[u8]>) -> JobFacts {
        let tags = Tags { unique: b"key", reducer: b"" };
        for tags in [None, Some(tags)] {
            let options = OptionalFields::of(facts_in, tags);
            let (_, read) = facts(&options.meta(facts_in), newer).expect("what was just written");
            assert_eq!(read, tags);
        }
        let options = OptionalFields::of(facts_in, None);
        facts(&options.meta(facts_in), newer).expect("what was just written").0
    }

    #[test]
    fn a_plain_job_has_no_options() {
        assert!(OptionalFields::of(&plain(), None).bytes().is_empty());
        assert_eq!(round_trip(&plain(), None), plain());
    }

    #[test]
    fn all_fields_come_back() {
        let counters =
            Counters { takes: 1, timeouts: 2, releases: 3, buries: 4, kicks: 5, failures: 6 };
        let full = JobFacts {
            order: 9,
            state: State::Buried,
            due: Millis(5),
            buried_order: 11,
            delay_s: 8,
            counters,
            attempts: 14,
            death: Some(Box::new(dead())),
            expires: Some(Millis(12)),
            wall: Some(Millis(13)),
            key: Some([21; KEY_LEN]),
            group: Some([22; KEY_LEN]),
            ..plain()
        };
        let alive = JobFacts { death: None, ..full.clone() };
        assert_eq!(round_trip(&alive, None), alive);
        assert_eq!(round_trip(&full, None), full);
        let newer = Counters { takes: 7, ..counters };
        let read = round_trip(&full, Some(&counters_bytes(&newer)));
        assert_eq!(read, JobFacts { counters: newer, ..full });
    }

    /// The encoding matches `docs/log-format.md`.
    #[test]
    fn options_do_not_change_by_accident() {
        let full = JobFacts {
            order: 9,
            buried_order: 11,
            delay_s: 8,
            counters: Counters { takes: 1, ..Counters::default() },
            attempts: 14,
            expires: Some(Millis(12)),
            wall: Some(Millis(13)),
            ..plain()
        };
        let tags = Tags { unique: b"key", reducer: b"r" };
        let mut bytes = vec![0b1111_1111, 1, 8, 0, 0, 0, 1];
        bytes.extend([0; COUNTERS_LEN - 1]);
        for number in [9_u64, 11] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(b"\x03key\x01r");
        for number in [12_u64, 13] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([14, 0, 0, 0]);
        assert_eq!(OptionalFields::of(&full, Some(tags)).bytes(), bytes);
        let attempts = JobFacts { attempts: 14, ..plain() };
        let bytes = [1 << 7, 1, 14, 0, 0, 0];
        assert_eq!(OptionalFields::of(&attempts, None).bytes(), bytes);
        let death = Death { until: None, error: b"no"[..].into(), ..dead() };
        let death = JobFacts { death: Some(Box::new(death)), ..plain() };
        let mut bytes = vec![1 << 7, 1 << 1, 15, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0; 8]);
        bytes.extend([5, 17, 0, 0, 0]);
        bytes.extend(b"\x04\0mail\x04\x0010.1\x02\0no");
        assert_eq!(OptionalFields::of(&death, None).bytes(), bytes);
        let unique = JobFacts { key: Some([21; KEY_LEN]), ..plain() };
        let bytes = [&[1 << 7, 1 << 2][..], &[21; KEY_LEN]].concat();
        assert_eq!(OptionalFields::of(&unique, None).bytes(), bytes);
        // An older version wrote this meta, without a field for the wall clock.
        let before = [&[EXPIRES], &12_u64.to_le_bytes()[..]].concat();
        let meta = Meta { options: &before, ..OptionalFields::none().meta(&plain()) };
        let (read, _) = facts(&meta, None).expect("what an older version wrote");
        assert_eq!(read, JobFacts { expires: Some(Millis(12)), ..plain() });
    }

    /// The encoding matches `docs/log-format.md`.
    #[test]
    fn each_cause_of_a_death_keeps_its_number() {
        let causes = [
            DeathCause::Failed(FailureCause::TimedOut),
            DeathCause::Failed(FailureCause::Aborted),
            DeathCause::Failed(FailureCause::HolderLeft),
            DeathCause::Failed(FailureCause::Released),
            DeathCause::Failed(FailureCause::Reported),
            DeathCause::Expired,
            DeathCause::Dropped,
            DeathCause::Operator,
        ];
        for (number, cause) in (1..).zip(causes) {
            assert_eq!(cause.code(), number);
            let facts = JobFacts { death: Some(Box::new(Death { cause, ..dead() })), ..plain() };
            assert_eq!(round_trip(&facts, None), facts);
        }
        for unknown in [0, 9, 255] {
            assert_eq!(DeathCause::of_code(unknown), None);
        }
    }

    #[test]
    fn facts_of_queues_come_back_in_both_forms() {
        let old = QueueFacts { kept: true, limits: [1, 2, 3], ..QueueFacts::default() };
        let new = QueueFacts { items: true, child: true, created: Millis(77), ..old };
        for (facts, bytes) in [(old, 13), (new, 22)] {
            let (key, value) = queue_fact(b"a+b", facts);
            assert_eq!(value.len(), bytes);
            assert_eq!(read_queue_fact(&key, &value), Some((&b"a+b"[..], facts)));
        }
    }

    /// The encoding matches `docs/log-format.md`.
    #[test]
    fn claims_come_back() {
        let key = ClaimKey([3; KEY_LEN]);
        let claim = Claim { id: JobId(7), until: Millis(9), is_logged: true };
        let (name, value) = claim_fact(key, Some(claim));
        assert_eq!(name, [b"claim/", &[3; KEY_LEN][..]].concat());
        assert_eq!(value, [9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_claim_fact(&name, &value), Some((key, Some(claim))));
        assert_eq!(read_claim_fact(&name, b""), Some((key, None)));
        for (name, value) in [(&name[1..], &value[..]), (&name[..8], &value), (&name, &value[..9])]
        {
            assert_eq!(read_claim_fact(name, value), None);
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let meta =
            |state, options| Meta { state, options, ..OptionalFields::none().meta(&plain()) };
        assert!(facts(&meta(9, &[]), None).is_err());
        assert!(facts(&meta(1, &[MORE]), None).is_err());
        assert!(facts(&meta(1, &[MORE, 1 << 5]), None).is_err());
        assert!(facts(&meta(1, &[MORE, KEY, 0]), None).is_err());
        assert!(facts(&meta(1, &[MORE, DEATH, 0]), None).is_err());
        assert!(facts(&meta(1, &[DELAY, 0]), None).is_err());
        assert!(facts(&meta(1, &[0, 0]), None).is_err());
        assert!(facts(&meta(1, &[]), Some(&[0; 3])).is_err());
    }
}
