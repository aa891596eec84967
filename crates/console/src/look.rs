//! How a person wants to see the pages: the language and the colors. Both are in cookies, so that
//! they work without a script. Without a choice, the browser's preferences decide.

use axum::extract::{FromRequestParts, Request};
use axum::response::Response;
use hyper::HeaderMap;
use hyper::header::{ACCEPT_LANGUAGE, COOKIE, HeaderValue, SET_COOKIE};
use hyper::http::request::Parts;

use crate::guard::Form;
use crate::page::{Failed, Result, see_other};
use crate::pages::login::own_page;
use crate::texts::{self, Texts};

/// The names of the cookies.
const LANGUAGE: &str = "lineshaft-language";
const COLORS: &str = "lineshaft-colors";
/// The choices of colors. The first one means that the browser decides.
pub(crate) const ALL_COLORS: [&str; 3] = ["auto", "light", "dark"];
/// How long a browser keeps a choice, in seconds: a year.
const KEPT_S: u32 = 31_536_000;

/// How a person wants to see the pages.
#[derive(Copy, Clone)]
pub(crate) struct Look {
    pub(crate) texts: &'static Texts,
    /// One of [`ALL_COLORS`].
    pub(crate) colors: &'static str,
}

impl Look {
    pub(crate) fn of(request: &Request) -> Look {
        let headers = request.headers();
        let chosen = cookie(headers, LANGUAGE).and_then(|tag| language(&tag));
        let colors = cookie(headers, COLORS).and_then(|name| known_colors(&name));
        Look {
            texts: chosen.unwrap_or_else(|| preferred(headers)),
            colors: colors.unwrap_or(ALL_COLORS[0]),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for &'static Texts {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<&'static Texts> {
        // The guard has put it there.
        Ok(parts.extensions.get::<Look>().map_or(texts::ALL[0], |look| look.texts))
    }
}

fn known_colors(name: &str) -> Option<&'static str> {
    ALL_COLORS.into_iter().find(|known| *known == name)
}

/// The texts for a tag such as `zh-TW`. Only the language before the `-` counts.
fn language(tag: &str) -> Option<&'static Texts> {
    let primary = |tag: &str| tag.split('-').next().unwrap_or_default().to_ascii_lowercase();
    texts::ALL.into_iter().find(|known| primary(known.tag) == primary(tag))
}

/// The language that the browser prefers.
fn preferred(headers: &HeaderMap) -> &'static Texts {
    let wanted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    let mut best: Option<(f32, &'static Texts)> = None;
    for choice in wanted.unwrap_or_default().split(',') {
        let (tag, weight) = choice.split_once(";q=").unwrap_or((choice, "1"));
        let weight: f32 = weight.trim().parse().unwrap_or(0.0);
        // Of equal choices, the first one counts.
        if let Some(found) = language(tag.trim())
            && weight > best.map_or(0.0, |(weight, _)| weight)
        {
            best = Some((weight, found));
        }
    }
    best.map_or(texts::ALL[0], |(_, texts)| texts)
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// Keeps a choice, and shows the page again.
pub(crate) async fn choose(form: Form) -> Response {
    let mut response = see_other(&own_page(form.get("next")));
    let language = form.get("language").and_then(language).map(|texts| (LANGUAGE, texts.tag));
    let colors = form.get("colors").and_then(known_colors).map(|colors| (COLORS, colors));
    for (name, value) in [language, colors].into_iter().flatten() {
        let cookie = format!(
            "{name}={value}; HttpOnly; SameSite=Lax; Path={}; Max-Age={KEPT_S}",
            crate::PREFIX
        );
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(accepted: &'static str) -> &'static str {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(accepted));
        preferred(&headers).tag
    }

    #[test]
    fn the_browser_decides_about_the_language() {
        for (accepted, wanted) in [
            ("", "en"),
            ("de", "en"),
            ("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"),
            ("ZH", "zh-CN"),
            ("zh-TW", "zh-CN"),
            ("de, en;q=0.7, zh;q=0.9", "zh-CN"),
            ("en-GB, zh", "en"),
            ("zh;q=0, *", "en"),
            ("zhx", "en"),
        ] {
            assert_eq!(tag(accepted), wanted, "{accepted}");
        }
    }
}
