//! Who a client is, and what it is allowed to do. [`guard`] is the outermost layer of the API: it
//! sees each request first, and each response last. The console uses the same rules.

pub(crate) mod audit;
pub(crate) mod bodies;
mod rate;
pub(crate) mod sessions;
pub mod tokens;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use broker::Millis;
use http_api::{Peer, claims, only_looks, sha256};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderValue, SET_COOKIE};
use origin::Gate;

use crate::access::audit::{Asked, Audit, AuditDetail};
use crate::access::sessions::{CODE_S, Credential, SESSION_S, Sessions};
use crate::access::tokens::{EntryKind, Tokens, random_text};
use crate::problem::{Problem, ProblemKind};
use crate::state::Api;
use crate::types::{self, Role, Via};

/// All paths of the API begin with this.
pub const PREFIX: &str = "/api/v1";

/// The header with the secret of a console's session.
const CSRF_HEADER: &str = "x-csrf-token";

/// Headers with which a proxy says that it passes a request on.
const PROXY_HEADERS: [&str; 10] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
];

/// What the configuration says about access.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessSettings {
    /// The token file. It need not exist.
    pub tokens: Option<PathBuf>,
    /// What clients on this machine are allowed to do without credentials.
    pub anonymous: Role,
}

impl Default for AccessSettings {
    fn default() -> AccessSettings {
        AccessSettings { tokens: None, anonymous: Role::Viewer }
    }
}

/// The state of access, for all requests.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) audit: Audit,
    pub(crate) sessions: Sessions,
    anonymous: Role,
    /// The secret of forms for clients without a session. Pages of other sites cannot read it.
    csrf: Arc<str>,
}

/// A client, as the server recognized it.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The name of the client.
    pub name: Arc<str>,
    /// What the client is allowed to do.
    pub role: Role,
    /// How the server recognized the client.
    pub via: Via,
    /// The other end of the connection.
    pub(crate) peer: Peer,
    /// What the server recognized the client by. `None`: nothing with which a person can sign in.
    credential: Option<Credential>,
    /// The number of the session, if the server recognized the client by one.
    pub(crate) session: Option<u64>,
    /// The secret that forms of the console contain.
    csrf: Arc<str>,
    /// What the client can do to get more rights.
    advice: &'static str,
}

/// A session that has begun.
#[derive(Clone, Debug)]
pub struct SignedIn {
    cookie: HeaderValue,
    detail: AuditDetail,
}

impl SignedIn {
    /// The value of the header `Set-Cookie`.
    pub fn cookie(&self) -> &HeaderValue {
        &self.cookie
    }

    /// Puts the cookie into the response, and the name of the person into the record of changes.
    pub fn add_to(self, response: &mut Response) {
        response.headers_mut().insert(SET_COOKIE, self.cookie);
        response.extensions_mut().insert(self.detail);
    }
}

/// The name of clients at the operator's socket.
const OPERATOR: &str = "operator";

const ADVICE_TOKEN: &str =
    "send a token with `Authorization: Bearer`; `lineshaft token add` makes one";
const ADVICE_NETWORK: &str = "other machines can reach this listener, so it shows nothing without \
    credentials; send a token with `Authorization: Bearer`, or send the request to a listener at a \
    loopback address or a unix socket, for example with `ssh -L`";
const ADVICE_PASSED: &str = "another node of the cluster has passed this request on, and it shows \
    nothing without credentials; send a token with `Authorization: Bearer`, or send the request on \
    the machine of the node that leads";
const ADVICE_PROXY: &str = "a proxy has passed this request on, so its client may be on another \
    machine; send a token with `Authorization: Bearer`, or send the request without the proxy";

impl Access {
    /// The name and the role of the person with this credential. `None`: it is not valid.
    pub(crate) fn holder(&self, credential: Credential) -> Option<(Arc<str>, Role)> {
        match credential {
            Credential::Operator => Some((OPERATOR.into(), Role::Admin)),
            Credential::Entry(kind, fingerprint) => {
                let entry = self.tokens.find(kind, &fingerprint)?;
                Some((entry.name.as_str().into(), entry.role))
            }
        }
    }

