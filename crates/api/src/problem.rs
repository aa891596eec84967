//! Errors as JSON, in the form of RFC 9457.

use axum::response::{IntoResponse, Response};
use http_api::{answer, complete};
use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::types::Role;

/// The content type of a problem.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// The kinds of problems. A kind never changes its meaning, so programs can rely on it.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum ProblemKind {
    /// A parameter has an invalid value.
    BadRequest,
    /// The endpoint does not have this parameter.
    UnknownParameter,
    /// The cursor does not belong to this list.
    BadCursor,
    /// The text is not the name of a queue.
    BadName,
    /// The client must send credentials.
    Unauthenticated,
    /// The client is not allowed to do this.
    Forbidden,
    /// The thing does not exist.
    NotFound,
    /// The endpoint does not have this method.
    MethodNotAllowed,
    /// The log cannot give the job, or not in time.
    Unreadable,
    /// The server cannot do this now.
    Unavailable,
}

impl ProblemKind {
    /// All kinds.
    pub const ALL: [ProblemKind; 10] = [
        ProblemKind::BadRequest,
        ProblemKind::UnknownParameter,
        ProblemKind::BadCursor,
        ProblemKind::BadName,
        ProblemKind::Unauthenticated,
        ProblemKind::Forbidden,
        ProblemKind::NotFound,
        ProblemKind::MethodNotAllowed,
        ProblemKind::Unreadable,
        ProblemKind::Unavailable,
    ];

    /// The name of the kind, in the member `type`.
    pub fn name(self) -> &'static str {
        match self {
            ProblemKind::BadRequest => "bad-request",
            ProblemKind::UnknownParameter => "unknown-parameter",
            ProblemKind::BadCursor => "bad-cursor",
            ProblemKind::BadName => "bad-name",
            ProblemKind::Unauthenticated => "unauthenticated",
            ProblemKind::Forbidden => "forbidden",
            ProblemKind::NotFound => "not-found",
            ProblemKind::MethodNotAllowed => "method-not-allowed",
            ProblemKind::Unreadable => "unreadable",
            ProblemKind::Unavailable => "unavailable",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ProblemKind::BadRequest => "invalid parameter",
            ProblemKind::UnknownParameter => "unknown parameter",
            ProblemKind::BadCursor => "invalid cursor",
            ProblemKind::BadName => "invalid queue name",
            ProblemKind::Unauthenticated => "credentials needed",
            ProblemKind::Forbidden => "not allowed",
            ProblemKind::NotFound => "not found",
            ProblemKind::MethodNotAllowed => "method not allowed",
            ProblemKind::Unreadable => "cannot read the job",
            ProblemKind::Unavailable => "not available now",
        }
    }

    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            ProblemKind::BadRequest
            | ProblemKind::UnknownParameter
            | ProblemKind::BadCursor
            | ProblemKind::BadName => StatusCode::BAD_REQUEST,
            ProblemKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ProblemKind::Forbidden => StatusCode::FORBIDDEN,
            ProblemKind::NotFound => StatusCode::NOT_FOUND,
            ProblemKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ProblemKind::Unreadable => StatusCode::BAD_GATEWAY,
            ProblemKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Why a request failed, and what to do.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The kind of the problem, as a relative reference that ends with `#` and the kind's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The name of the invalid parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The parameter that the client may have meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The role that the request needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Role>,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("/console/help#{}", kind.name()),
            title: kind.title().to_owned(),
            status: kind.status().as_u16(),
            detail: detail.into(),
            instance: None,
            parameter: None,
            hint: None,
            needs: None,
        }
    }

    /// The same problem, with the name of the invalid parameter.
    #[must_use]
    pub fn of_parameter(self, name: &str) -> Problem {
        Problem { parameter: Some(name.to_owned()), ..self }
    }

    /// The response. `path` is the path of the request.
    pub(crate) fn at(mut self, path: &str) -> Response {
        self.instance = Some(path.to_owned());
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = complete(answer(status, PROBLEM, as_json(&self)));
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"lineshaft\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }

    /// The name of the kind.
    pub(crate) fn kind_name(&self) -> &str {
        self.kind.rsplit_once('#').map_or(&self.kind, |(_, name)| name)
    }
}

impl IntoResponse for Problem {
    /// Leaves the problem in the extensions of the response. `access::guard` knows the path of the
    /// request, and makes the body.
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self);
        response
    }
}

/// A value as JSON text.
pub(crate) fn as_json(value: &impl Serialize) -> Vec<u8> {
    // The types of this crate have no maps, and their serialization does not fail.
    serde_json::to_vec(value).unwrap_or_default()
}
