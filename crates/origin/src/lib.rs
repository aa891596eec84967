//! Decides whether an HTTP request may come from a web page of another site. Such a page can make
//! the browser of its reader send requests. It must not control a server that the reader can reach.
//!
//! Browsers report the page in three headers, but each header can be missing:
//!
//! - `Sec-Fetch-Site`: browsers send it only to secure addresses and to their own machine.
//! - `Origin`: browsers omit it for GET and HEAD.
//! - `Referer`: the page decides whether the browser sends it.
//!
//! Scripts and tools send none of these headers. An attacker can also let the host name of a page
//! resolve to this server's address (DNS rebinding). Then the browser treats the page and the
//! server as one site. Only the `Host` header shows the attacker's name, which is not a name of
//! this server.
//!
//! These rules apply to every protocol over HTTP. They do not depend on an HTTP parser.

mod names;

use std::sync::Arc;

pub use names::Names;

/// The headers that show where a request comes from.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Claims<'a> {
    host: Option<&'a [u8]>,
    site: Option<&'a [u8]>,
    origin: Option<&'a [u8]>,
    referer: Option<&'a [u8]>,
    /// Whether the `User-Agent` header names a browser. For historical reasons, all browsers begin
    /// it with `Mozilla/`.
    is_browser: bool,
}

impl<'a> Claims<'a> {
    /// Reads the relevant headers. Their names can be in any case. If a header is repeated, the
    /// last one counts.
    pub fn of<N: AsRef<str>>(headers: impl IntoIterator<Item = (N, &'a [u8])>) -> Claims<'a> {
        let mut claims = Claims::default();
        for (name, value) in headers {
            let is = |wanted: &str| name.as_ref().eq_ignore_ascii_case(wanted);
            if is("host") {
                claims.host = Some(value);
            } else if is("sec-fetch-site") {
                claims.site = Some(value);
            } else if is("origin") {
                claims.origin = Some(value);
            } else if is("referer") {
                claims.referer = Some(value);
            } else if is("user-agent") {
                claims.is_browser = value.starts_with(b"Mozilla/");
            }
        }
        claims
    }

    /// Whether the browser reports that a page of this server sent the request.
    pub fn is_same_origin(&self) -> bool {
        self.site == Some(b"same-origin") && self.is_unsuspicious()
    }

    /// True if no header shows that a page of another site sent the request.
    pub fn is_unsuspicious(&self) -> bool {
        matches!(self.site, None | Some(b"none" | b"same-origin"))
            && self.is_absent_or_ours(self.origin)
            && self.is_absent_or_ours(self.referer)
    }

    /// Returns an error if a page of another site may have sent the request. A page can make a
    /// browser send a GET without any of the three headers, so such a GET is an error. But a page
    /// cannot forge headers that report this server as the origin.
    pub fn check_no_page(&self, is_get: bool) -> Result<(), Rejection> {
        let is_silent = self.site.is_none() && self.origin.is_none() && self.referer.is_none();
        if !self.is_unsuspicious() {
            Err(Rejection::CrossSite)
        } else if is_get && self.is_browser && is_silent {
            Err(Rejection::BrowserGet)
        } else {
            Ok(())
        }
    }

    /// True if `page` is missing, or its address has the same host and port as the `Host` header.
    fn is_absent_or_ours(&self, page: Option<&[u8]>) -> bool {
        let Some(page) = page else { return true };
        let authority = std::str::from_utf8(page).ok().and_then(|page| {
            let (_, rest) = page.split_once("://")?;
            rest.split(['/', '?', '#']).next()
        });
        authority
            .zip(self.host)
            .is_some_and(|(authority, host)| authority.as_bytes().eq_ignore_ascii_case(host))
    }

    /// Whether the request has a header that only browsers send.
    pub fn is_from_browser(&self) -> bool {
        self.is_browser || self.site.is_some() || self.origin.is_some() || self.referer.is_some()
    }
}

/// Which clients can reach a listener.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Reach {
    /// Clients on this machine, over TCP.
    Loopback,
    /// Clients on this machine, over a unix socket. Browsers cannot use it.
    Unix,
    /// Clients on other machines, too.
    Network,
}

impl Reach {
    /// Whether only clients on this machine can reach the listener.
    pub fn is_local(self) -> bool {
        match self {
            Reach::Loopback | Reach::Unix => true,
            Reach::Network => false,
        }
    }
}

/// Why a request is refused.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Rejection {
    /// The `Host` header is not a name of this server.
    UnknownHost,
    /// A page of another site made a browser send the request.
    CrossSite,
    /// A browser sent a GET. A page of another site can cause such a GET, and no header shows the
    /// page.
    BrowserGet,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Rejection::UnknownHost => {
                "unknown host name; use the server's IP address, or list the name in http.hosts"
            }
            Rejection::CrossSite => "a page of another site cannot do this",
            Rejection::BrowserGet => "a browser must use POST",
        })
    }
}