    pub(crate) fn new(settings: AccessSettings) -> Access {
        let tokens = Arc::new(Tokens::new(settings.tokens));
        tokens.look();
        // Without random numbers, no form works.
        let csrf = random_text().unwrap_or_default().into();
        Access {
            tokens,
            audit: Audit::default(),
            sessions: Sessions::default(),
            anonymous: settings.anonymous,
            csrf,
        }
    }
}

impl Principal {
    /// Whose jobs the client puts, for keys that say `client`: the name of a client with credentials,
    /// or the address. Empty: an operator on this machine.
    pub(crate) fn client(&self) -> String {
        match self.via {
            Via::Socket => String::new(),
            Via::Anonymous => {
                self.peer.address.map_or_else(|| "unix".to_owned(), |address| address.to_string())
            }
            Via::Token | Via::Certificate | Via::Session => self.name.to_string(),
        }
    }

    /// Checks that the client has this role.
    pub fn require(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        let mut problem = if self.via == Via::Anonymous {
            let why = if self.role == Role::None {
                self.advice.to_owned()
            } else {
                format!("this needs the role `{}`; {}", role.name(), self.advice)
            };
            Problem::new(ProblemKind::Unauthenticated, why)
        } else {
            let (name, own) = (&self.name, self.role.name());
            let why = format!("`{name}` has the role `{own}`; this needs `{}`", role.name());
            Problem::new(ProblemKind::Forbidden, why)
        };
        problem.needs = Some(role);
        Err(problem)
    }

    /// Whether the connection speaks TLS.
    pub fn is_over_tls(&self) -> bool {
        self.peer.is_tls
    }

    /// The secret that forms of the console contain.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Checks the secret of a form.
    pub fn check_csrf(&self, given: Option<&str>) -> Result<(), Problem> {
        if !self.csrf.is_empty() && given == Some(&self.csrf) {
            return Ok(());
        }
        let why = "the request does not have the secret of your session; load the page again";
        Err(Problem::new(ProblemKind::Forbidden, why))
    }
}

fn unknown_token() -> Problem {
    unauthenticated("the token is unknown; `lineshaft token list` shows the names")
}

fn unknown_code() -> Problem {
    unauthenticated(
        "this login address was used already, or is more than a minute old; \
         `lineshaft console` makes another",
    )
}

fn no_random_numbers(why: std::io::Error) -> Problem {
    Problem::new(ProblemKind::Unavailable, why.to_string())
}

fn unauthenticated(why: &str) -> Problem {
    Problem::new(ProblemKind::Unauthenticated, why)
}

impl Access {
    /// Recognizes the client of a request. Wrong credentials are a problem.
    fn identify(&self, request: &Request, now: Millis) -> Result<Principal, Problem> {
        let (headers, access) = (request.headers(), self);
        let gate = request.extensions().get::<Gate>().ok_or_else(|| {
            Problem::new(ProblemKind::Forbidden, "this listener has no rules of access")
        })?;
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let known = |credential, (name, role), via, csrf: &Arc<str>| Principal {
            name,
            role,
            via,
            peer: peer.clone(),
            credential: Some(credential),
            session: None,
            csrf: csrf.clone(),
            advice: ADVICE_TOKEN,
        };
        if let Some(header) = headers.get(AUTHORIZATION) {
            let token = bearer(header).ok_or_else(|| {
                unauthenticated("the header `Authorization` must be `Bearer` and a token")
            })?;
            let credential = Credential::Entry(EntryKind::Token, sha256(token.as_bytes()));
            let holder = access.holder(credential).ok_or_else(unknown_token)?;
            return Ok(known(credential, holder, Via::Token, &access.csrf));
        }
        // An old cookie is no mistake of the person, so it counts as no cookie.
        if let Some(secret) = session_secret(headers, &peer)
            && let Some(session) = access.sessions.find(&secret, now)
            && let Some(holder) = access.holder(session.credential)
        {
            let known = known(session.credential, holder, Via::Session, &session.csrf);
            return Ok(Principal { session: Some(session.number), ..known });
        }
        if let Some(fingerprint) = peer.certificate {
            let credential = Credential::Entry(EntryKind::Certificate, fingerprint);
            if let Some(holder) = access.holder(credential) {
                return Ok(known(credential, holder, Via::Certificate, &access.csrf));
            }
        }
        let (role, via, advice) = if peer.is_operator {
            (Role::Admin, Via::Socket, ADVICE_TOKEN)
        } else if peer.is_passed {
            // Whoever has an account on the machine of that node may have none on this one.
            (Role::None, Via::Anonymous, ADVICE_PASSED)
        } else if !gate.reach.is_local() {
            (Role::None, Via::Anonymous, ADVICE_NETWORK)
        } else if PROXY_HEADERS.iter().any(|name| headers.contains_key(*name)) {
            (Role::None, Via::Anonymous, ADVICE_PROXY)
        } else {
            (access.anonymous, Via::Anonymous, ADVICE_TOKEN)
        };
        let is_operator = via == Via::Socket;
        let name = if is_operator { OPERATOR } else { "anonymous" }.into();
        let credential = is_operator.then_some(Credential::Operator);
        let csrf = access.csrf.clone();
        Ok(Principal { name, role, via, peer, credential, session: None, csrf, advice })
    }
}

