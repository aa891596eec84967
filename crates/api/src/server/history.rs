//! The numbers of the last hour, day and month: rings with a row for each 10 seconds, minute and
//! quarter of an hour.
//!
//! `rings` has the rings and their bytes, which survive a restart in a file of the data folder.
//! [`Recorder`] adds a row every 10 seconds, and writes the file every minute. It reads the totals,
//! and walks over all queues for the oldest job, in the same short turns as a survey, but without
//! keeping anything of a queue.

mod rings;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use broker::{Millis, QueueCursor, Totals};
use histogram::Histogram;
use hyper::Uri;
use tokio::time::Instant;

use self::rings::{FILE_BYTES_MAX, Rings, Row};
use crate::openapi::Refusals;
use crate::problem::{Problem, ProblemKind};
use crate::queues::survey::RESTS;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::query::Query;
use crate::types;

pub use self::rings::{Series, Span};

/// The file is written after this many rows of 10 seconds.
const ROWS_PER_SAVE: u32 = 6;

/// The numbers of the last hour, day or month.
#[utoipa::path(
    get,
    path = "/server/history",
    tag = "server",
    params(
        ("span" = Option<String>, Query, description = "The length of time: `1h` (the default), \
            `24h` or `30d`."),
        ("series" = Option<String>, Query, description = "The names of series, separated by \
            commas. The default is all."),
    ),
    responses(
        (status = 200, description = "The history.", body = types::History),
        Refusals,
    )
)]
pub(crate) async fn get_history(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::History>, Problem> {
    let query = Query::read(&uri, &["span", "series"])?;
    let bad =
        |name: &str, why: String| Problem::new(ProblemKind::BadRequest, why).of_parameter(name);
    let span = match query.get("span") {
        None => Span::Hour,
        Some(text) => {
            Span::named(text).ok_or_else(|| bad("span", "write 1h, 24h or 30d".to_owned()))?
        }
    };
    let series: Vec<Series> = match query.get("series") {
        None => Series::ALL.to_vec(),
        Some(names) => {
            let named = names.split(',').map(|name| {
                let series = Series::ALL.into_iter().find(|series| series.name() == name);
                series.ok_or_else(|| {
                    let all = Series::ALL.map(Series::name).join(", ");
                    bad("series", format!("no series `{name}`; write some of {all}"))
                })
            });
            named.collect::<Result<_, _>>()?
        }
    };
    Ok(Json(api.history(span, &series)))
}

impl Api {
    /// These series of a span. The last value is of the present moment.
    pub fn history(&self, span: Span, series: &[Series]) -> types::History {
        let now = self.wall_now();
        let rings = self.recorder.rings();
        let (from, rows) = rings.of(span, now);
        let column = |series: &Series| {
            let values =
                rows.iter().map(|row| Some(row[*series as usize]).filter(|value| !value.is_nan()));
            (series.name().to_owned(), values.collect())
        };
        types::History {
            step_ms: span.step_ms(),
            from_at: moment::written(from),
            series: series.iter().map(column).collect::<BTreeMap<_, _>>(),
        }
    }

    /// Adds to the history, if it is time. Must be called once a second.
    pub(crate) fn record_soon(&self) {
        let recorder = &self.recorder;
        if recorder.rings().wants_row(self.wall_now())
            && !recorder.is_busy.swap(true, Ordering::Relaxed)
        {
            tokio::spawn(record(self.clone(), Busy(recorder.clone())));
        }
    }

    /// The server ends: the leases of clients are no failed attempts.
    pub fn stop(&self) {
        self.setup.door.stop();
    }

    /// Writes the history into its file, if it has one. Blocks the thread.
    pub fn save_history(&self) {
        let Some(path) = &self.setup.history.numbers else { return };
        let bytes = self.recorder.rings().to_bytes();
        if let Err(error) = write(path, &bytes) {
            tracing::warn!(%error, path = %path.display(), "cannot save the history of the numbers");
        }
    }

    fn wall_now(&self) -> Millis {
        let turn = self.turn();
        turn.wall_at(turn.now())
    }
}

/// Reads the file of an earlier process. A file that cannot be read is ignored, because the history
/// is not worth a failed start.
pub(crate) fn read(path: &Path) -> Rings {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Rings::from_bytes(&bytes).unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "ignored a damaged history of the numbers");
            Rings::default()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Rings::default(),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot read the history of the numbers");
            Rings::default()
        }
    }
}

