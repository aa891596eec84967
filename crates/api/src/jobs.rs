//! The jobs of a queue, in pages.

pub(crate) mod job;
pub(crate) mod past_jobs;
pub(crate) mod result;
pub(crate) mod search;

use std::ops::ControlFlow;

use axum::Extension;
use axum::extract::State as Shared;
use broker::{
    Body, HeldCursor, HeldRow, JobRow, ListCursor, ListLimits, RowBody, SessionId, State,
};
use hyper::Uri;

use crate::access::Principal;
use crate::access::bodies::BodySettings;
use crate::jobs::job::Moments;
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::server::connections::shown_id;
use crate::state::{Api, Setup};
use crate::text::cursor::{CursorKey, parse_place, written_place};
use crate::text::json::Json;
use crate::text::moment;
use crate::text::name::QueueName;
use crate::text::query::Query;
use crate::threads::in_thread;
use crate::types;

/// The largest page with the beginnings of bodies.
pub(crate) const BODIES_MAX: usize = 100;
/// A page reads at most this many new blocks of cold jobs, of up to 256 jobs each.
pub(crate) const BLOCKS_MAX: usize = 8;
/// The beginning of a body in a list has at most this many bytes.
const PREVIEW_BYTES_MAX: usize = 200;
/// A list shows no beginning of a larger body that is only in the log, or that has to be masked.
const READ_BYTES_MAX: usize = 64 << 10;
/// A page of leased jobs looks at this many sessions and held jobs.
const LOOKS_MAX: u32 = 50_000;

/// The jobs of a queue in one state, in the order in which the queue has them. No job is loaded into
/// memory for this. A job whose place changes between two pages can be missed, or occur twice.
#[utoipa::path(
    get,
    path = "/queues/{queue}/jobs",
    tag = "jobs",
    params(
        ("queue" = String, Path, description = "The name of the queue."),
        ("state" = Option<String>, Query, description = "`ready` (the default), `delayed`, \
            `buried` or `leased`. Leased jobs have no order in the queue: they come by client."),
        ("body" = Option<String>, Query, description = "`text` adds the beginnings of the bodies \
            (for pages of at most 100 jobs) if the client may see them; `none` (the default) does \
            not."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "The size of a \
            page. The default is 50."),
        ("cursor" = Option<String>, Query, description = "The field `next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page of jobs.", body = types::Jobs),
        Failures,
    )
)]
pub(crate) async fn get_jobs(
    Shared(api): Shared<Api>,
    Extension(principal): Extension<Principal>,
    QueueName(name): QueueName,
    uri: Uri,
) -> Result<Json<types::Jobs>, Problem> {
    let query = Query::read(&uri, &PARAMETERS)?;
    let list = api.read_list(&principal, name, &query)?;
    api.jobs(list).await.map(Json)
}

const PARAMETERS: [&str; 4] = ["state", "body", "limit", "cursor"];

/// Which jobs a page has.
#[derive(Clone, Debug)]
pub struct ListJobs {
    queue: Vec<u8>,
    state: State,
    has_bodies: bool,
    /// Whether the client may see bodies, and so the errors of workers.
    sees_bodies: bool,
    limit: usize,
    cursor: ListCursor,
}

impl ListJobs {
    fn read(key: &CursorKey, queue: Vec<u8>, query: &Query) -> Result<ListJobs, Problem> {
        let bad = |name, why: &str| Problem::new(ProblemKind::BadRequest, why).of_parameter(name);
        let state = match query.get("state") {
            None | Some("ready") => State::Ready,
            Some("delayed") => State::Delayed,
            Some("buried") => State::Buried,
            Some("leased") => State::Leased,
            Some(_) => return Err(bad("state", "write ready, delayed, buried or leased")),
        };
        let has_bodies = match query.get("body") {
            None | Some("none") => false,
            Some("text") => true,
            Some(_) => return Err(bad("body", "write none or text")),
        };
        let limit = query.limit()?;
        if has_bodies && limit > BODIES_MAX {
            return Err(bad("limit", "a page with bodies has at most 100 jobs"));
        }
        let (sees_bodies, cursor) = (false, ListCursor::default());
        let mut list = ListJobs { queue, state, has_bodies, sees_bodies, limit, cursor };
        if let Some(text) = query.get("cursor") {
            let place = key.read(&list.id(), text)?;
            list.cursor =
                parse_place(&place).ok_or_else(|| bad("cursor", "the cursor is damaged"))?;
        }
        Ok(list)
    }

    /// Names the list for its cursors.
    fn id(&self) -> Vec<u8> {
        [b"jobs", &[self.state as u8][..], &self.queue].concat()
    }
}

impl Api {
    /// The list that these parameters describe: the text behind the `?` of `/queues/QUEUE/jobs`.
    pub fn list_jobs(
        &self,
        principal: &Principal,
        queue: Vec<u8>,
        query: &str,
    ) -> Result<ListJobs, Problem> {
        self.read_list(principal, queue, &Query::read_form(query, &PARAMETERS)?)
    }

