//! Search: the waiting jobs of a queue that match. A request looks at a bounded number of jobs and
//! bytes, and says how far it came. No job is loaded into memory for this, and no file is read while
//! the broker's lock is held.

use std::ops::RangeInclusive;

use axum::Extension;
use axum::extract::State as Shared;
use broker::{JobRow, ListCursor, ListLimits, Millis, RowBody, State};
use hyper::Uri;
use memchr::memmem::Finder;

use crate::access::Principal;
use crate::jobs::job::Moments;
use crate::jobs::{self, BLOCKS_MAX};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::{Api, Setup};
use crate::text::cursor::{CursorKey, parse_place, written_place};
use crate::text::json::Json;
use crate::text::moment;
use crate::text::name::parse_name;
use crate::text::query::Query;
use crate::types;

/// A request looks at this many jobs.
const JOBS_MAX: u64 = 20_000;
/// A request searches bodies with this many bytes, and no longer body.
const BYTES_MAX: u64 = 32 << 20;
/// A request takes this long.
const TIME_MAX_MS: u64 = 2_000;
/// Jobs of one step. Between the steps, other requests can read from the disk.
const STEP_JOBS: u64 = 256;
/// The part of a body that is shown begins this many bytes before the text.
const BEFORE_BYTES: usize = 60;
/// The part of a body that is shown has at most this many bytes.
const EXCERPT_BYTES: usize = 200;

/// The ready, delayed and buried jobs of a queue that match. A request looks at no more than 20,000
/// jobs and 32 MiB of bodies, and takes about 2 seconds. If there are more jobs, the response has a
/// cursor.
#[utoipa::path(
    get,
    path = "/search",
    tag = "jobs",
    params(
        ("queue" = String, Query, description = "The name of the queue."),
        ("state" = Option<String>, Query, description = "`ready`, `delayed` or `buried`. By default \
            all three, in this order."),
        ("text" = Option<String>, Query, description = "Jobs whose body has this text, byte by \
            byte: at most 200 characters."),
        ("older_ms" = Option<u64>, Query, description = "Jobs that were put at least this long ago."),
        ("younger_ms" = Option<u64>, Query, description = "Jobs that were put at most this long \
            ago."),
        ("priority_min" = Option<u32>, Query, description = "Jobs with this priority number or a \
            greater one."),
        ("priority_max" = Option<u32>, Query, description = "Jobs with this priority number or a \
            smaller one."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The maximum number \
            of jobs in the response. The default is 50."),
        ("cursor" = Option<String>, Query, description = "The field `next` of the response before."),
    ),
    responses(
        (status = 200, description = "The jobs that were found.", body = types::Search),
        Failures,
    )
)]
pub(crate) async fn get_search(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    uri: Uri,
) -> Result<Json<types::Search>, Problem> {
    let query = Query::read(&uri, &PARAMETERS)?;
    let search = api.read_search(&principal, parse_name(query.require("queue")?)?, &query)?;
    api.search(search).await.map(Json)
}

const PARAMETERS: [&str; 9] = [
    "queue",
    "state",
    "text",
    "older_ms",
    "younger_ms",
    "priority_min",
    "priority_max",
    "limit",
    "cursor",
];

/// What to search for.
#[derive(Clone, Debug)]
pub struct SearchJobs {
    queue: Vec<u8>,
    states: Vec<State>,
    wanted: Wanted,
    /// Whether the client sees bodies.
    has_bodies: bool,
    limit: usize,
    place: Place,
}

/// Which jobs match.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Wanted {
    text: Vec<u8>,
    ages_ms: RangeInclusive<u64>,
    priorities: RangeInclusive<u32>,
}

/// How far a search came.
#[derive(Clone, Debug, Default)]
struct Place {
    /// The index of the state.
    state: usize,
    cursor: ListCursor,
}

/// What a request may still do.
#[derive(Copy, Clone, Debug)]
struct Budget {
    jobs: u64,
    bytes: u64,
    found: usize,
}

/// What one step found.
struct Scan {
    found: Vec<(JobRow, Option<types::BodyText>)>,
    /// Where the next step begins. `None`: there are no more jobs of this state.
    next: Option<ListCursor>,
    /// Whether the budget is spent.
    is_over: bool,
    jobs: u64,
    bytes: u64,
    unsearched: u64,
    is_complete: bool,
}

/// What a look at a job showed.
#[derive(Debug)]
enum Look {
    /// It does not match.
    No,
    /// It matches. The part of the body to show: with a text to search for, the part around the
    /// text.
    Match(Option<types::BodyText>),
    /// Its body cannot be searched: it cannot be read, is very long, or cannot be masked.
    Unsearched,
}

impl Wanted {
    fn has_facts(&self, row: &JobRow, now: Millis) -> bool {
        self.priorities.contains(&row.facts.priority)
            && self.ages_ms.contains(&now.since(row.facts.created))
    }
}

