//! Responses with a value as JSON.

use axum::response::{IntoResponse, Response};
use http_api::{answer, complete};
use hyper::StatusCode;
use serde::Serialize;

use crate::problem::as_json;

const JSON: &str = "application/json";

/// A response with a value as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        complete(answer(StatusCode::OK, JSON, as_json(&self.0)))
    }
}