    fn read_list(
        &self,
        principal: &Principal,
        queue: Vec<u8>,
        query: &Query,
    ) -> Result<ListJobs, Problem> {
        let list = ListJobs::read(&self.cursor_key, queue, query)?;
        let sees_bodies = self.sees_bodies(principal);
        Ok(ListJobs { has_bodies: list.has_bodies && sees_bodies, sees_bodies, ..list })
    }

    /// A page of the jobs of a queue.
    pub async fn jobs(&self, list: ListJobs) -> Result<types::Jobs, Problem> {
        if list.state == State::Leased {
            return self.leased_jobs(&list).await;
        }
        let moments = Moments::of(&self.turn());
        let total = self.count_of(&list)?;
        let has_log = self.turn().log_stats().current_segment > 0;
        let (setup, now, asked) = (self.setup.clone(), moments.now, list.clone());
        let page = self.reading(move || {
            let limits = ListLimits { rows: asked.limit, blocks: BLOCKS_MAX };
            let broker = setup.door.broker();
            let mut page =
                broker.list_jobs(now, (&asked.queue, asked.state), &asked.cursor, limits)?;
            let rows: Vec<(JobRow, Option<types::BodyText>)> = std::mem::take(&mut page.rows)
                .into_iter()
                .map(|mut row| {
                    // Without a log, no job is durable, whatever its kind is.
                    row.is_durable &= has_log;
                    let preview = if asked.has_bodies { preview(&setup, &row) } else { None };
                    (row, preview)
                })
                .collect();
            Some((page, rows))
        });
        let (page, rows) = page.await?.ok_or_else(|| Problem::no_queue(&list.queue))?;
        let bodies = list.sees_bodies.then_some(&self.setup.bodies);
        let items =
            rows.into_iter().map(|(row, body)| shown(&row, body, &list.queue, &moments, bodies));
        Ok(types::Jobs {
            items: items.collect(),
            next: page.next.map(|next| self.cursor_key.written(&list.id(), &written_place(&next))),
            is_complete: page.is_complete,
            unreadable: page.unreadable,
            total,
            as_of_at: moment::written(moments.wall(moments.now)),
        })
    }

    /// A page of the leased jobs of a queue. The engine has no list of them, so this walks over the
    /// sessions and the jobs that each one holds, in short turns.
    async fn leased_jobs(&self, list: &ListJobs) -> Result<types::Jobs, Problem> {
        let total = self.count_of(list)?;
        let mut place = list.cursor.after.unwrap_or_default().0;
        let mut held = HeldCursor { next: list.cursor.blocks_from };
        let (mut rows, mut looks, mut more) = (Vec::new(), 0, None);
        let walk = self.setup.door.slices(|turn| {
            let moments = Moments::of(turn);
            let Some(queue) = turn.queue_id(&list.queue) else {
                return ControlFlow::Break(Err(Problem::no_queue(&list.queue)));
            };
            loop {
                // All jobs were found, or there are no more sessions.
                let is_done = list.cursor.after.is_none() && rows.len() as u64 == total;
                if is_done || place >= u64::from(turn.session_places()) {
                    return ControlFlow::Break(Ok(()));
                }
                if rows.len() == list.limit || looks == LOOKS_MAX {
                    more = Some(place);
                    return ControlFlow::Break(Ok(()));
                }
                if turn.slice_is_spent() {
                    return ControlFlow::Continue(());
                }
                looks += 1;
                let session = turn.session_at(place as u32);
                let row = session
                    .map(|session| (session, turn.next_held(session, &mut held, |of| of == queue)));
                match row {
                    Some((session, Some(Some(row)))) => {
                        rows.push(LeasedRow { row, session, moments });
                    }
                    Some((_, Some(None))) => {}
                    Some((_, None)) | None => {
                        (place, held) = (place + 1, HeldCursor::default());
                    }
                }
            }
        });
        walk.await?;
        let next = more.map(|place| ListCursor {
            after: Some((place, 0)),
            blocks_from: held.next,
            ..ListCursor::default()
        });
        let bodies = if list.has_bodies { self.beginnings(&rows).await? } else { Vec::new() };
        let bodies = bodies.into_iter().map(Some).chain(std::iter::repeat(None));
        let settings = list.sees_bodies.then_some(&self.setup.bodies);
        let items =
            rows.iter().zip(bodies).map(|(row, body)| row.shown(body, &list.queue, settings));
        let moments = Moments::of(&self.turn());
        Ok(types::Jobs {
            items: items.collect(),
            next: next.map(|next| self.cursor_key.written(&list.id(), &written_place(&next))),
            is_complete: true,
            unreadable: 0,
            total,
            as_of_at: moment::written(moments.wall(moments.now)),
        })
    }

