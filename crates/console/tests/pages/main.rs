//! Renders all pages over a broker in memory, with hostile names and bodies.

mod history;
mod redrive;
mod reload;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::tokens::{Entry, EntryKind, TokenFile};
use api::types::Role;
use axum::body::Body;
use broker::policy::{Rule, Rules, Setting};
use http_api::Peer;
use hyper::Request;
use origin::{Gate, Names, Reach};

use world::{NOW, Shown, World, csrf};

/// The pages of a server with a queue and a job.
fn pages(queue: &str, id: u64) -> Vec<String> {
    let paths = [
        "",
        "?span=30d",
        "/connections",
        "/queues",
        "/queues?search=s&state=nonempty&sort=-ready",
        "/log",
        "/cluster",
        "/policies",
        "/operations",
    ];
    let mut paths: Vec<String> = paths.map(str::to_owned).to_vec();
    paths.push(format!("/policies?name={queue}"));
    paths.push(format!("/queues/{queue}"));
    paths.push(format!("/queues/{queue}?state=buried"));
    paths.push(format!("/jobs/{id}"));
    paths.push("/help".to_owned());
    paths
}

const HOSTILE: &[u8] = b"<script>alert(1)</script>\"'&";
const HOSTILE_PATH: &str = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26";

#[test]
fn no_page_contains_what_a_client_wrote_as_html() {
    let world = World::new();
    let id = world.put(HOSTILE, HOSTILE);
    let rules = Rules(vec![Rule::new(["*"], [Setting::Retries(true), Setting::RetryLimit(0)])]);
    let _ = world.broker.turn(NOW).set_policies(rules);
    world.fail(HOSTILE, HOSTILE);
    let languages = ["en", "zh-CN"]
        .map(|language| pages(HOSTILE_PATH, id).into_iter().map(move |path| (language, path)));
    for (language, path) in languages.into_iter().flatten() {
        let shown = world.show_in(language, &path);
        assert_eq!(shown.status, 200, "{path}: {}", shown.text);
        assert!(shown.text.contains(&format!("<html lang=\"{language}\"")), "{path}");
        assert!(!shown.text.contains("<script>alert"), "{path}");
        assert!(!shown.text.contains("style="), "{path} has no styles of its own");
        assert!(!shown.text.contains(" onclick"), "{path}");
        assert!(shown.text.len() < 60_000, "{path} has {} bytes", shown.text.len());
    }
    let queue = world.show(&format!("/queues/{HOSTILE_PATH}")).text;
    assert!(queue.contains("&lt;script&gt;alert(1)"), "the name is shown: {queue}");
    assert!(world.show(&format!("/jobs/{id}")).text.contains("reported a failure"));
}

#[test]
fn a_cluster_has_a_page_in_the_navigation() {
    use api::types::{Cluster, ClusterCheck, ClusterNode, ClusterRole, NatsServer, NodeState};
    let link = "href=\"/console/cluster\"";
    let alone = World::new().show("/cluster").text;
    assert!(alone.contains("This server is alone") && !alone.contains(link), "{alone}");
    let node = |name: &str, state, silent_ms| ClusterNode {
        name: name.to_owned(),
        number: "000000000000000a".to_owned(),
        state,
        address: "10.0.0.1:7301".to_owned(),
        version: "1.2.3".to_owned(),
        epoch: 3,
        group: 1234,
        durable_group: 1230,
        lag_groups: 4,
        lag_ms: 0,
        jobs: 9,
        silent_ms,
        problem: None,
    };
    let nodes = vec![node("one", NodeState::Leads, 0), node("<two>", NodeState::Silent, 90_000)];
    let problem = "NATS server n1 acknowledges records before they are on disk";
    let server = NatsServer {
        name: "n1".to_owned(),
        answers: true,
        version: Some("2.15.1".to_owned()),
        flushes: Some(false),
        has_replica: Some(true),
        problem: None,
    };
    let check = ClusterCheck { safe: false, age_ms: 10, problems: vec![problem.to_owned()] };
    let cluster = Cluster {
        role: ClusterRole::Leader,
        name: "jobs".to_owned(),
        leader: "one".to_owned(),
        nodes,
        nats: vec![server],
        check: Some(check),
        ..Cluster::default()
    };
    let shown = Box::new(move || cluster.clone());
    let world =
        World::of(api::AccessSettings::default(), api::BodySettings::default(), Some(shown));
    let page = world.show("/cluster").text;
    for text in
        [link, problem, "not safe: no node", "1,234", "Node &lt;two&gt; has been silent for"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    let chinese = world.show_in("zh-CN", "/cluster").text;
    assert!(chinese.contains("没有消息") && !chinese.contains("<two>"), "{chinese}");
    assert!(world.show("").text.contains(link), "all pages have the link");
}

#[test]
fn pages_tell_browsers_what_they_may_do() {
    let world = World::new();
    let shown = world.show("");
    let header = |name: &str| shown.headers[name].to_str().expect("text").to_owned();
    assert!(header("content-security-policy").contains("script-src 'self'"));
    assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("referrer-policy"), "same-origin");
}

