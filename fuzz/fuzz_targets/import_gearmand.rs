//! Any bytes as a source of `lineshaft import gearmand` are read or refused. What is taken is a part of
//! the source.
#![no_main]

// The body is that of a property test.
#[path = "../../crates/import/tests/sources/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check_gearmand(bytes));