    /// The beginnings of the bodies of leased jobs. Masks take a while, so the broker's lock must not
    /// be held meanwhile.
    async fn beginnings(&self, rows: &[LeasedRow]) -> Result<Vec<types::BodyText>, Problem> {
        let bodies: Vec<Option<Body>> = rows.iter().map(|leased| leased.row.body.clone()).collect();
        let setup = self.setup.clone();
        let work = move || {
            let shown = |body: Option<Body>| match body {
                Some(body) => beginning(&setup.bodies, &body),
                None => types::BodyText { text: String::new(), is_cut: true },
            };
            bodies.into_iter().map(shown).collect()
        };
        let has_masks = !self.setup.bodies.masks.is_empty();
        if has_masks { self.masking(work).await } else { Ok(work()) }
    }

    /// The number of jobs in the list.
    fn count_of(&self, list: &ListJobs) -> Result<u64, Problem> {
        let stats =
            self.turn().queue_stats(&list.queue).ok_or_else(|| Problem::no_queue(&list.queue))?;
        Ok(match list.state {
            State::Ready => stats.ready,
            State::Delayed => stats.delayed,
            State::Buried => stats.buried,
            State::Leased => stats.leased,
        })
    }

    /// Reads from the disk in another thread. At most two reads run at once, even after their
    /// clients have gone.
    pub(crate) async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        in_thread(&self.readers, read).await.ok_or_else(|| {
            let why = "the disk did not give the jobs in time; check the disk, or try again";
            Problem::new(ProblemKind::Unreadable, why)
        })
    }

    /// Reads the history of jobs in another thread. At most one read runs at once, so that its disk
    /// keeps no other request waiting.
    pub(crate) async fn reading_history<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        in_thread(&self.history_readers, read).await.ok_or_else(|| {
            let why =
                "the disk did not give the history of jobs in time; check the disk, or try again";
            Problem::new(ProblemKind::Unreadable, why)
        })
    }

    /// Masks bodies that are in memory, in another thread, so that other requests do not wait. A
    /// disk that hangs does not matter here.
    pub(crate) async fn masking<T: Send + 'static>(
        &self,
        mask: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        in_thread(&self.maskers, mask).await.ok_or_else(|| {
            let why = "other requests mask long bodies (`http.mask`); try again";
            Problem::new(ProblemKind::Unavailable, why)
        })
    }
}

/// A leased job.
struct LeasedRow {
    row: HeldRow,
    /// The session that holds the job.
    session: SessionId,
    /// When the row was read.
    moments: Moments,
}

impl LeasedRow {
    fn shown(
        &self,
        body: Option<types::BodyText>,
        queue: &[u8],
        bodies: Option<&BodySettings>,
    ) -> types::Job {
        let row = &self.row;
        let view = job::JobView {
            facts: &row.facts,
            time_left_ms: row.time_left_ms.unwrap_or(0),
            body_bytes: row.body_len,
            unique: &row.unique,
            is_durable: row.is_durable,
            bodies,
        };
        let memory = match row.body {
            Some(_) => types::JobMemory::Resident,
            None => types::JobMemory::Stored,
        };
        let connection = shown_id(self.session);
        let holder = types::Holder { connection, held_ms: row.held_ms };
        types::Job {
            memory: Some(memory),
            body,
            holder: Some(holder),
            ..view.shown(queue, &self.moments)
        }
    }
}

/// The beginning of a body. `None`: it cannot be read.
fn preview(setup: &Setup, row: &JobRow) -> Option<types::BodyText> {
    let body = match &row.body {
        RowBody::Resident(body) => body.clone(),
        // A page must not read many megabytes to show their beginnings.
        RowBody::Stored(_) if row.body_len > READ_BYTES_MAX => {
            return Some(types::BodyText { text: String::new(), is_cut: true });
        }
        RowBody::Stored(stored) => setup.door.broker().read_body(stored).ok()?,
    };
    Some(beginning(&setup.bodies, &body))
}

/// The beginning of a body as clients see it.
pub(crate) fn beginning(settings: &BodySettings, body: &[u8]) -> types::BodyText {
    // A mask needs the whole JSON, and a list must not read megabytes of it.
    let is_long = !settings.masks.is_empty() && body.len() > READ_BYTES_MAX;
    let Some(shown) = (if is_long { None } else { settings.masked(body) }) else {
        return types::BodyText { text: String::new(), is_cut: true };
    };
    let cut = &shown[..shown.len().min(PREVIEW_BYTES_MAX)];
    let text = String::from_utf8_lossy(cut).into_owned();
    types::BodyText { text, is_cut: cut.len() < shown.len() }
}

/// A job that no worker has, with a part of its body.
pub(crate) fn shown(
    row: &JobRow,
    body: Option<types::BodyText>,
    queue: &[u8],
    moments: &Moments,
    bodies: Option<&BodySettings>,
) -> types::Job {
    let memory = match (row.is_cold, &row.body) {
        (true, _) => types::JobMemory::Cold,
        (false, RowBody::Stored(_)) => types::JobMemory::Stored,
        (false, RowBody::Resident(_)) => types::JobMemory::Resident,
    };
    let view = job::JobView {
        facts: &row.facts,
        time_left_ms: row.time_left_ms,
        body_bytes: row.body_len,
        unique: &row.unique,
        is_durable: row.is_durable,
        bodies,
    };
    types::Job { memory: Some(memory), body, ..view.shown(queue, moments) }
}
