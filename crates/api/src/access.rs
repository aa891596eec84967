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

/// Headers with which a proxy says that it passes a request on.
const PROXY_HEADERS: [&str; 5] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Whether a client can read the API. Clients on this machine can. There is no way yet to recognize
/// other clients.
fn check(request: &Request) -> Result<(), Problem> {
    check_place(request)?;
    // Without this, pages of other sites could make this server read jobs from the disk, although
    // they do not get the answers.
    let gate = request.extensions().get::<Gate>();
    let claims = claims(request.headers());
    let allowed = match gate {
        Some(gate) if !only_looks(request.method()) => gate.may_control(&claims, false),
        _ => claims.check_no_page(true),
    };
    allowed.map_err(|why| Problem::new(ProblemKind::Forbidden, why.to_string()))
}

/// Whether the request comes from a client on this machine, and not through a proxy.
pub fn check_place(request: &Request) -> Result<(), Problem> {
    let forbidden = |why: &str| Err(Problem::new(ProblemKind::Forbidden, why));
    match request.extensions().get::<Gate>().map(|gate| gate.reach) {
        Some(Reach::Loopback | Reach::Unix) => {}
        Some(Reach::Network) => {
            return forbidden(
                "other machines can reach this listener, so it shows no queues; send the request \
                 to a listener at a loopback address or a unix socket, for example with `ssh -L`",
            );
        }
        None => return forbidden("this listener has no rules of access"),
    }
    if PROXY_HEADERS.iter().any(|name| request.headers().contains_key(*name)) {
        return forbidden(
            "a proxy has passed this request on, so its client may be on another machine; \
             send the request without the proxy",
        );
    }
    Ok(())
}
