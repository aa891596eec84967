//! All pages: large and small, light and dark. Saves pictures of them, checks their size, and lets
//! axe-core look for what people with disabilities cannot use.

use std::cell::RefCell;
use std::path::PathBuf;

use serde_json::Value;
use testkit::process::installed;
use testkit::{tools, wait};

use crate::{Worker, World, put};

/// The pages must be smaller than this, with their style sheet, script and icon.
const FIRST_PAGE_BYTES_MAX: u64 = 60_000;

const CONFIGURATION: &str = "
[[policy]]
match = \"mail*\"
limits.jobs = 100000

[[policy]]
match = [\"reports\", \"nightly-*\"]
sync = \"50ms\"
";

/// A server in the middle of its work.
struct Busy {
    world: World,
    _workers: Vec<Worker>,
    pages: Vec<(String, String)>,
}

impl Busy {
    fn start(language: &str) -> Option<Busy> {
        let world = World::start(language, &[], CONFIGURATION)?;
        let mut commands = Vec::new();
        let body = r#"{"to":"ann@example.org","subject":"Your invoice","attempt":1,"tags":["a"]}"#;
        for (queue, count) in [("mail.invoices", 120), ("thumbnails", 40), ("reports", 7)] {
            commands.push(format!("use {queue}\r\n"));
            commands.extend((0..count).map(|_| put(body)));
        }
        commands.push("put 10 3600 120 5\r\nlater\r\n".to_owned());
        commands.push("use <script>alert(1)</script>\r\n".to_owned());
        commands.push(put("<img src=x onerror=alert(1)>"));
        commands.push("pause-tube thumbnails 3600\r\n".to_owned());
        world.send(commands.into_iter());
        let mut worker = Worker::connect(&world.beanstalk);
        worker.ask("watch mail.invoices");
        for number in 1..=4 {
            assert_eq!(worker.ask("reserve"), format!("RESERVED {number} {}", body.len()));
            worker.line();
            if number % 2 == 0 {
                assert_eq!(worker.ask(&format!("bury {number} 5")), "BURIED");
            }
        }
        let mut waiting = Worker::connect(&world.beanstalk);
        waiting.ask("watch nightly-backup");
        waiting.ask("ignore default");
        let page = &world.browser;
        world.go("/queues/mail.invoices");
        world.sign_in();
        page.click("#actions summary");
        page.click("form[action$='/queues/mail%2Einvoices/kick'] button");
        wait::until("the operation is there", || page.count("#operations tbody .state") > 0);
        world.go("/connections");
        wait::until("a connection is there", || page.count("#connections tbody a") > 0);
        let link = "return document.querySelector('#connections tbody a').getAttribute('href')";
        let connection = page.run(link, &[]).as_str().unwrap().replace("/console", "");
        let pages = [
            ("overview", ""),
            ("queues", "/queues"),
            ("queues-none", "/queues?search=nothing"),
            ("queue", "/queues/mail.invoices"),
            ("queue-paused", "/queues/thumbnails"),
            ("queue-empty", "/queues/default"),
            ("queue-hostile", "/queues/%3Cscript%3Ealert%281%29%3C%2Fscript%3E"),
            ("job", "/jobs/1"),
            ("job-buried", "/jobs/5"),
            ("connections", "/connections"),
            ("connection", &connection),
            ("operations", "/operations"),
            ("changes", "/changes"),
            ("sessions", "/sessions"),
            ("log", "/log"),
            ("cluster", "/cluster"),
            ("policies", "/policies?name=mail.invoices"),
            ("help", "/help"),
            ("login", "/login"),
            ("signed-out", "/signed-out"),
            ("not-found", "/queues/nothing"),
        ];
        let pages = pages.map(|(name, path)| (name.to_owned(), path.to_owned())).into();
        Some(Busy { world, _workers: vec![worker, waiting], pages })
    }

    /// Shows all pages in each size and color, saves pictures, and calls `check`.
    fn show_all(&self, prefix: &str, check: impl Fn(&str)) {
        let page = &self.world.browser;
        let folder = pictures();
        for (name, path) in &self.pages {
            for (width, height) in [(1280, 800), (375, 812)] {
                page.resize(width, height);
                for scheme in ["light", "dark"] {
                    page.prefer(scheme);
                    self.world.go(path);
                    page.picture(&folder.join(format!("{prefix}{name}-{scheme}-{width}.png")));
                    let what = format!("{name}, {scheme}, {width} pixels");
                    let wide = page.run("return document.documentElement.scrollWidth", &[]);
                    assert!(wide.as_u64().unwrap() <= width.into(), "{what} is {wide} pixels wide");
                    check(&what);
                }
            }
        }
    }
}

/// The folder with the pictures. People look at them.
fn pictures() -> PathBuf {
    let folder = installed("").join("../screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn each_page_is_whole_in_each_size_and_color_and_has_no_barrier() {
    let axe = installed("console/node/node_modules/axe-core/axe.min.js");
    let Ok(axe) = std::fs::read_to_string(&axe) else {
        return tools::skip("axe-core is not installed; scripts/install-test-tools.sh installs it");
    };
    let Some(busy) = Busy::start("en") else { return };
    let page = &busy.world.browser;
    let barriers = RefCell::new(Vec::new());
    busy.show_all("", |what| {
        // The dark colors are the same in each size.
        if what.contains("dark, 375") {
            return;
        }
        page.run(&axe, &[]);
        let found = page.run_async(
            "const done = arguments[0]; \
             axe.run({ resultTypes: ['violations'] }).then((found) => done(found.violations.map(\
             (one) => one.id + ': ' + one.nodes.map((node) => node.html + ' ' + \
             node.failureSummary).join('; '))), (error) => done(['' + error]));",
            &[],
        );
        if found != Value::Array(Vec::new()) {
            barriers.borrow_mut().push(format!("{what}: {found:#}"));
        }
    });
    let barriers = barriers.into_inner();
    assert!(barriers.is_empty(), "{}", barriers.join("\n"));
}

#[test]
fn each_page_is_whole_in_chinese() {
    let Some(busy) = Busy::start("zh-CN") else { return };
    let page = &busy.world.browser;
    busy.show_all("zh-", |what| {
        assert_eq!(page.run("return document.documentElement.lang", &[]), "zh-CN", "{what}");
    });
    // A person can choose another language, and the choice stays.
    busy.world.go("/queues");
    assert_eq!(page.text("h1"), "队列");
    page.click("footer button[value=en]");
    page.wait_for_text("h1", "Queues");
    busy.world.go("");
    page.wait_for_text("h1", "Overview");
    // So does the choice of colors.
    let ground = || page.run("return getComputedStyle(document.body).backgroundColor", &[]);
    page.prefer("light");
    let light = ground();
    page.click("footer button[value=dark]");
    // The old page has the same heading, so that cannot be waited for.
    wait::until("the page is dark", || ground() != light);
    page.wait_for_text("h1", "Overview");
}

#[test]
fn the_first_page_is_small() {
    let Some(busy) = Busy::start("en") else { return };
    let page = &busy.world.browser;
    for path in ["", "/queues", "/queues/mail.invoices"] {
        busy.world.go(path);
        let bytes = page.run(
            "return performance.getEntriesByType('navigation')\
             .concat(performance.getEntriesByType('resource'))\
             .filter((one) => one.initiatorType !== 'fetch' && !one.name.includes('/api/'))\
             .reduce((sum, one) => sum + one.decodedBodySize, 0)",
            &[],
        );
        let bytes = bytes.as_u64().unwrap();
        assert!((10_000..FIRST_PAGE_BYTES_MAX).contains(&bytes), "{path}: {bytes} bytes");
    }
}
