//! The JSON of the sessions of people who signed in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Role;

/// The sessions of people who signed in to the console.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// The sessions, the newest first. At most 1,000 exist.
    pub items: Vec<Session>,
}

/// A session of a person who signed in to the console.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The number of the session.
    pub id: u64,
    /// The name of the token or the certificate with which the person signed in; `operator` for a
    /// code that was made at the operator's socket.
    pub name: String,
    /// What the person is allowed to do.
    pub role: Role,
    /// The address from which the person signed in, or `unix`.
    pub address: String,
    /// When the person signed in.
    pub began_at: String,
    /// When the session ends, at the latest.
    pub ends_at: String,
    /// Whether this is the session of the request.
    pub own: bool,
}
