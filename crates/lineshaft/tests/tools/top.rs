//! `lineshaft top` on a terminal.

use std::io::Write as _;
use std::path::Path;

use testkit::tools;
use testkit::wait::until as wait_until;

use crate::operator::Site;
use crate::{LINESHAFT, Tool, World};

/// `top` on a terminal of 80 columns and 24 lines. `None` if the program that provides the terminal
/// is missing.
fn start(server: &str, arguments: &str) -> Option<Tool> {
    let script = tools::find_or_skip("script")?;
    let command = format!("stty cols 80 rows 24; TERM=xterm-256color {LINESHAFT} top {arguments}");
    Some(Tool::start_program(Path::new(&script), None, server, &["-qec", &command, "/dev/null"]))
}

impl Tool {
    /// Presses keys, and waits for this word. Only one word: the terminal gets no blanks.
    fn press_until(&mut self, keys: &str, word: &str) {
        self.press(keys);
        wait_until(word, || self.printed("stdout").contains(word));
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }
}

#[test]
fn a_queue_is_paused_and_a_job_is_shown() {
    let site = Site::new();
    let socket = site.data.path().join("api");
    // The address for HTTP counts, not the one for beanstalk clients.
    let server = site.server.address().to_string();
    let Some(mut top) = start(&server, &format!("--http unix:{}", socket.display())) else {
        return;
    };
    top.press_until("", "Buried");
    top.press_until("2", "▾READY");
    top.press_until("\r", "zweiter");
    top.press_until("P", "Pause");
    top.press("\r");
    wait_until("the pause", || {
        site.run(&["why", "mail", "--json"]).stdout.contains("\"answer\":\"paused\"")
    });
    top.press_until("\r", "first");
    top.press("q");
    let output = top.wait();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn any_beanstalkd_is_shown() {
    for world in World::each() {
        world.run_well(&["put", "mail", "x"], b"");
        let server = world.server().address().to_string();
        let Some(mut top) = start(&server, "") else { return };
        top.press_until("", "read-only");
        top.press_until("", "mail");
        top.press("q");
        assert_eq!(top.wait().status.code(), Some(0));
    }
}