/// # Who a client is
impl Api {
    /// Recognizes the client of a request. Wrong credentials are a problem.
    pub fn identify(&self, request: &Request) -> Result<Principal, Problem> {
        self.access.identify(request, self.setup.door.now())
    }

    /// Checks that no page of another site sent a request that changes something.
    pub fn check_change(&self, request: &Request, principal: &Principal) -> Result<(), Problem> {
        let claims = claims(request.headers());
        let allowed = match request.extensions().get::<Gate>() {
            // Pages cannot make a browser send a token. So the server's name does not matter.
            Some(gate) if principal.via == Via::Token => gate.may_submit(&claims, false),
            Some(gate) => gate.may_control(&claims, false),
            None => return Err(Problem::new(ProblemKind::Forbidden, "no rules of access")),
        };
        allowed.map_err(|why| Problem::new(ProblemKind::Forbidden, why.to_string()))
    }

    /// Begins a session for the person with this token.
    pub fn sign_in(
        &self,
        request: &Principal,
        headers: &HeaderMap,
        token: &str,
    ) -> Result<SignedIn, Problem> {
        let credential = Credential::Entry(EntryKind::Token, sha256(token.trim().as_bytes()));
        self.access.holder(credential).ok_or_else(unknown_token)?;
        self.admit_sign_in(credential)?;
        self.begin_session(request, headers, credential)?.ok_or_else(unknown_token)
    }

    /// Begins a session for the person with this one-time code.
    pub fn sign_in_by_code(
        &self,
        request: &Principal,
        headers: &HeaderMap,
        code: &str,
    ) -> Result<SignedIn, Problem> {
        let code = self.access.sessions.use_code(code, self.setup.door.now());
        let code = code.ok_or_else(unknown_code)?;
        self.begin_session(request, headers, code.credential)?.ok_or_else(unknown_code)
    }

    /// Checks that this credential, which is valid, does not sign in or make codes too often.
    fn admit_sign_in(&self, credential: Credential) -> Result<(), Problem> {
        if self.access.sessions.admits(credential, self.setup.door.now()) {
            return Ok(());
        }
        let why = "somebody signs in, or makes codes for it, very often with these credentials; \
            try again in a few seconds";
        Err(Problem::new(ProblemKind::TooManySignIns, why))
    }

    /// The name and the role of the person who signs in with this one-time code. The code stays
    /// valid.
    pub fn holder_of_code(&self, code: &str) -> Result<(Arc<str>, Role), Problem> {
        let code = self.access.sessions.look_at_code(code, self.setup.door.now());
        code.and_then(|code| self.access.holder(code.credential)).ok_or_else(unknown_code)
    }

