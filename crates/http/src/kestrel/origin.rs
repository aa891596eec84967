//! Whether a request comes from whoever can mean it, and not from a page of somebody else that a browser shows.
//!
//! Browsers say so in several ways, and none of them says it always: `Sec-Fetch-Site` comes to secure addresses and
//! to this machine's own only, `Origin` comes with posts, and `Referer` as a page wants it. A page may also give its
//! own name the address of this server; then the browser takes the two for one site, and only the name tells that
//! it is not ours. Scripts and people send none of these, and name an address of the machine.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER};
use hyper::http::uri::Authority;

/// Whether no other site can have led somebody here. `own_name` is the name of the machine.
pub(crate) fn is_from_here(headers: &HeaderMap, own_name: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let host = headers.get(HOST).map(HeaderValue::to_str);
    let is_name_ours = match host {
        None => true,
        Some(Ok(host)) => is_ours(host, own_name),
        Some(Err(_)) => false,
    };
    let host = host.and_then(Result::ok);
    matches!(site, None | Some(b"none" | b"same-origin"))
        && is_name_ours
        && is_absent_or_of(headers, &ORIGIN, host)
        && is_absent_or_of(headers, &REFERER, host)
}

/// Whether nobody but us can have a name that stands for this machine.
fn is_ours(host: &str, own_name: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.parse::<IpAddr>().is_ok()
        || bracketed.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
        || name.eq_ignore_ascii_case("localhost")
        || name.eq_ignore_ascii_case(own_name)
}

/// Whether a header that has the address of a page is not there, or the page is one of this host.
fn is_absent_or_of(headers: &HeaderMap, name: &HeaderName, host: Option<&str>) -> bool {
    let Some(address) = headers.get(name) else { return true };
    let address = address.to_str().unwrap_or_default();
    let rest = address.split_once("://").map(|(_, rest)| rest);
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accepted(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        is_from_here(&headers.collect(), "machine.example")
    }

    #[test]
    fn scripts_and_people_are_let_through() {
        assert!(is_accepted(&[]));
        for host in [
            "127.0.0.1:2223",
            "192.0.2.7",
            "[::1]:2223",
            "localhost:2223",
            "LOCALHOST",
            "Machine.Example:2223",
        ] {
            assert!(is_accepted(&[("host", host)]), "{host}");
        }
        let host = ("host", "127.0.0.1:2223");
        assert!(is_accepted(&[host, ("sec-fetch-site", "none")]));
        let page = ("referer", "http://127.0.0.1:2223/?a=b");
        let origin = ("origin", "http://127.0.0.1:2223");
        assert!(is_accepted(&[host, page, origin, ("sec-fetch-site", "same-origin")]));
    }

    #[test]
    fn a_page_of_another_site_is_not() {
        let host = ("host", "127.0.0.1:2223");
        for foreign in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:8080"),
            ("referer", "http://evil.example/127.0.0.1:2223"),
            ("referer", "http://127.0.0.1:2223.evil.example/"),
            ("referer", "http://127.0.0.1:2223@evil.example/"),
            ("referer", "nonsense"),
        ] {
            assert!(!is_accepted(&[host, foreign]), "{foreign:?}");
        }
        assert!(!is_accepted(&[("referer", "http://evil.example/")]));
    }

    #[test]
    fn a_name_that_anybody_can_have_is_not() {
        for host in
            ["evil.example:2223", "machine.example.evil.example", "127.0.0.1.evil.example", ""]
        {
            assert!(!is_accepted(&[("host", host)]), "{host}");
            assert!(!is_accepted(&[("host", host), ("sec-fetch-site", "same-origin")]), "{host}");
        }
    }
}