#[test]
fn clients_of_other_machines_must_sign_in() {
    let world = World::new();
    assert_eq!(world.ask("GET", "", Reach::Unix).status, 200);
    for path in ["", "/queues", "/help", "/nosuch"] {
        let refused = world.ask("GET", path, Reach::Network);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.text.contains("ssh -L") && refused.text.contains("name=\"token\""));
        assert!(!refused.text.contains("machine</"), "the page says nothing about the server");
    }
    assert_eq!(world.ask("GET", "/login", Reach::Network).status, 200);
    assert_eq!(world.ask("GET", "/assets/console.css", Reach::Network).status, 200);
}

#[test]
fn a_person_signs_in_with_a_token_and_out_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let (token, fingerprint) = api::tokens::new_token().expect("random numbers");
    let entry = |name: &str, fingerprint| Entry {
        kind: EntryKind::Token,
        name: name.to_owned(),
        role: Role::Viewer,
        fingerprint,
        created: None,
    };
    let file = TokenFile { entries: vec![entry("ann", fingerprint)] };
    std::fs::write(&path, file.written()).expect("the disk works");
    let world = World::with_tokens(Some(path.clone()));
    let login = world.show_to("", "/login?next=/console/queues", Reach::Network);
    let secret = csrf(&login);
    let fields = |token: &str, csrf: &str| {
        [("token", token), ("csrf", csrf), ("next", "/console/queues")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let submit = |token: &str, csrf: &str| {
        let fields = fields(token, csrf);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        world.submit("/login", "", &fields, Reach::Network)
    };
    assert_eq!(submit("lsh_wrong", &secret).status, 401);
    assert_eq!(submit(&token, "wrong").status, 403, "another page cannot sign somebody in");
    let done = submit(&token, &secret);
    assert_eq!(
        (done.status, done.headers["location"].to_str().unwrap_or("")),
        (303, "/console/queues")
    );
    let cookie = done.headers["set-cookie"].to_str().expect("text").to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    let page = world.show_to(&cookie, "/queues", Reach::Network);
    assert_eq!(page.status, 200);
    assert!(page.text.contains("ann") && page.text.contains("Sign out"), "{}", page.text);
    // Signing out ends the session, also for somebody who kept the cookie.
    assert_eq!(world.submit("/logout", &cookie, &[("csrf", "wrong")], Reach::Network).status, 403);
    let out = world.submit("/logout", &cookie, &[("csrf", &csrf(&page))], Reach::Network);
    assert_eq!(
        (out.status, out.headers["location"].to_str().unwrap_or("")),
        (303, "/console/signed-out")
    );
    assert_eq!(world.show_to(&cookie, "/queues", Reach::Network).status, 401);
    assert_eq!(world.show("/signed-out").status, 200);

    // A session ends when its token is removed.
    let again = submit(&token, &secret);
    let cookie = again.headers["set-cookie"].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    assert_eq!(world.show_to(&cookie, "/queues", Reach::Network).status, 200);
    let other = TokenFile { entries: vec![entry("ann", [7; 32])] };
    std::fs::write(&path, other.written()).expect("the disk works");
    world.api.read_tokens();
    assert_eq!(world.show_to(&cookie, "/queues", Reach::Network).status, 401);
}

#[test]
fn a_person_signs_in_with_a_one_time_code() {
    let world = World::new();
    let mut request = Request::post("/api/v1/login_codes").body(Body::empty()).expect("valid");
    request.extensions_mut().insert(Peer { is_operator: true, ..Peer::default() });
    let made = world.send(request, Reach::Unix);
    let code = made.text.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let code = code.expect("a code");
    let path = &format!("/login?code={code}");
    // To open the page changes nothing, so a preview of the link does not use the code.
    let show = || world.show_to("", path, Reach::Network);
    for page in [show(), show()] {
        assert!(page.text.contains("as operator, with the role admin"), "{}", page.text);
        assert!(!page.headers.contains_key("set-cookie"));
    }
    let secret = csrf(&show());
    let submit =
        |csrf: &str| world.submit("/login", "", &[("code", code), ("csrf", csrf)], Reach::Network);
    assert_eq!(submit("wrong").status, 403);
    let done = submit(&secret);
    assert_eq!((done.status, &done.headers["location"]), (303, &"/console".parse().unwrap()));
    let cookie = done.headers["set-cookie"].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    let page = world.show_to(&cookie, "", Reach::Network);
    assert!(page.status == 200 && page.text.contains("Sign out"), "{}", page.text);
    let audit = Request::get("/api/v1/audit")
        .header("host", "127.0.0.1:7300")
        .header("cookie", &cookie)
        .body(Body::empty());
    let audit = world.send(audit.expect("valid"), Reach::Network);
    assert!(audit.text.contains("\"detail\":\"signed in as operator (admin)\""), "{}", audit.text);
    let again = submit(&secret);
    assert!(again.status == 401 && again.text.contains("was used already"), "{}", again.text);
    let late = show();
    assert!(late.status == 401 && late.text.contains("name=\"token\""), "{}", late.text);
}

#[test]
fn only_changes_are_noted_as_changes() {
    let world = World::new();
    let send = |reach, path: &str| {
        let secret = csrf(&world.show_to("", "/login", reach));
        world.submit(path, "", &[("csrf", &secret)], reach).status
    };
    // A page with a slash at its end is another page for a person, and nothing for a form.
    assert_eq!(send(Reach::Network, "/assets/x/"), 404);
    assert_eq!(send(Reach::Loopback, "/queues/"), 404);
    assert_eq!(send(Reach::Loopback, "/queues/%FF/pause"), 400);
    // Nobody is signed in.
    assert_eq!(send(Reach::Loopback, "/logout"), 303);
    let lines = world.api.audit_page("").expect("a page").items;
    let succeeded: Vec<_> = lines.iter().filter(|line| line.status < 400).collect();
    assert!(succeeded.is_empty(), "{succeeded:?}");
    assert_eq!(world.show("/queues/").status, 303);
}

#[test]
fn an_admin_ends_the_session_of_somebody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens.toml");
    let people = [("ann", Role::Operator), ("bob", Role::Admin)].map(|(name, role)| {
        let (token, fingerprint) = api::tokens::new_token().expect("random numbers");
        let kind = EntryKind::Token;
        (token, Entry { kind, name: name.to_owned(), role, fingerprint, created: None })
    });
    let [(of_ann, ann), (of_bob, bob)] = people;
    let file = TokenFile { entries: vec![ann, bob] };
    std::fs::write(&path, file.written()).expect("the disk works");
    let world = World::with_tokens(Some(path));
    let sign_in = |token: &str| {
        let secret = csrf(&world.show_to("", "/login", Reach::Network));
        let fields = [("token", token), ("csrf", &secret)];
        let done = world.submit("/login", "", &fields, Reach::Network);
        let cookie = done.headers["set-cookie"].to_str().expect("text");
        cookie.split(';').next().expect("a cookie").to_owned()
    };
    let (ann, bob) = (sign_in(&of_ann), sign_in(&of_bob));
    let show = |cookie: &str, path: &str| world.show_to(cookie, path, Reach::Network);
    let end = |cookie: &str, secret: &str| {
        world.submit("/sessions/1/end", cookie, &[("csrf", secret)], Reach::Network)
    };

    let own = show(&ann, "/queues");
    assert!(own.text.contains("ann") && !own.text.contains("/console/sessions"), "{}", own.text);
    assert_eq!(show(&ann, "/sessions").status, 403, "an operator does not see the others");
    assert_eq!(end(&ann, &csrf(&own)).status, 403);
    let page = show(&bob, "/sessions");
    assert!(page.text.contains(">ann<") && page.text.contains("this session"), "{}", page.text);
    assert!(show(&bob, "/connections").text.contains("href=\"/console/sessions\""));
    assert_eq!(end(&bob, "wrong").status, 403);
    assert_eq!(show(&ann, "/queues").status, 200, "nothing was ended so far");
    let done = end(&bob, &csrf(&page));
    let to = done.headers["location"].to_str().expect("text");
    assert_eq!((done.status, to), (303, "/console/sessions?done=session"));
    assert_eq!(show(&ann, "/queues").status, 401);
    let page = show(&bob, "/sessions?done=session");
    assert!(!page.text.contains(">ann<"), "{}", page.text);
    assert!(page.text.contains("session has ended"), "{}", page.text);
    assert_eq!(end(&bob, &csrf(&page)).status, 404, "it has ended");
}

