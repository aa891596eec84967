//! Any text is either a configuration or a list of mistakes with their places. A shown
//! configuration has the same meaning.
#![no_main]

// The body is that of a property test.
#[path = "../../crates/server/tests/configuration/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|script: &[u8]| script::check(script));