impl SearchJobs {
    fn read(key: &CursorKey, queue: Vec<u8>, query: &Query) -> Result<SearchJobs, Problem> {
        let bad = |name, why: &str| Problem::new(ProblemKind::BadRequest, why).of_parameter(name);
        let states = match query.get("state") {
            None => vec![State::Ready, State::Delayed, State::Buried],
            Some("ready") => vec![State::Ready],
            Some("delayed") => vec![State::Delayed],
            Some("buried") => vec![State::Buried],
            Some(_) => return Err(bad("state", "write ready, delayed or buried")),
        };
        let wanted = Wanted {
            text: query.text()?.as_bytes().to_vec(),
            ages_ms: number(query, "older_ms", 0)?..=number(query, "younger_ms", u64::MAX)?,
            priorities: number(query, "priority_min", 0)?
                ..=number(query, "priority_max", u32::MAX)?,
        };
        let place = Place::default();
        let mut search =
            SearchJobs { queue, states, wanted, has_bodies: true, limit: query.limit()?, place };
        if let Some(text) = query.get("cursor") {
            let place = key.read(&search.id(), text)?;
            search.place = Place::parse(&place).ok_or_else(|| bad("cursor", "it is damaged"))?;
        }
        Ok(search)
    }

    /// Names the search for its cursors.
    fn id(&self) -> Vec<u8> {
        format!("search {:?} {:?} {:?}", self.queue, self.states, self.wanted).into_bytes()
    }
}

fn number<T: std::str::FromStr>(query: &Query, name: &str, default: T) -> Result<T, Problem> {
    let Some(text) = query.get(name) else { return Ok(default) };
    text.parse().map_err(|_| {
        Problem::new(ProblemKind::BadRequest, "write a whole number").of_parameter(name)
    })
}

impl Place {
    fn written(&self) -> String {
        format!("{} {}", self.state, written_place(&self.cursor))
    }

    fn parse(text: &str) -> Option<Place> {
        let (state, cursor) = text.split_once(' ')?;
        Some(Place { state: state.parse().ok()?, cursor: parse_place(cursor)? })
    }
}

impl Api {
    /// The search that these parameters describe: the text behind the `?` of `/search`, without the
    /// queue.
    pub fn search_for(
        &self,
        principal: &Principal,
        queue: Vec<u8>,
        query: &str,
    ) -> Result<SearchJobs, Problem> {
        self.read_search(principal, queue, &Query::read_form(query, &PARAMETERS)?)
    }

    fn read_search(
        &self,
        principal: &Principal,
        queue: Vec<u8>,
        query: &Query,
    ) -> Result<SearchJobs, Problem> {
        let search = SearchJobs::read(&self.cursor_key, queue, query)?;
        // A search for a text tells what bodies contain.
        if !search.wanted.text.is_empty() {
            self.check_bodies(principal)?;
        }
        Ok(SearchJobs { has_bodies: self.sees_bodies(principal), ..search })
    }

    /// The jobs that match, as far as one request may search.
    pub async fn search(&self, search: SearchJobs) -> Result<types::Search, Problem> {
        let (moments, stats, has_log) = {
            let turn = self.turn();
            let stats = turn.queue_stats(&search.queue);
            let stats = stats.ok_or_else(|| Problem::no_queue(&search.queue))?;
            (Moments::of(&turn), stats, turn.log_stats().current_segment > 0)
        };
        let counts = search.states.iter().map(|state| match state {
            State::Ready => stats.ready,
            State::Delayed => stats.delayed,
            State::Leased => stats.leased,
            State::Buried => stats.buried,
        });
        let mut shown = types::Search {
            items: Vec::new(),
            next: None,
            total: counts.sum(),
            scanned_jobs: 0,
            scanned_bytes: 0,
            unsearched: 0,
            is_complete: true,
            as_of_at: moment::written(moments.wall(moments.now)),
        };
        let mut place = search.place.clone();
        while let Some(state) = search.states.get(place.state).copied() {
            let budget = Budget {
                jobs: JOBS_MAX.saturating_sub(shown.scanned_jobs).min(STEP_JOBS),
                bytes: BYTES_MAX.saturating_sub(shown.scanned_bytes),
                found: search.limit - shown.items.len(),
            };
            let is_late = self.setup.door.now().since(moments.now) >= TIME_MAX_MS;
            if budget.jobs == 0 || budget.found == 0 || is_late {
                shown.next = Some(self.cursor_key.written(&search.id(), &place.written()));
                break;
            }
            let (setup, asked, cursor) = (self.setup.clone(), search.clone(), place.cursor.clone());
            let now = moments.now;
            let scan =
                self.reading(move || scan(&setup, now, &asked, state, &cursor, budget)).await?;
            let Some(scan) = scan else { break };
            shown.scanned_jobs += scan.jobs;
            shown.scanned_bytes += scan.bytes;
            shown.unsearched += scan.unsearched;
            shown.is_complete &= scan.is_complete;
            for (mut row, body) in scan.found {
                // Without a log, no job is durable, whatever its kind is.
                row.is_durable &= has_log;
                let bodies = search.has_bodies.then_some(&self.setup.bodies);
                shown.items.push(jobs::shown(&row, body, &search.queue, &moments, bodies));
            }
            place = match scan.next {
                Some(cursor) => Place { cursor, ..place },
                None => Place { state: place.state + 1, cursor: ListCursor::default() },
            };
            if scan.is_over {
                shown.next = Some(self.cursor_key.written(&search.id(), &place.written()));
                break;
            }
        }
        Ok(shown)
    }
}