/// Decides which requests are allowed at one listener.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The server's names.
    pub names: Arc<Names>,
    /// Which clients can reach the listener.
    pub reach: Reach,
}

impl Gate {
    /// Whether the client may read. The `Host` header must be a name of the server, with one
    /// exception. At listeners other than loopback, programs other than browsers may use any name,
    /// because the server cannot find out all of its names. If the operator has listed names, there
    /// is no exception. Browsers are no exception, because another name can belong to a page of an
    /// attacker.
    pub fn may_read(&self, claims: &Claims<'_>) -> Result<(), Rejection> {
        let any_name = match self.reach {
            Reach::Loopback => false,
            Reach::Unix | Reach::Network => !self.names.are_required() && !claims.is_from_browser(),
        };
        if any_name { Ok(()) } else { self.check_name(claims) }
    }

    /// Whether the client may submit a job. The `Host` header must pass the check of `may_read`.
    pub fn may_submit(&self, claims: &Claims<'_>, is_get: bool) -> Result<(), Rejection> {
        self.may_read(claims)?;
        check_site(claims, is_get)
    }

    /// Whether the client may control the server, for example stop it.
    pub fn may_control(&self, claims: &Claims<'_>, is_get: bool) -> Result<(), Rejection> {
        self.check_name(claims)?;
        check_site(claims, is_get)
    }

    fn check_name(&self, claims: &Claims<'_>) -> Result<(), Rejection> {
        let is_ours = claims.host.is_none_or(|host| self.names.contain(host));
        if is_ours { Ok(()) } else { Err(Rejection::UnknownHost) }
    }
}

