//! Reads any bytes as a source of `lineshaft import kestrel`. The import must read or refuse the
//! source. All imported data must be a part of the source.
#![no_main]

// A property test has the same body.
#[path = "../../crates/import/tests/sources/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::check_kestrel(bytes));