    /// `None`: the credential is not valid any more.
    fn begin_session(
        &self,
        request: &Principal,
        headers: &HeaderMap,
        credential: Credential,
    ) -> Result<Option<SignedIn>, Problem> {
        let Some((name, role)) = self.access.holder(credential) else { return Ok(None) };
        let now = self.setup.door.now();
        let begun = self.access.sessions.begin(credential, request.peer.address, now);
        let secret = begun.map_err(no_random_numbers)?;
        let cookie = cookie(headers, &request.peer, &secret, SESSION_S)?;
        let detail = AuditDetail(format!("signed in as {name} ({})", role.name()));
        Ok(Some(SignedIn { cookie, detail }))
    }

    /// Makes a one-time code, with which a person signs in to the console with the rights of this
    /// client.
    pub(crate) fn make_code(&self, principal: &Principal) -> Result<types::LoginCode, Problem> {
        // A session must not make itself longer.
        let credential = principal.credential.filter(|_| principal.via != Via::Session);
        let credential = credential.ok_or_else(|| {
            unauthenticated(
                "only a client with a token or a certificate, or at the operator's socket, gets a \
                 code",
            )
        })?;
        if !self.setup.has_console {
            let why = "the server has no console: see `http.console`";
            return Err(Problem::new(ProblemKind::NotFound, why));
        }
        self.admit_sign_in(credential)?;
        let made = self.access.sessions.make_code(credential, self.setup.door.now());
        let code = made.map_err(no_random_numbers)?;
        // The code has only letters, digits, `-` and `_`.
        let path = format!("/console/login?code={code}");
        Ok(types::LoginCode { code, path, expires_s: CODE_S })
    }

    /// Ends the session of a request. Returns the value of the header `Set-Cookie`.
    pub fn sign_out(
        &self,
        principal: &Principal,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, Problem> {
        let secret = session_secret(headers, &principal.peer);
        if let Some(secret) = secret.filter(|_| principal.via == Via::Session) {
            self.access.sessions.end(&secret);
        }
        cookie(headers, &principal.peer, "", 0)
    }

    /// Reads the token file now if it changed. Blocks the thread.
    pub fn read_tokens(&self) {
        self.access.tokens.look();
    }

    /// Checks what applies to all endpoints.
    fn admit(&self, request: &Request, principal: &Principal) -> Result<(), Problem> {
        if only_looks(request.method()) {
            // Without this, pages of other sites could make this server read jobs from the disk,
            // although they do not get the answers.
            let allowed = claims(request.headers()).check_no_page(true);
            allowed.map_err(|why| Problem::new(ProblemKind::Forbidden, why.to_string()))?;
        } else {
            self.check_change(request, principal)?;
            // A browser sends a cookie or a certificate by itself.
            let is_of_browser = match principal.via {
                Via::Session => true,
                Via::Certificate => claims(request.headers()).is_from_browser(),
                Via::Anonymous | Via::Token | Via::Socket => false,
            };
            if is_of_browser {
                let given = request.headers().get(CSRF_HEADER);
                principal.check_csrf(given.and_then(|value| value.to_str().ok()))?;
            }
        }
        // Everybody can ask who they are.
        if request.uri().path() != "/me" {
            principal.require(Role::Viewer)?;
        }
        Ok(())
    }
}

/// Lets allowed requests pass, gives problems their body, and records changes.
pub(crate) async fn guard(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    // `Router::nest` has removed the prefix from the path.
    let path = format!("{PREFIX}{}", request.uri().path());
    let asked = Asked::of(&request, &path);
    let (principal, admitted) = match api.identify(&request) {
        Ok(principal) => {
            let admitted = api.admit(&request, &principal);
            (Some(principal), admitted)
        }
        Err(problem) => (None, Err(problem)),
    };
    let pending = api.begin(principal.clone(), asked);
    let mut response = if let Err(problem) = admitted {
        problem.into_response()
    } else {
        if let Some(principal) = principal {
            request.extensions_mut().insert(principal);
        }
        pending.mark(&mut request);
        next.run(request).await
    };
    let problem = response.extensions_mut().remove::<Problem>();
    pending.end(&response, problem.as_ref(), None);
    let Some(problem) = problem else { return response };
    let mut answer = problem.at(&path);
    // Keep headers such as `Allow`.
    answer.headers_mut().extend(std::mem::take(response.headers_mut()));
    answer
}

/// Lets only clients with the role `viewer` see the pages of a router outside of the API.
pub fn only_viewers(api: &Api, router: Router) -> Router {
    router.layer(from_fn_with_state(api.clone(), check_viewer))
}

async fn check_viewer(State(api): State<Api>, request: Request, next: Next) -> Response {
    let checked = api.identify(&request).and_then(|principal| principal.require(Role::Viewer));
    match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.at(request.uri().path()),
    }
}

