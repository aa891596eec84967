//! The frame of all pages: the head, the navigation and the banner. Also decides who sees a page,
//! and shows errors.

use api::types::{Health, HealthLevel};
use api::{Api, Problem, ProblemKind, check_place};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_api::{answer, claims, complete, only_looks};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue};
use maud::{DOCTYPE, Markup, html};

use crate::assets::address;

/// Pages load only the console's own files, and no other site can show them in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The pages in the navigation: the path, the name and the key.
const NAVIGATION: [(&str, &str, &str); 5] = [
    ("", "Overview", "o"),
    ("/queues", "Queues", "q"),
    ("/log", "Log", "l"),
    ("/policies", "Policies", "p"),
    ("/help", "Help", "h"),
];

/// A page, or the problem that it shows instead.
pub(crate) type Result<T = Page> = std::result::Result<T, Failed>;

/// A page: its title and its contents.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    /// The path in the navigation.
    section: &'static str,
    health: Health,
    host: String,
    contents: Markup,
}

impl Page {
    pub(crate) fn new(api: &Api, section: &'static str, title: &str, contents: Markup) -> Page {
        let server = api.server();
        let (health, host) = (server.health, server.host);
        Page { title: title.to_owned(), section, health, host, contents }
    }

    fn text(&self) -> String {
        let Page { title, section, health, host, contents } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    (head(title))
                    script type="module" src=(address("console.js")) {}
                }
                body {
                    a .skip href="#main" { "Skip to the contents" }
                    header {
                        a .logo href=(crate::PREFIX) {
                            img src=(address("icon.svg")) alt="" width="28" height="28";
                            span { "Lineshaft" }
                        }
                        nav aria-label="main" {
                            @for (path, name, key) in NAVIGATION {
                                a href={ (crate::PREFIX) (path) } data-key=(key)
                                    aria-current=[(path == *section).then_some("page")]
                                { (name) }
                            }
                        }
                        form .find action={ (crate::PREFIX) "/queues" } role="search" {
                            input type="search" name="search" placeholder="Find a queue"
                                aria-label="Find a queue" data-key="/";
                        }
                    }
                    (banner(health))
                    main #main { (contents) }
                    footer {
                        span { "Lineshaft on " (host) }
                        span #live-state role="status" {}
                    }
                }
            }
        };
        page.into_string()
    }
}

/// What all heads have.
fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) " · Lineshaft" }
        link rel="icon" href=(address("icon.svg")) type="image/svg+xml";
        link rel="stylesheet" href=(address("console.css"));
    }
}

/// What an operator should know at once. An empty place if all is well.
fn banner(health: &Health) -> Markup {
    html! {
        div aria-live="polite" {
            div #banner data-live {
                @for reason in &health.reasons {
                    p class={ "banner " (level(reason.level)) } {
                        strong { (level(reason.level)) } " " (reason.text)
                    }
                }
            }
        }
    }
}

/// The name of a level.
pub(crate) fn level(level: HealthLevel) -> &'static str {
    match level {
        HealthLevel::Ok => "ok",
        HealthLevel::Warning => "warning",
        HealthLevel::Critical => "critical",
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        page(StatusCode::OK, self.text())
    }
}

/// Why a page cannot be shown.
#[derive(Debug)]
pub(crate) struct Failed(Box<Problem>);

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let Problem { title, status, detail, .. } = *self.0;
        let text = html! {
            (DOCTYPE)
            html lang="en" {
                head { (head(&title)) }
                body {
                    main .problem {
                        h1 { (title) }
                        p { (detail) }
                        p { a href=(crate::PREFIX) { "Go to the overview" } }
                    }
                }
            }
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        page(status, text.into_string())
    }
}

fn page(status: StatusCode, text: String) -> Response {
    let mut response = complete(answer(status, "text/html; charset=utf-8", text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("referrer-policy"),
        HeaderValue::from_static("same-origin"),
    );
    response
}

/// Lets clients on this machine read. The pages change nothing, so no other method is allowed.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    match check(&request) {
        Ok(()) => next.run(request).await,
        Err(failed) => failed.into_response(),
    }
}

fn check(request: &Request) -> Result<()> {
    check_place(request)?;
    if !only_looks(request.method()) {
        let why = "the pages of the console can only be read";
        return Err(Problem::new(ProblemKind::MethodNotAllowed, why).into());
    }
    // A person can follow a link from another site. But no page of another site can load these
    // pages in the background.
    let headers = request.headers();
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    if is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document") {
        return Ok(());
    }
    let allowed = claims(headers).check_no_page(true);
    allowed.map_err(|why| Problem::new(ProblemKind::Forbidden, why.to_string()).into())
}

pub(crate) async fn not_found() -> Failed {
    Problem::new(ProblemKind::NotFound, "the console has no such page").into()
}
