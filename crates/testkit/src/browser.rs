//! Drives Chromium over `WebDriver`: plain HTTP and JSON, to Debian's `chromedriver`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{tools, wait};

/// The time limit for a reply of the driver, and for something to appear on a page.
const LIMIT: Duration = Duration::from_secs(30);
/// The name of the member with the id of an element, from the standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The keys that have no letter, as `WebDriver` writes them.
pub mod keys {
    /// Moves the focus to the next element.
    pub const TAB: &str = "\u{e004}";
    /// Follows the link, or presses the button.
    pub const ENTER: &str = "\u{e007}";
    /// Leaves a field.
    pub const ESCAPE: &str = "\u{e00c}";
    /// Marks a box.
    pub const SPACE: &str = " ";
}

/// A browser with one window. Dropping the value ends the browser and its driver. A failure of the
/// driver is a panic, because it ends the test.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    address: String,
    /// The path of the session.
    session: String,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser. `language` is the language that the person prefers, such as `en`. If the
    /// machine lacks the programs, reports this and returns `None`: see [`tools::find_or_skip`].
    #[track_caller]
    pub fn start(language: &str) -> Option<Browser> {
        let (chromium, driver) =
            (tools::find_or_skip("chromium")?, tools::find_or_skip("chromedriver")?);
        let profile = tempfile::tempdir().expect("there is room for a folder");
        let mut command = Command::new(driver);
        command
            .arg("--port=0")
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The driver and its browsers are a group, so that one signal ends all of them.
            .process_group(0);
        let mut driver = command.spawn().expect("the driver starts");
        let output = driver.stdout.take().expect("the output is a pipe");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let address = format!("127.0.0.1:{}", port.expect("the driver says its port"));
        // The driver must not wait until somebody reads its output.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser { driver, address, session: String::new(), profile };
        let folder = browser.profile.path().join("profile");
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--force-device-scale-factor=1",
            &format!("--lang={language}"),
            &format!("--accept-lang={language}"),
            &format!("--user-data-dir={}", folder.display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": chromium, "args": arguments },
        } } });
        let session = browser.ask("POST", "/session", &wanted);
        let id = session["sessionId"].as_str().expect("a session has a number").to_owned();
        browser.session = format!("/session/{id}");
        Some(browser)
    }

    /// Loads a page.
    pub fn go(&self, address: &str) {
        self.command("/url", &json!({ "url": address }));
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        self.run("return location.href", &[]).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page has this address. `part` is a part of it.
    #[track_caller]
    pub fn wait_for_address(&self, part: &str) {
        wait::until(&format!("the address has {part}"), || self.address().contains(part));
    }

    /// Runs a script as the body of a function, and returns its result.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.command("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Runs a script that calls its last argument with the result.
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Value {
        self.command("/execute/async", &json!({ "script": script, "args": arguments }))
    }

    /// The text of the first element with this selector. Empty if there is none.
    pub fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        self.run(script, &[selector.into()]).as_str().unwrap_or_default().to_owned()
    }

    /// The number of elements with this selector.
    pub fn count(&self, selector: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.run(script, &[selector.into()]).as_u64().unwrap_or_default()
    }

    /// Waits until the text of an element has this part.
    #[track_caller]
    pub fn wait_for_text(&self, selector: &str, part: &str) {
        wait::until(&format!("{selector} has {part}"), || self.text(selector).contains(part));
    }

    /// Clicks on the first element with this selector, when it is there.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.act(selector, "click", &json!({}));
    }

    /// Writes into the first field with this selector, instead of its old text.
    #[track_caller]
    pub fn write(&self, selector: &str, text: &str) {
        self.act(selector, "clear", &json!({}));
        self.act(selector, "value", &json!({ "text": text }));
    }

    /// Presses keys, one after the other.
    pub fn press(&self, keys: &str) {
        let press = |key: char| {
            let key = key.to_string();
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.command("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Sends a command for the first element with this selector, when it is there. A page can
    /// replace the element at any moment. Then the command goes to the new one.
    #[track_caller]
    fn act(&self, selector: &str, name: &str, body: &Value) {
        let wanted = json!({ "using": "css selector", "value": selector });
        let done = wait::for_some(LIMIT, || {
            let found = self.command("/elements", &wanted);
            let element = found[0][ELEMENT].as_str()?;
            let path = format!("{}/element/{element}/{name}", self.session);
            let reply = self.try_ask("POST", &path, body);
            let reply = reply.unwrap_or_else(|error| panic!("{name} {selector}: {error}"));
            let error = &reply["value"]["error"];
            assert!(error.is_null() || error == "stale element reference", "{selector}: {reply}");
            error.is_null().then_some(())
        });
        assert!(done.is_some(), "{selector} is not on the page {}", self.address());
    }

    /// The size of the window's contents, in pixels.
    pub fn resize(&self, width: u32, height: u32) {
        self.develop(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// The colors that the person prefers: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.develop("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Switches the scripts of pages on or off. The commands of tests work without scripts of pages.
    pub fn allow_scripts(&self, allow: bool) {
        self.develop("Emulation.setScriptExecutionDisabled", &json!({ "value": !allow }));
    }

    /// Saves a picture of the whole page, as PNG.
    pub fn picture(&self, path: &Path) {
        let wanted = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.develop("Page.captureScreenshot", &wanted);
        let bytes = from_base64(picture["data"].as_str().expect("a picture is text"));
        std::fs::write(path, bytes).expect("there is room for a picture");
    }

    /// Sends a command of the `DevTools`.
    pub fn develop(&self, name: &str, parameters: &Value) -> Value {
        self.command("/goog/cdp/execute", &json!({ "cmd": name, "params": parameters }))
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.try_ask(method, path, body);
        let mut reply = reply.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let value = reply["value"].take();
        assert!(value["error"].is_null(), "{method} {path} {body}: {value}");
        value
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let body = body.to_string();
        let (address, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes())?;
        let mut stream = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while stream.read_line(&mut line)? > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or_default();
            }
            line.clear();
        }
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // The browser writes its profile, and ends.
            let _ = self.try_ask("DELETE", &self.session, &json!({}));
        }
        // This fails only if all processes of the group have already ended.
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        let _ = self.driver.wait();
    }
}

/// The bytes of a text in Base64.
fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut rest, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        rest = rest << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((rest >> bits & 0xff) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(from_base64(text), bytes.as_bytes());
        }
        assert_eq!(from_base64("+/+/"), [0xfb, 0xff, 0xbf]);
    }
}