/// Says who is a viewer at a server that does not serve the API: it starts, or follows another one. So
/// nobody can sign in there.
#[derive(Debug)]
pub struct Viewers(Access);

impl Viewers {
    /// Reads the token file. Blocks the thread.
    pub fn new(settings: AccessSettings) -> Viewers {
        Viewers(Access::new(settings))
    }

    /// The answer to a client without the role `viewer`. `None`: the client has it. Must be called in a
    /// runtime.
    pub fn refusal(&self, request: &Request) -> Option<Response> {
        self.0.tokens.look_soon();
        let checked = self.0.identify(request, Millis(0));
        let checked = checked.and_then(|principal| principal.require(Role::Viewer));
        checked.err().map(|problem| problem.at(request.uri().path()))
    }
}

/// The token of a header `Authorization`.
fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The name of the session's cookie. Browsers send a cookie to all ports of a host, so each port
/// has its own name.
///
/// With TLS, the prefix makes browsers refuse such a cookie from a page without TLS, and from other
/// hosts of the same domain. Without TLS, browsers accept no cookie with this prefix.
fn cookie_name(headers: &HeaderMap, peer: &Peer) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = if peer.is_tls { "__Host-" } else { "" };
    format!("{prefix}lineshaft-{}", if is_port { port } else { "0" })
}

/// The secret in the session's cookie.
fn session_secret(headers: &HeaderMap, peer: &Peer) -> Option<String> {
    let name = cookie_name(headers, peer);
    let all = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, secret)| secret.to_owned())
}

fn cookie(
    headers: &HeaderMap,
    peer: &Peer,
    secret: &str,
    seconds: u64,
) -> Result<HeaderValue, Problem> {
    let secure = if peer.is_tls { "; Secure" } else { "" };
    let name = cookie_name(headers, peer);
    let text =
        format!("{name}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    let value = HeaderValue::try_from(text);
    value.map_err(|_| Problem::new(ProblemKind::BadRequest, "the header `Host` is not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn cookies_of_other_ports_are_ignored() {
        let both = "lineshaft-7300=a; other=b; lineshaft-7301=c";
        let plain = Peer::default();
        let secret = |host| session_secret(&headers(&[("host", host), ("cookie", both)]), &plain);
        assert_eq!(secret("localhost:7301").as_deref(), Some("c"));
        assert_eq!(secret("[::1]:7300").as_deref(), Some("a"));
        assert_eq!(secret("localhost"), None);
        assert_eq!(secret("localhost:7302"), None);
    }

    #[test]
    fn a_session_over_tls_has_a_cookie_that_other_hosts_cannot_set() {
        let tls = Peer { is_tls: true, ..Peer::default() };
        let host = ("host", "queue.example:7300");
        let made = cookie(&headers(&[host]), &tls, "s", 60).unwrap();
        let made = made.to_str().unwrap();
        assert!(made.starts_with("__Host-lineshaft-7300=s; "), "{made}");
        // Browsers require these attributes for the prefix.
        assert!(made.contains("; Path=/;") && made.ends_with("; Secure"), "{made}");
        let secret = |cookie| session_secret(&headers(&[host, ("cookie", cookie)]), &tls);
        assert_eq!(secret("lineshaft-7300=a; __Host-lineshaft-7300=b").as_deref(), Some("b"));
        assert_eq!(secret("lineshaft-7300=a"), None);
    }

    #[test]
    fn only_bearer_tokens_are_read() {
        let token = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(str::to_owned);
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("Bearer"), None);
    }
}
