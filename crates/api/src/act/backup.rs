//! A backup of the log, as a stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::response::Response;
use http_api::LongResponse;
use hyper::body::{Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use hyper::{StatusCode, Uri};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;

use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::query::Query;

/// How fast a backup reads, unless the client says something else: 100 MiB in a second.
const BYTES_PER_S: u64 = 100 << 20;

/// A slower backup would send too little for its connection.
const BYTES_PER_S_MIN: u64 = 1 << 20;

/// The pieces of a backup. An error, or an end without the end mark of the archive, means that the
/// backup is incomplete.
pub type BackupPieces = Receiver<io::Result<Bytes>>;

/// Begins a backup that reads at most this many bytes in a second. Fails with the reason why there
/// is none.
pub type BeginBackup = Box<dyn Fn(u64) -> Result<BackupPieces, String> + Send + Sync>;

/// A backup of the server, as a tar stream with the files of its log. It has everything that the
/// server acknowledged before the request. Unpack it into a folder, and a server starts on it. If the
/// stream is cut, `tar` and the server notice. Only one backup runs at a time.
#[utoipa::path(
    post,
    path = "/server/backup",
    tag = "server",
    params(
        ("rate" = Option<u64>, Query, minimum = 1_048_576, description = "How many bytes the server \
            reads in a second, at most. The default is 104857600."),
    ),
    responses(
        (status = 200, description = "The backup.", content_type = "application/x-tar"),
        Failures,
    )
)]
pub(crate) async fn post_backup(State(api): State<Api>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["rate"])?;
    let rate = query.get("rate").map_or(Ok(BYTES_PER_S), |text| {
        text.parse().ok().filter(|rate| *rate >= BYTES_PER_S_MIN).ok_or_else(|| {
            let why = format!("write the number of bytes in a second, at least {BYTES_PER_S_MIN}");
            Problem::new(ProblemKind::BadRequest, why).of_parameter("rate")
        })
    })?;
    api.backup(rate)
}

impl Api {
    /// A response with a backup that reads at most this many bytes in a second.
    pub fn backup(&self, bytes_per_s: u64) -> Result<Response, Problem> {
        let unavailable = |why: String| Problem::new(ProblemKind::Unavailable, why);
        let permit = self.backups.clone().try_acquire_owned();
        let permit = permit.map_err(|_| unavailable("another backup runs".to_owned()))?;
        let pieces = (self.setup.backup)(bytes_per_s).map_err(unavailable)?;
        let mut response =
            Response::new(Body::new(Stream { pieces: Some(pieces), _permit: permit }));
        *response.status_mut() = StatusCode::OK;
        response.extensions_mut().insert(LongResponse);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
        let name = HeaderValue::from_static("attachment; filename=\"lineshaft-backup.tar\"");
        headers.insert(CONTENT_DISPOSITION, name);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

/// A backup as the body of a response.
struct Stream {
    /// `None` after the end.
    pieces: Option<BackupPieces>,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(pieces) = self.pieces.as_mut() else { return Poll::Ready(None) };
        let piece = std::task::ready!(pieces.poll_recv(context));
        if !matches!(piece, Some(Ok(_))) {
            self.pieces = None;
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}
