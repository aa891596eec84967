//! Whether an HTTP request comes from a client that means it, or from a page of another site that a browser
//! shows.
//!
//! Browsers tell in several ways, and none of them always: `Sec-Fetch-Site` is sent to this machine's own addresses
//! and to secure ones only, `Origin` with everything but GET and HEAD, and `Referer` as the page wants it. A page
//! may also give its own name the address of this server (DNS rebinding). The browser takes the two for one site
//! then, and only the name in `Host` tells that it is not ours. Scripts and tools send none of the first three.
//!
//! The rules are the same for every protocol over HTTP, whichever parser reads it.

mod names;

use std::sync::Arc;

pub use names::Names;

/// What a request says about where it comes from.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Claims<'a> {
    host: Option<&'a [u8]>,
    site: Option<&'a [u8]>,
    origin: Option<&'a [u8]>,
    referer: Option<&'a [u8]>,
    /// The name of the program is that of a browser. All browsers begin it alike, for historical reasons.
    is_browser: bool,
}

impl<'a> Claims<'a> {
    /// Reads the headers that matter; their names may be in any case. Of those that come twice the last one counts.
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

    /// Whether the browser says that a page of this very server asks.
    pub fn is_same_origin(&self) -> bool {
        self.site == Some(b"same-origin") && self.is_unsuspicious()
    }

    /// Whether no header says that a page of another site asks.
    pub fn is_unsuspicious(&self) -> bool {
        matches!(self.site, None | Some(b"none" | b"same-origin"))
            && self.is_absent_or_ours(self.origin)
            && self.is_absent_or_ours(self.referer)
    }

    /// Whether no page of another site can be behind it. A page can have a browser send a GET without any header that
    /// says so, but the headers that say the opposite are not in its hands.
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

    /// Whether an address of a page is not there, or has the name by which we are called.
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

    /// Whether it has a mark that only browsers leave.
    fn is_from_browser(&self) -> bool {
        self.is_browser || self.site.is_some() || self.origin.is_some() || self.referer.is_some()
    }
}

/// From where a listener can be reached.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Reach {
    /// From this machine, by TCP.
    Loopback,
    /// From this machine, by a unix socket: by no browser.
    Unix,
    /// From others, too.
    Network,
}

impl Reach {
    /// Whether only this machine can reach it.
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
    /// The server is called by a name that it does not have.
    UnknownHost,
    /// A page of another site has led a browser here.
    CrossSite,
    /// A browser asks by GET, which a page can have it do without leaving a mark.
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

/// Who may do what at one listener.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The server's names.
    pub names: Arc<Names>,
    /// From where the listener can be reached.
    pub reach: Reach,
}

impl Gate {
    /// Whether the client may look at something. Where only this machine can connect, it calls the server by one of
    /// its names. Elsewhere monitoring may call it by any name, unless names are listed: it need not know all of them.
    /// A browser never may, because the name may be that of a page.
    pub fn may_read(&self, claims: &Claims<'_>) -> Result<(), Rejection> {
        let any_name = match self.reach {
            Reach::Loopback => false,
            Reach::Unix | Reach::Network => !self.names.are_listed() && !claims.is_from_browser(),
        };
        if any_name { Ok(()) } else { self.check_name(claims) }
    }

    /// Whether the client may submit a job. It may call the server by the names by which it may look.
    pub fn may_submit(&self, claims: &Claims<'_>, is_get: bool) -> Result<(), Rejection> {
        self.may_read(claims)?;
        check_site(claims, is_get)
    }

    /// Whether the client may order the server about.
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
        // A page can have a picture fetched without a mark but this one.
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
            // One mark of a browser is enough.
            let same_origin = ("Sec-Fetch-Site", "same-origin");
            for mark in [BROWSER, origin, ("Referer", "http://evil.example:2223/"), same_origin] {
                let marked = claims(&[("Host", "evil.example:2223"), mark]);
                assert_eq!(
                    gate.may_read(&marked),
                    Err(Rejection::UnknownHost),
                    "{reach:?} {mark:?}"
                );
            }
            // A program in a cluster calls the server by the name of a service.
            let may_read = gate.may_read(&plain);
            assert_eq!(may_read.is_err(), reach == Reach::Loopback, "{reach:?}");
            assert_eq!(gate.may_submit(&plain, true), may_read);
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
