//! The cluster that the server is a node of.

use axum::extract::State;
use hyper::Uri;

use crate::openapi::Refusals;
use crate::problem::Problem;
use crate::state::Api;
use crate::text::json::Json;
use crate::text::query::Query;
use crate::types::{self, ClusterRole};

/// The cluster: its nodes, its stream and the servers of NATS.
#[utoipa::path(
    get,
    path = "/cluster",
    tag = "server",
    responses(
        (status = 200, description = "The cluster.", body = types::Cluster),
        Refusals,
    )
)]
pub(crate) async fn get_cluster(
    State(api): State<Api>,
    uri: Uri,
) -> Result<Json<types::Cluster>, Problem> {
    Query::read(&uri, &[])?;
    Ok(Json(api.cluster()))
}

impl Api {
    /// The cluster: its nodes, its stream and the servers of NATS.
    pub fn cluster(&self) -> types::Cluster {
        self.setup.cluster.as_ref().map_or_else(types::Cluster::default, |cluster| cluster())
    }

    /// Whether the server is the node of a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.setup.cluster.is_some()
    }
}

impl types::Cluster {
    /// Whether the server belongs to no cluster.
    pub fn is_alone(&self) -> bool {
        self.role == ClusterRole::Alone
    }
}
