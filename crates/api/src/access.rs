//! Which requests are allowed. This is the outermost layer of the API: it sees each request first,
//! and each response last.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http_api::{claims, only_looks};
use origin::{Gate, Reach};

use crate::problem::{Problem, ProblemKind};

/// All paths of the API begin with this.
pub const PREFIX: &str = "/api/v1";

/// Lets allowed requests pass, and gives problems their body.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    // `Router::nest` has removed the prefix from the path.
    let path = format!("{PREFIX}{}", request.uri().path());
    if let Err(problem) = check(&request) {
        return problem.at(&path);
    }
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let mut answer = problem.at(&path);
    // Keep headers such as `Allow`.
    answer.headers_mut().extend(std::mem::take(response.headers_mut()));
    answer
}

/// Clients on this machine can read. There is no way yet to recognize other clients.
fn check(request: &Request) -> Result<(), Problem> {
    let forbidden = |why: &str| Problem::new(ProblemKind::Forbidden, why);
    let Some(gate) = request.extensions().get::<Gate>() else {
        return Err(forbidden("this listener has no rules of access"));
    };
    match gate.reach {
        Reach::Loopback | Reach::Unix => {}
        Reach::Network => {
            return Err(forbidden(
                "other machines can reach this listener, so it does not serve the API; \
                 send the request to a listener at a loopback address or a unix socket",
            ));
        }
    }
    if !only_looks(request.method()) {
        gate.may_control(&claims(request.headers()), false)
            .map_err(|why| forbidden(&why.to_string()))?;
    }
    Ok(())
}
