//! Reads any text as a configuration. The result is a configuration, or a list of mistakes with
//! their places. If a configuration is shown and read again, it has the same meaning.
#![no_main]

// A property test has the same body.
#[path = "../../crates/server/tests/configuration/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|script: &[u8]| script::check(script));