#[test]
fn operators_see_who_changed_what() {
    let anonymous = Role::Operator;
    let world = World::with_access(api::AccessSettings { anonymous, ..Default::default() });
    assert!(world.show("/changes").text.contains("Nobody has changed anything"));
    world.put(b"mail", b"x");
    let secret = csrf(&world.show("/queues/mail"));
    let fields = [("csrf", secret.as_str()), ("reason", "<b>a test</b>"), ("seconds", "60")];
    assert_eq!(world.submit("/queues/mail/pause", "", &fields, Reach::Loopback).status, 303);
    let page = world.show("/changes").text;
    assert!(page.contains("POST /console/queues/mail/pause"), "{page}");
    assert!(page.contains("&lt;b&gt;a test&lt;/b&gt;") && page.contains("anonymous"), "{page}");
    assert!(world.show("/operations").text.contains("href=\"/console/changes\""));
    let viewer = World::new();
    assert_eq!(viewer.show("/changes").status, 401);
}

#[test]
fn a_page_says_why_a_job_does_not_run() {
    let world = World::new();
    let id = world.put(b"mail", b"x");
    let page = world.show(&format!("/jobs/{id}")).text;
    assert!(page.contains("Why does it not run?") && page.contains("watch"), "{page}");
}

#[test]
fn bodies_are_hidden_or_masked() {
    let body = br#"{"to":"ann","card":4711}"#;
    let none = api::BodySettings { shown_to: None, ..api::BodySettings::default() };
    let masks = vec![api::JsonPointer::parse("/card").expect("a pointer")];
    let masked = api::BodySettings { masks, ..api::BodySettings::default() };
    for (settings, has_ann) in [(none, false), (masked, true)] {
        let world = World::with_settings(api::AccessSettings::default(), settings);
        let id = world.put(b"mail", body);
        let broken = world.put(b"mail", br#"{"card":4711"#);
        for path in [format!("/jobs/{id}"), "/queues/mail".to_owned()] {
            let page = world.show(&path);
            assert!(page.status == 200 && !page.text.contains("4711"), "{path}: {}", page.text);
            assert_eq!(page.text.contains("&quot;ann&quot;"), has_ann, "{path}");
        }
        let search = world.show("/queues/mail?search=4711");
        assert!(!search.text.contains("<mark>"), "{}", search.text);
        assert_eq!(search.text.contains("name=\"search\" value"), has_ann, "{}", search.text);
        let page = world.show(&format!("/jobs/{broken}"));
        let why = if has_ann { "cannot read its JSON" } else { "http.bodies" };
        assert!(page.text.contains(why) && !page.text.contains("download="), "{}", page.text);
    }
}

#[test]
fn a_form_needs_the_secret_and_a_page_of_this_server() {
    let world = World::new();
    assert_eq!(world.ask("POST", "/queues", Reach::Loopback).status, 403);
    let secret = csrf(&world.show("/login"));
    let fields = [("csrf", secret.as_str())];
    assert_eq!(world.submit("/queues", "", &fields, Reach::Loopback).status, 405);
    let form = format!("csrf={secret}");
    for (name, value) in
        [("origin", "http://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")]
    {
        let request = Request::post("/console/login").header("host", "127.0.0.1:7300");
        let request = request.header(name, value).body(Body::from(form.clone()));
        assert_eq!(world.send(request.expect("valid"), Reach::Loopback).status, 403, "{value}");
    }
}

#[test]
fn each_part_that_changes_has_an_id_of_its_own() {
    let world = World::new();
    let id = world.put(b"mail", b"hello");
    for path in pages("mail", id) {
        let text = world.show(&path).text;
        let ids: Vec<&str> =
            text.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{path}: {ids:?}");
        let live = text.matches(" data-live").count();
        let named = text
            .split('<')
            .filter(|tag| tag.contains(" data-live"))
            .all(|tag| tag.split('>').next().is_some_and(|head| head.contains(" id=\"")));
        assert!(live > 0 && named, "{path}");
    }
}

#[test]
fn a_person_chooses_a_language_and_colors() {
    let world = World::new();
    let page = world.show_in("zh-TW,zh;q=0.9", "/queues");
    assert!(page.text.contains("<html lang=\"zh-CN\" data-colors=\"auto\">"), "{}", page.text);
    assert!(page.text.contains(">队列</h1>"), "{}", page.text);
    let secret = csrf(&page);
    let choose = |fields: &[(&str, &str)]| {
        let fields = [fields, &[("csrf", secret.as_str()), ("next", "/console/queues")]].concat();
        world.submit("/look", "", &fields, Reach::Loopback)
    };
    assert_eq!(choose(&[("csrf", "")]).status, 403);
    let english = choose(&[("language", "en")]);
    assert_eq!(
        (english.status, &english.headers["location"]),
        (303, &"/console/queues".parse().unwrap())
    );
    let cookie = english.headers["set-cookie"].to_str().expect("text");
    let kept = "; HttpOnly; SameSite=Lax; Path=/console; Max-Age=31536000";
    assert_eq!(cookie, format!("lineshaft-language=en{kept}"));
    let dark = choose(&[("colors", "dark")]);
    assert_eq!(dark.headers["set-cookie"], format!("lineshaft-colors=dark{kept}"));
    assert!(
        !choose(&[("colors", "<script>"), ("language", "x")]).headers.contains_key("set-cookie")
    );
    // The choice is stronger than the browser's preference.
    let request = Request::get("/console/nosuch").header("accept-language", "en");
    let cookies = "a=b; lineshaft-language=zh-CN; lineshaft-colors=dark";
    let request = request.header("cookie", cookies).body(Body::empty()).expect("valid");
    let problem = world.send(request, Reach::Loopback).text;
    assert!(problem.contains("<html lang=\"zh-CN\" data-colors=\"dark\">"), "{problem}");
    assert!(problem.contains(">没有找到</h1>"), "{problem}");
}

#[test]
fn the_script_gets_the_parts_that_change() {
    let world = World::new();
    for number in 0..60 {
        world.put(format!("mail-{number:02}").as_bytes(), b"hello");
    }
    let request = Request::get("/console/queues").header("x-live", "1").body(Body::empty());
    let parts = world.send(request.expect("valid"), Reach::Loopback).text;
    assert!(!parts.contains("<header>") && !parts.contains("<script"), "{parts}");
    assert!(parts.contains("id=\"banner\""), "{parts}");
    // The links between the pages of the list belong to the part that changes.
    let live = parts.split("<section id=\"queues\" data-live>").nth(1).expect("the list");
    let live = live.split("</section>").next().expect("the end of the list");
    assert!(live.contains("mail-00") && live.contains("Next page"), "{live}");
}

#[test]
fn names_that_are_too_long_for_an_address_are_shown_without_a_link() {
    let world = World::new();
    world.put(&[0xff; 8180], b"x");
    world.put(&[b'x'; 8180], b"x");
    let list = world.show("/queues").text;
    assert!(list.contains("<span title=\"This name is too long"), "{list}");
    assert!(list.contains(&format!("<a href=\"/console/queues/{}\"", "x".repeat(8180))));
    assert!(!list.contains(&format!(">{}<", "x".repeat(81))), "long names are cut");
    assert!(list.len() < 30_000, "{}", list.len());
}

#[test]
fn a_queue_is_found_and_its_job_is_shown() {
    let world = World::new();
    let id = world.put(b"mail/urgent", b"{\"to\":\"ann\"}");
    let list = world.show("/queues?search=urg").text;
    assert!(list.contains("1 of 2 queues") && list.contains("/console/queues/mail%2Furgent"));
    let queue = world.show("/queues/mail%2Furgent").text;
    assert!(queue.contains("class=\"remark\"") && queue.contains(&format!("/console/jobs/{id}")));
    let job = world.show(&format!("/jobs/{id}")).text;
    assert!(job.contains("Shown as JSON") && job.contains("mail/urgent"), "{job}");
}

#[test]
fn what_does_not_exist_is_said_in_words() {
    let world = World::new();
    for (path, status, words) in [
        ("/nosuch", 404, "no such page"),
        ("/queues/nosuch", 404, "nosuch"),
        ("/jobs/7", 404, "no job has the number 7"),
        ("/jobs/seven", 400, "whole number"),
        ("/queues?sort=colour", 400, "write one of"),
        ("/assets/nosuch.css", 404, ""),
    ] {
        let shown = world.show(path);
        assert_eq!(shown.status, status, "{path}");
        assert!(shown.text.contains(words), "{path}: {}", shown.text);
    }
    for (path, page) in [("/", "/console"), ("/queues/", "/console/queues")] {
        let shown = world.show(path);
        assert_eq!((shown.status, &shown.headers["location"]), (303, &page.parse().unwrap()));
    }
    let found = world.show("/jobs?id=12");
    assert_eq!(
        (found.status, &found.headers["location"]),
        (303, &"/console/jobs/12".parse().unwrap())
    );
}

#[test]
fn files_can_be_kept_for_ever_because_their_address_changes() {
    let world = World::new();
    let page = world.show("").text;
    let style = page.split("/console/assets/console.css").nth(1).expect("a style sheet");
    assert!(style.starts_with("?v="), "{style}");
    for (name, kind) in
        [("console.css", "text/css"), ("console.js", "text/javascript"), ("icon.svg", "image/svg")]
    {
        let file = world.show(&format!("/assets/{name}"));
        assert_eq!(file.status, 200);
        assert!(file.headers["content-type"].to_str().expect("text").starts_with(kind));
        assert!(file.headers["cache-control"].to_str().expect("text").contains("immutable"));
    }
}

/// A request with these headers, from this machine.
fn ask_with(world: &World, headers: &[(&'static str, &'static str)]) -> u16 {
    let mut request = Request::builder().uri(console::PREFIX).body(Body::empty()).expect("valid");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    let names = Arc::new(Names::default());
    request.extensions_mut().insert(Gate { names, reach: Reach::Loopback });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(world.site.answer(request)).status().as_u16()
}

#[test]
fn pages_of_other_sites_cannot_load_a_page_in_the_background() {
    let world = World::new();
    let cross = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
    assert_eq!(ask_with(&world, &cross), 403);
    assert_eq!(ask_with(&world, &[("origin", "http://evil.example"), ("host", "127.0.0.1")]), 403);
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(ask_with(&world, &link), 200, "a person follows a link");
    let frame = [link[0], link[1], ("sec-fetch-dest", "iframe")];
    assert_eq!(ask_with(&world, &frame), 403);
}

#[test]
fn clients_of_a_proxy_must_sign_in() {
    let world = World::new();
    assert_eq!(ask_with(&world, &[("x-forwarded-for", "192.0.2.7")]), 401);
    assert_eq!(ask_with(&world, &[]), 200);
}

#[test]
fn operators_act_with_forms_and_viewers_do_not() {
    let access =
        api::AccessSettings { anonymous: Role::Operator, ..api::AccessSettings::default() };
    let world = World::with_access(access);
    let id = world.put(b"mail/a", b"hello");
    let act = |path: &str, more: &[(&str, &str)]| {
        let secret = csrf(&world.show("/queues/mail%2Fa"));
        let fields = [&[("csrf", secret.as_str()), ("reason", "a test")], more].concat();
        world.submit(path, "", &fields, Reach::Loopback)
    };
    let goes_to = |shown: &Shown, page: &str| {
        assert_eq!(shown.status, 303, "{}", shown.text);
        assert_eq!(shown.headers["location"], page);
    };
    let page = world.show("/queues/mail%2Fa").text;
    assert!(page.contains("Pause") && !page.contains("Resume"), "{page}");
    let paused = act("/queues/mail%2Fa/pause", &[("seconds", "60")]);
    goes_to(&paused, "/console/queues/mail%2Fa?done=paused");
    let page = world.show("/queues/mail%2Fa?done=paused").text;
    assert!(page.contains("The queue is paused") && page.contains("Resume"), "{page}");
    assert_eq!(act("/queues/mail%2Fa/pause", &[("seconds", "-1")]).status, 400);
    let resumed = act("/queues/mail%2Fa/resume", &[]);
    goes_to(&resumed, "/console/queues/mail%2Fa?done=resumed");

    let wrong = act("/queues/mail%2Fa/clear", &[("state", "ready"), ("confirm", "mail")]);
    assert_eq!(wrong.status, 409);
    assert!(wrong.text.contains("end 1 jobs"), "{}", wrong.text);
    let cleared = act("/queues/mail%2Fa/clear", &[("state", "buried"), ("confirm", "mail/a")]);
    goes_to(&cleared, "/console/operations");
    assert!(world.show("/operations").text.contains("0 of 0"));
    let deleted = act(&format!("/jobs/{id}/delete"), &[]);
    goes_to(&deleted, "/console/queues/mail%2Fa?done=ended");
    assert_eq!(world.show(&format!("/jobs/{id}")).status, 404);

    let viewers = World::new();
    let id = viewers.put(b"mail", b"hello");
    for path in ["/queues/mail", &format!("/jobs/{id}")] {
        let page = viewers.show(path).text;
        assert!(!page.contains("class=\"action\""), "{path}: {page}");
    }
    let secret = csrf(&viewers.show("/login"));
    for path in [
        "/queues/mail/pause",
        "/queues/mail/resume",
        "/queues/mail/kick",
        "/queues/mail/clear",
        "/queues/mail/move",
        "/queues/mail/chosen",
        "/jobs/1/move",
        "/jobs/1/kick",
        "/jobs/1/delete",
        "/operations/1/cancel",
    ] {
        let fields = [("csrf", secret.as_str()), ("seconds", "60"), ("confirm", "mail")];
        assert_eq!(viewers.submit(path, "", &fields, Reach::Loopback).status, 401, "{path}");
    }
    assert_eq!(viewers.show(&format!("/jobs/{id}")).status, 200, "nothing has changed");
}

#[test]
fn jobs_are_found_chosen_and_moved() {
    let access =
        api::AccessSettings { anonymous: Role::Operator, ..api::AccessSettings::default() };
    let world = World::with_access(access);
    let ids =
        [&b"to <ann>"[..], b"to bert", b"to <ann> again"].map(|body| world.put(b"mail", body));
    let page = world.show("/queues/mail?state=ready&search=%3Cann%3E").text;
    assert!(page.contains("to <mark>&lt;ann&gt;</mark> again"), "{page}");
    assert!(page.contains("2 found in 3 of 3 jobs.") && !page.contains("bert"), "{page}");
    assert!(page.contains("<section id=\"jobs\">"), "a search is not repeated by itself");
    let (_, form) = page.split_once("/chosen\">").unwrap();
    let (_, button) = form.split_once("<button").unwrap();
    assert!(button.starts_with(" type=\"submit\" disabled"), "Enter does nothing: {button}");
    let act = |path: &str, more: &[(&str, &str)]| {
        let secret = csrf(&world.show("/queues/mail"));
        world.submit(path, "", &[&[("csrf", secret.as_str())], more].concat(), Reach::Loopback)
    };
    let chosen = [ids[0].to_string(), ids[2].to_string()];
    for id in &chosen {
        assert!(page.contains(&format!("name=\"id\" value=\"{id}\"")), "{page}");
    }
    let ticked = [("id", chosen[0].as_str()), ("id", &chosen[1]), ("state", "ready")];
    for wrong in [&[("what", "move"), ("to", "other")][..], &ticked] {
        assert_eq!(act("/queues/mail/chosen", wrong).status, 400);
    }
    let moved =
        act("/queues/mail/chosen", &[&ticked[..], &[("what", "move"), ("to", "a/b")]].concat());
    assert_eq!(
        (moved.status, &moved.headers["location"]),
        (303, &"/console/operations".parse().unwrap())
    );
    let operations = world.show("/operations").text;
    assert!(operations.contains("2 of 2") && operations.contains("queues/a%2Fb"), "{operations}");
    let moved = act(&format!("/jobs/{}/move", ids[1]), &[("to", "a/b")]);
    assert_eq!(moved.headers["location"], format!("/console/jobs/{}?done=moved", ids[1]).as_str());
    let page = world.show("/queues/a%2Fb").text;
    assert!(ids.iter().all(|id| page.contains(&format!("/console/jobs/{id}\""))), "{page}");
    assert!(!page.contains("checked"), "no job is ticked");

    let viewers = World::new();
    viewers.put(b"mail", b"hello");
    let page = viewers.show("/queues/mail?search=hell").text;
    assert!(page.contains("<mark>hell</mark>o") && !page.contains("checkbox"), "{page}");
}

#[test]
fn the_overview_shows_the_past() {
    let world = World::new();
    let text = world.show("").text;
    assert!(text.contains("No values yet."), "{text}");
    for queue in [&b"a"[..], b"b"] {
        world.put(queue, b"x");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        world.api.tick();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
    let text = world.show("").text;
    let chart = text.split("id=\"jobs-chart\"").nth(1).expect("a chart of jobs");
    let chart = chart.split("</section>").next().expect("its end");
    // The last of 120 points is at the top of a chart with two jobs.
    assert!(chart.contains("d=\"M119 0H120\""), "{chart}");
    assert!(chart.contains("ready <b>2</b>"), "{chart}");
    let text = world.show("?span=30d").text;
    assert!(text.contains("30 days ago") && text.contains("M119 0H120"), "{text}");
}
