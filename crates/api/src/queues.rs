//! Lists of queues: sorted, filtered, and in pages.

pub(crate) mod crons;
pub(crate) mod policies;
pub(crate) mod queue;
pub(crate) mod survey;
pub(crate) mod top;
pub(crate) mod why;

use axum::extract::State;
use broker::policy::Pattern;
use hyper::Uri;
use memchr::memmem::Finder;

use crate::openapi::Refusals;
use crate::problem::{Problem, ProblemKind};
use crate::queues::survey::{Key, Row, SORT_STEPS, Survey};
use crate::state::Api;
use crate::text::cursor::CursorKey;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::name::{parse_name, shown_name};
use crate::text::query::Query;
use crate::types;

/// A match takes time in proportion to the pattern and to the name.
const PATTERN_BYTES_MAX: usize = 256;
const PARAMETERS: [&str; 6] = ["match", "search", "state", "sort", "limit", "cursor"];

/// Queues, sorted and in pages. A queue whose number changes between two pages can be missed, or
/// occur twice.
#[utoipa::path(
    get,
    path = "/queues",
    tag = "queues",
    params(
        ("match" = Option<String>, Query, description = "Only queues whose names match this \
            pattern: `*` stands for any bytes, `?` for one byte."),
        ("search" = Option<String>, Query, description = "Only queues whose names contain this \
            text."),
        ("state" = Option<String>, Query, description = "Only these queues: `nonempty`, `paused`, \
            or `unwatched`: with ready jobs, but without clients that watch the queue."),
        ("sort" = Option<String>, Query, description = "The number to sort by: name, ready, \
            leased, delayed, buried, age, in, out, growth or waiters. A minus sign in front of it \
            begins with the largest. The default is `name`."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The size of a \
            page. The default is 50."),
        ("cursor" = Option<String>, Query, description = "The field `next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of queues.", body = types::Queues),
        Refusals,
    )
)]
pub(crate) async fn get_queues(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Queues>, Problem> {
    let list = ListQueues::read(&api.cursor_key, &Query::read(&uri, &PARAMETERS)?)?;
    Ok(Json(api.queues(list).await))
}

/// Which queues a page has.
#[derive(Clone, Debug)]
pub struct ListQueues {
    pattern: Option<Pattern>,
    /// The text that names have to contain. Every name contains the empty text.
    search: Finder<'static>,
    state: Option<QueueState>,
    key: Key,
    is_descending: bool,
    limit: usize,
    after: Option<Cursor>,
}

#[derive(Copy, Clone, Debug, Eq, PartialEq)]
enum QueueState {
    Nonempty,
    Paused,
    Unwatched,
}

/// The place of the last row of a page.
#[derive(Clone, Debug, PartialEq)]
struct Cursor {
    number: f64,
    name: Vec<u8>,
}

impl ListQueues {
    fn read(key_of_cursors: &CursorKey, query: &Query) -> Result<ListQueues, Problem> {
        let sort = query.get("sort").unwrap_or("name");
        let (is_descending, name) = match sort.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, sort),
        };
        let key = Key::ALL.iter().find(|(known, _)| *known == name).map(|(_, key)| *key);
        let key = key.ok_or_else(|| {
            let names = Key::ALL.map(|(name, _)| name).join(", ");
            bad("sort", format!("write one of {names}, or a minus sign and one of them"))
        })?;
        let limit = query.limit()?;
        let state = match query.get("state") {
            None => None,
            Some("nonempty") => Some(QueueState::Nonempty),
            Some("paused") => Some(QueueState::Paused),
            Some("unwatched") => Some(QueueState::Unwatched),
            Some(_) => return Err(bad("state", "write nonempty, paused or unwatched".to_owned())),
        };
        let bytes = |name| query.get(name).map(parse_name).transpose();
        let pattern = bytes("match").map_err(|problem| problem.of_parameter("match"))?;
        if pattern.as_ref().is_some_and(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
            return Err(bad("match", format!("a pattern has at most {PATTERN_BYTES_MAX} bytes")));
        }
        let search = bytes("search").map_err(|problem| problem.of_parameter("search"))?;
        let after =
            query.get("cursor").map(|text| Cursor::read(key_of_cursors, sort, text)).transpose()?;
        Ok(ListQueues {
            pattern: pattern.map(|pattern| Pattern::new(&pattern)),
            search: Finder::new(&search.unwrap_or_default()).into_owned(),
            state,
            key,
            is_descending,
            limit,
            after,
        })
    }

    fn has(&self, row: &Row) -> bool {
        let stats = &row.stats;
        let is_in_state = match self.state {
            None => true,
            Some(QueueState::Nonempty) => {
                stats.ready + stats.leased + stats.delayed + stats.buried > 0
            }
            Some(QueueState::Paused) => stats.pause_left_ms > 0 || stats.paused_by_policy,
            Some(QueueState::Unwatched) => {
                stats.ready > 0 && stats.watchers == 0 && stats.workers == 0
            }
        };
        is_in_state
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(&row.name))
            && self.search.find(&row.name).is_some()
    }

    /// The steps of a page: for each queue, and for each byte of its name.
    fn steps(&self) -> (usize, usize) {
        let (of_row, of_byte) = self.pattern.as_ref().map_or((0, 0), Pattern::steps);
        (SORT_STEPS.0 + of_row, SORT_STEPS.1 + of_byte)
    }

    /// Whether a row belongs to a later page than the cursor.
    fn is_behind_cursor(&self, row: &Row) -> bool {
        let Some(after) = &self.after else { return true };
        let order = self.key.of(row).total_cmp(&after.number);
        let order = order.then_with(|| row.name[..].cmp(&after.name));
        if self.is_descending { order.is_lt() } else { order.is_gt() }
    }

    fn page(&self, key_of_cursors: &CursorKey, survey: &Survey) -> types::Queues {
        let sorted = survey.sorted(self.key);
        let (mut ascending, mut descending) = (sorted.iter(), sorted.iter().rev());
        let places: &mut dyn Iterator<Item = &u32> =
            if self.is_descending { &mut descending } else { &mut ascending };
        let (mut matched, mut rows, mut has_more) = (0, Vec::new(), false);
        for row in places.map(|place| &survey.rows[*place as usize]).filter(|row| self.has(row)) {
            matched += 1;
            if rows.len() == self.limit {
                has_more = true;
            } else if self.is_behind_cursor(row) {
                rows.push(row);
            }
        }
        let next = rows.last().filter(|_| has_more).map(|row| {
            let cursor = Cursor { number: self.key.of(row), name: row.name.to_vec() };
            cursor.written(key_of_cursors, &self.sort())
        });
        types::Queues {
            items: rows.into_iter().map(shown).collect(),
            next,
            matched,
            total: survey.rows.len() as u64,
            as_of_at: moment::written(survey.taken_wall),
        }
    }

    /// The parameter `sort`.
    fn sort(&self) -> String {
        let name = Key::ALL[self.key as usize].0;
        if self.is_descending { format!("-{name}") } else { name.to_owned() }
    }
}

