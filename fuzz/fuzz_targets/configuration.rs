//! Any text is a configuration or a list of mistakes with their places; what is shown of it means the same.
#![no_main]

// The body is that of a property test.
#[path = "../../crates/server/tests/configuration/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|script: &[u8]| script::check(script));