fn check_site(claims: &Claims<'_>, is_get: bool) -> Result<(), Rejection> {
    if !claims.is_unsuspicious() {
        Err(Rejection::CrossSite)
    } else if is_get && claims.is_browser {
        Err(Rejection::BrowserGet)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: (&str, &str) = ("Host", "127.0.0.1:2223");
    const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)");
    const REACHES: [Reach; 3] = [Reach::Loopback, Reach::Unix, Reach::Network];

    fn gate(reach: Reach, listed: &[&str]) -> Gate {
        let listed = listed.iter().map(|name| (*name).to_owned()).collect();
        Gate { names: Arc::new(Names::new(["machine.example".to_owned()], listed)), reach }
    }

    fn claims<'a>(headers: &[(&'a str, &'a str)]) -> Claims<'a> {
        Claims::of(headers.iter().map(|(name, value)| (*name, value.as_bytes())))
    }

    #[test]
    fn scripts_and_people_are_let_through() {
        for reach in REACHES {
            let gate = gate(reach, &[]);
            for headers in [
                &[][..],
                &[HOST],
                &[HOST, ("User-Agent", "curl/8.0")],
                &[HOST, ("sec-fetch-site", "none")],
                &[
                    HOST,
                    ("Referer", "http://127.0.0.1:2223/?a=b"),
                    ("Origin", "http://127.0.0.1:2223"),
                    ("Sec-Fetch-Site", "same-origin"),
                ],
            ] {
                let claims = claims(headers);
                assert_eq!(claims.check_no_page(true), Ok(()));
                assert_eq!(gate.may_read(&claims), Ok(()));
                for is_get in [true, false] {
                    assert_eq!(gate.may_submit(&claims, is_get), Ok(()), "{claims:?}");
                    assert_eq!(gate.may_control(&claims, is_get), Ok(()), "{claims:?}");
                }
            }
        }
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        for foreign in [
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
            ("Origin", "http://evil.example"),
            ("Origin", "null"),
            ("Origin", "http://127.0.0.1:8080"),
            ("Referer", "http://evil.example/127.0.0.1:2223"),
            ("Referer", "http://127.0.0.1:2223.evil.example/"),
            ("Referer", "http://127.0.0.1:2223@evil.example/"),
            ("Referer", "nonsense"),
        ] {
            let with_host = claims(&[HOST, foreign]);
            assert!(!with_host.is_same_origin());
            assert_eq!(with_host.check_no_page(false), Err(Rejection::CrossSite), "{foreign:?}");
            for (reach, claims) in REACHES
                .into_iter()
                .flat_map(|reach| [(reach, with_host), (reach, claims(&[foreign]))])
            {
                let gate = gate(reach, &[]);
                assert_eq!(
                    gate.may_submit(&claims, false),
                    Err(Rejection::CrossSite),
                    "{foreign:?}"
                );
                assert_eq!(
                    gate.may_control(&claims, false),
                    Err(Rejection::CrossSite),
                    "{foreign:?}"
                );
            }
        }
        // A page can make a browser fetch a picture so that only the `User-Agent` header shows the
        // browser.
        let picture = claims(&[HOST, BROWSER]);
        assert_eq!(picture.check_no_page(true), Err(Rejection::BrowserGet));
        assert_eq!(picture.check_no_page(false), Ok(()));
        for ours in [
            ("Sec-Fetch-Site", "none"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Origin", "http://127.0.0.1:2223"),
            ("Referer", "http://127.0.0.1:2223/"),
        ] {
            assert_eq!(claims(&[HOST, BROWSER, ours]).check_no_page(true), Ok(()), "{ours:?}");
        }
        for reach in REACHES {
            assert_eq!(gate(reach, &[]).may_control(&picture, true), Err(Rejection::BrowserGet));
            assert_eq!(gate(reach, &[]).may_submit(&picture, true), Err(Rejection::BrowserGet));
            assert_eq!(gate(reach, &[]).may_submit(&picture, false), Ok(()));
        }
    }

    #[test]
    fn a_page_whose_name_stands_for_this_machine_is_not_served() {
        let origin = ("Origin", "http://evil.example:2223");
        let rebound = claims(&[("Host", "evil.example:2223"), BROWSER, origin]);
        let plain = claims(&[("Host", "evil.example:2223")]);
        for reach in REACHES {
            let gate = gate(reach, &[]);
            assert_eq!(gate.may_control(&plain, false), Err(Rejection::UnknownHost));
            assert_eq!(gate.may_submit(&rebound, false), Err(Rejection::UnknownHost));
            // One header of a browser is enough for the rejection.
            let same_origin = ("Sec-Fetch-Site", "same-origin");
            for mark in [BROWSER, origin, ("Referer", "http://evil.example:2223/"), same_origin] {
                let marked = claims(&[("Host", "evil.example:2223"), mark]);
                assert_eq!(
                    gate.may_read(&marked),
                    Err(Rejection::UnknownHost),
                    "{reach:?} {mark:?}"
                );
            }
            // A program in a cluster uses the name of a service.
            let may_read = gate.may_read(&plain);
            assert_eq!(may_read.is_err(), reach == Reach::Loopback, "{reach:?}");
            assert_eq!(gate.may_submit(&plain, true), may_read);
        }
        for reach in REACHES {
            let Gate { names, .. } = gate(reach, &[]);
            let gate = Gate { names: Arc::new(Names::clone(&names).required()), reach };
            assert_eq!(gate.may_read(&plain), Err(Rejection::UnknownHost), "{reach:?}");
            assert_eq!(gate.may_read(&claims(&[("Host", "machine.example")])), Ok(()));
        }
        for reach in REACHES {
            let gate = gate(reach, &["jobs.example"]);
            assert_eq!(gate.may_read(&plain), Err(Rejection::UnknownHost));
            let listed = claims(&[("Host", "Jobs.example:7300")]);
            assert_eq!(gate.may_read(&listed), Ok(()));
            assert_eq!(gate.may_control(&listed, false), Ok(()));
        }
    }
}