/// Looks at the next jobs of a state. Blocks the thread while it reads. `None`: the queue does not
/// exist any more.
fn scan(
    setup: &Setup,
    now: Millis,
    search: &SearchJobs,
    state: State,
    cursor: &ListCursor,
    budget: Budget,
) -> Option<Scan> {
    let limits = ListLimits { rows: budget.jobs as usize, blocks: BLOCKS_MAX };
    let page = setup.door.broker().list_jobs(now, (&search.queue, state), cursor, limits)?;
    let wanted = &search.wanted;
    let mut scan = Scan {
        found: Vec::new(),
        next: page.next,
        is_over: false,
        jobs: 0,
        bytes: 0,
        unsearched: page.unreadable,
        is_complete: page.is_complete,
    };
    let mut rows = page.rows;
    // The jobs whose bodies fit into the budget.
    let mut fit = rows.len();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| wanted.has_facts(row, now)) {
        let bytes = if wanted.text.is_empty() { 0 } else { row.body_len as u64 };
        if bytes > BYTES_MAX {
            continue;
        }
        if scan.bytes + bytes > budget.bytes {
            fit = index;
            break;
        }
        scan.bytes += bytes;
    }
    let is_cut = fit < rows.len();
    rows.truncate(fit);
    let looks = looks(setup, search, now, &rows, budget.found);
    let mut last = None;
    let count = rows.len();
    for (index, (row, look)) in rows.into_iter().zip(looks).enumerate() {
        scan.jobs += 1;
        last = Some(row.place);
        match look {
            Look::No => {}
            Look::Unsearched => scan.unsearched += 1,
            Look::Match(body) => scan.found.push((row, body)),
        }
        if scan.found.len() == budget.found && index + 1 < count {
            scan.is_over = true;
            break;
        }
    }
    if is_cut || scan.is_over {
        // The next request continues behind the last job, with the blocks of this one.
        scan.is_over = true;
        scan.next = Some(ListCursor { after: last.or(cursor.after), ..cursor.clone() });
    }
    Some(scan)
}

/// Looks at the jobs. Stops when this many jobs match.
fn looks(
    setup: &Setup,
    search: &SearchJobs,
    now: Millis,
    rows: &[JobRow],
    found_max: usize,
) -> Vec<Look> {
    let wanted = &search.wanted;
    let finder = Finder::new(&wanted.text);
    let look = |body: &[u8]| {
        if wanted.text.is_empty() {
            let part = search.has_bodies.then(|| jobs::beginning(&setup.bodies, body));
            return Look::Match(part);
        }
        // Only what clients see is searched. The time that this takes must not tell whether a masked
        // value has the text.
        let Some(shown) = setup.bodies.masked(body) else { return Look::Unsearched };
        match finder.find(&shown) {
            Some(at) => Look::Match(Some(around(&shown, at))),
            None => Look::No,
        }
    };
    let mut looks: Vec<Look> = rows.iter().map(|_| Look::No).collect();
    let (mut found, mut stored) = (0, Vec::new());
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| wanted.has_facts(row, now)) {
        match &row.body {
            // The caller has not counted these bytes, wherever they are.
            _ if !wanted.text.is_empty() && row.body_len as u64 > BYTES_MAX => {
                looks[index] = Look::Unsearched;
            }
            RowBody::Resident(body) => looks[index] = look(body),
            // Without a text, the page shows no body that it would have to read.
            RowBody::Stored(_) if wanted.text.is_empty() => looks[index] = Look::Match(None),
            RowBody::Stored(body) => stored.push((index, body)),
        }
        found += usize::from(matches!(looks[index], Look::Match(_)));
        if found == found_max {
            // The caller does not look at the jobs behind this one.
            break;
        }
    }
    let bodies: Vec<_> = stored.iter().map(|(_, body)| *body).collect();
    setup.door.broker().read_bodies(&bodies, |at, body| {
        looks[stored[at].0] = match body {
            Ok(body) => look(body),
            // The job may have ended meanwhile, or the log cannot give it.
            Err(_) => Look::Unsearched,
        };
    });
    looks
}

/// The part of a body around a text that begins here.
fn around(body: &[u8], at: usize) -> types::BodyText {
    let is_inside = |index: &usize| body.get(*index).is_some_and(|byte| byte & 0xc0 == 0x80);
    let begin = at.saturating_sub(BEFORE_BYTES);
    // Begin and end between two characters, if the body is UTF-8.
    let begin = (begin..at).find(|index| !is_inside(index)).unwrap_or(at);
    let end = body.len().min(begin + EXCERPT_BYTES);
    let end = (begin..=end).rev().find(|index| !is_inside(index)).unwrap_or(end);
    let text = String::from_utf8_lossy(&body[begin..end]).into_owned();
    types::BodyText { text, is_cut: begin > 0 || end < body.len() }
}
