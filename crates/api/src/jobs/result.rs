//! The outcome of a Gearman job that has ended, as long as the policy `result.keep` says.

use axum::Extension;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::{JobId, News};
use hyper::Uri;
use hyper::body::Bytes;

use crate::access::Principal;
use crate::jobs::job::{JobNumber, Moments};
use crate::openapi::Failures;
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::text::json::Json;
use crate::text::moment;
use crate::text::query::Query;
use crate::types::{self, ResultOutcome};

/// The result of a Gearman job that has ended. The setting `http.bodies` can hide it, and `http.mask`
/// values in it.
#[utoipa::path(
    get,
    path = "/jobs/{id}/result",
    tag = "history",
    params(("id" = u64, Path, description = "The number of the job.")),
    responses((status = 200, description = "The result.", body = types::JobResult), Failures)
)]
pub(crate) async fn get_result(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    JobNumber(id): JobNumber,
    uri: Uri,
) -> Result<Json<types::JobResult>, Problem> {
    Query::read(&uri, &[])?;
    api.job_result(&principal, id).await.map(Json)
}

impl Api {
    /// The result of a Gearman job that has ended.
    pub async fn job_result(
        &self,
        principal: &Principal,
        id: JobId,
    ) -> Result<types::JobResult, Problem> {
        self.check_bodies(principal)?;
        let (kept, ends_at) = {
            let turn = self.turn();
            let kept = turn.kept_result(id).cloned().ok_or_else(|| {
                let why = format!("no result of job {} is kept: see `result.keep`", id.0);
                Problem::new(ProblemKind::NotFound, why)
            })?;
            let ends_at = moment::written(Moments::of(&turn).wall(kept.until));
            (kept, ends_at)
        };
        let (outcome, bytes) = match kept.news {
            News::Complete(bytes) => (ResultOutcome::Complete, Some(bytes)),
            News::Exception(bytes) => (ResultOutcome::Exception, Some(bytes)),
            News::Data(_) | News::Warning(_) | News::Progress(_) | News::Fail => {
                (ResultOutcome::Fail, None)
            }
        };
        let (mut result, mut result_base64) = (None, None);
        if let Some(bytes) = bytes {
            let shown = self.shown_body(Bytes::from_owner(bytes)).await?;
            match String::from_utf8(shown.to_vec()) {
                Ok(text) => result = Some(text),
                Err(_) => result_base64 = Some(STANDARD.encode(&shown)),
            }
        }
        Ok(types::JobResult {
            id: id.0,
            outcome,
            numerator: kept.numerator,
            denominator: kept.denominator,
            ends_at,
            result,
            result_base64,
        })
    }
}
