//! Runs the tests of `pages` with a real browser. A page on one port of this machine attacks a
//! server on other ports.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use testkit::{tools, wait};

use crate::{SECRET, Target};

/// The time limit of the browser.
const LIMIT: Duration = Duration::from_secs(90);

/// A web server that answers every request with one page. Dropping the value stops it.
struct Attacker {
    address: String,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attacker {
    fn serve(page: String) -> Attacker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // A browser opens some connections and then does not use them. Each connection has
                // its own thread, so that an unused connection delays no other connection.
                let (page, stream) = (page.clone(), stream.unwrap());
                std::thread::spawn(move || answer(stream, &page));
            }
        });
        Attacker { address, is_over, thread: Some(thread) }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let woken = TcpStream::connect(&self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(stream: TcpStream, page: &str) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 0) && !line.ends_with("\r\n\r\n") {}
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    let _ = reader.get_mut().write_all(format!("{head}{page}").as_bytes());
}

/// Shows the page in the browser. Returns the result that the page writes.
fn show(attacker: &Attacker) -> Option<String> {
    let chromium = tools::find_or_skip("chromium")?;
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(chromium);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        // The page has another host name than the server, so that they are different sites.
        .arg(format!("http://{}/", attacker.address.replace("127.0.0.1", "localhost")))
        .env("HOME", profile.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(&mut command);
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(dom.contains("all is sent"), "the page did not come to its end: {dom}\n{errors}");
    Some(dom)
}

/// Waits until the browser ends, at most for the time limit.
fn finish(command: &mut Command) -> Output {
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        bytes
    });
    let status = wait::for_exit(&mut child, LIMIT).unwrap().unwrap_or_else(|| {
        child.kill().unwrap();
        child.wait().unwrap()
    });
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// JavaScript that sends all requests that a page can send to another site without permission.
const SENDING: &str = r#"
const body = "\nshutdown\nSHUTDOWN\r\nstatus quiescent\nSTATUS quiescent\r\nput 0 0 60 5\r\nhello\r\n" +
    "delete 1\r\nput q:\nitem\n\nset q 0 0 1\r\nx\r\nflush secret-queue\ndelete secret-queue\n" +
    "drop function secret-queue\r\n";
const paths = ["/", "/shutdown", "/quiesce", "/f"];
const questions = ["/stats?namespace=mon", "/stats.txt?namespace=mon", "/stats?period=60"];
async function post(url, init) {
    try { await fetch(url, { method: "POST", mode: "no-cors", ...init }); } catch (error) {}
}
function form(url, enctype) {
    return new Promise(done => {
        const frame = document.createElement("iframe");
        frame.name = "frame" + Math.random();
        document.body.append(frame);
        const form = document.createElement("form");
        Object.assign(form, { action: url, method: "POST", enctype, target: frame.name });
        const field = document.createElement("textarea");
        field.name = "x"; field.value = body;
        form.append(field); document.body.append(form);
        frame.onload = done; setTimeout(done, 2000);
        form.submit();
    });
}
function picture(url) {
    return new Promise(done => {
        const picture = new Image();
        picture.referrerPolicy = "no-referrer";
        picture.onload = picture.onerror = done;
        picture.src = url;
    });
}
(async () => {
    for (const target of targets) for (const path of paths) {
        const url = "http://" + target + path;
        await post(url, { body });
        await post(url, { body, referrerPolicy: "no-referrer" });
        await post(url, { body, headers: { "Content-Type": "application/x-www-form-urlencoded" } });
        await picture(url);
    }
    for (const target of targets) for (const question of questions) {
        await picture("http://" + target + question);
        await post("http://" + target + question, {});
        try { await fetch("http://" + target + question, { mode: "no-cors" }); } catch (error) {}
    }
    for (const target of targets) await form("http://" + target + "/", "text/plain");
    for (const target of targets) await form("http://" + target + "/shutdown", "multipart/form-data");
    document.body.textContent = "all is sent";
})();
"#;

#[test]
fn a_page_in_chromium_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    target.count_a_get_after_monitoring_asked();
    let targets = serde_json::to_string(&target.addresses).unwrap();
    let page = format!(
        "<!doctype html><title>evil</title><body><script>const targets = {targets};{SENDING}</script>"
    );
    let attacker = Attacker::serve(page);
    if show(&attacker).is_none() {
        return;
    }
    // There are five ports and four paths, with at least one request each. The count proves that
    // the browser sent them.
    assert!(target.foreign_count() >= 20, "{}", target.foreign_count());
    target.check_unharmed();
    target.check_numbers_of_monitoring();
}

/// JavaScript that requests all pages with information, in each way in which a page could read the
/// answer.
const READING: &str = r#"
const learnt = [];
function f(value) { learnt.push(JSON.stringify(value)); }
window.ostrichCallback = f;
function script(url) {
    return new Promise(done => {
        const script = document.createElement("script");
        script.referrerPolicy = "no-referrer";
        script.onload = script.onerror = done;
        script.src = url;
        document.body.append(script);
    });
}
(async () => {
    const pages = ["/stats.json?callback=f", "/stats?callback", "/stats.txt", "/graph_data?callback=f", "/metrics"];
    for (const target of targets) for (const page of pages) {
        const url = "http://" + target + page;
        await script(url);
        for (const mode of ["cors", "no-cors"]) {
            try { learnt.push(await (await fetch(url, { mode })).text()); } catch (error) {}
        }
    }
    document.body.textContent = "all is sent; learnt: " + learnt.filter(text => text).join();
})();
"#;

#[test]
fn a_page_in_chromium_learns_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let mut kestrel = TcpStream::connect(target.address("kestrel")).unwrap();
    kestrel.write_all(format!("set {SECRET} 0 0 1\r\nx\r\n").as_bytes()).unwrap();
    kestrel.read_exact(&mut [0; 8]).unwrap();
    let targets = [target.address("kestrel_admin"), target.address("http")];
    assert!(crate::get(targets[0], "/stats.json").body.contains(SECRET));
    let targets = serde_json::to_string(&targets).unwrap();
    let page = format!(
        "<!doctype html><title>evil</title><body><script>const targets = {targets};{READING}</script>"
    );
    let attacker = Attacker::serve(page);
    let Some(dom) = show(&attacker) else { return };
    assert!(dom.contains("all is sent; learnt: </body>"), "{dom}");
}
