//! Who sees a page, and who can send a form. Recognizes the client with the rules of the API, shows
//! pages and problems to it, and records changes.

use std::sync::Arc;

use api::types::{Role, Via};
use api::{Api, Asked, Principal, Problem, ProblemKind};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_api::{Sender, Unread, claims, only_looks, read_body};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};

use crate::equal::Place;
use crate::look::Look;
use crate::page::{Failed, Page, Result};
use crate::pages::login;

/// The longest form, in bytes.
const FORM_BYTES_MAX: usize = 64 << 10;

/// The pages that everybody sees, because they help to sign in.
fn is_open(path: &str) -> bool {
    matches!(path, "/login" | "/signed-out" | "/look") || path.starts_with("/assets/")
}

/// The fields of a form. The guard has checked its secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Arc<Vec<(String, String)>>);

impl Form {
    /// The value of a field, if it is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter().filter(|(known, _)| known == name);
        fields.next().map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The values of all fields with this name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Form {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Form> {
        // The guard has put the form there.
        Ok(parts.extensions.get::<Form>().cloned().unwrap_or_default())
    }
}

/// The outermost layer of the console.
pub(crate) async fn guard(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    // `Router::nest` has removed the prefix from the path.
    let path = request.uri().path().to_owned();
    let asked = Asked::of(&request, &format!("{}{path}", crate::PREFIX));
    // A choice of the language changes nothing on the server.
    let mut asked = asked.filter(|_| path != "/look");
    let uri = request.uri().clone();
    let look = Look::of(&request);
    let is_for_script = request.headers().contains_key("x-live");
    let principal = match api.identify(&request) {
        Ok(principal) => principal,
        Err(problem) => {
            let refused = Failed::from(problem.clone()).shown(look);
            api.begin(None, asked).end(&refused, Some(&problem), None);
            return refused;
        }
    };
    if path == "/logout" && principal.via != Via::Session {
        // No session ends. So everybody can ask for this, and must not push out the lines about changes.
        asked = None;
    }
    let place = Place::of(request.headers(), &principal);
    let checked = check(&api, &mut request, &principal).await;
    // Nothing has changed so far. So a client that leaves while it sends a form leaves no line.
    let pending = api.begin(Some(principal.clone()), asked);
    let form = request.extensions().get::<Form>().cloned().unwrap_or_default();
    let mut response = match checked {
        Ok(()) => {
            request.extensions_mut().insert(principal.clone());
            request.extensions_mut().insert(look);
            next.run(request).await
        }
        Err(failed) => axum::response::IntoResponse::into_response(failed),
    };
    let problem = response.extensions_mut().remove::<Problem>();
    let page = response.extensions_mut().remove::<Page>();
    pending.end(&response, problem.as_ref(), form.get("reason"));
    match (problem, page) {
        // A person who must sign in gets the form for it.
        (Some(problem), _) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => {
            login::form(look, &principal, &after_sign_in(&uri), Some(&problem))
        }
        (Some(problem), _) => Failed::from(problem).shown(look),
        (None, Some(page)) if is_for_script => page.shown_to_script(look.texts),
        (None, Some(page)) => page.shown(look, &principal, &place, &uri),
        (None, None) => response,
    }
}

/// Where a person goes after signing in: the page that the request asked for.
pub(crate) fn after_sign_in(uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    if is_open(uri.path()) || path == "/" {
        crate::PREFIX.to_owned()
    } else {
        format!("{}{path}", crate::PREFIX)
    }
}

async fn check(api: &Api, request: &mut Request, principal: &Principal) -> Result<()> {
    // Only clients with a role can make the server wait for long.
    let sender = if is_open(request.uri().path()) {
        Sender::Stranger
    } else {
        principal.require(Role::Viewer)?;
        Sender::Client
    };
    if only_looks(request.method()) {
        check_page(request)?;
    } else {
        api.check_change(request, principal)?;
        let form = read_form(request, sender).await?;
        principal.check_csrf(form.get("csrf"))?;
        request.extensions_mut().insert(form);
    }
    Ok(())
}

/// A person can follow a link from another site. But no page of another site can load these pages
/// in the background.
fn check_page(request: &Request) -> Result<()> {
    let headers = request.headers();
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    if is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document") {
        return Ok(());
    }
    let allowed = claims(headers).check_no_page(true);
    allowed.map_err(|why| Problem::new(ProblemKind::Forbidden, why.to_string()).into())
}

async fn read_form(request: &mut Request, sender: Sender) -> Result<Form> {
    let unread = request.extensions().get::<Unread>().cloned();
    let unread = unread.unwrap_or_else(Unread::without_broker);
    let body = std::mem::take(request.body_mut());
    let received = read_body(body, FORM_BYTES_MAX, sender, &unread, |_| true).await;
    let received = received
        .map_err(|error| Problem::new(ProblemKind::BadRequest, format!("the form: {error}")))?;
    let fields = form_urlencoded::parse(received.bytes()).into_owned().collect();
    Ok(Form(Arc::new(fields)))
}
