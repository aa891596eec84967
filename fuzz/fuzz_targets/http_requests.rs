//! Sends any head of an HTTP request. Kestrel's admin commands must answer it, and must change
//! nothing without permission. Ports of other protocols must recognize it as HTTP.
#![no_main]

#[path = "../../crates/server/src/net/first_line.rs"]
mod first_line;
// Tests have the same bodies.
#[path = "../../crates/server/src/net/first_line_script.rs"]
mod first_line_script;
#[path = "../../crates/kestrel-admin/tests/requests/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|head: &[u8]| {
    first_line_script::check(head);
    script::check(head);
});
