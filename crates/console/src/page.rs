//! The frame of all pages: the head, the navigation and the banner. Also shows errors.

use api::types::{Health, HealthLevel, Role, Via};
use api::{Api, Principal, Problem, ProblemKind};
use axum::response::{IntoResponse, Response};
use http_api::{answer, complete, only_looks};
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, StatusCode, Uri};
use maud::{DOCTYPE, Markup, html};

use crate::assets::address;
use crate::equal::{Beanstalk, Equal, Place};
use crate::guard::after_sign_in;
use crate::link;
use crate::look::{ALL_COLORS, Look};
use crate::texts::{self, Frame, Texts};

/// Pages load only the console's own files, and no other site can show them in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A server that is alone does not have this page in its navigation.
const CLUSTER: &str = "/cluster";

/// The pages in the navigation: the path, the name and the keys.
type Entry = (&'static str, fn(&Frame) -> &'static str, &'static str);

const NAVIGATION: [Entry; 8] = [
    ("", |frame| frame.overview, "g o"),
    ("/queues", |frame| frame.queues, "g q"),
    ("/connections", |frame| frame.connections, "g c"),
    ("/operations", |frame| frame.operations, "g r"),
    ("/log", |frame| frame.log, "g l"),
    (CLUSTER, |frame| frame.cluster, "g n"),
    ("/policies", |frame| frame.policies, "g p"),
    ("/help", |frame| frame.help, "?"),
];

/// A page, or the problem that it shows instead.
pub(crate) type Result<T = Page> = std::result::Result<T, Failed>;

/// A page: its title and its contents. The guard knows for whom the page is, and shows it.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    title: String,
    /// The path in the navigation.
    section: &'static str,
    is_in_cluster: bool,
    health: Health,
    host: String,
    /// The listener for the tools for jobs.
    beanstalk: Option<Beanstalk>,
    contents: Markup,
    equal: Equal,
}

impl Page {
    pub(crate) fn new(api: &Api, section: &'static str, title: &str, contents: Markup) -> Page {
        let server = api.server();
        let mut listeners = server.listeners.iter().filter(|one| one.protocol == "beanstalk");
        let beanstalk = listeners.find_map(|one| Beanstalk::at(&one.address, one.tls));
        let (health, host, equal) = (server.health, server.host, Equal::default());
        let (title, is_in_cluster) = (title.to_owned(), api.is_in_cluster());
        Page { title, section, is_in_cluster, health, host, beanstalk, contents, equal }
    }

    /// The page, with commands and requests that do the same.
    pub(crate) fn equal_to(self, equal: Equal) -> Page {
        Page { equal, ..self }
    }

    /// The page for this client. `uri` is the address of the page within the console.
    pub(crate) fn shown(
        &self,
        look: Look,
        principal: &Principal,
        place: &Place,
        uri: &Uri,
    ) -> Response {
        page(StatusCode::OK, self.text(look, principal, place, uri))
    }

    /// What the script needs to make the parts of the page new that change.
    pub(crate) fn shown_to_script(&self, t: &Texts) -> Response {
        let parts = html! { (DOCTYPE) (banner(t, &self.health)) (self.contents) };
        page(StatusCode::OK, parts.into_string())
    }

    fn text(&self, look: Look, principal: &Principal, place: &Place, uri: &Uri) -> String {
        let Page { title, section, is_in_cluster, health, host, beanstalk, contents, equal } = self;
        let here = |entry: &&Entry| entry.0 != CLUSTER || *is_in_cluster;
        let t = look.texts;
        let page = html! {
            (DOCTYPE)
            html lang=(t.tag) data-colors=(look.colors) {
                head {
                    (head(title))
                    script type="module" src=(address("console.js")) {}
                }
                body data-word-live=(t.frame.live) data-word-lost=(t.frame.lost)
                    data-word-gone=(t.frame.gone) data-word-stale=(t.frame.stale)
                {
                    a .skip href="#main" { (t.frame.skip) }
                    header {
                        a .logo href=(crate::PREFIX) {
                            img src=(address("icon.svg")) alt="" width="28" height="28";
                            span { "Lineshaft" }
                        }
                        nav aria-label=(t.frame.main) {
                            @for (path, name, key) in NAVIGATION.iter().filter(here) {
                                a href={ (crate::PREFIX) (path) } data-key=(key)
                                    aria-current=[(path == section).then_some("page")]
                                { (name(&t.frame)) }
                            }
                        }
                        form .find action={ (crate::PREFIX) "/queues" } role="search" {
                            input type="search" name="search" placeholder=(t.frame.find_queue)
                                aria-label=(t.frame.find_queue) data-key="/";
                        }
                        (person(t, principal, uri))
                    }
                    (banner(t, health))
                    main #main tabindex="-1" {
                        (contents)
                        (equal.shown(t, place, beanstalk.as_ref()))
                    }
                    footer {
                        span { ((t.frame.on)(host)) }
                        span #live-state role="status" {}
                        (choices(look, principal, &after_sign_in(uri)))
                    }
                }
            }
        };
        page.into_string()
    }
}