impl Cursor {
    fn written(&self, key: &CursorKey, sort: &str) -> String {
        let mut place = format!("{:x} ", self.number.to_bits()).into_bytes();
        // The bytes of the name, because a name with escapes can be too long for the head of a request.
        place.extend_from_slice(&self.name);
        key.written_bytes(sort.as_bytes(), &place)
    }

    fn read(key: &CursorKey, sort: &str, text: &str) -> Result<Cursor, Problem> {
        let place = key.read_bytes(sort.as_bytes(), text)?;
        let damaged = || bad("cursor", "the cursor is damaged".to_owned());
        let space = memchr::memchr(b' ', &place).ok_or_else(damaged)?;
        let number = str::from_utf8(&place[..space]).map_err(|_| damaged())?;
        let number = u64::from_str_radix(number, 16).map_err(|_| damaged())?;
        Ok(Cursor { number: f64::from_bits(number), name: place[space + 1..].to_vec() })
    }
}

impl Api {
    /// The list that these parameters describe: the text behind the `?` of `/queues`.
    pub fn list_queues(&self, query: &str) -> Result<ListQueues, Problem> {
        let query = Query::read_form(query, &PARAMETERS)?;
        ListQueues::read(&self.cursor_key, &query)
    }

    /// A page of queues.
    pub async fn queues(&self, list: ListQueues) -> types::Queues {
        let (steps, key) = (list.steps(), self.cursor_key.clone());
        self.surveys.with_current(steps, move |survey| list.page(&key, survey)).await
    }
}

fn bad(parameter: &str, why: String) -> Problem {
    Problem::new(ProblemKind::BadRequest, why).of_parameter(parameter)
}

fn shown(row: &Row) -> types::QueueRow {
    let stats = &row.stats;
    types::QueueRow {
        name: shown_name(&row.name),
        ready: stats.ready,
        leased: stats.leased,
        delayed: stats.delayed,
        buried: stats.buried,
        ready_bytes: stats.ready_bytes,
        head_age_ms: stats.head_age_ms,
        waiters: stats.waiters,
        watchers: stats.watchers,
        workers: stats.workers,
        pause_left_ms: stats.pause_left_ms,
        is_of_items: row.facts.items,
        is_child: row.facts.child,
        puts_per_s: row.rates.map(|rates| rates.puts),
        finishes_per_s: row.rates.map(|rates| rates.finishes),
        growth_per_s: row.rates.map(|rates| rates.growth),
    }
}