/// Replaces the file. It is not synced: after a power failure, a part of the history can be lost,
/// and the sum in the file shows this.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    std::fs::rename(&beside, path)
}

/// Adds rows to the rings.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    rings: Mutex<Rings>,
    is_busy: AtomicBool,
    before: Mutex<Before>,
}

/// What the last row was made from.
#[derive(Debug, Default)]
struct Before {
    totals: Option<(Millis, Totals)>,
    syncs_us: Histogram,
    /// The age of the oldest job, as of the last walk.
    oldest_ms: u64,
    /// The next walk may begin at this moment.
    walk_at: Option<Instant>,
    rows: u32,
}

/// Notes the end of a task, even if it panics.
struct Busy(Arc<Recorder>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Relaxed);
    }
}

impl Recorder {
    pub(crate) fn new(rings: Rings) -> Recorder {
        Recorder { rings: Mutex::new(rings), ..Recorder::default() }
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn before(&self) -> MutexGuard<'_, Before> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn record(api: Api, busy: Busy) {
    let recorder = &busy.0;
    let may_walk = recorder.before().walk_at.is_none_or(|at| Instant::now() >= at);
    if may_walk {
        let (oldest_ms, in_turns) = walk(&api).await;
        let mut before = recorder.before();
        before.oldest_ms = oldest_ms;
        before.walk_at = Some(Instant::now() + in_turns * RESTS);
    }
    let (wall, row) = row(&api, &mut recorder.before());
    recorder.rings().add(wall, &row);
    let is_time = {
        let mut before = recorder.before();
        before.rows = (before.rows + 1) % ROWS_PER_SAVE;
        before.rows == 0
    };
    if is_time && api.setup.history.numbers.is_some() {
        let api = api.clone();
        // An error has been reported.
        let _ = tokio::task::spawn_blocking(move || api.save_history()).await;
    }
}

/// The age of the oldest job that is next in its queue, and the time that the turns took.
async fn walk(api: &Api) -> (u64, Duration) {
    let (mut cursor, mut oldest_ms, mut in_turns) = (QueueCursor::default(), 0, Duration::ZERO);
    let walk = api.setup.door.slices(|turn| {
        let began = Instant::now();
        let flow = loop {
            let Some(queue) = turn.next_queue(&mut cursor) else { break ControlFlow::Break(()) };
            oldest_ms = oldest_ms.max(turn.queue_stats_of(queue).head_age_ms);
            if turn.slice_is_spent() {
                break ControlFlow::Continue(());
            }
        };
        in_turns += began.elapsed();
        flow
    });
    walk.await;
    (oldest_ms, in_turns)
}

/// The present row, and its moment by the wall clock.
fn row(api: &Api, before: &mut Before) -> (Millis, Row) {
    let process = (api.setup.process)();
    let syncs_us = api.setup.door.broker().commit_sizes().syncs_us;
    let turn = api.turn();
    let (now, totals, log) = (turn.now(), turn.totals(), turn.log_stats());
    let wall = turn.wall_at(now);
    drop(turn);
    let seconds = before.totals.map(|(then, _)| now.since(then) as f64 / 1e3);
    let rate = |count: fn(&Totals) -> u64| match (seconds, &before.totals) {
        (Some(seconds), Some((_, before))) if seconds > 0.0 => {
            count(&totals).saturating_sub(count(before)) as f64 / seconds
        }
        _ => f64::NAN,
    };
    let mut row = [f32::NAN; Series::ALL.len()];
    for series in Series::ALL {
        row[series as usize] = match series {
            Series::Ready => totals.ready as f64,
            Series::Leased => totals.leased as f64,
            Series::Delayed => totals.delayed as f64,
            Series::Buried => totals.buried as f64,
            Series::Puts => rate(|totals| totals.puts),
            Series::Takes => rate(|totals| totals.takes),
            Series::Ends => rate(|totals| totals.ends),
            Series::Timeouts => rate(|totals| totals.timeouts),
            Series::Oldest => before.oldest_ms as f64,
            Series::Sync => syncs_us.since(&before.syncs_us).quantile(0.99).unwrap_or(f64::NAN),
            Series::Log => log.data_bytes as f64,
            Series::Connections => process.connections as f64,
        } as f32;
    }
    before.totals = Some((now, totals));
    before.syncs_us = syncs_us;
    (wall, row)
}