/// Who looks at the page, and how to change that.
fn person(t: &Texts, principal: &Principal, uri: &Uri) -> Markup {
    html! {
        @if principal.via == Via::Anonymous {
            a .person href=(link::with(
                &format!("{}/login", crate::PREFIX), &[("next", Some(&after_sign_in(uri)))],
            )) { (t.frame.sign_in) }
        } @else {
            span .person {
                @if principal.require(Role::Admin).is_ok() {
                    a href=(link::sessions()) { (principal.name) }
                } @else {
                    (principal.name)
                }
                " " small { (principal.role.name()) }
                @if principal.via == Via::Session {
                    form method="post" action={ (crate::PREFIX) "/logout" } {
                        input type="hidden" name="csrf" value=(principal.csrf());
                        button .quiet { (t.frame.sign_out) }
                    }
                }
            }
        }
    }
}

/// The choices of the language and the colors. `next` is this page.
pub(crate) fn choices(look: Look, principal: &Principal, next: &str) -> Markup {
    let t = &look.texts.frame;
    let names = [t.auto, t.light, t.dark];
    html! {
        form .choices method="post" action={ (crate::PREFIX) "/look" } {
            input type="hidden" name="csrf" value=(principal.csrf());
            input type="hidden" name="next" value=(next);
            span role="group" aria-label=(t.language) {
                @for texts in texts::ALL {
                    button name="language" value=(texts.tag) lang=(texts.tag)
                        aria-pressed=(texts.tag == look.texts.tag)
                    { @if texts.tag == "en" { "English" } @else { "中文" } }
                }
            }
            span role="group" aria-label=(t.colors) {
                @for (colors, name) in ALL_COLORS.into_iter().zip(names) {
                    button name="colors" value=(colors) aria-pressed=(colors == look.colors) {
                        (name)
                    }
                }
            }
        }
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
fn banner(t: &Texts, health: &Health) -> Markup {
    html! {
        div aria-live="polite" {
            div #banner data-live {
                @for reason in &health.reasons {
                    p class={ "banner " (class(reason.level)) } {
                        strong { (level(t, reason.level)) } " " ((t.frame.reason)(reason))
                    }
                }
            }
            p #lost .banner .critical hidden {}
        }
    }
}

/// The name of a level.
pub(crate) fn level(t: &Texts, level: HealthLevel) -> &'static str {
    let [ok, warning, critical] = t.frame.levels;
    match level {
        HealthLevel::Ok => ok,
        HealthLevel::Warning => warning,
        HealthLevel::Critical => critical,
    }
}

/// The class of a level, which has the color.
pub(crate) fn class(level: HealthLevel) -> &'static str {
    match level {
        HealthLevel::Ok => "ok",
        HealthLevel::Warning => "warning",
        HealthLevel::Critical => "critical",
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        response.extensions_mut().insert(self);
        response
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
        let mut response = Response::default();
        response.extensions_mut().insert(*self.0);
        response
    }
}

impl Failed {
    /// The problem as a page.
    pub(crate) fn shown(self, look: Look) -> Response {
        let Problem { kind, title, status, detail, .. } = *self.0;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = kind.rsplit_once('#').map_or("", |(_, kind)| kind);
        let title = (look.texts.frame.problem)(kind, &title);
        let contents = html! {
            h1 { (title) }
            p { (detail) }
            p { a href=(crate::PREFIX) { (look.texts.frame.to_overview) } }
        };
        bare(status, look, &title, &contents)
    }
}

/// A page without the navigation.
pub(crate) fn bare(status: StatusCode, look: Look, title: &str, contents: &Markup) -> Response {
    let text = html! {
        (DOCTYPE)
        html lang=(look.texts.tag) data-colors=(look.colors) {
            head { (head(title)) }
            body {
                main .problem {
                    p .logo {
                        img src=(address("icon.svg")) alt="" width="28" height="28";
                        span { "Lineshaft" }
                    }
                    div .card { (contents) }
                }
            }
        }
    };
    page(status, text.into_string())
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

/// Goes to another page.
pub(crate) fn see_other(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(address) = HeaderValue::from_str(address) {
        response.headers_mut().insert(LOCATION, address);
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(crate) async fn no_method() -> Failed {
    Problem::new(ProblemKind::MethodNotAllowed, "this page has no such form").into()
}

pub(crate) async fn not_found(method: Method, uri: Uri) -> Response {
    // People type a slash at the end of an address. No page has one. A form never goes elsewhere: it would
    // count as a change that succeeded.
    if let Some(path) = uri.path().strip_suffix('/').filter(|_| only_looks(&method)) {
        return see_other(&format!("{}{path}", crate::PREFIX));
    }
    let problem = Problem::new(ProblemKind::NotFound, "the console has no such page");
    Failed::from(problem).into_response()
}
