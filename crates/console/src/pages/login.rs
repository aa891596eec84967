//! Signing in with a token or a one-time code, and signing out.

use api::types::{Role, Via};
use api::{Api, Principal, Problem};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use hyper::header::SET_COOKIE;
use hyper::{HeaderMap, StatusCode, Uri};
use maud::html;

use crate::guard::Form;
use crate::look::Look;
use crate::page::{Result, bare, see_other};

/// The form for signing in. `next` is the page after it, and `problem` says why the form is shown.
pub(crate) fn form(
    look: Look,
    principal: &Principal,
    next: &str,
    problem: Option<&Problem>,
) -> Response {
    let (t, frame) = (&look.texts.login, &look.texts.frame);
    let status = problem.map_or(StatusCode::OK, |_| StatusCode::UNAUTHORIZED);
    let contents = html! {
        h1 { (frame.sign_in) }
        @if let Some(problem) = problem { p .remark { (problem.detail) } }
        form .sign-in method="post" action={ (crate::PREFIX) "/login" } {
            input type="hidden" name="csrf" value=(principal.csrf());
            input type="hidden" name="next" value=(next);
            label for="token" { (t.token) }
            input #token type="password" name="token" required autocomplete="current-password";
            button { (frame.sign_in) }
        }
        p .remark {
            (t.how) " "
            code { "lineshaft token add NAME --role operator" }
        }
        @if principal.via == Via::Anonymous && principal.require(Role::Viewer).is_ok() {
            p { a href=(crate::PREFIX) { (t.without) } }
        }
    };
    bare(status, look, frame.sign_in, &contents)
}

pub(crate) async fn page(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Extension(look): Extension<Look>,
    uri: Uri,
) -> Response {
    let query = uri.query().unwrap_or_default();
    let parameter = |name: &str| {
        let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.into_owned())
    };
    let next = own_page(parameter("next").as_deref());
    match parameter("code") {
        None => form(look, &principal, &next, None),
        Some(code) => match api.holder_of_code(&code) {
            Ok((name, role)) => code_form(look, &principal, &code, &name, role),
            Err(problem) => form(look, &principal, &next, Some(&problem)),
        },
    }
}

/// The form for signing in with a one-time code. Only its button signs in: a page that somebody only
/// opens changes nothing.
fn code_form(look: Look, principal: &Principal, code: &str, name: &str, role: Role) -> Response {
    let (t, frame) = (&look.texts.login, &look.texts.frame);
    let contents = html! {
        h1 { (frame.sign_in) }
        p { ((t.by_code)(name, role.name())) }
        form .sign-in method="post" action={ (crate::PREFIX) "/login" } {
            input type="hidden" name="csrf" value=(principal.csrf());
            input type="hidden" name="code" value=(code);
            button autofocus { (frame.sign_in) }
        }
    };
    bare(StatusCode::OK, look, frame.sign_in, &contents)
}

pub(crate) async fn sign_in(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    form: Form,
    headers: HeaderMap,
) -> Result<Response> {
    let session = match form.get("code") {
        Some(code) => api.sign_in_by_code(&principal, &headers, code)?,
        None => api.sign_in(&principal, &headers, form.get("token").unwrap_or_default())?,
    };
    let mut response = see_other(&own_page(form.get("next")));
    session.add_to(&mut response);
    Ok(response)
}

pub(crate) async fn sign_out(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> Result<Response> {
    let cookie = api.sign_out(&principal, &headers)?;
    let mut response = see_other(&format!("{}/signed-out", crate::PREFIX));
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

pub(crate) async fn signed_out(Extension(look): Extension<Look>) -> Response {
    let t = look.texts;
    let contents = html! {
        h1 { (t.login.signed_out) }
        p { a href={ (crate::PREFIX) "/login" } { (t.login.again) } }
        p { a href=(crate::PREFIX) { (t.frame.to_overview) } }
    };
    bare(StatusCode::OK, look, t.login.signed_out, &contents)
}

/// The page after signing in. It is a page of the console, not of another site.
pub(crate) fn own_page(next: Option<&str>) -> String {
    let is_own = |next: &&str| {
        let rest = next.strip_prefix(crate::PREFIX);
        let is_path = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        is_path && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    next.filter(is_own).unwrap_or(crate::PREFIX).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_console_follow_a_sign_in() {
        for next in ["/console", "/console/queues?search=a", "/console?a=b"] {
            assert_eq!(own_page(Some(next)), next);
        }
        for next in [
            "",
            "/",
            "//evil.example",
            "/console.evil",
            "/consoles",
            "/console/\\x",
            "/console/a\r\nb",
        ] {
            assert_eq!(own_page(Some(next)), "/console", "{next:?}");
        }
        assert_eq!(own_page(None), "/console");
    }
}
